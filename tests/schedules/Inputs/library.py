"""Every shipped schedule has a picture, a step table and its cost on top, is named like its file, and has a test here.

usage: library.py SCHEDULES TESTS
"""
import os
import re
import sys

schedules, tests = sys.argv[1:]
wrong = []
names = sorted(n[:-4] for n in os.listdir(schedules) if n.endswith(".slc"))
for name in names:
    with open(os.path.join(schedules, name + ".slc"), encoding="utf-8") as file:
        text = file.read()
    top = re.match(r"(?:#.*\n)+", text)
    top = top.group(0) if top else ""
    for what, pattern in (("picture", r"^#     .*(--?>|-\+| - |[/\\|])"), ("step table", r"^#     (step|round) "),
                          ("cost", r"^# Cost"), ("time", r"\bT = ")):
        if not re.search(pattern, top, re.MULTILINE):
            wrong.append(f"{name}: no {what} on top")
    if re.findall(r"^schedule (\w+)", text, re.MULTILINE) != [name]:
        wrong.append(f"{name}: is not the one schedule of its file")
    if not os.path.exists(os.path.join(tests, name + ".test")):
        wrong.append(f"{name}: has no test")
for line in wrong:
    print(line)
print(f"{len(names)} schedules, {len(wrong)} complaints")
