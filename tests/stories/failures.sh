#!/usr/bin/env bash
# What a user meets when the sandbox, its processes or the daemon are killed, frozen or removed.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
story -o op_timeout=2s

# The host's pid of the sandbox's PID 1.
hand_pid() { handsfs status --json "$S" | py 'import json, sys; print(json.load(sys.stdin)["engine"]["pid"])'; }
daemon_pid() { py 'import json, sys; print(json.load(sys.stdin)["pid"])' <"$M/.handsfs/status"; }
sandbox_gone_text='Host is down'

survives_kill()
{
    echo x >"$M/f"
    says alive handsfs exec -n "$S" -- bash -c 'kill -9 -1; sleep 1; echo alive' && says x cat "$M/f"
}
it_holds "nothing that a command kills ends the sandbox or the mount" survives_kill

remount() { handsfs umount "$M" && handsfs mount -o "op_timeout=$1" "$S" "$M"; }

frozen()
{
    local pid code=0 start=$EPOCHSECONDS
    remount 5s || return 1
    pid=$(hand_pid)
    kill -STOP "$pid"
    sleep 0.7
    fails_with 'timed out' timeout -s KILL 30 cat "$M/f" && fails_with 'timed out' timeout -s KILL 30 df "$M" || code=1
    for _ in 1 2 3 4 5 6 7 8; do timeout -s KILL 30 stat "$M/f" >/dev/null 2>&1; done
    kill -CONT "$pid"
    # Ten calls that each waited for their deadline would take 50 s.
    [ $((EPOCHSECONDS - start)) -le 35 ] || { echo "took $((EPOCHSECONDS - start)) s"; return 1; }
    [ "$code" = 0 ] && eventually 20 cat "$M/f" && remount 2s
}
it_holds "a frozen sandbox answers ETIMEDOUT in bounded time and comes back by itself" frozen

killable()
{
    local pid victim code=0
    remount 300s || return 1 # no end of its own
    pid=$(hand_pid)
    cat "$M/f" >/dev/null
    kill -STOP "$pid"
    sleep 0.7
    cat "$M/f" >/dev/null 2>&1 &
    victim=$!
    sleep 0.5
    kill -KILL "$victim" || code=$?
    eventually 20 sh -c "! kill -0 $victim" || code=$?
    kill -CONT "$pid"
    [ "$code" = 0 ] && eventually 20 cat "$M/f" && remount 2s
}
it_holds "a caller that waits for a frozen sandbox can be killed" killable

frozen_exec()
{
    local pid code=0 start=$EPOCHSECONDS
    pid=$(hand_pid)
    kill -STOP "$pid"
    timeout -s KILL 60 "$HANDSFS" exec -n "$S" -- true || code=$?
    kill -CONT "$pid"
    [ "$code" = 125 ] && [ $((EPOCHSECONDS - start)) -le 45 ] && eventually 20 handsfs exec -n "$S" -- true
}
it_holds "a command in a frozen sandbox is an error, not a hang" frozen_exec

unmount_frozen()
{
    local pid
    pid=$(hand_pid)
    kill -STOP "$pid"
    within 60 "$HANDSFS" umount "$M" || { kill -CONT "$pid"; return 1; }
    kill -CONT "$pid"
    ! grep -q " $M " /proc/mounts && handsfs mount -o op_timeout=2s "$S" "$M" && says x cat "$M/f"
}
it_holds "a mount of a frozen sandbox is unmounted" unmount_frozen

daemon_killed()
{
    local pid
    pid=$(daemon_pid)
    kill -KILL "$pid"
    eventually 20 sh -c "! kill -0 $pid 2>/dev/null"
    fails_with 'not connected' stat "$M/f" && fails_with '' sh -c "echo lost >'$M/f2'" &&
        handsfs mount -o op_timeout=2s "$S" "$M" && says x cat "$M/f" && [ ! -e "$M/f2" ] &&
        handsfs umount "$M" && says '' ls -A "$M" && handsfs mount -o op_timeout=2s "$S" "$M"
}
it_holds "a killed daemon loses nothing into the folder below, and the next mount cleans up" daemon_killed

destroyed()
{
    local code=0 start=$EPOCHSECONDS
    handsfs exec -n "$S" -- 'sleep 300' >"$T/out" 2>&1 &
    local client=$!
    sleep 0.5
    handsfs destroy "$S" || return 1
    wait "$client" || code=$?
    [ "$code" = 125 ] || { echo "exec gave $code"; return 1; }
    fails_with "$sandbox_gone_text" cat "$M/f" && fails_with "$sandbox_gone_text" ls "$M" &&
        fails_with "$sandbox_gone_text" sh -c "echo x >'$M/new'" && [ $((EPOCHSECONDS - start)) -le 60 ] &&
        fails_with '' handsfs exec -n "$S" -- true
}
it_holds "a destroyed sandbox answers EHOSTDOWN at once, to files and to commands" destroyed

reborn()
{
    handsfs provision "$S" && eventually 20 ls "$M" && says '' ls -A "$M" && echo again >"$M/f" &&
        says again inside 'cat f'
}
it_holds "the next provision brings the mount back" reborn

crashed()
{
    kill -KILL "$(hand_pid)"
    eventually 20 fails_with "$sandbox_gone_text" cat "$M/f" && handsfs provision "$S" &&
        eventually 20 cat "$M/f" && says again cat "$M/f"
}
it_holds "a sandbox that died is started again over the same workspace" crashed

survivors() { inside 'cat /proc/[0-9]*/cmdline | tr "\0" " " | grep -o "sleep 98760[1]" | wc -l'; }
some_survive() { [ "$(survivors)" -ge 2 ]; }
none_survives() { [ "$(survivors)" -eq 0 ]; }

client_killed()
{
    "$HANDSFS" exec -n "$S" -- 'setsid sleep 987601 & sleep 987601' >/dev/null 2>&1 & # the program, not a subshell
    local client=$!
    eventually 20 some_survive && kill -KILL "$client" && eventually 20 none_survives
}
it_holds "a client that is killed leaves no command running" client_killed
tap_end
