#!/usr/bin/env bash
# Configures a preset into a folder of its own and builds a target of it:
#
#     nested.sh CMAKE SOURCE FOLDER PRESET TARGET
set -euo pipefail
cmake="$1" source="$2" folder="$3" preset="$4" target="$5"
cd "$source"
"$cmake" --preset "$preset" -B "$folder" -DSLUICE_WERROR=ON
"$cmake" --build "$folder" --parallel 2 --target "$target"
