#!/usr/bin/env bash
# make bench: handsfs beside its peers in the same run, as ratios. Each row is measured in turn, A B A B,
# BENCH_ROUNDS times; the figures are medians. Absolute times mean little on a shared machine.
set -euo pipefail

rounds=${BENCH_ROUNDS:-5} files=${BENCH_FILES:-20000} execs=${BENCH_EXECS:-300}
work=$HANDSFS_BUILDDIR/tests/bench/workload
T=$(mktemp -d /var/tmp/handsfs-bench.XXXXXX)
export HANDSFS_STATE_DIR=$T/state XDG_CONFIG_HOME=$T/config
S=bench M=$T/m N=$T/native
mkdir "$M" "$N"

handsfs() { "$HANDSFS" "$@"; }
finish()
{
    handsfs umount "$M" >/dev/null 2>&1 || true
    fusermount3 -u "$T/sshfs" >/dev/null 2>&1 || true
    handsfs destroy "$S" >/dev/null 2>&1 || true
    rm -rf "$T"
}
trap finish EXIT

median() { sort -g | awk '{v[NR] = $1} END {print v[int((NR + 1) / 2)]}'; }
row() { printf '%-44s %12s %12s %9s  %s\n' "$1" "$2" "$3" "$4" "$5"; }

# beside TITLE PEER-NAME UNIT COLUMN PREPARE-A PREPARE-B 'A' 'B': medians of one column of each.
beside()
{
    local title=$1 peer=$2 unit=$3 column=$4 prepare_a=$5 prepare_b=$6 a=$7 b=$8 i
    : >"$T/a"; : >"$T/b"
    for ((i = 0; i < rounds; i++)); do
        $prepare_a; $a | awk -v c="$column" '{print $c}' >>"$T/a"
        $prepare_b; $b | awk -v c="$column" '{print $c}' >>"$T/b"
    done
    row "$title" "$(median <"$T/a") $unit" "$(median <"$T/b") $unit" \
        "$(awk -v a="$(median <"$T/a")" -v b="$(median <"$T/b")" 'BEGIN {printf "%.2f", a / b}')" "$peer"
}

drop_caches() { sync; echo 3 >/proc/sys/vm/drop_caches 2>/dev/null || true; }
remount() { handsfs umount "$M" >/dev/null; drop_caches; handsfs mount "$S" "$M" >/dev/null; }

handsfs mount "$S" "$M" >/dev/null
mkdir "$M/tree" "$N/tree"
"$work" tree "$M/tree" "$files"
"$work" tree "$N/tree" "$files"

row 'what' 'handsfs' 'peer' 'ratio' 'peer'
beside 'exec of true, p50' 'bash -c true on the host' ms 1 : : "$work exec $M.sock $execs" "$work spawn $execs bash -c true"
beside 'exec of true, p99' 'bash -c true on the host' ms 2 : : "$work exec $M.sock $execs" "$work spawn $execs bash -c true"
if pid=$(handsfs status --json "$S" | jq -e .engine.pid 2>/dev/null | tr -d '"') && [ "$(id -u)" = 0 ]; then
    beside 'exec of true, p50' 'nsenter into the same sandbox' ms 1 : : "$work exec $M.sock $execs" \
        "$work spawn $execs nsenter -t $pid -U -p -m -n -i -u --preserve-credentials bash -c true"
fi
beside "stat walk of $files files, cold" 'native directory' ms 1 remount drop_caches "$work walk $M/tree" "$work walk $N/tree"
beside "stat walk of $files files, warm" 'native directory' ms 1 : : "$work walk $M/tree" "$work walk $N/tree"
beside 'write of 4 MiB, fsync, one file' 'native directory' ms 1 : : "$work write $M 20" "$work write $N 20"
beside 'read of 4 MiB, cold, one file' 'native directory' ms 1 remount drop_caches "$work read $M 20" "$work read $N 20"
beside 'read of 4 MiB, warm, one file' 'native directory' ms 1 : : "$work read $M 20" "$work read $N 20"
beside 'create, write, close of 100 bytes' 'native directory' ms 1 : : "$work create $M 2000" "$work create $N 2000"
beside 'unlink' 'native directory' ms 2 : : "$work create $M 2000" "$work create $N 2000"

sftp=/usr/lib/openssh/sftp-server
if command -v sshfs >/dev/null && [ -x $sftp ]; then
    mkdir "$T/sshfs"
    printf '#!/bin/sh\nexec %s\n' $sftp >"$T/sftp" && chmod +x "$T/sftp"
    sshfs_mount() { fusermount3 -u "$T/sshfs" 2>/dev/null || true; drop_caches; sshfs -o ssh_command="$T/sftp" "x:$N" "$T/sshfs"; }
    sshfs_mount
    beside "stat walk of $files files, cold" 'sshfs over sftp-server' ms 1 remount sshfs_mount "$work walk $M/tree" "$work walk $T/sshfs/tree"
    beside 'write of 4 MiB, fsync, one file' 'sshfs over sftp-server' ms 1 : : "$work write $M 20" "$work write $T/sshfs 20"
    beside 'read of 4 MiB, cold, one file' 'sshfs over sftp-server' ms 1 remount sshfs_mount "$work read $M 20" "$work read $T/sshfs 20"
    beside 'create, write, close of 100 bytes' 'sshfs over sftp-server' ms 1 : : "$work create $M 2000" "$work create $T/sshfs 2000"
fi

remount
sleep 2
daemon=$(jq .pid <"$M/.handsfs/status")
switches() { awk '/ctxt/ {n += $2} END {print n}' /proc/"$daemon"/task/*/status; }
before=$(switches)
sleep 5
row 'idle daemon: wake-ups in 5 s' "$(($(switches) - before))" '' '' ''
row 'idle daemon: resident memory' "$(awk '/VmRSS/ {print $2}' /proc/"$daemon"/status) KiB" '' '' ''

# shellcheck source=tests/bench/docker.sh
. "$(dirname "$0")/docker.sh"
# shellcheck source=tests/bench/k8s.sh
. "$(dirname "$0")/k8s.sh"
