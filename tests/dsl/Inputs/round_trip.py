"""Prints every schedule of a folder, parses that, prints it again: the same text.

usage: round_trip.py SCRATCH_FOLDER SLUICE SCHEDULES_FOLDER
"""
import glob
import os
import subprocess
import sys


def printed(sluice, path):
    result = subprocess.run([sluice, "show", "--emit=ast", path], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{path}: {result.stderr}")
    return result.stdout


def main(folder, sluice, schedules):
    os.makedirs(folder, exist_ok=True)
    again = os.path.join(folder, "again.slc")
    same = 0
    files = sorted(glob.glob(os.path.join(schedules, "*.slc")))
    for path in files:
        first = printed(sluice, path)
        with open(again, "w") as out:
            out.write(first)
        if printed(sluice, again) == first:
            same += 1
        else:
            print(f"{path}: the printed form parses back to another")
    print(f"{same} of {len(files)} schedules parse back")


main(*sys.argv[1:])
