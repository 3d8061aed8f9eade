"""Works the percentages of `sluice bench codec --json` out anew: percent_of_copy.py FILE"""
import json
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    top = json.load(f)
codec = top["codecs"][0]
assert codec["moved_bytes"] == top["raw_bytes"] + codec["encoded_bytes"], codec
copy_seconds = codec["moved_bytes"] / 2 / codec["copy_gb_per_s"]  # a copy reads and writes
for way in "encode", "decode":
    seconds = top["raw_bytes"] / codec[f"{way}_gb_per_s"]
    percent = codec[f"{way}_percent_of_copy"]
    agrees = abs(percent - 100 * copy_seconds / seconds) < 1e-6 * percent
    print(way, "agrees" if agrees else f"is {percent}", end=", " if way == "encode" else "\n")
