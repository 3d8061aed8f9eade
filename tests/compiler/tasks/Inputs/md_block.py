"""Prints a fenced block of a Markdown file.

usage: md_block.py FILE LANGUAGE NUMBER    (the first is 1)
"""
import re
import sys

path, language, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(path, encoding="utf-8") as f:
    blocks = re.findall(r"^```%s\n(.*?)^```$" % re.escape(language), f.read(), re.M | re.S)
if len(blocks) < number:
    sys.exit("%s has %d blocks of %s" % (path, len(blocks), language))
sys.stdout.write(blocks[number - 1])
