#!/usr/bin/env bash
# Installs a build into a scratch prefix and builds the same small program against it in three ways:
# find_package with the shared and the static library, and pkg-config.
#
# run.sh CMAKE BUILD_FOLDER SCRATCH_FOLDER C_COMPILER VERSION
set -euo pipefail
cmake="$1" build="$2" scratch="$3" compiler="$4" version="$5"
consumer="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/consumer"
rm -rf "$scratch"
prefix="$scratch/prefix with a space"
"$cmake" --install "$build" --prefix "$prefix" >/dev/null

test -x "$prefix/bin/sluice"
"$prefix/bin/sluice" --version | grep -F "sluice $version"
libdir="$(dirname "$(find "$prefix" -name libsluice.a)")"

for shared in ON OFF; do
    "$cmake" -G Ninja -S "$consumer" -B "$scratch/cmake-$shared" -DCMAKE_PREFIX_PATH="$prefix" \
        -DCMAKE_C_COMPILER="$compiler" -DBUILD_SHARED_LIBS=$shared -DEXPECTED_VERSION="$version" >/dev/null
    "$cmake" --build "$scratch/cmake-$shared" >/dev/null
    "$scratch/cmake-$shared/consumer" | grep -F "sluice $version"
done
# The static one must not need the shared one.
! ldd "$scratch/cmake-OFF/consumer" | grep libsluice

# pkg-config and shells disagree about spaces in paths, so this way gets a link without one.
link="$(mktemp -d)/sluice"
ln -s "$prefix" "$link"
export PKG_CONFIG_PATH="$link${libdir#"$prefix"}/pkgconfig"
test "$(pkg-config --modversion sluice)" = "$version"
# shellcheck disable=SC2046
"$compiler" -std=c99 -pedantic -Wall -Werror "$consumer/consumer.c" -o "$scratch/by-pkg-config" $(pkg-config --cflags --libs sluice)
LD_LIBRARY_PATH="$libdir" "$scratch/by-pkg-config" | grep -F "sluice $version"
rm -r "$(dirname "$link")"

# Nothing but the public names is shown by the shared library.
if nm -D --defined-only "$libdir/libsluice.so" | awk '$2 != "A" { print $3 }' | grep -v '^sluice_'; then
    echo "the shared library shows names that are not public"
    exit 1
fi
echo "installed, found and linked"
