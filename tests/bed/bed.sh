# shellcheck shell=bash disable=SC2034
# What the beds share: a folder, processes that are known by their pid files, images that were built once.
#
# A bed is a real engine for the tests, with its own data, sockets and network, on a machine where nothing was
# prepared but Debian's packages (contrib/debian-packages). Needs root.
#
#   HANDSFS_BED_DIR    the state of what runs (default /var/cache/handsfs-bed/run); short: sockets are in it
#   HANDSFS_BED_CACHE  what takes long to build (default /var/cache/handsfs-bed); may be shared by many beds
#   HANDSFS_BED_IMAGES the images that the bed is given (default: all, see images.sh)

set -euo pipefail

bed_here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
bed_dir=${HANDSFS_BED_DIR:-/var/cache/handsfs-bed/run}
bed_cache=${HANDSFS_BED_CACHE:-/var/cache/handsfs-bed}

bed_say() { echo "${0##*/} bed: $*" >&2; }

bed_die()
{
    bed_say "$*"
    exit 1
}

# bed_needs PROGRAM...: says which is missing; programs in sbin count.
bed_needs()
{
    local program missing=''
    PATH=$PATH:/usr/sbin:/sbin
    for program; do
        command -v "$program" >/dev/null || missing+=" $program"
    done
    [ -z "$missing" ] || bed_die "these programs are missing:$missing (contrib/install-packages bed)"
}

# bed_lock FILE: one at a time, until this script ends. Whatever outlives the script is started with 8>&-.
bed_lock()
{
    mkdir -p "$(dirname "$1")"
    exec 8>"$1"
    flock --timeout 600 8 || bed_die "somebody else holds $1"
}

bed_unlock() { exec 8>&-; }

# ---- Processes. A pid file is believed where that process's command line names the bed's own folder.

# bed_pid FILE: prints the pid of the process that runs by this file.
bed_pid()
{
    local pid
    pid=$(cat "$1" 2>/dev/null) || return 1
    [[ $pid =~ ^[1-9][0-9]*$ ]] && bed_is_ours "$pid" && echo "$pid"
}

# bed_is_ours PID
bed_is_ours() { tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline" | grep -qF -- "$D/"; }

# bed_wait SECONDS COMMAND...: until it succeeds, at most so long.
bed_wait()
{
    local until=$((${EPOCHREALTIME/[.,]/} + $1 * 1000000))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "${EPOCHREALTIME/[.,]/}" -lt "$until" ] || return 1
        sleep 0.05
    done
}

# As its parent, which may not wait for it soon, leaves it.
bed_has_ended() { [ ! -e "/proc/$1/stat" ] || grep -q ') Z ' "/proc/$1/stat" 2>/dev/null; }

# bed_end PIDFILE [SECONDS]: asks it to end, then ends it.
bed_end()
{
    local pid
    if pid=$(bed_pid "$1"); then
        kill -TERM "$pid" 2>/dev/null || true
        if ! bed_wait "${2:-20}" bed_has_ended "$pid"; then
            kill -KILL "$pid" 2>/dev/null || true
            bed_wait 5 bed_has_ended "$pid" || true
        fi
    fi
    rm -f "$1"
}

# Whatever still names the bed's folder in its command line (shims, monitors), and its children, containers.
bed_end_the_rest()
{
    local proc pid child
    local -a children
    for proc in /proc/[1-9]*; do
        pid=${proc#/proc/}
        case $(readlink "$proc/exe" 2>/dev/null) in
        */containerd | */containerd-shim* | */conmon | */dockerd | */podman) ;;
        *) continue ;;
        esac
        bed_is_ours "$pid" || continue
        read -r -d '' -a children < <(cat "$proc"/task/*/children 2>/dev/null) || true
        for child in "${children[@]}"; do
            kill -KILL "$child" 2>/dev/null || true
        done
        kill -KILL "$pid" 2>/dev/null || true
        bed_wait 5 bed_has_ended "$pid" || true
    done
}

# What an engine that was killed has left mounted below the bed.
bed_unmount()
{
    local point
    while IFS= read -r point; do
        umount -l "$(printf '%b' "$point")" 2>/dev/null || true
    done < <(cut -d ' ' -f 2 /proc/self/mounts | grep -F "$D/" | sort -r)
}

# ---- The network: each bed has its own, so that neither its bridges nor its rules meet this machine's.

bed_network_start()
{
    bed_pid "$D/network.pid" >/dev/null && return 0
    setsid unshare --net bash -c 'echo $$ >"$0network.pid"; exec -a "$0" sleep infinity' "$D/" \
        </dev/null >/dev/null 2>&1 8>&- &
    bed_wait 30 bed_pid "$D/network.pid" || bed_die 'no network namespace can be made here'
}

# In the bed's network, in a session of its own.
bed_run() { exec setsid nsenter --net="/proc/$(bed_pid "$D/network.pid")/ns/net" "$@"; }
