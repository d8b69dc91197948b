#!/bin/sh
# Builds the engine for fio:
#
#     sh crates/block/fio/build.sh FIO_SOURCE LIBRARY OUT
#
# FIO_SOURCE is a checkout of fio after `./configure`, of the very version of the fio that will load the engine: it reads fio's structures, whose
# fields move between versions. LIBRARY is what build_library.sh made. OUT is the engine's file, such as iotoll.so. The fio that this checks is
# $FIO, else FIO_SOURCE/fio, else the one that the PATH finds.
#
# SPDX-License-Identifier: GPL-2.0-only
set -eu
[ $# -eq 3 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
source=$1 library=$2 out=$3
here=$(cd "$(dirname "$0")" && pwd)

fail() {
    echo "build.sh: $*" >&2
    exit 1
}

[ -f "$source/ioengines.h" ] || fail "$source: no ioengines.h; expected fio's source"
[ -f "$source/config-host.h" ] || fail "$source: no config-host.h; run ./configure there"
grep -q FIO_ASYNCIO_SETS_ISSUE_TIME "$source/ioengines.h" || fail "$source: fio is too old; expected 3.32 or newer"
[ -f "$library/lib/libiotoll_block.a" ] || fail "$library: no lib/libiotoll_block.a; expected what build_library.sh makes"

# The version of the source, as its own `make` wrote it; else the one that its script knows.
version=$(sed -n 's/^FIO_VERSION = //p' "$source/FIO-VERSION-FILE" 2> /dev/null || true)
[ -n "$version" ] || version=$(sed -n 's/^DEF_VER=//p' "$source/FIO-VERSION-GEN")
operations=$(sed -n 's/^#define FIO_IOOPS_VERSION[^0-9]*//p' "$source/ioengines.h")
fio=${FIO:-}
[ -n "$fio" ] || { [ ! -x "$source/fio" ] || fio=$source/fio; }
[ -n "$fio" ] || fio=$(command -v fio || true)
if [ -n "$fio" ]; then
    loads=$("$fio" --version)
    [ "$loads" = "$version" ] ||
        fail "$fio is $loads, $source is $version (FIO_IOOPS_VERSION $operations); an engine runs only in the version it was built for"
fi

private=$(sed -n 's/^Libs.private: //p' "$library/lib/pkgconfig/iotoll_block.pc")
# fio closes engines after each job. The library's threads may run then: it stays (nodelete).
# shellcheck disable=SC2086
cc -std=gnu11 -O2 -g -Wall -Wextra -Werror -Wno-unused-parameter -fPIC -shared -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 \
    -include "$source/config-host.h" -isystem "$source" -I"$library/include" -o "$out" "$here/iotoll.c" \
    -Wl,-z,nodelete -Wl,--gc-sections -Wl,--exclude-libs,ALL "$library/lib/libiotoll_block.a" $private
echo "$out: for $version (FIO_IOOPS_VERSION $operations)"
