#!/bin/sh
# Builds the block library for C programs:
#
#     sh crates/block/build_library.sh FOLDER [PROFILE]
#
# FOLDER gets include/, and in lib/ libiotoll_block.so.0 (with its links), libiotoll_block.a and pkgconfig/iotoll_block.pc. PROFILE is one of
# Cargo's, `dist` by default: minutes longer to build than `release`, and faster.
set -eu
[ $# -ge 1 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
mkdir -p "$1/lib/pkgconfig" "$1/include"
out=$(cd "$1" && pwd)
profile=${2:-dist}
here=$(cd "$(dirname "$0")" && pwd)
cd "$here"
# What rustc knows that the static library needs of the system.
needs=$(cargo rustc --quiet --locked --lib --profile "$profile" --crate-type staticlib -- --print native-static-libs 2>&1 |
    sed -n 's/.*native-static-libs: //p')
target=$(cargo metadata --locked --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
folder=$profile
[ "$profile" != dev ] || folder=debug
cp "$target/$folder/libblock.a" "$out/lib/libiotoll_block.a"
# shellcheck disable=SC2086
cc -shared -o "$out/lib/libiotoll_block.so.0" -Wl,-soname,libiotoll_block.so.0 -Wl,--version-script="$here/symbols.map" -Wl,--gc-sections \
    -Wl,--whole-archive "$out/lib/libiotoll_block.a" -Wl,--no-whole-archive $needs
ln -sf libiotoll_block.so.0 "$out/lib/libiotoll_block.so"
cp "$here"/include/*.h "$out/include/"
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' ../../Cargo.toml)
cat > "$out/lib/pkgconfig/iotoll_block.pc" <<EOF
prefix=$out
Name: iotoll_block
Description: CAPI flash's block library for NVMe controllers, files and block devices
Version: $version
Cflags: -I\${prefix}/include
Libs: -L\${prefix}/lib -liotoll_block
Libs.private: $needs
EOF
