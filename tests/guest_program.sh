#!/bin/sh
# Builds an example of a package for guests, linked statically, and prints its path:
#
#     tests/guest_program.sh x86_64|aarch64|powerpc64le TARGET PACKAGE EXAMPLE
#
# TARGET is cargo's folder of builds. The standard library is that of the compiler at hand (`rustup target add`), or else of Debian 13's
# compiler in TARGET/rust-1.85 (`tests/rust_1_85.sh`). Exits with 3 and the reason where there is neither, and downloads nothing.
set -eu

arch=$1
target=$2
package=$3
example=$4
triple=$arch-unknown-linux-gnu
linker=$arch-linux-gnu-gcc
cd "$(dirname "$0")/.."

command -v "$linker" >/dev/null || { echo "no $linker to link a program for guests" >&2; exit 3; }
[ -e "$($linker -print-file-name=libc.a)" ] || { echo "no static C library of $linker (Debian's libc6-dev-*-cross)" >&2; exit 3; }
rust=$target/rust-1.85
if [ -d "$(rustc --print sysroot)/lib/rustlib/$triple/lib" ]; then
    cargo=cargo
    folder=$target/guests
elif [ -d "$rust/root/usr/lib/rustlib/$triple/lib" ]; then
    cargo=$rust/bin/cargo
    folder=$rust/guests
    export RUSTC="$rust/bin/rustc"
    # On POWER this compiler takes assembly only as an unstable feature.
    if [ "$arch" = powerpc64le ]; then
        export RUSTC_BOOTSTRAP=1
        unstable="-Zcrate-attr=feature(asm_experimental_arch)"
    fi
else
    echo "no Rust standard library for $triple: rustup target add $triple, or tests/rust_1_85.sh $rust" >&2
    exit 3
fi
unset CARGO_ENCODED_RUSTFLAGS
export RUSTFLAGS="-Ctarget-feature=+crt-static -Clinker=$linker ${unstable:-}"
"$cargo" build --release --locked --quiet -p "$package" --example "$example" --target "$triple" --target-dir "$folder" >&2
echo "$folder/$triple/release/examples/$example"
