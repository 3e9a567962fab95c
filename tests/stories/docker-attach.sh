#!/usr/bin/env bash
# A container that somebody else made: worked in, left as it was, never removed.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
. "$HANDSFS_SRCDIR/tests/bed/engine.sh"
engine_begin docker
needs fuse 'no /dev/fuse here' test -c /dev/fuse
story_begin
C=handsfs-story-of-others-$$
S=others-$$
D=$T/d
mkdir "$D"
unset HANDSFS_BACKEND
export HANDSFS_IMAGE=none-that-is-there # a default for sessions that are made

# shellcheck disable=SC2317
end()
{
    story_cleanup
    docker rm -f "$C" "$C-plain" "$C-fixed" >/dev/null 2>&1
}
trap end EXIT

run() { docker run -d --name "$1" "${@:2}" "$HANDSFS_TEST_IMAGE:debian" sleep infinity >/dev/null; }
run "$C" --workdir /srv/app
run "$C-plain"
run "$C-fixed" --workdir /srv --read-only

both_see()
{
    handsfs mount --attach "$C" "$S" "$M" && echo outside >"$M/a" &&
        says outside docker exec "$C" cat /srv/app/a && docker exec "$C" bash -c 'echo inside >b' &&
        eventually 20 test -e "$M/b" && says inside cat "$M/b" && says /srv/app inside pwd
}
it_holds "its working directory is the workspace, and both sides see the same files" both_see

named_after()
{
    handsfs mount --attach "$C" "$D" && says inside handsfs exec -n "$C" -- 'cat b' && handsfs umount "$D"
}
it_holds "without a name the session has the container's" named_after

unset HANDSFS_IMAGE
with_a_backend() { says ok handsfs exec -n "$S" --backend docker -- 'echo ok'; }
unmounted() { handsfs umount "$M" && with_a_backend; }
it_holds "afterwards the session is found without a mount" unmounted

not_removed()
{
    fails_with 'did not make' handsfs destroy "$S" --backend docker &&
        says true docker inspect --format '{{.State.Running}}' "$C" && ! handsfs ls --backend docker | grep -x "$S"
}
it_holds "it is neither listed nor destroyed" not_removed

ended_inside()
{
    handsfs mount "$S" "$M" --backend docker && docker exec "$C" pkill -KILL -f '^/.handsfs/hand serve' || return 1
    eventually 30 fails_with 'Host is down' cat "$M/b" && handsfs provision "$S" --backend docker &&
        eventually 30 cat "$M/b" && says inside cat "$M/b"
}
it_holds "a hand that is killed inside is started again, and the mount goes on" ended_inside

restarted()
{
    docker restart -t 0 "$C" >/dev/null && handsfs provision --attach "$C" "$S" && eventually 30 cat "$M/b" &&
        says inside cat "$M/b" && handsfs umount "$M"
}
it_holds "a restart of the container is survived" restarted

refusals()
{
    fails_with '--workdir' handsfs provision --attach "$C-plain" "$S-2" &&
        fails_with 'no directory' handsfs provision --attach "$C-plain" "$S-2" --workdir /nowhere &&
        fails_with 'read-only' handsfs provision --attach "$C-fixed" "$S-2" &&
        fails_with 'no container' handsfs provision --attach "$C-none" "$S-2" &&
        fails_with 'does not go with --attach' handsfs provision --attach "$C" "$S-2" --memory 1G
}
it_holds "what cannot be had is refused with its reason" refusals

with_variables()
{
    handsfs provision --attach "$C-plain" "$S-3" --workdir /root --env GREETING=hello &&
        says hello handsfs exec -n "$S-3" --backend docker -- 'echo $GREETING'
}
# shellcheck disable=SC2016 # for the container's shell
it_holds "variables are for the session's commands" with_variables

forgotten()
{
    docker rm -f "$C-plain" >/dev/null && fails_with '' handsfs exec -n "$S-3" --backend docker -- true &&
        handsfs destroy "$S-3" --backend docker && [ ! -e "$HANDSFS_STATE_DIR/docker/$S-3.json" ]
}
it_holds "a container that was removed is forgotten" forgotten

tap_end
