# How lit runs the tests under this folder.
#
# A test is a file with RUN lines. `sluice`, `FileCheck` and `not` are on the path, and
#
#     %schedules   the shipped schedules      %data    the sample tensors
#     %source      the top of the tree        %python  the interpreter
#
# and `sluice-flipped` is the command with an executor that gets one bit wrong. Besides lit's own: %s the test file, %S its folder, %t a scratch file of this test.
import os
import sys

import lit.formats

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "suite"))
from lit_spaces import WithoutSpaces  # noqa: E402

config.name = "sluice"
if " " in config.sluice_source + config.sluice_build:
    config.test_format = WithoutSpaces(config.sluice_source, config.sluice_build)
    top = config.test_format.through(os.path.realpath(config.sluice_source) + os.sep)
else:
    config.test_format = lit.formats.ShTest(execute_external=False)
    top = config.sluice_source
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

if config.sluice_cuda:
    config.available_features.add("cuda")
if config.sluice_sanitize:
    config.available_features.add("sanitized")

config.substitutions.append(("%schedules", os.path.join(top, "schedules")))
config.substitutions.append(("%data", os.path.join(top, "tests", "data")))
config.substitutions.append(("%source", os.path.normpath(top)))
config.substitutions.append(("%python", config.sluice_python))
