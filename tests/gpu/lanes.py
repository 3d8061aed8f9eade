"""Translates kernels into C++ for lanes.hpp: launches become calls, dynamic shared memory a pointer,
and functions in assembly get a body that a CPU can run. Files of the same names in another folder.

usage: lanes.py TOP OUT FILE...
"""
import os
import re
import sys

ASSEMBLY = {
    "low_value(uint32_t pair)":
        "return T == DTYPE_BF16 ? __uint_as_float(pair << 16) : lanes_widen_half((uint16_t)pair);",
    "round_pair(float low, float high)":
        "return T == DTYPE_BF16\n"
        "  ? lanes_round_bfloat(low) | (uint32_t)lanes_round_bfloat(high) << 16\n"
        "  : lanes_round_half(low) | (uint32_t)lanes_round_half(high) << 16;",
    "lanes_up_to(uint32_t mine)": "return lanes_sum_up_to(mine);",
    "pack_publish(uint64_t *at, uint64_t word)": "*at = word;",
    "pack_observe(const uint64_t *at)": "return *at;",
}


def closing(text, at):
    """Behind the bracket that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i + 1
    raise ValueError("a bracket is not closed")


def arguments(text):
    """Between commas that stand in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += {"(": 1, ")": -1}.get(c, 0)
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]


def launches(text):
    """kernel<<<grid, block, shared, stream>>>(...) -> lanes_launch(grid, block, shared, [=] { ... })"""
    pattern = re.compile(r"(\w+(?:<\w+>)?)\s*<<<(.*?)>>>\s*\(", re.S)
    while True:
        found = pattern.search(text)
        if not found:
            return text
        grid, block, shared, _ = arguments(found.group(2))
        end = closing(text, found.end() - 1)
        call = found.group(1) + text[found.end() - 1:end]
        text = (text[:found.start()] + f"lanes_launch({grid}, {block}, {shared}, [=] {{ {call}; }})"
                + text[end:])


def translated(name, text):
    for head, body in ASSEMBLY.items():
        at = text.find(head + " {\n")
        if at >= 0:
            end = text.index("\n}\n", at)
            text = text[:at] + head + " {\n" + body + text[end:]
    text = re.sub(r"extern __shared__ __align__\(\d+\) unsigned char (\w+)\[\];",
                  r"unsigned char *\1 = lanes_shared;", text)
    text = re.sub(r"cudaFuncSetAttribute\(.*?\);", "cudaSuccess;", text, flags=re.S)
    if name.endswith(".cu"):
        text = '#include "tests/gpu/lanes.hpp"\n' + launches(text)
    return text


def main():
    top, out, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    for name in names:
        with open(os.path.join(top, name), encoding="utf-8") as f:
            text = translated(name, f.read())
        path = os.path.join(out, name + ".cpp" if name.endswith(".cu") else name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main()
