#!/usr/bin/env bash
# Runs the array of Slurm that docs/guide/fleet.md shows, and compares its rows with those of one process.
#
#     tests/slurm.sh PROGRAM     # a program with the feature `fleet`
#
# Starts a Slurm of one node with files, ports and a key of its own, as the user who calls it. Needs Debian's slurm-wlm and munge, and pip for DuckDB, an
# independent reader of Parquet.
set -euo pipefail

program=$(realpath "${1:?slurm.sh: expected a program}")
cd "$(dirname "$0")/.."
# Where Debian has daemons.
PATH=$PATH:/usr/sbin:/sbin
for need in munged slurmctld slurmd sbatch; do
    if ! command -v "$need" >/dev/null; then
        echo "SKIPPED tests/slurm.sh: no $need is installed (Debian's slurm-wlm and munge)"
        exit
    fi
done
shards=4

umask 022
work=$(mktemp -d)
daemons=()
finish() {
    local status=$?
    # Their processes are children of no daemon, and would go on.
    if [ "${#daemons[@]}" -eq 3 ]; then
        timeout 10 scancel --quiet --user "$(id -un)" || true
        until_true 10 no_tasks || true
    fi
    if [ "${#daemons[@]}" -gt 0 ]; then
        kill "${daemons[@]}" 2>/dev/null || true
        wait "${daemons[@]}" || true
    fi
    if [ "$status" -ne 0 ]; then tail -n 20 "$work"/*.log "$work"/slurm-*.out >&2 || true; fi
    rm -rf "$work"
}
trap finish EXIT

# until_true SECONDS COMMAND...: whether the command succeeds within that time.
until_true() {
    local end=$((SECONDS + $1))
    until "${@:2}" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$end" ] || return 1
        sleep 0.1
    done
}
no_tasks() { [ -z "$(squeue --noheader)" ]; }
node_is_idle() { sinfo --noheader --format %t | grep -qx idle; }

start_slurm() {
    local user host ports release
    user=$(id -un) host=$(hostname -s)
    read -ra ports < <(python3 -c 'import socket
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
print(*(one.getsockname()[1] for one in held))')
    mkdir "$work/state" "$work/spool" "$work/munge"
    # munged wants a socket that everyone can reach, folders in which nobody else can write, and a key that nobody else can read.
    chmod 755 "$work"
    (umask 077 && head -c 128 /dev/urandom >"$work/munge.key")
    cat >"$work/slurm.conf" <<CONF
ClusterName=guide
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmdPort=${ports[1]}
SlurmUser=$user
SlurmdUser=$user
AuthInfo=socket=$work/munge/socket
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
MpiDefault=none
# Without control groups, which need root.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
# All shards run at once, however many CPUs there are.
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=$shards
PartitionName=all Nodes=ALL Default=YES
CONF
    # slurmd wants a plugin for them all the same: before Slurm 24 the one that asks nothing of the system until it is used.
    release=$(slurmd -V) release=${release##* }
    if [ "${release%%.*}" -lt 24 ]; then
        echo "CgroupPlugin=cgroup/v1" >"$work/cgroup.conf"
    else
        echo "CgroupPlugin=disabled" >"$work/cgroup.conf"
    fi
    export SLURM_CONF=$work/slurm.conf
    munged --foreground --key-file="$work/munge.key" --socket="$work/munge/socket" --pid-file="$work/munge/pid" --seed-file="$work/munge/seed" \
        --log-file="$work/munged.log" 2>"$work/munged.err.log" &
    daemons+=($!)
    until_true 10 test -S "$work/munge/socket"
    slurmctld -D 2>"$work/slurmctld.log" &
    daemons+=($!)
    slurmd -D 2>"$work/slurmd.log" &
    daemons+=($!)
    until_true 30 node_is_idle
}

# The program by its name, as the guide has it. Tasks inherit PATH.
mkdir "$work/bin" "$work/captures"
ln -s "$program" "$work/bin/iotoll"
PATH=$work/bin:$PATH

# The line as it is in the guide, but for paths and size.
guide=$(sed -n '/^sbatch /p' docs/guide/fleet.md)
array=$(sed -e "s|--array=0-31 |--array=0-$((shards - 1)) |; s|/data/sosreports|$work/captures|; s|/data/fleet|$work/array|" <<<"$guide")
if [ "$(wc -l <<<"$guide")" -ne 1 ] || [[ $array != *"--array=0-$((shards - 1)) "*"$work/captures"*"$work/array"* ]]; then
    echo "docs/guide/fleet.md: expected one sbatch line with --array=0-31, /data/sosreports and /data/fleet; found: $guide" >&2
    exit 1
fi
# sbatch returns when all tasks are over, with the highest exit status.
export SBATCH_WAIT=1
submit() { (cd "$work" && eval "$array"); }

# More and more captures, until one process takes so long that a task can be cancelled in the middle. With one thread a shard writes rows many times
# before it ends, on any machine.
export RAYON_NUM_THREADS=1
took_ms=0
for ((copies = 16; took_ms < 12000; copies *= 2)); do
    for capture in crates/host/tests/captures/*.tar.gz; do
        for ((copy = 0; copy < copies; copy++)); do
            cp --no-clobber --preserve=timestamps "$capture" "$work/captures/host-$copy-$(basename "$capture")"
        done
    done
    rm -rf "$work/one"
    began=$(date +%s%N)
    iotoll fleet "$work/captures" --out "$work/one" >"$work/one.txt"
    took_ms=$((($(date +%s%N) - began) / 1000000))
done

python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --target "$work/python" duckdb==2.0.1
# Fails unless each table has the rows of one process, in any order; prints their number.
compare() {
    PYTHONPATH=$work/python python3 - "$work/one" "$work/array" "$(find "$work/captures" -type f | wc -l)" <<'PYTHON'
import duckdb, sys

one, array, inputs = sys.argv[1:]
counted = []
for table in ("hosts", "adapters", "findings", "unseen", "errors"):
    left, right = (f"SELECT * FROM '{folder}/{table}/*.parquet'" for folder in (one, array))
    differ = f"(({left}) EXCEPT ALL ({right})) UNION ALL (({right}) EXCEPT ALL ({left}))"
    rows, differing = (duckdb.execute(f"SELECT count(*) FROM ({query})").fetchall()[0][0] for query in (left, differ))
    if differing or table == "hosts" and rows != int(inputs):
        sys.exit(f"{table}: {differing} of {rows} rows differ, of {inputs} inputs")
    counted.append(f"{rows} {table}")
print(", ".join(counted))
PYTHON
}

start_slurm
submit >/dev/null
rows=$(compare)

rm -rf "$work/array"
submit >"$work/submitted" &
submitted=$!
first_part() { compgen -G "$work/array/hosts/part-0-of-$shards-*"; }
until_true 60 first_part
scancel "$(grep -o '[0-9]*$' "$work/submitted")_0"
if wait "$submitted" || compare >/dev/null 2>&1; then
    echo "shard 0 was complete before its task was cancelled" >&2
    exit 1
fi
submit >/dev/null
compare >/dev/null

echo "$(slurmd -V): an array of $shards has the rows of one process, also after one task was cancelled: $rows"
