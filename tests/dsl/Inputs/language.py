"""Runs every example of the language reference, and holds the reference to its form.

  * every rule [Rx.y] has an example, and rules are numbered in order
  * an `ok` block compiles and is proved, an `error` block is refused with its message
  * the grammar blocks name the rules of grammar.y, in its order

usage: language.py REFERENCE GRAMMAR SCRATCH_FOLDER SLUICE
"""
import os
import re
import shlex
import subprocess
import sys

OPTIONS = {"ranks": "--ranks", "nodes": "--nodes", "count": "--count", "op": "--op", "define": "-D"}
# Rules of the grammar that the reference writes as part of another rule.
FOLDED = {"input", "semi", "name", "let_formals", "formals1", "args1", "loop_opt"}


def blocks(text):
    """The fenced blocks as (line, rule before it, words of the info string, body)."""
    rule, fence = None, None
    for number, line in enumerate(text.splitlines(), 1):
        if fence:
            if line == "```":
                yield (*fence[:3], "\n".join(fence[3]) + "\n")
                fence = None
            else:
                fence[3].append(line)
        elif line.startswith("```"):
            fence = (number, rule, shlex.split(line[3:]), [])
        else:
            match = re.match(r"\*\*\[(R\d+\.\d+)\]\*\* ", line)
            rule = match.group(1) if match else rule


def run_example(sluice, folder, name, words, body):
    """None, or what is wrong."""
    wanted, message = words[0], words[1] if words[0] == "error" else None
    command = [sluice, "check"]
    for word in words[2 if message is not None else 1:]:
        key, _, value = word.partition("=")
        command += [OPTIONS[key], value]
    with open(os.path.join(folder, name), "w") as out:
        out.write(body)
    result = subprocess.run(command + [name], cwd=folder, capture_output=True, text=True)
    said = result.stdout + result.stderr
    if wanted == "ok":
        return None if result.returncode == 0 else "refused:\n" + said
    if result.returncode != 1:
        return f"left with {result.returncode}, 1 was expected:\n" + said
    if not message:
        return "an `error` block names its message"
    return None if f"error: " in said and message in said else f"did not say {message!r}:\n" + said


def check_examples(text, folder, sluice):
    errors, with_example = [], set()
    for line, rule, words, body in blocks(text):
        if not words or words[0] != "sluice":
            continue
        with_example.add(rule)
        if words[1].startswith("file="):
            with open(os.path.join(folder, words[1][5:]), "w") as out:
                out.write(body)
            continue
        name = f"{rule or 'intro'}-line-{line}.slc"
        problem = run_example(sluice, folder, name, words[1:], body)
        if problem:
            errors.append(f"line {line} ({rule}): {problem}")
    rules = re.findall(r"^\*\*\[(R\d+\.\d+)\]\*\* ", text, re.M)
    errors += [f"rule {rule} has no example" for rule in rules if rule not in with_example]
    return errors, rules


def check_numbers(rules):
    chapter, last = 0, 0
    for rule in rules:
        c, n = map(int, rule[1:].split("."))
        if (c, n) != (chapter, last + 1) and not (c > chapter and n == 1):
            yield f"rule {rule} is out of order after R{chapter}.{last}"
        chapter, last = c, n


def check_grammar(text, grammar):
    written = []
    for _, _, words, body in blocks(text):
        if words == ["grammar"]:
            written += re.findall(r"^([a-z_]+) = ", body, re.M)
    rules = [r for r in re.findall(r"^([a-z_0-9]+):", grammar.split("%%")[1], re.M) if r not in FOLDED]
    missing = [r for r in rules if r not in written]
    unknown = [r for r in written if r not in rules]
    if missing or unknown:
        yield f"grammar rules missing in the reference: {missing}, unknown: {unknown}"
    elif written != rules:
        yield "the order of the grammar rules differs:\n  " + "\n  ".join(
            f"{a} / {b}" for a, b in zip(written, rules) if a != b)


def main(reference, grammar, folder, sluice):
    os.makedirs(folder, exist_ok=True)
    with open(reference) as f:
        text = f.read()
    with open(grammar) as f:
        grammar_text = f.read()
    errors, rules = check_examples(text, folder, sluice)
    errors += check_numbers(rules)
    errors += check_grammar(text, grammar_text)
    for error in errors:
        print(error)
    print(f"{len(rules)} rules, {len(errors)} complaints")
    return 1 if errors or len(rules) < 50 else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
