"""The checks of this folder find what they are for: each is shown a tree with one thing wrong."""
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check_determinism  # noqa: E402
import check_docs  # noqa: E402
import check_examples  # noqa: E402
import check_files  # noqa: E402
import check_format  # noqa: E402
import check_globals  # noqa: E402
import check_includes  # noqa: E402
import check_schedules  # noqa: E402
import check_suite  # noqa: E402

GOOD = "# RUN: sluice show %s | FileCheck %s\n# CHECK: schedule\n# CHECK-NEXT: end\n"


class Tree(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.top = self.folder.name
        self.addCleanup(self.folder.cleanup)

    def write(self, name, text):
        path = os.path.join(self.top, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)

    def expect(self, complaints, *parts):
        errors, checked = complaints
        self.assertTrue(checked)
        self.assertEqual(len(errors), len(parts), errors)
        for error, part in zip(errors, parts):
            self.assertIn(part, error)


class Suite(Tree):
    def lint(self, text, *parts):
        self.write("dsl/case.slc", text)
        self.expect(check_suite.complaints(self.top), *parts)

    def test_accepts_a_good_test(self):
        self.lint(GOOD)

    def test_no_run_line(self):
        self.lint("# CHECK: x\n", "no RUN line")

    def test_missing_colon(self):
        self.lint(GOOD + "# CHECK-NEXT two\n", "has no colon")

    def test_unknown_suffix(self):
        self.lint(GOOD + "# CHECK-NXT: two\n", "'NXT' is no suffix")

    def test_count_needs_a_number(self):
        self.lint(GOOD + "# CHECK-COUNT: two\n", "'COUNT' is no suffix")
        self.lint(GOOD + "# CHECK-COUNT-2: two\n")

    def test_prefix_without_lines(self):
        self.lint(GOOD.replace("FileCheck", "FileCheck --check-prefixes=CHECK,FLOW"), "reads 'FLOW'")

    def test_lines_without_filecheck(self):
        self.lint("# RUN: sluice show %s\n# CHECK: x\n", "no FileCheck reads 'CHECK'")

    def test_lines_of_a_prefix_nobody_reads(self):
        self.lint(GOOD + "# FLOW-NEXT: x\n", "no FileCheck reads 'FLOW'")

    def test_prefix_with_a_dash(self):
        self.lint("# RUN: sluice show %s | FileCheck --check-prefix=A-B %s\n# A-B-NEXT: x\n# A-B: y\n")

    def test_not_is_piped(self):
        self.lint(GOOD + "# RUN: not sluice show no 2>&1\n", "pipe it into FileCheck")
        self.lint(GOOD + "# RUN: not sluice show no 2>&1 | FileCheck %s\n")
        self.lint(GOOD + "# RUN: env A=b not sluice show no\n", "pipe it into FileCheck")

    def test_continued_run_line(self):
        self.lint("# RUN: sluice show %s \\\n# RUN:   | FileCheck %s\n# CHECK: x\n")

    def test_comment_marks_are_optional(self):
        self.lint("RUN: sluice show %s | FileCheck %s\nCHECK: x\n  CHECK-NXT: y\n", "'NXT' is no suffix")

    def test_checks_in_another_file(self):
        self.write("dsl/Inputs/other.txt", "# CHECK-NXT: x\n")
        self.lint("# RUN: sluice show %s | FileCheck %S/Inputs/other.txt\n", "'NXT' is no suffix")

    def test_filecheck_without_a_file(self):
        self.lint("# RUN: sluice show %s | FileCheck\n", "without a check file")


class Files(Tree):
    def check(self, name, text, *parts):
        self.write(name, text)
        self.expect(check_files.complaints(self.top), *parts)

    def test_accepts(self):
        self.check("dsl/a.c", "/* A. */\nint a;\n")

    def test_too_long(self):
        self.check("dsl/a.c", "/* A. */\n" + "int a;\n" * 800, "801 lines")

    def test_grammar_too_long(self):
        self.check("dsl/a.y", "/* A. */\n" + "a:\n" * 500, "501 lines")

    def test_wide_tab_and_space(self):
        self.check("dsl/a.c", "/* A. */\n" + "x" * 101 + "\n\tint a;\nint b; \n", "columns", "tab", "white space")

    def test_no_opening_comment(self):
        self.check("dsl/a.c", "int a;\n", "opens with a comment")

    def test_same_name_twice(self):
        self.write("compiler/a.c", "/* A. */\n")
        self.check("dsl/a.c", "/* A. */\n", "is taken by compiler/a.c")


class Includes(Tree):
    def check(self, name, included, *parts):
        self.write("dsl/dsl.h", "/* D. */\n")
        self.write("runtime/sluice.h", "/* R. */\n")
        self.write(name, f'#include "{included}"\n')
        self.expect(check_includes.complaints(self.top), *parts)

    def test_down_is_fine(self):
        self.check("compiler/a.c", "dsl/dsl.h")

    def test_up_is_not(self):
        self.check("dsl/a.c", "compiler/ir.h", "dsl/ must not include")
        os.remove(os.path.join(self.top, "dsl/a.c"))
        self.check("kernels/a.c", "dsl/dsl.h", "kernels/ must not include")

    def test_no_way_around(self):
        self.check("compiler/a.c", "../runtime/sluice.h", "compiler/ must not include")


class Format(Tree):
    @unittest.skipUnless(check_format.find_tool(), "no clang-format 14")
    def test_finds_the_file(self):
        self.write(".clang-format", "BasedOnStyle: LLVM\n")
        self.write("dsl/good.c", "int a;\n")
        self.write("dsl/bad.c", "int   a ;\n")
        self.expect(check_format.complaints(self.top, check_format.find_tool()), "dsl/bad.c:1", "x format")


class Docs(Tree):
    """`sluice` here is a script that prints its arguments and fails when the file says so."""

    def check(self, text, *parts):
        self.write("bin/sluice", "#!/bin/sh\necho got $1 $2 in 3.5 ms\ngrep -q wrong $3 || exit 0\necho bad\nexit 1\n")
        os.chmod(os.path.join(self.top, "bin/sluice"), 0o755)
        self.write("README.md", text)
        self.expect(check_docs.complaints(self.top, os.path.join(self.top, "bin")), *parts)

    def test_console(self):
        head = "<!-- run -->\n```console\n$ sluice a b README.md\n"
        self.check(head + "got  a b in 9 ms\n```\n")
        self.check(head + "...\n```\n")
        self.check(head + "got a c in 9 ms\n```\n", "prints something else")
        self.check(head + "```\n", "prints something else")
        self.check("<!-- run -->\n```console\nsluice\n```\n", "no line starts with")

    def test_any_lines(self):
        self.check("<!-- run -->\n```console\n$ printf '1\\n2\\n3\\n4\\n'\n1\n...\n4\n```\n")
        self.check("<!-- run -->\n```console\n$ printf '1\\n2\\n3\\n4\\n'\n1\n...\n3\n```\n", "something else")

    def test_schedules(self):
        self.check("<!-- check -q -->\n```slc\nfine\n```\n")
        self.check("<!-- check -q -->\n```slc\nwrong\n```\n", "is not accepted")
        self.check("<!-- refuse -q: bad -->\n```slc\nwrong\n```\n")
        self.check("<!-- refuse -q: other -->\n```slc\nwrong\n```\n", "is not refused with 'other'")
        self.check("<!-- refuse -q: bad -->\n```slc\nfine\n```\n", "is not refused")

    def test_marks(self):
        self.check("<!-- run -->\n```slc\n$ a\n```\n", "does not go with")
        self.check("<!-- check -->\n```slc\nfine\n```\n<!-- check -->\ntext\n", "2 marks, but 1 blocks")


class Command(Tree):
    """The checks that run the command, on one that is a script."""

    def fake(self, script):
        self.write("bin/sluice", "#!/bin/sh\n" + script)
        os.chmod(os.path.join(self.top, "bin/sluice"), 0o755)
        self.write("schedules/a.slc", "schedule a() {\n}\n")
        return os.path.join(self.top, "bin")

    def test_determinism(self):
        self.expect(check_determinism.complaints(self.top, self.fake("echo $*\n")))
        self.expect(check_determinism.complaints(self.top, self.fake("pwd\n")), *["another text"] * 5)
        self.expect(check_determinism.complaints(self.top, self.fake('case $1 in check) echo "$LC_ALL";; esac\n')),
                    "sluice check")

    def test_examples(self):
        help_text = "case $* in --help) echo '  run   runs';; *--help) printf '\\nexamples:\\n  # x\\n  sluice run a\\n';; "
        self.expect(check_examples.complaints(self.top, self.fake(help_text + "esac\n")))
        self.expect(check_examples.complaints(self.top, self.fake(help_text + "*) exit 3;; esac\n")), "ends with 3")
        without = "*) echo this sluice was built without CUDA; exit 2;; esac\n"
        self.expect(check_examples.complaints(self.top, self.fake(help_text + without)), "ends with 2")
        help_text = help_text.replace("# x", "# on a GPU")
        self.expect(check_examples.complaints(self.top, self.fake(help_text + without)))
        self.expect(check_examples.complaints(self.top, self.fake(help_text + "*) exit 3;; esac\n")), "ends with 3")

    def test_schedules(self):
        self.expect(check_schedules.complaints(self.top, self.fake("exit 0\n"), [2]))
        errors, _ = check_schedules.complaints(self.top, self.fake("case $1 in run) exit 3;; esac\n"), [2])
        self.assertEqual(len(errors), len(check_schedules.CASES) + 1)
        errors, _ = check_schedules.complaints(self.top, self.fake("echo a require says no >&2; exit 1\n"), [2])
        self.assertEqual(len(errors), 1, errors)


class Globals(Tree):
    def test_finds_the_variable(self):
        self.write("a.c", "static const int table[2] = {1, 2};\nstatic const char *const names[] = {\"a\"};\n"
                   "int counter;\nstatic int hidden = 3;\n"
                   "int f(int i) { static int calls; return table[i] + names[0][i] + ++calls + hidden++ + counter; }\n")
        source, archive = os.path.join(self.top, "a.c"), os.path.join(self.top, "liba.a")
        compiler = os.environ.get("CC", "cc")
        subprocess.run([compiler, "-fPIC", "-c", source, "-o", source + ".o"], check=True)
        subprocess.run(["ar", "rcs", archive, source + ".o"], check=True)
        errors, _ = check_globals.complaints([archive])
        self.assertEqual(sorted(e.split("'")[1].split(".")[0] for e in errors), ["calls", "counter", "hidden"])


if __name__ == "__main__":
    unittest.main()
