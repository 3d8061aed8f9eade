"""No writable globals in the libraries: state lives in what the caller holds. Reads the symbols of
the object files in each archive.

usage: check_globals.py ARCHIVE...
"""
import os
import re
import subprocess
import sys

import tree

# address flags section size name; flex and bison make const tables, which are not here.
OBJECT_SYMBOL = re.compile(r"^[0-9a-f]+ .{7} (\.(?:data|bss|tdata|tbss)\S*|\*COM\*)\s+([0-9a-f]+)\s+(.*)$")
ALLOWED = re.compile(r"^(__.*|\.LC.*|\.data.*|\.bss.*|_\.stapsdt.*|completed\.\d+)$")


def complaints(archives):
    errors, checked = [], 0
    for archive in archives:
        text = subprocess.run(["objdump", "-t", archive], capture_output=True, text=True, check=True).stdout
        member = archive
        for line in text.splitlines():
            if line.endswith(("file format elf64-x86-64", "file format elf64-littleaarch64")):
                member = line.split(":")[0]
                checked += 1
                continue
            match = OBJECT_SYMBOL.match(line)
            if not match or match.group(1).startswith(".data.rel.ro"):
                continue
            name = match.group(3).replace(".hidden ", "").strip()
            if int(match.group(2), 16) and not ALLOWED.match(name):
                errors.append(f"{os.path.basename(archive)}({member}): '{name}' is a writable global")
    return errors, checked


if __name__ == "__main__":
    tree.finish("globals", *complaints(sys.argv[1:]))
