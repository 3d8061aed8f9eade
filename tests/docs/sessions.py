"""Sessions in the documents: files that a reader saves, and commands with what they print.

A block is marked by the comment in front of it, which a reader does not see:

    <!-- save NAME -->   the block is a file that later commands of the document find
    <!-- session -->     a console block: lines with `$ ` are commands, the lines that follow are what
                         they print; times may differ, a line of `...` stands for any lines

Commands run in a scratch folder that holds the saved files and everything at the top of the tree,
so that a document reads as if its reader stood there. `--refresh` writes what the commands print
now into the documents; a `...` at the end of an output stays where it is.

usage: sessions.py TOP [--refresh] [DOCUMENT...]     (`sluice` is on the path)
"""
import difflib
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, "suite"))
import check_docs  # noqa: E402
import tree  # noqa: E402

BLOCK = re.compile(r"^<!-- (save|session)\b *(.*?) *-->\n+```(\w+)\n(.*?)^```$", re.M | re.S)
REFRESH = "PATH=build/release/cli:$PATH python3 tests/docs/sessions.py . --refresh"


def scratch_folder(top, folder):
    for name in os.listdir(top):
        if not name.startswith("."):
            os.symlink(os.path.join(os.path.abspath(top), name), os.path.join(folder, name))


def steps_of(body):
    """A console block as [command line, lines that it prints]."""
    steps = []
    for line in body.splitlines():
        if line.startswith("$ "):
            steps.append((line, []))
        elif steps:
            steps[-1][1].append(line)
    return steps


def run_step(folder, line, expected):
    """What a command prints: as the document has it if that matches, and the error if not."""
    done = subprocess.run(["bash", "-c", line[2:]], cwd=folder, text=True,
                          env=dict(os.environ, NO_COLOR="1"), stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    printed = [text.rstrip() for text in done.stdout.splitlines()]
    wanted = [text for text in map(check_docs.normal, expected) if text]
    if check_docs.matches(wanted, [text for text in map(check_docs.normal, printed) if text]):
        return expected, None
    diff = difflib.unified_diff(expected, printed, "the document", "printed", lineterm="")
    error = f"`{line}` prints something else:\n" + "\n".join(diff)
    if expected[-1:] == ["..."] and expected.count("...") == 1:
        printed = printed[:len(expected) - 1] + ["..."]
    return printed, error


def run_document(top, name, text):
    """The text with its sessions refreshed, the errors, and how many commands ran."""
    errors, commands = [], 0
    with tempfile.TemporaryDirectory() as folder:
        scratch_folder(top, folder)

        def run_block(block):
            nonlocal commands
            verb, argument, language, body = block.groups()
            number = text.count("\n", 0, block.start()) + 1
            if verb == "save":
                if not re.fullmatch(r"[\w.-]+", argument) or os.path.exists(os.path.join(top, argument)):
                    errors.append(f"{name}:{number}: '{argument}' is no name for a new file")
                    return block.group(0)
                with open(os.path.join(folder, argument), "w", encoding="utf-8") as f:
                    f.write(body)
                return block.group(0)
            steps = steps_of(body)
            if language != "console" or argument or not steps:
                errors.append(f"{name}:{number}: a session is a console block with `$ ` lines")
            lines = []
            for line, expected in steps:
                commands += 1
                printed, error = run_step(folder, line, expected)
                lines += [line] + printed
                if error:
                    errors.append(f"{name}:{number}: {error}")
            head = block.group(0)[:block.start(4) - block.start()]
            return head + "".join(line + "\n" for line in lines) + "```"

        refreshed = BLOCK.sub(run_block, text)
    marks = len(re.findall(r"^<!-- (?:save|session)\b", text, re.M))
    if marks != len(BLOCK.findall(text)):
        errors.append(f"{name}: {marks} marks, but {len(BLOCK.findall(text))} blocks behind them")
    return refreshed, errors, commands


def main(top, *arguments):
    refresh = "--refresh" in arguments
    errors, commands = [], 0
    for name in [a for a in arguments if a != "--refresh"] or tree.files(top, (".md",)):
        text = tree.read(top, name)
        refreshed, found, ran = run_document(top, name, text)
        commands += ran
        if refresh and refreshed != text:
            with open(os.path.join(top, name), "w", encoding="utf-8") as f:
                f.write(refreshed)
            print(f"{name}: refreshed")
            _, found, _ = run_document(top, name, refreshed)
        errors += found
    for error in errors:
        print(error)
    if errors and not refresh:
        print(f"\nIf what is printed now is right, refresh the documents:\n  {REFRESH}")
    print(f"sessions: {commands} commands")
    return 1 if errors or not commands else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
