#!/bin/sh
# Puts an Ubuntu kernel for x86-64 at DIR/vmlinuz and DIR/modules:
#
#     fetch_ubuntu.sh DIR [RELEASE]      # jammy (Linux 5.15), noble (6.8, the default) or resolute (7.0)
#
# noble's has iommufd, which Debian's lacks.
# Needs apt-get and dpkg-deb, but no root: nothing is installed. Ubuntu's keys come in a
# package of Debian 13, known by its sum.
set -eu
. "$(dirname "$0")/../../../../tests/private_apt.sh"

dir=$1
ubuntu=${2:-noble}
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
private_apt "deb [signed-by=$work/key/usr/share/keyrings/ubuntu-archive-keyring.gpg] http://archive.ubuntu.com/ubuntu $ubuntu main" amd64
release=$(apt-cache depends linux-image-generic | sed -n 's/^ *Depends: linux-image-\([0-9].*\)/\1/p' | head -n 1)
[ -n "$release" ] || { echo "fetch_ubuntu.sh: no kernel behind linux-image-generic" >&2; exit 1; }
apt-get -qq download "linux-image-$release" "linux-modules-$release" >&2
for package in linux-*.deb; do dpkg-deb -x "$package" tree; done
mv "tree/boot/vmlinuz-$release" "$dir/vmlinuz"
# Renamed last: what is there is whole.
# /lib is a link to /usr/lib, below which newer packages have their modules.
for modules in tree/lib/modules tree/usr/lib/modules; do
    [ ! -d "$modules/$release" ] || mv "$modules/$release" "$dir/modules"
done
