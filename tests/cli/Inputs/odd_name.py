"""The JSON of a schedule whose file has a name that is not UTF-8: odd_name.py SCHEDULE FOLDER."""
import json
import os
import subprocess
import sys

name = os.fsencode(sys.argv[2]) + b"/a\xff\"\xc3\xa9\xed\xa0\x80.slc"
os.makedirs(os.path.dirname(name), exist_ok=True)
with open(sys.argv[1], "rb") as source, open(name, "wb") as copy:
    copy.write(source.read())
ran = subprocess.run(["sluice", "check", "--json", "-n", "2", name], stdout=subprocess.PIPE, check=True)
print(ascii(os.path.basename(json.loads(ran.stdout.decode("utf-8"))[0]["file"])))
