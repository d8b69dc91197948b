#!/bin/sh
# Puts Debian 13's Rust, the oldest that the libraries for others are built with, at DIR/bin/rustc and DIR/bin/cargo:
#
#     tests/rust_1_85.sh DIR [arm64|ppc64el ...]
#
# With it comes the standard library of each further architecture of Debian that is named, for programs that run in guests.
# Needs apt-get and dpkg-deb, but no root: nothing is installed. Runs on hosts with an older C library, too: it has its own.
set -eu
. "$(dirname "$0")/private_apt.sh"

dir=$1
shift
# What is not there yet.
missing=
for arch in "$@"; do
    case $arch in
    arm64) triple=aarch64 ;;
    ppc64el) triple=powerpc64le ;;
    *) echo "rust_1_85.sh: unknown architecture $arch; expected arm64 or ppc64el" >&2; exit 1 ;;
    esac
    [ -d "$dir/root/usr/lib/rustlib/$triple-unknown-linux-gnu" ] || missing="$missing libstd-rust-dev:$arch"
done
[ -x "$dir/bin/cargo" ] && [ -z "$missing" ] && exit 0
[ "$(dpkg --print-architecture)" = amd64 ] || { echo "rust_1_85.sh: only for amd64" >&2; exit 1; }
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -s "$keys" ] || { echo "rust_1_85.sh: no $keys; install debian-archive-keyring" >&2; exit 1; }
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
work=$(mktemp -d "$dir/fetch.XXXXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
cd "$work"

mkdir packages
private_apt "deb [signed-by=$keys] http://deb.debian.org/debian trixie main" amd64 arm64 ppc64el
# A compiler and its standard libraries are of one release: all anew if one is missing.
# All that they depend on but C compilers and linkers: those of this host link build scripts.
compilers='^(gcc|cpp|binutils|lib(asan|atomic|binutils|cc1|ctf|gomp|gprofng|hwasan|isl|itm|lsan|mpc|mpfr|quadmath|sframe|tsan|ubsan))'
others='^(libc-dev-bin|rpcsvc-proto|linux-libc-dev|lib(c6|crypt|gcc-14)-dev)'
names=$(apt-get -s --no-install-recommends install rustc cargo | sed -n 's/^Inst \([^ ]*\).*/\1/p' | grep -vE "$compilers|$others")
further=$(for arch in "$@"; do echo "libstd-rust-dev:$arch"; done)
cd packages
# shellcheck disable=SC2086 # lists of names
apt-get -qq download $names $further >&2
for package in *.deb; do dpkg-deb -x "$package" "$work/root"; done
cd "$work"
version=$(dpkg-deb -f packages/rustc_*.deb Version)
case $version in 1.85.*) ;; *) echo "rust_1_85.sh: Debian 13 has rustc $version; expected 1.85" >&2; exit 1 ;; esac

rm -rf "$dir/root" "$dir/bin"
mv root "$dir/root"
mkdir bin
# Both begin by the dynamic linker that fits their libraries. Rustc would look for its own beside the linker.
for program in rustc cargo; do
    sysroot=
    [ "$program" = cargo ] || sysroot="--sysroot $dir/root/usr"
    cat > "bin/$program" <<PROGRAM
#!/bin/sh
root=$dir/root/usr
exec "\$root/lib64/ld-linux-x86-64.so.2" --library-path "\$root/lib/x86_64-linux-gnu" "\$root/bin/$program" $sysroot "\$@"
PROGRAM
    chmod +x "bin/$program"
done
# Renamed last: what is there is whole.
mv bin "$dir/bin"
