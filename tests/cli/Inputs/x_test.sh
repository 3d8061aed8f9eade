#!/bin/sh
# The script `x` in a scratch folder where nothing has to be installed or built and there are two
# tests: x_test.sh X FOLDER [ARGS of `x test`]
set -e
x="$1" folder="$2"
shift 2
rm -rf "$folder"
mkdir -p "$folder/build/release" "$folder/bin"
sed 's/^    setup$/    true/' "$x" >"$folder/x"
printf '#!/bin/sh\n' >"$folder/bin/cmake"
chmod +x "$folder/bin/cmake"
printf 'add_test(first true)\nadd_test(second true)\n' >"$folder/build/release/CTestTestfile.cmake"
PATH="$folder/bin:$PATH" exec bash "$folder/x" test "$@"
