"""Compares two runs, worst-case slots and learned ones: the totals, or a stage.

usage: compare_slots.py FIRST.json LEARNED.json [STAGE]
"""
import json
import sys

def part(name):
    run = json.load(open(name))
    stages = {stage["stage"]: stage for stage in run["stages"]}
    return stages[sys.argv[3]] if len(sys.argv) > 3 else run["total"]


first, learned = part(sys.argv[1]), part(sys.argv[2])
assert first["wire_bytes"] >= first["raw_bytes"] > first["needed_bytes"], first
print("first run: wire at least raw, needs less")
assert learned["needed_bytes"] == first["needed_bytes"], (first, learned)
assert learned["needed_bytes"] <= learned["wire_bytes"] < 1.03 * learned["needed_bytes"], learned
print("learned: the same needs, wire within 3 % of them")
