#!/bin/bash
# `handsfs mcp` as a client meets it: one line of a configuration, sandboxes and daemons that go away, its ends.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"

needs fuse 'no /dev/fuse here' test -c /dev/fuse
needs local 'the local backend does not work here' handsfs doctor
story_begin
id=0
server=

# server_begin ARGUMENT...: the server in the background; what it says on standard error is in $T/err.
server_begin()
{
    rm -f "$T/in" "$T/out"
    mkfifo "$T/in" "$T/out"
    HANDSFS_STATE_DIR=$T/state "$HANDSFS" mcp "$@" <"$T/in" >"$T/out" 2>"$T/err" &
    server=$!
    exec 8>"$T/in" 9<"$T/out"
    hears '"protocolVersion":"2025-11-25"' initialize '{"protocolVersion":"2025-11-25"}'
}

# server_end: ends its input; its exit status.
server_end()
{
    exec 8>&-
    wait "$server"
}

# asks METHOD PARAMS: sends a request.
asks()
{
    id=$((id + 1))
    printf '{"jsonrpc":"2.0","id":%d,"method":"%s","params":%s}\n' "$id" "$1" "$2" >&8
}

# hears_answer TEXT: the next line is the answer to the last request, and has the text.
hears_answer()
{
    local line
    IFS= read -r -t 120 line <&9 || { echo 'no answer'; return 1; }
    [[ $line == *"\"id\":$id,"* && $line == *"$1"* ]] || { printf 'wanted: %s\ngot:    %s\n' "$1" "$line"; return 1; }
}

hears() { asks "$2" "$3" && hears_answer "$1"; }

# runs COMMAND TEXT: the tool bash is called, and its result has the text.
runs() { hears "$2" tools/call "{\"name\":\"bash\",\"arguments\":{\"command\":\"$1\"}}"; }

# Cases share the server, its pipes and the ids, so they run here and not in a subshell.
holds()
{
    local sentence=$1
    shift
    tap_count=$((tap_count + 1))
    if "$@" >"$T/said" 2>&1; then
        echo "ok $tap_count - $sentence"
    else
        # shellcheck disable=SC2034 # tap_end reads it
        tap_failed=1
        echo "not ok $tap_count - $sentence"
        cat "$T/said" "$T/err" | sed 's/^/# /'
    fi
}

makes_a_session()
{
    server_begin "$S" && ! grep -qx "$S" <(handsfs ls) && hears '"name":"grep"' tools/list '{}' &&
        ! grep -qx "$S" <(handsfs ls) && runs 'echo $((6 * 7))' '"text":"42' && grep -qx "$S" <(handsfs ls)
}
holds 'one line makes the session, and not before a tool is called' makes_a_session

loses_its_sandbox()
{
    handsfs destroy "$S" && runs 'echo hi' '"error":"sandbox_gone"' && hears '"tools"' tools/list '{}' &&
        runs 'echo hi' 'handsfs provision' && hears '{}' ping '{}'
}
holds 'a sandbox that is destroyed is an error, and none is made in its place' loses_its_sandbox
holds 'a sandbox that is made anew is found' eval 'handsfs provision "$S" >/dev/null && runs "echo back" "back"'

ends_with_its_input()
{
    asks tools/call '{"name":"bash","arguments":{"command":"sleep 98761"}}' &&
        eventually 60 eval "inside 'cat /proc/[0-9]*/cmdline' | tr '\\0' '\\n' | grep -qx 98761" && server_end &&
        eventually 60 eval "! inside 'cat /proc/[0-9]*/cmdline' | tr '\\0' '\\n' | grep -qx 98761"
}
holds 'the end of its input ends it, and what runs' ends_with_its_input

takes_what_is_there()
{
    handsfs destroy "$S" && handsfs provision "$S" --network full >/dev/null && server_begin "$S" &&
        runs 'echo hi' hi && server_end && server_begin "$S" --network none &&
        runs 'echo hi' '"error":"spec_mismatch"' && server_end
}
holds 'a session that is there is taken as it is, unless options say otherwise' takes_what_is_there

shares_a_mount()
{
    handsfs mount "$S" "$M" --network full && server_begin "$S" && echo outside >"$M/a" &&
        runs 'cat a; echo inside >b' 'outside' && [ "$(cat "$M/b")" = inside ]
}
holds 'through a mount both see at once what the other did' shares_a_mount

loses_its_daemon()
{
    local pid
    pid=$(handsfs status "$S" --json | jq -r '.. | .pid? // empty' | head -n 1)
    asks tools/call '{"name":"bash","arguments":{"command":"sleep 98762"}}' &&
        eventually 60 eval "inside 'cat /proc/[0-9]*/cmdline' | tr '\\0' '\\n' | grep -qx 98762" &&
        kill -9 "$pid" && hears_answer '"error":"io"' && runs 'echo still here' 'still here'
}
holds 'a daemon that is killed fails the calls that it ran, and no later one' loses_its_daemon

ends_with_a_signal()
{
    kill -TERM "$server" && wait "$server"
}
holds 'SIGTERM ends it' ends_with_a_signal

it_holds 'wrong options are told at once, on standard error alone' eval \
    '! handsfs mcp "$S" --nonsense >"$T/o" 2>"$T/e" </dev/null && [ ! -s "$T/o" ] && [ -s "$T/e" ]'
it_holds 'a backend that is none is told at once' fails_with 'there is no backend' \
    handsfs mcp "$S" --backend nonsense
it_holds 'without input it ends well and has made nothing' eval \
    'handsfs mcp "$S-none" </dev/null && ! grep -qx "$S-none" <(handsfs ls)'
tap_end
