"""The fields of cli/JSON.md are those that `--json` prints, no more and no fewer.

usage: json_fields.py TOP [DOCUMENT]     (`sluice` is on the path)
"""
import json
import os
import re
import subprocess
import sys

SECTION = re.compile(r"^## `sluice (.+) --json`$", re.M)

# Commands that together print every field; %s is the top of the tree.
COMMANDS = {
    "check": ["-n 2 %s/schedules/allreduce_ring.slc %s/tests/cli/Inputs/broken.slc %s/none.slc",
              "-n 4 %s/tests/cli/Inputs/replicas_differ.slc"],
    "run": ["-n 2 -c 1K --verify %s/schedules/allreduce_ring.slc",
            "-n 2 %s/tests/cli/Inputs/broken.slc"],
    "bench compile": ["-n 2,4"],
    "bench codec": ["-c 1K --codec pack"],
}

# What needs a machine that is not every machine, in a file that it wrote there.
WRITTEN = {"bench COLLECTIVE": "benchmarks/allreduce-sockets-bf16.json"}


def fields(value, path=""):
    """The paths of all values that hold no others."""
    if isinstance(value, dict):
        found = [fields(v, f"{path}.{key}" if path else key) for key, v in value.items()]
    elif isinstance(value, list):
        found = [fields(v, f"{path}[]") for v in value]
    else:
        return {path}
    return set().union(*found) if found else {path}


def printed(top, command):
    found = set()
    if command in WRITTEN:
        with open(os.path.join(top, WRITTEN[command]), encoding="utf-8") as f:
            found = fields(json.load(f))
    for arguments in COMMANDS.get(command, ()):
        line = ["sluice", *command.split(), "--json", *arguments.replace("%s", top).split()]
        done = subprocess.run(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        found |= fields(json.loads(done.stdout))
    # an array that is empty here and has elements there
    return {f for f in found if not any(other.startswith(f + "[]") for other in found)}


def main(top, document):
    with open(document, encoding="utf-8") as f:
        parts = SECTION.split(f.read())
    sections = dict(zip(parts[1::2], parts[2::2]))
    errors = [f"no section about `sluice {name}`" for name in (*COMMANDS, *WRITTEN)
              if name not in sections]
    for name, text in sections.items():
        if name.endswith(" --gpu"):  # not every machine has one
            continue
        rows = [line.split("|")[1] for line in text.splitlines() if line.startswith("| `")]
        documented = set(re.findall(r"`([^`]+)`", " ".join(rows)))
        is_printed = printed(top, name)
        errors += [f"sluice {name}: '{f}' is not printed" for f in sorted(documented - is_printed)]
        errors += [f"sluice {name}: '{f}' is not documented" for f in sorted(is_printed - documented)]
    for error in errors:
        print(error)
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else os.path.join(sys.argv[1], "cli", "JSON.md")))
