#!/usr/bin/env bash
# What a user meets when a container, its relay or the engine is killed, paused, removed or started anew, while a
# command runs and files are written.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
. "$HANDSFS_SRCDIR/tests/bed/engine.sh"
engine_begin docker
needs fuse 'no /dev/fuse here' test -c /dev/fuse
story_begin
# Everything through the relay, as it is where the engine is not this machine's, unless a case says otherwise.
export HANDSFS_BACKEND=docker HANDSFS_IMAGE=$HANDSFS_TEST_IMAGE:debian HANDSFS_DOCKER_RELAY=1
gone_text='Host is down'
container=handsfs-$S

handsfs mount -o op_timeout=2s "$S" "$M" >"$T/mount.log" 2>&1 || { echo 'not ok 1 - mounted'; sed 's/^/# /' "$T/mount.log"; echo '1..1'; exit 1; }
daemon_pid() { jq .pid "$M/.handsfs/status"; }

# load: a command that runs and a writer that writes, both until load_end, which waits for the command: its exit code
# is in $exec_code and what it has printed in $T/exec.out.
load()
{
    rm -f "$T/stop"
    loads=$BASHPID.$RANDOM
    handsfs exec -n "$S" -- ": >began.$loads; stop=/tmp/stop.$loads; "'i=0
        while [ ! -e $stop ]; do echo $((i += 1)); sleep 0.05; done' >"$T/exec.out" 2>"$T/exec.err" &
    exec_pid=$!
    writer >/dev/null 2>"$T/writer.errors" &
    writer_pid=$!
    eventually 30 test -e "$M/began.$loads" && eventually 20 test -s "$M/written" || {
        echo 'no load'
        touch "$T/stop"
        return 1
    }
}

load_end()
{
    exec_code=0
    touch "$T/stop"
    wait "$writer_pid"
    wait "$exec_pid" || exec_code=$?
    # What a write may say while nobody answers, or nobody is there, or where its connection broke under way.
    if grep -v "$gone_text\|timed out\|Input/output error" "$T/writer.errors"; then
        return 1
    fi
}

# Until it is told to, but no story lasts that long.
writer()
{
    local i
    for ((i = 1; i <= 1200; i++)); do
        [ ! -e "$T/stop" ] || break
        echo "$i" >"$M/written"
        sleep 0.05
    done
}

# The command's lines are 1, 2, 3...: none lost and none told twice.
whole() { awk '$1 != NR {print "line " NR " is " $1; exit 1}' "$T/exec.out"; }

killed_inside()
{
    load || return 1
    inside 'kill -9 -1' || true
    load_end && [ "$exec_code" = 137 ] && whole && says "$(cat "$M/written")" inside 'cat written'
}
it_holds "kill -9 -1 inside ends commands and nothing else" killed_inside

relay_killed()
{
    local pids pid round
    load || return 1
    for round in 1 2 3; do
        # The relay is the other process inside whose program is the hand's.
        pids=$(docker top "$container" -eo pid,args | awk '/hand connect/ {print $1}')
        [ -n "$pids" ] || { echo "no relay in round $round"; docker top "$container" -eo pid,args; return 1; }
        for pid in $pids; do kill -KILL "$pid"; done
        sleep 0.5
        eventually 10 sh -c "echo $round >'$M/round'" || { echo "round $round: no writing"; return 1; }
    done
    inside "touch /tmp/stop.$loads" && load_end && [ "$exec_code" = 0 ] && whole
}
it_holds "a relay that is killed is replaced, and the running command loses no line" relay_killed

paused()
{
    local start code=0
    load || return 1
    docker pause "$container" >/dev/null
    start=$EPOCHSECONDS
    sleep 0.5
    fails_with 'timed out' timeout -s KILL 10 cat "$M/written" || { docker unpause "$container"; return 1; }
    fails_with 'timed out' timeout -s KILL 10 stat "$M/never-looked-at" || { docker unpause "$container"; return 1; }
    code=$((EPOCHSECONDS - start))
    docker unpause "$container" >/dev/null
    [ "$code" -le 12 ] || { echo "took $code s"; return 1; }
    eventually 10 cat "$M/written" || { echo 'no recovery'; return 1; }
    eventually 20 inside "touch /tmp/stop.$loads" && load_end && says back inside 'echo back'
    # The command is answered as it ended, or as an error: never invented.
    [ "$exec_code" = 125 ] || { [ "$exec_code" = 0 ] && whole; }
}
it_holds "a paused container answers ETIMEDOUT in bounded time and comes back by itself" paused

# died DOCKER-COMMAND...
died()
{
    local start
    load || return 1
    docker "$@" "$container" >/dev/null
    start=$EPOCHSECONDS
    eventually 10 fails_with "$gone_text" cat "$M/written" || { echo 'files do not say that it is gone'; return 1; }
    load_end
    [ "$exec_code" = 125 ] || { echo "exec gave $exec_code"; cat "$T/exec.err"; return 1; }
    [ $((EPOCHSECONDS - start)) -le 15 ] || { echo "took $((EPOCHSECONDS - start)) s"; return 1; }
    fails_with "$gone_text" ls "$M" && fails_with "$gone_text" sh -c "echo x >'$M/new'" &&
        fails_with '' handsfs exec -n "$S" -- true && handsfs provision "$S" >/dev/null &&
        eventually 10 ls "$M" && echo again >"$M/f" && says again inside 'cat f'
}
it_holds "a killed container answers EHOSTDOWN, and the next provision brings the mount back" died kill
it_holds "a removed container answers EHOSTDOWN, and the next provision brings the mount back" died rm --force

same_without_relay()
{
    handsfs umount "$M" && HANDSFS_DOCKER_RELAY=0 handsfs mount -o op_timeout=2s "$S" "$M" && died kill &&
        died rm --force && killed_inside
}
HANDSFS_DOCKER_RELAY=0 it_holds "the same holds where the hand is reached through this machine's kernel" same_without_relay

# What one has grown by: descriptors, threads and KiB of a process.
size_of() { echo "$(find "/proc/$1/fd" | wc -l) $(awk '/^Threads|^VmRSS/ {printf "%s ", $2}' "/proc/$1/status")"; }

no_growth()
{
    local engine daemon hand before after i
    engine=$(cat "$(dirname "${DOCKER_HOST#unix://}")/pid")
    daemon=$(daemon_pid)
    hand=$(docker inspect --format '{{.State.Pid}}' "$container")
    many 100
    before="$(size_of "$daemon") $(size_of "$hand") $(size_of "$engine")"
    many "${HANDSFS_STORY_EXECS:-1000}" || return 1
    sleep 1
    after="$(size_of "$daemon") $(size_of "$hand") $(size_of "$engine")"
    echo "$before / $after"
    # fds, KiB, threads of each; room for what caches and collectors of garbage do.
    awk -v b="$before" -v a="$after" 'BEGIN {
        split(b, x); n = split(a, y);
        for (i = 1; i <= n; i++) {
            room = i % 3 == 2 ? (i > 6 ? 16384 : 2048) : 8
            if (y[i] > x[i] + room) {print "grew: " i ": " x[i] " to " y[i]; bad = 1}
        }
        exit bad}' || return 1
    # No exec of the engine's for each command, and nothing dead inside.
    [ "$(docker inspect --format '{{len .ExecIDs}}' "$container")" -le 4 ] || { docker inspect "$container"; return 1; }
    eventually 10 says 0 inside 'grep -l "^State:.Z" /proc/[0-9]*/status 2>/dev/null | wc -l'
}

many()
{
    python3 - "$M.sock" "$1" <<'END'
import json, socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
f = s.makefile('rwb')
for i in range(int(sys.argv[2])):
    f.write(json.dumps({'jsonrpc': '2.0', 'id': i, 'method': 'exec', 'params': {'command': 'true'}}).encode() + b'\n')
    f.flush()
    reply = json.loads(f.readline())
    if reply.get('result', {}).get('exit_code') != 0:
        sys.exit('%d: %s' % (i, reply))
END
}
it_holds "commands leave no growth: daemon, hand, engine, execs, zombies" no_growth
handsfs umount "$M"
handsfs destroy "$S"

# ---- The engine itself is started anew: on a bed of this story's own, with a small image.

own_bed()
{
    export HANDSFS_BED_DIR=$T/bed HANDSFS_BED_IMAGES=small
    bed=$HANDSFS_SRCDIR/tests/bed/docker
    # The session first, while there is an engine that can remove it.
    trap 'handsfs umount "$M"; handsfs destroy "$S"; "$bed" stop; story_cleanup' EXIT
    "$bed" start >"$T/bed.log" 2>&1 || { cat "$T/bed.log"; return 1; }
    eval "$("$bed" env)"
    export HANDSFS_IMAGE=$HANDSFS_TEST_IMAGE:small
}

restarted_live()
{
    load || return 1
    "$bed" restart --live-restore || return 1
    eventually 20 sh -c "echo x >'$M/after'" || { echo 'the mount does not come back'; return 1; }
    inside "touch /tmp/stop.$loads" && load_end || return 1
    # The engine was away for longer than a command's connection is waited for, or it was not: said, or survived.
    [ "$exec_code" = 125 ] || { [ "$exec_code" = 0 ] && whole; }
}

restarted()
{
    load || return 1
    "$bed" restart || return 1
    eventually 20 fails_with "$gone_text" cat "$M/written" || { echo 'files do not say that it is gone'; return 1; }
    load_end
    [ "$exec_code" = 125 ] || { echo "exec gave $exec_code"; return 1; }
    handsfs provision "$S" && eventually 20 ls "$M" && echo again >"$M/f" && says again inside 'cat f'
}

if own_bed && handsfs mount -o op_timeout=2s "$S" "$M"; then
    it_holds "an engine that is started anew beside its containers (live-restore) brings the mount back by itself" restarted_live
    it_holds "an engine that is started anew without them is said, and provision brings the mount back" restarted
else
    it_holds "a Docker daemon of the story's own starts, and a session on it is mounted" false
fi
tap_end
