"""Text that nests, in every way the language can: refused when deep, taken when not.

usage: nesting.py SCRATCH_FOLDER SLUICE
"""
import os
import subprocess
import sys

KINDS = {
    "brackets": ("let x = ", "(", "1", ")", ";"),
    "unary": ("let x = ", "-", "1", "", ";"),
    "left operators": ("let x = 1", "+1", "", "", ";"),
    "ternaries": ("let x = ", "1?2:", "3", "", ";"),
    "middle ternaries": ("let x = ", "1?", "2", ":3", ";"),
    "calls": ("let x = ", "min(1,", "1", ")", ";"),
    "indices": ("let x = ranks(0..1)", "[0]", "", "", ";"),
    "inner indices": ("let g = ranks(0..1); let x = ", "g[", "0", "]", ";"),
    "blocks": ("def d() {", "if 1 {", "", "}", "}"),
    "else if": ("def d() {", "if 1 { } else ", "{ }", "", "}"),
}


def run(sluice, folder, kind, levels):
    before, opening, middle, closing, after = KINDS[kind]
    name = os.path.join(folder, "nesting.slc")
    with open(name, "w") as out:
        out.write(before + opening * levels + middle + closing * levels + after + "\n")
    result = subprocess.run([sluice, "show", "--emit=ast", name], capture_output=True, text=True, timeout=60)
    return result.returncode, result.stderr


def main(folder, sluice):
    os.makedirs(folder, exist_ok=True)
    refused = taken = 0
    for kind in KINDS:
        code, said = run(sluice, folder, kind, 100000)
        if code == 1 and said.count("error: ") == 1 and "nesting deeper than 256 levels" in said:
            refused += 1
        else:
            print(f"{kind}: {code}: {said[:500]}")
        code, said = run(sluice, folder, kind, 100)
        if "nesting" not in said and "expected" not in said and code in (0, 1):
            taken += 1
        else:
            print(f"{kind} at 100 levels: {code}: {said[:500]}")
    print(f"{refused} kinds of nesting, each refused with one error at 100000 levels")
    print(f"{taken} kinds of nesting taken at 100 levels")


main(*sys.argv[1:])
