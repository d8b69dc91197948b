#!/bin/sh
# Runs each test of a suite that build.sh built in a process of its own, and prints its name and result:
#
#     sh crates/block/tests/capiflash/run.sh FOLDER LIBRARY block|kv [DISK]
#
# LIBRARY is the folder whose libcflsh_block.so or libiotoll_block.so.0 is tested. DISK is what the library opens: a file by default, which is made for
# each test. results-block.txt and results-kv.txt, beside this script, have the results with the original library on files;
# results-block-controller.txt has those of this library on a controller, whose chunks can't be cloned into a child.
set -eu
[ $# -ge 3 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
bin=$(cd "$1" && pwd)/bin
library=$(cd "$2" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
# The programs know the library by the original's name.
if [ -e "$library/libiotoll_block.so.0" ]; then
    ln -s "$library/libiotoll_block.so.0" "$work/libcflsh_block.so"
elif [ -e "$library/libcflsh_block.so" ]; then
    ln -s "$library/libcflsh_block.so" "$work/libcflsh_block.so"
else
    echo "run.sh: $library has neither libiotoll_block.so.0 nor libcflsh_block.so" >&2
    exit 2
fi
export LD_LIBRARY_PATH="$work:$bin" BLOCK_FILEMODE_ENABLED=1 USER=capiflash
case $3 in
    block) filter=FM_ ;;
    kv) filter=. ;;
    *) echo "run.sh: no suite $3; expected block or kv" >&2; exit 2 ;;
esac
"$bin/$3_tests" --gtest_list_tests | awk '/^[^ ]/ { suite = $1 } /^ / { print suite $1 }' | grep "$filter" > "$work/tests"
while read -r test; do
    truncate -s 1G "$work/disk" "$work/persistent"
    if [ $# -ge 4 ]; then
        export FVT_DEV="$4" FVT_DEV_PERSIST="$4"
    else
        export FVT_DEV="$work/disk" FVT_DEV_PERSIST="$work/persistent"
    fi
    if (cd "$work" && timeout 120 "$bin/$3_tests" --gtest_filter="$test") > "$work/log" 2>&1 < /dev/null; then
        if grep -q SKIPPED "$work/log"; then result=skipped; else result=passed; fi
    else
        result=failed
        # Why, for whoever looks; the results are on standard output.
        { echo "== $test"; tail -n 30 "$work/log"; } >&2
    fi
    echo "$test $result"
    rm -f "$work/disk" "$work/persistent"
done < "$work/tests"
