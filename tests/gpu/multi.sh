#!/usr/bin/env bash
# Several GPUs: the tests over NCCL with a GPU a rank, then NCCL's collectives beside schedules and
# codecs. Writes a JSON file and a table for each collective. On a machine with one GPU it is a
# rehearsal: four ranks share it, and sizes are small. Leaves with 77 where there is no GPU.
#
# usage: tests/gpu/multi.sh [BUILD_FOLDER [OUT_FOLDER]]     (10 minutes at most)
set -euo pipefail
top="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
build="${1:-$top/build/release}"
out="${2:-$build/multi}"
sluice="$build/cli/sluice" tests="$build/tests/gpu/nccl_tests"

gpus="$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true)"
if [ "$gpus" -eq 0 ]; then
    echo "skipped: no GPU"
    exit 77
fi
for program in "$sluice" "$tests"; do
    if [ ! -x "$program" ]; then
        echo "skipped: $program was not built (no nvcc, or SLUICE_CUDA=OFF)"
        exit 77
    fi
done
mkdir -p "$out"
ranks="$gpus" small=(-b 1M -e 64M) share=()
if [ "$gpus" -eq 1 ]; then
    ranks=4 small=(-b 1M -e 16M) share=(--oversubscribe)
fi
failed=0

# The time that is left of ten minutes is given to each command in turn.
start=$SECONDS
left() { echo $((590 - (SECONDS - start))); }

timeout "$(left)" "$tests" "$top/schedules" >"$out/tests.log" 2>&1 || failed=1
tail -n 1 "$out/tests.log"

table() {
    python3 - "$1" <<'END'
import json, sys
for row in json.load(open(sys.argv[1]))["rows"]:
    side, faster = row["out_of_place"], row["times_nccl"]
    print(f"{row['bytes'] / 2**20:7g} MiB  {row['name']:40} {side['seconds'] * 1e3:9.3f} ms",
          f"{side['busbw_gb_per_s']:8.2f} GB/s  x{faster:.2f}  wrong", side.get("wrong", "-"))
END
}

# measure FILE ARGUMENTS...
measure() {
    local file="$1"
    shift
    if [ "$(left)" -lt 30 ]; then
        echo "left out for want of time: $(basename "$file")"
    elif timeout "$(left)" "$sluice" bench "$@" --iters 11 -w 9 --json >"$file"; then
        table "$file"
    else
        echo "failed: $(basename "$file")"
        failed=1
    fi
}

# bench COLLECTIVE TYPE CODECS... -- SCHEDULES...; large results are not compared with the CPU's,
# which would take longer than all else.
bench() {
    local collective="$1" type="$2" arguments=()
    shift 2
    while [ "$1" != -- ]; do
        arguments+=(--codec "$1")
        shift
    done
    shift
    for name in "$@"; do arguments+=("$top/schedules/$name.slc"); done
    arguments=("$collective" -n "$ranks" "${share[@]}" -t "$type"
        -i "$top/tests/data/grad_$type.bin" -f 4 "${arguments[@]}")
    measure "$out/$collective-$type.json" "${arguments[@]}" "${small[@]}"
    if [ "$gpus" -gt 1 ]; then
        measure "$out/$collective-$type-large.json" "${arguments[@]}" -b 256M -e 1G --no-check
    fi
}

bench allreduce bf16 none pack 'quant(8)' -- allreduce_ring allreduce_twoshot
bench reduce_scatter bf16 none pack 'quant(8)' -- reduce_scatter_ring reduce_scatter_direct
bench allgather bf16 none pack 'quant(8)' -- allgather_ring allgather_direct
bench alltoall bf16 none pack 'quant(8)' -- alltoall_direct
bench allreduce f32 none pack 'cast(bf16) | pack' -- allreduce_ring allreduce_twoshot
echo "results are in $out"
exit "$failed"
