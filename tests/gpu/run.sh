#!/usr/bin/env bash
# Runs the GPU tests of a build. Leaves with 77 where they cannot run, and says why.
#
# usage: tests/gpu/run.sh [BUILD_FOLDER [DATA_FOLDER]]
set -euo pipefail
top="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
program="${1:-$top/build/release}/tests/gpu/gpu_tests"

if [ ! -x "$program" ]; then
    echo "skipped: $program was not built (no nvcc, or SLUICE_CUDA=OFF)"
    exit 77
fi
exec "$program" "${2:-$top/tests/data}"
