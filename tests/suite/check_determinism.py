"""The same text comes out wherever and however the command runs: out of two folders, in two locales,
over memory that is not zero.

usage: check_determinism.py TOP SLUICE_FOLDER
"""
import os
import shutil
import subprocess
import sys
import tempfile

import tree

FORMS = (["show", "--emit=ast"], ["show", "--emit=flow", "-n", "4"], ["show", "--emit=tasks", "-n", "4"],
         ["show", "--emit=dot", "-n", "4"], ["check", "-n", "4"])


def comma_locale():
    """A locale that writes decimals with a comma, if there is one; a name that is not there is C."""
    names = subprocess.run(["locale", "-a"], capture_output=True, text=True).stdout.split()
    return next((n for n in names if n.startswith(("de_", "fr_", "tr_"))), "C.UTF-8")


def outputs(sluice, folder, environment):
    """What each form of each schedule prints, by name."""
    result = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".slc"):
            continue
        for form in FORMS:
            done = subprocess.run([sluice, *form, name], cwd=folder, env=environment, capture_output=True)
            result[name, " ".join(form)] = (done.returncode, done.stdout, done.stderr)
    return result


def complaints(top, sluice_folder):
    sluice = os.path.join(sluice_folder, "sluice")
    plain = dict(os.environ, LC_ALL="C")
    other = dict(os.environ, LC_ALL=comma_locale(), MALLOC_PERTURB_="165", TZ="Asia/Tokyo", HOME="/")
    with tempfile.TemporaryDirectory() as scratch:
        elsewhere = os.path.join(scratch, "other place", "schedules")
        shutil.copytree(os.path.join(top, "schedules"), elsewhere)
        first = outputs(sluice, os.path.join(top, "schedules"), plain)
        second = outputs(sluice, elsewhere, other)
    errors = [f"{name}: sluice {form} prints another text elsewhere"
              for (name, form), text in first.items() if second.get((name, form)) != text]
    return errors, sum(1 for code, _, _ in first.values() if code == 0)


if __name__ == "__main__":
    tree.finish("determinism", *complaints(sys.argv[1], sys.argv[2]))
