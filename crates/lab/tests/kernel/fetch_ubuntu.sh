#!/bin/sh
# Puts an Ubuntu kernel at DIR/vmlinuz and DIR/modules:
#
#     fetch_ubuntu.sh DIR [RELEASE [ARCH [FLAVOUR]]]
#
# RELEASE is jammy (Linux 5.15), noble (6.8, the default) or resolute (7.0); ARCH amd64 (the default) or arm64; FLAVOUR generic (the default), or
# generic-64k with pages of 64 KiB.
#
# noble's has iommufd, and resolute's for arm64 pseudo-NMIs (CONFIG_ARM64_PSEUDO_NMI), which Debian's lack. This server has arm64 from resolute on.
# Needs apt-get and dpkg-deb, for arm64 zstd too, but no root: nothing is installed. Ubuntu's keys come in a
# package of Debian 13, known by its sum.
set -eu
. "$(dirname "$0")/../../../../tests/private_apt.sh"

dir=$1
ubuntu=${2:-noble}
arch=${3:-amd64}
flavour=${4:-generic}
[ -d "$dir/modules" ] && exit 0
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
work=$(mktemp -d "$dir/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work"

/usr/lib/apt/apt-helper download-file \
    http://deb.debian.org/debian/pool/main/u/ubuntu-keyring/ubuntu-keyring_2023.11.28.1-0.2_all.deb keyring.deb \
    SHA256:b2e7ed48431bf9e7978ae810bbdaf253093570d6e3f864e575b7c13554b81174 >&2
dpkg-deb -x keyring.deb key
# The release as it was on its day: its kernel does not change any more.
private_apt "deb [signed-by=$work/key/usr/share/keyrings/ubuntu-archive-keyring.gpg] http://archive.ubuntu.com/ubuntu $ubuntu main" "$arch"
release=$(apt-cache depends "linux-image-$flavour" | sed -n 's/^ *Depends: linux-image-\([0-9].*\)/\1/p' | head -n 1)
[ -n "$release" ] || { echo "fetch_ubuntu.sh: no kernel behind linux-image-$flavour" >&2; exit 1; }
apt-get -qq download "linux-image-$release" "linux-modules-$release" >&2
for package in linux-*.deb; do dpkg-deb -x "$package" tree; done

# A little-endian number of 4 bytes at a place of a file.
number() {
    od -An -tu4 -j "$2" -N 4 "$1" | tr -d ' '
}
# Before QEMU 8.0 an arm64 kernel must be unpacked. In the program for EFI that has the device trees is another one, whose head says where
# the packed kernel begins and how long it is (drivers/firmware/efi/libstub/zboot-header.S).
image=tree/boot/vmlinuz-$release
if [ "$arch" = arm64 ]; then
    place=$(grep -abo 'zimg' "$image" | head -n 1 | cut -d : -f 1)
    [ -n "$place" ] || { echo "fetch_ubuntu.sh: no packed kernel in $image" >&2; exit 1; }
    begin=$((place - 4 + $(number "$image" $((place + 4)))))
    tail -c +$((begin + 1)) "$image" | head -c "$(number "$image" $((place + 8)))" | zstd -q -d -o "$image.unpacked"
    image=$image.unpacked
fi
mv "$image" "$dir/vmlinuz"
# Renamed last: what is there is whole.
# /lib is a link to /usr/lib, below which newer packages have their modules.
for modules in tree/lib/modules tree/usr/lib/modules; do
    [ ! -d "$modules/$release" ] || mv "$modules/$release" "$dir/modules"
done
