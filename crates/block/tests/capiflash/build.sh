#!/bin/sh
# Builds the block library of Open POWER's capiflash, its tests, its key-value store with tests, and its tools, for Linux on this machine:
#
#     sh crates/block/tests/capiflash/build.sh CHECKOUT FOLDER
#
# Known to work with the commit 65dc8209 of January 2020. Needs gcc, g++ and the packages libgtest-dev and libudev-dev. The programs load libcflsh_block.so
# from LD_LIBRARY_PATH, or else the original from FOLDER/original. Nothing in CHECKOUT changes.
set -eu
[ $# -eq 2 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
source=$(cd "$1" && pwd)/src
mkdir -p "$2/original" "$2/bin" "$2/objects"
out=$(cd "$2" && pwd)
objects=$out/objects
# File mode is a choice at build time there. Warnings are not ours to mend.
flags="-w -g -O2 -fPIC -fcommon -D_GNU_SOURCE -DTARGET_ARCH_x86_64 -DBLOCK_FILEMODE_ENABLED -DGITREVISION=\"0\" -D__STDC_FORMAT_MACROS
    -I$source/include -I$source/block -I$source/block/test -I$source/kv -I$source/kv/test"
[ "$(uname -m)" = x86_64 ] || { echo "build.sh: only x86-64 is known to work, this is $(uname -m)" >&2; exit 2; }

compile() { # FOLDER COMPILER OPTIONS NAMES...: each source becomes objects/NAME.o
    folder=$1 compiler=$2 options=$3
    shift 3
    for name; do
        # shellcheck disable=SC2086
        $compiler $flags $options -c "$source/$folder/$name" -o "$objects/${name%.*}.o"
    done
}
objects_of() { for name; do printf '%s/%s.o ' "$objects" "$name"; done; }

block="cflash_block cflash_block_int cflash_block_sisl cflash_block_cgroup cflash_block_raid0 cflash_block_eras_client
    cflash_block_eras_serv cflash_block_linux"
# shellcheck disable=SC2046,SC2086
{
    compile block gcc "" $(printf '%s.c ' $block)
    compile common gcc "" cflash_scsi_user.c cflash_tools_user.c
    gcc -shared -o "$out/original/libcflsh_block.so" -Wl,--version-script="$source/block/libcflash_exportmap" \
        $(objects_of $block cflash_scsi_user cflash_tools_user) -lpthread -ludev -lrt

    link="-L$out/original -lcflsh_block -lpthread -ludev -lm -Wl,-rpath,$out/original:$out/bin"
    compile block/test "g++ -fpermissive -x c++" -D__FVT__ fvt_block.C
    compile block/test gcc -D__FVT__ blk_api_tst.c
    g++ -o "$out/bin/block_tests" $(objects_of fvt_block blk_api_tst cflash_tools_user) -lgtest -lgtest_main $link

    store="ut cl ea ll bv iv si vi bl bt arkdb am arp arp_set arp_get arp_del arp_exist tag ea_mod queue tg kv_inject"
    compile kv gcc -D__FVT__ $(printf '%s.c ' $store)
    compile lib/arkalloc gcc -D__FVT__ zmalloc.c
    gcc -shared -o "$out/bin/libarkdb.so" $(objects_of $store zmalloc cflash_tools_user) $link
    tests="fvt_kv_tst_simple fvt_kv_tst_scenario fvt_kv_tst_sync_pth fvt_kv_tst_async_cb fvt_kv_tst_sync_async fvt_kv_tst_errors
        fvt_kv_tst_persist fvt_kv_utils_ark_io fvt_kv_utils_async_cb fvt_kv_utils fvt_kv_utils_sync_pth"
    compile kv/test "g++ -fpermissive -x c++" -D__FVT__ $(printf '%s.C ' $tests)
    compile kv/test gcc -D__FVT__ kv_utils_db.c fvt_trace.c
    g++ -o "$out/bin/kv_tests" $(objects_of $tests kv_utils_db fvt_trace) -L"$out/bin" -larkdb -lgtest -lgtest_main $link

    for tool in blockio blocklistio blockplistio blocksio blockr0io asyncstress; do
        compile block/bin gcc -D__FVT__ $tool.c
        gcc -o "$out/bin/$tool" $(objects_of $tool cflash_tools_user) $link
    done
}
