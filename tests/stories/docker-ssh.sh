#!/usr/bin/env bash
# A Docker daemon on a host that is reached by ssh(1): DOCKER_HOST=ssh://…, with a server of the story's own. It runs
# in a mount namespace where root's home is the story's, so that nobody's keys or accounts are touched.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
. "$HANDSFS_SRCDIR/tests/bed/engine.sh"
engine_begin docker
needs fuse 'no /dev/fuse here' test -c /dev/fuse
needs docker 'no ssh(1) here' command -v ssh
needs docker 'no dropbear(8) here' command -v dropbearkey
story_begin
engine=$DOCKER_HOST
export HANDSFS_BACKEND=docker HANDSFS_IMAGE=$HANDSFS_TEST_IMAGE:debian PATH=$T/bin:$PATH

# shellcheck disable=SC2317
end()
{
    story_cleanup
    [ -z "${server-}" ] || kill -KILL "$server" 2>/dev/null
}
trap end EXIT

# The client's ssh has the story's key and configuration, and leaves its process's number.
mkdir -m 700 "$T/bin" "$T/home" "$T/home/.ssh"
real_ssh=$(command -v ssh)
cat >"$T/config" <<CONFIG
Host 127.0.0.1
    User root
    IdentityFile $T/key
    IdentitiesOnly yes
    BatchMode yes
    StrictHostKeyChecking yes
    UserKnownHostsFile $T/known
    GlobalKnownHostsFile /dev/null
CONFIG
printf '#!/bin/sh\necho $$ >>%s\nexec %s -F %s "$@"\n' "$T/pids" "$real_ssh" "$T/config" >"$T/bin/ssh"
chmod +x "$T/bin/ssh"
ssh-keygen -q -t ed25519 -N '' -f "$T/key"
cp "$T/key.pub" "$T/home/.ssh/authorized_keys"
chmod 600 "$T/home/.ssh/authorized_keys"
dropbearkey -t ed25519 -f "$T/host" >"$T/host.pub" 2>/dev/null

# A PID namespace, so that all of it ends with the first of it. What is run there finds the bed's socket (-e).
serve()
{
    DOCKER_HOST=$engine unshare --mount --pid --fork --kill-child=KILL sh -c \
        'mount --bind "$1" "$2" && exec dropbear -F -E -e -s -j -k -r "$3" -P "$4" -p "127.0.0.1:$5"' \
        - "$T/home" "$(eval echo ~root)" "$T/host" "$T/server.pid" "$1" >>"$T/server.log" 2>&1 &
    server=$!
}
# Whatever has the port, it is the host key that tells whether it is ours.
begin()
{
    local try
    for try in {0..9}; do
        port=$((20000 + ($$ + try * 997) % 10000))
        sed -n "s/^ssh-ed25519 \([^ ]*\).*/[127.0.0.1]:$port ssh-ed25519 \1/p" "$T/host.pub" >"$T/known"
        serve "$port"
        ! eventually 10 ssh -p "$port" 127.0.0.1 true || return 0
        kill -KILL "$server" 2>/dev/null
        server=
    done
    cat "$T/server.log"
    return 1
}
if ! begin >"$T/begin.log" 2>&1; then
    echo "not ok 1 - the story's ssh server takes its key"
    sed 's/^/# /' "$T/begin.log"
    echo '1..1'
    exit 1
fi
export DOCKER_HOST=ssh://root@127.0.0.1:$port

at_engine() { docker -H "$engine" "$@"; }

mounted()
{
    handsfs mount "$S" "$M" && at_engine inspect --format '{{.State.Running}}' "handsfs-$S" | grep -x true &&
        says 0 inside 'echo $?' && handsfs status --json "$S" | grep -F "ssh://root@127.0.0.1:$port"
}
it_holds "a sandbox of the engine over there is made and mounted" mounted

both_ways()
{
    echo outside >"$M/a" && says outside inside 'cat a' && inside 'echo inside >b' && says inside cat "$M/b"
}
it_holds "what one side writes the other one reads" both_ways

every_byte()
{
    head -c 4M /dev/urandom >"$T/bytes" && cp "$T/bytes" "$M/bytes" && cmp "$T/bytes" <(inside 'cat bytes') &&
        cmp "$T/bytes" "$M/bytes" && says 3 bash -c '"$HANDSFS" exec -n "$S" -- "exit 3"; echo $?'
}
it_holds "bytes come and go as they are, and an exit code too" every_byte

# What the server has for one of its connections is a child of its own.
cut()
{
    local command first connections
    inside 'echo >began; sleep 3; echo survived' >"$T/answer" &
    command=$!
    eventually 20 test -e "$M/began" && first=$(pgrep -P "$server") && connections=$(pgrep -P "$first") || return 1
    # shellcheck disable=SC2086
    kill -KILL $connections
    eventually 30 says back inside 'echo back' && wait "$command" && says survived cat "$T/answer"
}
it_holds "cut connections come back by themselves, and what ran goes on" cut

refused()
{
    DOCKER_HOST=ssh://nobody-there@127.0.0.1:$port fails_with 'ssh must log in without asking' \
        handsfs provision "$S-refused"
}
it_holds "a host that lets nobody in is said to, with what to do" refused

gone()
{
    handsfs umount "$M" && handsfs destroy "$S" && ! at_engine inspect "handsfs-$S"
}
it_holds "its container goes with the session" gone

none_left()
{
    local pid
    [ -s "$T/pids" ] || return 1
    while read -r pid; do
        ! grep -qsF "$T/config" "/proc/$pid/cmdline" || return 1
    done <"$T/pids"
}
it_holds "and no ssh of ours is left" eventually 20 none_left

tap_end
