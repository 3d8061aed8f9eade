# How lit runs the tests under this folder.
#
# A test is a file with RUN lines. `sluice`, `FileCheck` and `not` are on the path, and
#
#     %schedules   the shipped schedules      %data    the sample tensors
#     %source      the top of the tree        %python  the interpreter
#
# besides lit's own: %s the test file, %S its folder, %t a scratch file of this test.
import os

import lit.formats

config.name = "sluice"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".slc", ".flow", ".tasks", ".test"]
config.excludes = ["Inputs", "unit", "fuzz", "data", "suite", "install", "gpu"]
config.test_source_root = os.path.dirname(__file__)

config.environment["PATH"] = os.pathsep.join(config.sluice_tool_dirs + [os.environ.get("PATH", "")])
config.environment["FILECHECK_OPTS"] = "--dump-input=fail --allow-unused-prefixes=false"
config.environment["LC_ALL"] = "C"
# A leak, an overflow or undefined behaviour fails the test in a sanitized build.
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
config.environment.setdefault("UBSAN_OPTIONS", "print_stacktrace=1")

if config.sluice_sanitize:
    config.available_features.add("sanitized")


def quoted(path):
    return '"' + path + '"' if " " in path else path


config.substitutions.append(("%schedules", quoted(os.path.join(config.sluice_source, "schedules"))))
config.substitutions.append(("%data", quoted(os.path.join(config.sluice_source, "tests", "data"))))
config.substitutions.append(("%source", quoted(config.sluice_source)))
config.substitutions.append(("%python", quoted(config.sluice_python)))
