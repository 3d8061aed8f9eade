#!/usr/bin/env bash
# Seeds that the command itself makes: flow and task text of the shipped schedules.
#
# make_seeds.sh SLUICE SCHEDULES_FOLDER OUT_FOLDER
set -euo pipefail
sluice="$1" schedules="$2" out="$3"
rm -rf "$out"
mkdir -p "$out"
for file in "$schedules"/*.slc; do
    name="$(basename "$file" .slc)"
    for form in flow tasks; do
        "$sluice" show -n 2 -c 1000 --emit=$form "$file" >"$out/$name.$form" 2>/dev/null || rm "$out/$name.$form"
    done
done
# Fewer than a handful would mean that the command is broken.
test "$(ls "$out" | wc -l)" -ge 5
