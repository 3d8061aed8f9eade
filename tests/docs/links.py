"""Links of the documents lead somewhere: to a file or folder of the tree, and to a heading in it.

usage: links.py TOP [DOCUMENT...]
"""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "suite"))
import tree  # noqa: E402

LINK = re.compile(r"\]\(([^()\s]+)\)")
FENCED = re.compile(r"^```.*?^```$|^    .*$|`[^`\n]+`", re.M | re.S)


def anchors(text):
    """Headings as GitHub names them."""
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
            for heading in re.findall(r"^#+ +(.+?) *$", text, re.M)}


def link_errors(top, name):
    text = tree.read(top, name)
    for target in LINK.findall(FENCED.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        path = os.path.normpath(os.path.join(os.path.dirname(name), path)) if path else name
        if not os.path.exists(os.path.join(top, path)):
            yield f"{name}: there is no {target}"
        elif anchor and anchor not in anchors(tree.read(top, path)):
            yield f"{name}: there is no heading {target}"


def main(top, *documents):
    errors, checked = [], 0
    for name in documents or tree.files(top, (".md",)):
        checked += 1
        errors += link_errors(top, name)
    tree.finish("links", errors, checked)


if __name__ == "__main__":
    main(*sys.argv[1:])
