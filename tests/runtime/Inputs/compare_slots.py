"""Compares the totals of two runs: worst-case slots and learned ones.

usage: compare_slots.py FIRST.json LEARNED.json
"""
import json
import sys

first, learned = (json.load(open(name))["total"] for name in sys.argv[1:3])
assert first["wire_bytes"] >= first["raw_bytes"] > first["needed_bytes"], first
print("first run: wire at least raw, needs less")
assert learned["needed_bytes"] == first["needed_bytes"], (first, learned)
assert learned["needed_bytes"] <= learned["wire_bytes"] < 1.03 * learned["needed_bytes"], learned
print("learned: the same needs, wire within 3 % of them")
