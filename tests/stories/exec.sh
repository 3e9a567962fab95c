#!/usr/bin/env bash
# handsfs exec in the place of the command: its streams, its signals, its end. Each row without a mount, then with one.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
needs local 'the local backend does not work here' handsfs doctor
story_begin
handsfs provision "$S" >/dev/null || exit 1

as_printed()
{
    rm -f "$T/pipe" && mkfifo "$T/pipe" && inside 'rm -f go' || return 1
    handsfs exec -n "$S" -- 'echo ready; until [ -e go ]; do sleep 0.02; done; echo gone' >"$T/pipe" &
    { read -r first && inside 'touch go' && read -r second; } <"$T/pipe" && wait $! && [ "$first $second" = 'ready gone' ]
}

apart()
{
    inside 'head -c 3000000 /dev/urandom >a; head -c 2500000 /dev/urandom >b' &&
        handsfs exec "$S" -- 'cat a & cat b >&2; wait' >"$T/a" 2>"$T/b" && handsfs exec "$S" -- 'sha1sum <a; sha1sum <b' >"$T/sums" &&
        says "$(sha1sum <"$T/a"; sha1sum <"$T/b")" cat "$T/sums"
}

goes_in()
{
    head -c 9000001 /dev/urandom >"$T/in" && says "$(sha1sum <"$T/in")" sh -c "'$HANDSFS' exec $S -- sha1sum <'$T/in'" && cat "$T/in" | handsfs exec "$S" -- cat | cmp - "$T/in" &&
        says 'one' sh -c "{ echo one; echo two; } | '$HANDSFS' exec $S -- head -n 1" && yes | within 60 handsfs exec "$S" -- true &&
        says 0 sh -c "'$HANDSFS' exec $S -- wc -c </dev/null" && says 3 sh -c "head -c 3 /dev/zero | '$HANDSFS' exec $S -- wc -c" &&
        says 70000 sh -c "'$HANDSFS' exec $S -- 'head -c 70000 | wc -c' </dev/zero"
}

# What the command has printed when its reader has read a byte and looks away, and what our process holds then.
held_back()
{
    rm -f "$T/pipe" && mkfifo "$T/pipe" && inside 'rm -f printed all' || return 1
    "$HANDSFS" exec -n "$S" -- 'for i in $(seq 320); do head -c 65536 /dev/zero; echo $i >printed; done; touch all' >"$T/pipe" &
    local pid=$! before now
    exec 5<"$T/pipe"
    head -c 1 <&5 >"$T/first"
    before=none
    until now=$(inside 'cat printed'); [ "$now" = "$before" ]; do before=$now; sleep 0.5; done
    local held
    held=$(awk '/VmRSS/ { print $2 }' "/proc/$pid/status")
    echo "printed $now of 320, resident $held KiB"
    [ "$now" -lt 160 ] && [ "$held" -lt 200000 ] && ! inside 'test -e all' &&
        [ "$(wc -c <&5)" = 20971519 ] && wait "$pid" && inside 'test -e all'
    local r=$?
    exec 5<&-
    return "$r"
}

nothing_runs() { eventually 20 inside "! cat /proc/[0-9]*/comm 2>/dev/null | grep -qx '$1'"; }

reader_gone()
{
    handsfs exec -n "$S" -- 'exec yes' | head -n 1 >"$T/out"
    says 141 echo "${PIPESTATUS[0]}" && says y cat "$T/out" && nothing_runs yes
}

disk_full()
{
    handsfs exec -n "$S" -- 'exec yes' >/dev/full 2>"$T/err"
    says 125 echo $? && grep -q 'No space left' "$T/err" && nothing_runs yes
}

# signalled COMMAND: starts it, waits until it has printed "ready". Signals need a process that does not ignore them,
# as what a shell puts into the background does.
signalled()
{
    rm -f "$T/out"
    python3 -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL); signal.signal(signal.SIGQUIT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$HANDSFS" exec -n "$S" -- "$1" >"$T/out" 2>"$T/err" &
    pid=$!
    eventually 60 grep -q ready "$T/out"
}

ends_with()
{
    local got=0
    wait "$pid" || got=$?
    [ "$got" = "$1" ] || { echo "exit code $got, not $1"; cat "$T/err"; return 1; }
}

interrupted()
{
    signalled 'trap "echo caught; exit 9" INT; echo ready; while :; do sleep 0.05; done' && kill -INT "$pid" && ends_with 9 && grep -q caught "$T/out" &&
        signalled 'echo ready; exec sleep 1000' && kill -INT "$pid" && ends_with 130 && nothing_runs sleep &&
        signalled 'trap "" INT; echo ready; sleep 1000; sleep 1000' && kill -INT "$pid" && sleep 0.3 && kill -0 "$pid" && kill -INT "$pid" && ends_with 130 && nothing_runs sleep &&
        signalled 'trap "echo one" USR1; echo ready; while :; do sleep 0.05; done' && kill -USR1 "$pid" && eventually 60 grep -q one "$T/out" && kill -TERM "$pid" && ends_with 143 &&
        signalled 'ulimit -c 0; echo ready; exec sleep 1000' && kill -QUIT "$pid" && ends_with 131 # bash itself ignores it
}

terminated()
{
    signalled 'trap "" TERM HUP; setsid sleep 1000 & echo ready; sleep 1000' && kill -TERM "$pid" && ends_with 143 && nothing_runs sleep &&
        signalled 'echo ready; sleep 1000' && kill -HUP "$pid" && ends_with 129 && nothing_runs sleep
}

codes()
{
    local c
    for c in 0 1 77 255; do
        handsfs exec -n "$S" -- "exit $c"
        says "$c" echo $? || return 1
    done
    handsfs exec -n "$S" -- 'kill -SEGV $$'; says 139 echo $? || return 1
    handsfs exec -n --timeout 300ms "$S" -- 'echo before; sleep 60' >"$T/out" 2>"$T/err"; says 124 echo $? && says before cat "$T/out" && grep -q 'timed out' "$T/err" || return 1
    handsfs exec -n --cwd /none "$S" -- true 2>"$T/err"; says 125 echo $? && says 1 grep -c /none "$T/err"
}

whole() { handsfs exec --json "$S" -- 'echo out; echo err >&2; exit 3' >"$T/json"; says 3 echo $? && py 'import json, sys
r = json.load(open(sys.argv[1]))
assert r["stdout"] == "out\n" and r["stderr"] == "err\n" and r["exit_code"] == 3, r' "$T/json"; }

rows()
{
    it_holds "output comes out as it is printed ($1)" as_printed
    it_holds "stdout and stderr come out apart and byte by byte, of any length ($1)" apart
    it_holds "standard input of any length goes in, to its end ($1)" goes_in
    it_holds "a reader that is slow holds the command back, and nothing grows ($1)" held_back
    it_holds "a reader that goes away ends it as any writer to a pipe, and the command is killed ($1)" reader_gone
    it_holds "a full disk is told, and the command is killed ($1)" disk_full
    it_holds "Ctrl-C interrupts the command, the second one kills it, other signals are handed on ($1)" interrupted
    it_holds "SIGTERM and SIGHUP kill the command with all that it started ($1)" terminated
    it_holds "the exit code is the command's, 128 and a signal, 124 or 125 ($1)" codes
    it_holds "--json gives the whole result ($1)" whole
}

no_jobs()
{
    says 125 sh -c "'$HANDSFS' exec --detach $S -- true 2>$T/err; echo \$?" && grep -q 'not mounted.*handsfs mount' "$T/err" &&
        says 125 sh -c "'$HANDSFS' wait $S job 2>$T/err; echo \$?" && grep -q 'not mounted' "$T/err" &&
        says 1 sh -c "'$HANDSFS' jobs $S 2>$T/err; echo \$?" && grep -q 'not mounted' "$T/err"
}

state_of() { handsfs jobs "$S" | awk -v job="$1" '$1 == job { print $2 }'; }

jobs_go_on()
{
    local job
    job=$(handsfs exec --detach "$S" -- 'echo begun; until [ -e end ]; do sleep 0.02; done; cat; echo bad >&2; exit 6') || return 1
    says running state_of "$job" && says 124 sh -c "'$HANDSFS' wait $S $job --timeout 0 2>$T/err; echo \$?" && grep -q 'still running' "$T/err" || return 1
    inside 'touch end'
    handsfs wait "$S" "$job" >"$T/out" 2>"$T/err"
    says 6 echo $? && says begun cat "$T/out" && says bad cat "$T/err" && says ended state_of "$job" || return 1
    handsfs wait --json "$S" "$job" >"$T/json" # again, and for programs
    says 6 echo $? && handsfs jobs --json "$S" >"$T/jobs" && py 'import json, sys
r = json.load(open(sys.argv[1])); jobs = json.load(open(sys.argv[2]))
assert r["job"] == sys.argv[3] and not r["running"] and r["result"]["stdout"] == "begun\n" and r["result"]["exit_code"] == 6, r
assert [j["running"] for j in jobs if j["job"] == r["job"]] == [False], jobs' "$T/json" "$T/jobs" "$job"
}

jobs_end()
{
    local job
    job=$(handsfs exec -d "$S" -- 'setsid sleep 1000 & sleep 1000') && eventually 20 inside 'grep -qx sleep /proc/[0-9]*/comm' &&
        handsfs wait "$S" "$job" --kill && nothing_runs sleep && says 125 sh -c "'$HANDSFS' wait $S $job 2>$T/err; echo \$?" && grep -q cancelled "$T/err" || return 1
    job=$(handsfs exec -d --timeout 300ms "$S" -- 'echo before; sleep 1000') && says before handsfs wait "$S" "$job" 2>"$T/err"
    says 124 sh -c "'$HANDSFS' wait $S $job >$T/out 2>$T/err; echo \$?" && says before cat "$T/out" && grep -q 'timed out after 0' "$T/err" || return 1
    job=$(handsfs exec --json -d "$S" -- 'kill -SEGV $$' | py 'import json, sys; print(json.load(sys.stdin)["job"])') || return 1
    says 139 sh -c "'$HANDSFS' wait $S $job; echo \$?" && says 0 sh -c "'$HANDSFS' wait $S $job --kill >$T/out; [ \$? = 139 ]; echo \$?" &&
        says 125 sh -c "'$HANDSFS' wait $S none 2>$T/err; echo \$?" && grep -q 'no job' "$T/err"
}

jobs_of_shells()
{
    local job
    job=$(handsfs exec -d --shell jobs "$S" -- 'export A=detached') && handsfs wait "$S" "$job" && says detached handsfs exec -n --shell jobs "$S" -- 'echo $A'
}

jobs_print()
{
    local job line
    job=$(handsfs exec -d "$S" -- $'true \e[31m \xc2\x9b31m \tä\ntrue') && handsfs wait "$S" "$job"
    line=$(handsfs jobs "$S" | grep "^$job ") && case $line in *'true ?[31m ??31m ä ...') ;; *) echo "$line"; return 1 ;; esac
    says 125 sh -c "'$HANDSFS' exec -d -t $S -- true 2>$T/err; echo \$?" && grep -q -- --detach "$T/err"
}

rows 'no mount'
it_holds "without a mount there are no jobs, and that is said" no_jobs
handsfs mount "$S" "$M" >"$T/mount.log" 2>&1 || { cat "$T/mount.log"; exit 1; }
rows mounted
it_holds "a job goes on without its caller, and its output and exit code can be had later, and again" jobs_go_on
it_holds "a job ends by --kill, by its own timeout, by a signal, and is told as exec tells it" jobs_end
it_holds "a job can be one of a persistent shell" jobs_of_shells
it_holds "what stands in a job's command does nothing to a terminal" jobs_print

daemon_dies()
{
    signalled 'echo ready; exec sleep 1000' || return 1
    kill -KILL "$(py 'import json, sys; print(json.load(open(sys.argv[1]))["pid"])' "$M/.handsfs/status")" && ends_with 125 && grep -q 'hung up' "$T/err"
}
it_holds "a mount's daemon that dies is told, with exit code 125" daemon_dies
tap_end
