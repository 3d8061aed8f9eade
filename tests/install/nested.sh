#!/usr/bin/env bash
# Configures a preset into a folder of its own and builds it: nested.sh CMAKE SOURCE FOLDER PRESET
set -euo pipefail
cmake="$1" source="$2" folder="$3" preset="$4"
cd "$source"
"$cmake" --preset "$preset" -B "$folder" -DSLUICE_WERROR=ON
"$cmake" --build "$folder" --parallel 2
