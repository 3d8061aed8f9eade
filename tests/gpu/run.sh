#!/usr/bin/env bash
# Runs the GPU tests of a build. Leaves with 77 where they cannot run, and says why.
#
# usage: tests/gpu/run.sh [BUILD_FOLDER [DATA_FOLDER]]
set -euo pipefail
top="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
programs="${1:-$top/build/release}/tests/gpu"

for program in gpu_tests cuda_tests; do
    if [ ! -x "$programs/$program" ]; then
        echo "skipped: $programs/$program was not built (no nvcc, or SLUICE_CUDA=OFF)"
        exit 77
    fi
done
cd "$top"
"$programs/gpu_tests" "${2:-$top/tests/data}"
"$programs/cuda_tests"
