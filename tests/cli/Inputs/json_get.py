"""Prints values of a JSON file by path: json_get.py FILE 0.name.1 ..."""
import json
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    top = json.load(f)
for path in sys.argv[2:]:
    value = top
    for key in path.split("."):
        value = value[int(key)] if isinstance(value, list) else value[key]
    print(value)
