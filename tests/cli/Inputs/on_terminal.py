"""Runs a command on a pseudo-terminal and prints what it shows: on_terminal.py COMMAND ..."""
import os
import pty
import sys


def main():
    shown = []
    pid, fd = pty.fork()
    if pid == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    try:
        while True:
            data = os.read(fd, 4096)
            if not data:
                break
            shown.append(data)
    except OSError:  # the end, on Linux
        pass
    os.waitpid(pid, 0)
    sys.stdout.write(b"".join(shown).decode().replace("\r\n", "\n"))


main()
