#!/bin/sh
# The script `x` in a scratch folder, with a cmake that says what it was called with, and builds
# nothing: x_demo.sh X FOLDER
set -e
x="$1" folder="$2"
rm -rf "$folder"
mkdir -p "$folder/bin"
sed 's/^    setup$/    true/' "$x" >"$folder/x"
printf '#!/bin/sh\necho "cmake $*" >>calls\nmkdir -p build/release/cli\n' >"$folder/bin/cmake"
printf '#!/bin/sh\n' >"$folder/bin/sluice"
chmod +x "$folder/bin/cmake" "$folder/bin/sluice"
PATH="$folder/bin:$PATH"
for words in demo demo build build demo; do
    bash "$folder/x" $words >"$folder/log" 2>&1
    cat "$folder/calls"
    grep 'for the CPU' "$folder/log" || true
    rm "$folder/calls"
done
