"""Every shipped schedule runs, and its result is that of the reference: at 1, 2, 3, 4, 5, 8 and 16
ranks, on one node and on several, with counts that do not divide, every type, operator and kind of
codec in turn. Where the schedule's own `require` says no, nothing else may.

usage: check_schedules.py TOP SLUICE_FOLDER [RANKS...]
"""
import os
import re
import subprocess
import sys

import tree

RANKS = (1, 2, 3, 4, 5, 8, 16)
# count, type, operator, codec of every codec parameter (None: the schedule's), values, more options
CASES = (
    ("1001", "f32", "sum", None, "normal", []),
    ("40007", "bf16", "avg", None, "extremes", ["--ranks-per-node", "2"]),
    ("777", "f16", "max", "none", "extremes", []),
    ("1", "f32", "min", None, "bits", []),
    ("0", "bf16", "sum", None, "normal", []),
    ("5000", "f32", "sum", "cast(bf16) | pack", "normal", ["--slices", "3"]),
    ("9001", "bf16", "sum", "quant(8)", "uniform", []),
    ("30000", "bf16", "sum", "pack(0.4)", "bits", ["--learn", "0", "--ranks-per-node", "4"]),
    ("4099", "i32", "sum", "none", "uniform", ["--threads", "3"]),
)


def complaints(top, sluice_folder, all_ranks):
    sluice = os.path.join(sluice_folder, "sluice")

    def run(*arguments):
        return subprocess.run([sluice, *arguments], cwd=top, capture_output=True, text=True)

    errors, checked = [], 0
    folder = os.path.join(top, "schedules")
    for name in sorted(n for n in os.listdir(folder) if n.endswith(".slc")):
        path = os.path.join("schedules", name)
        heads = re.findall(r"^schedule \w+\((.*?)\) \{", run("show", "--emit=ast", path).stdout, re.M | re.S)
        codecs = re.findall(r"\bcodec (\w+)", heads[0]) if heads else []
        proved = 0
        for ranks in all_ranks:
            for count, dtype, op, codec, values, more in CASES:
                defines = [f"-D{c}={codec}" for c in codecs] if codec else []
                arguments = ["run", "-q", "--verify", "-n", str(ranks), "-c", count, "-t", dtype, "-o", op,
                             "-g", values, *defines, *more, path]
                done = run(*arguments)
                if done.returncode == 0:
                    proved += 1
                elif done.returncode != 1 or "require" not in done.stderr:
                    errors.append(f"sluice {' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
        checked += 1
        if proved < len(CASES):
            errors.append(f"{path} ran in {proved} cases only")
    return errors, checked


if __name__ == "__main__":
    tree.finish("schedules", *complaints(sys.argv[1], sys.argv[2], sys.argv[3:] or RANKS))
