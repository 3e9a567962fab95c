# shellcheck shell=bash
# What every story stands on: a folder of its own, one session with a live mount at $M, and an end that
# leaves nothing behind. Source it after tests/tap.sh with `story NAME [mount options]`.
#
#   $M  the mountpoint      $S  the session's name      $T  the story's folder (outside the mount)
#   inside COMMAND          runs it in the sandbox through the mount's gateway; its exit code
#   later SECONDS COMMAND   leaves it running in the sandbox: a change that no Exec announces

# shellcheck source=tests/tap.sh
. "$HANDSFS_SRCDIR/tests/tap.sh"

# A story that runs make is not part of the make that runs the story.
unset MAKEFLAGS MFLAGS MAKELEVEL

handsfs() { "$HANDSFS" "$@"; }

story_begin()
{
    T=$(mktemp -d /tmp/handsfs-story.XXXXXX)
    S=story-$$
    M=$T/m
    export T S M
    export HANDSFS_STATE_DIR=$T/state XDG_CONFIG_HOME=$T/config
    mkdir "$M"
    trap story_cleanup EXIT
}

# shellcheck disable=SC2317
story_cleanup()
{
    local m
    while read -r _ m _; do
        handsfs umount "$m" >/dev/null 2>&1 || umount -l "$m" 2>/dev/null || fusermount3 -uz "$m" 2>/dev/null
    done < <(grep " $T/" /proc/mounts)
    # An engine may have sessions of others, too.
    handsfs ls 2>/dev/null | while read -r m; do
        case ${HANDSFS_BACKEND:-local}:$m in
        local:* | *"-$$"*) handsfs destroy "$m" >/dev/null 2>&1 ;;
        esac
    done
    rm -rf "$T"
}

story()
{
    needs fuse 'no /dev/fuse here' test -c /dev/fuse
    needs local 'the local backend does not work here' handsfs doctor
    story_begin
    if ! handsfs mount "$@" "$S" "$M" >"$T/mount.log" 2>&1; then
        echo "not ok 1 - the session is mounted"
        sed 's/^/# /' "$T/mount.log"
        echo '1..1'
        exit 1
    fi
}

inside() { handsfs exec -n "$S" -- "$1"; }

later() { inside "(sleep $1; $2) >/dev/null 2>&1 &"; }

# eventually SECONDS COMMAND...: until it succeeds, at most so long.
eventually()
{
    local until=$((${EPOCHREALTIME/[.,]/} + $1 * 1000000))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "${EPOCHREALTIME/[.,]/}" -lt "$until" ] || return 1
        sleep 0.02
    done
}

# says TEXT COMMAND...: the command prints exactly that.
says()
{
    local want=$1 got
    shift
    got=$("$@"; echo .)
    got=${got%.}
    got=${got%$'\n'}
    [ "$got" = "$want" ] || { printf 'wanted: %s\ngot:    %s\n' "$want" "$got"; return 1; }
}

# fails_with ERRNO-TEXT COMMAND...: the command fails and its message has the text.
fails_with()
{
    local want=$1 got
    shift
    if got=$(LC_ALL=C "$@" 2>&1); then
        echo "it succeeded: $got"
        return 1
    fi
    case $got in
    *"$want"*) ;;
    *) echo "wanted: $want; got: $got"; return 1 ;;
    esac
}

# within SECONDS COMMAND...: it ends in that time, whatever its exit code (124 is a hang).
within()
{
    local seconds=$1 code=0
    shift
    timeout -s KILL "$seconds" "$@" || code=$?
    [ "$code" != 124 ] && [ "$code" != 137 ]
}

py() { python3 -c "$@"; }
