#!/bin/sh
# Puts the sources of pciutils at DIR/tests, with its lspci beside them, DIR being the argument or target/pciutils.
# Needs apt-get's helper, and make and a C compiler for lspci. They are under the GPL: nothing of them is kept in this repository.
set -eu

here=$(cd "$(dirname "$0")/../../../.." && pwd)
dir=${1:-${CARGO_TARGET_DIR:-$here/target}/pciutils}
[ -x "$dir/lspci" ] && exit 0

mkdir -p "$(dirname "$dir")"
work=$(mktemp -d "$dir.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
# Debian 13's source: the release of pciutils as it is.
/usr/lib/apt/apt-helper download-file \
    http://deb.debian.org/debian/pool/main/p/pciutils/pciutils_3.13.0.orig.tar.gz "$work/source.tar.gz" \
    SHA256:a03c88a0aab709b1697ca1753766f443e78297f84c7bcd80a82c1422edd7cb42 >&2
mkdir "$work/tree"
tar -xzf "$work/source.tar.gz" -C "$work/tree" --strip-components=1
make -s -C "$work/tree" ZLIB=no DNS=no LIBKMOD=no HWDB=no SHARED=no IDSDIR="$dir" lspci >&2
rm -rf "$dir"
# Renamed last: a folder that is there is whole.
mv "$work/tree" "$dir"
