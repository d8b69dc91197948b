#!/bin/sh
# Puts a Debian kernel for x86-64 at DIR/vmlinuz-x86_64, DIR being the argument or target/kernels.
# Needs apt-get and dpkg-deb, but no root: nothing is installed.
set -eu

here=$(cd "$(dirname "$0")/../../../.." && pwd)
dir=${1:-${CARGO_TARGET_DIR:-$here/target}/kernels}
vmlinuz=$dir/vmlinuz-x86_64
[ -s "$vmlinuz" ] && exit 0

# The cloud flavour is a third of the full one to download, and its MTRR code is the same.
package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1)
[ -n "$package" ] || { echo "fetch.sh: apt knows no linux-image-cloud-amd64; run apt-get update" >&2; exit 1; }

mkdir -p "$dir"
work=$(mktemp -d "$dir/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
(cd "$work" && apt-get -q download "$package" >&2)
dpkg-deb -x "$work"/linux-image-*.deb "$work/tree"
# Renamed last: a file that is there is whole.
mv "$work"/tree/boot/vmlinuz-* "$vmlinuz"
