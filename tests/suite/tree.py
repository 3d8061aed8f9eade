"""What the checks share: where the tree is, which files are ours, how a failure is told."""
import os
import subprocess
import sys

SOURCE_SUFFIXES = (".c", ".h", ".cu", ".cuh", ".l", ".y", ".def")
SKIPPED_FOLDERS = {"build", ".git", "__pycache__", "Output"}


def files(top, suffixes=None):
    """Files git knows or would add, relative to top; all but build folders without git."""
    command = ["git", "-C", top, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, capture_output=True, check=True).stdout.decode()
        names = [name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        names = []
        for folder, folders, entries in os.walk(top):
            folders[:] = [f for f in folders if f not in SKIPPED_FOLDERS and not f.startswith("build-")]
            names += [os.path.relpath(os.path.join(folder, name), top) for name in entries]
    names = [name for name in names if os.path.isfile(os.path.join(top, name))]
    return sorted(n for n in set(names) if suffixes is None or n.endswith(suffixes))


def read(top, name):
    with open(os.path.join(top, name), encoding="utf-8", errors="replace") as f:
        return f.read()


def finish(what, errors, checked):
    """Prints the errors, or what was checked, and leaves with the exit code."""
    for error in errors:
        print(error)
    if not checked:
        errors = ["nothing was checked"]
        print(f"{what}: nothing to check, which cannot be right")
    if errors:
        sys.exit(1)
    print(f"{what}: {checked} files, no complaint")
