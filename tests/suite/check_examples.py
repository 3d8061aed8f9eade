"""Every example of every `sluice COMMAND --help` runs and ends with 0, or finds no GPU if it says GPU.

usage: check_examples.py TOP SLUICE_FOLDER
"""
import os
import re
import subprocess
import sys

import tree


# What is said where an example that needs a GPU finds none.
NO_GPU = "built without CUDA|no CUDA device|no GPU: "


def complaints(top, sluice_folder):
    environment = dict(os.environ, PATH=sluice_folder + os.pathsep + os.environ["PATH"])

    def shell(command):
        return subprocess.run(["bash", "-o", "pipefail", "-c", command], cwd=top, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    errors, checked = [], 0
    commands = re.findall(r"^  (\w+)  +[a-z]", shell("sluice --help").stdout.split("exit codes")[0], re.M)
    for command in commands:
        examples = shell(f"sluice {command} --help").stdout.partition("\nexamples:\n")[2].splitlines()
        runnable = [(line.strip(), above) for above, line in zip([""] + examples, examples)
                    if line.strip() and not line.strip().startswith("#")]
        if not runnable:
            errors.append(f"sluice {command} --help has no example")
        for example, comment in runnable:
            checked += 1
            done = shell(example)
            if done.returncode != 0 and not ("GPU" in comment and re.search(NO_GPU, done.stdout)):
                errors.append(f"`{example}` ends with {done.returncode}:\n{done.stdout}")
    return errors, checked


if __name__ == "__main__":
    tree.finish("examples", *complaints(sys.argv[1], sys.argv[2]))
