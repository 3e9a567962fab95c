#!/usr/bin/env bash
# Images that are not there yet: from a registry of the story's own, in the bed's network, with an account.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
. "$HANDSFS_SRCDIR/tests/bed/engine.sh"
engine_begin docker
needs docker 'no docker-registry here' command -v docker-registry
needs docker 'no script(1) here' command -v script
story_begin
export HANDSFS_BACKEND=docker
socket=${DOCKER_HOST#unix://}
network=/proc/$(cat "${socket%/*}/network.pid")/ns/net
registry=127.0.0.1:$((20000 + $$ % 10000))
image=$registry/team/image:1

# shellcheck disable=SC2317
end()
{
    story_cleanup
    [ -z "${registry_pid-}" ] || kill "$registry_pid" 2>/dev/null
    docker image rm -f "$image" >/dev/null 2>&1
}
trap end EXIT

perl -e 'print "alice:", crypt("s3cret", q($2y$05$abcdefghijklmnopqrstuu)), "\n"' >"$T/accounts"
cat >"$T/registry.yml" <<YAML
version: 0.1
storage: {filesystem: {rootdirectory: $T/registry}}
http: {addr: "$registry", secret: x}
auth: {htpasswd: {realm: story, path: $T/accounts}}
YAML
nsenter --net="$network" ip link set lo up
nsenter --net="$network" docker-registry serve "$T/registry.yml" >"$T/registry.log" 2>&1 &
registry_pid=$!

mkdir "$T/client" "$T/empty" "$T/bin" "$T/content"
export DOCKER_CONFIG=$T/client
echo '{"auths":{"'"$registry"'":{"auth":"'"$(printf alice:s3cret | base64)"'"}}}' >"$T/client/config.json"
head -c 8M /dev/urandom >"$T/content/blob"
tar -C "$T/content" -c . | docker import - "$image" >/dev/null
pushed() { docker push "$image"; }
it_holds "the story's registry takes an image" eventually 30 pushed
docker image rm -f "$image" >/dev/null

without() { fails_with 'cannot be pulled' env DOCKER_CONFIG="$T/empty" "$HANDSFS" provision "$S" --image "$image"; }
it_holds "without an account the engine says why it is not pulled" without

shown()
{
    script -qec "'$HANDSFS' provision '$S' --image '$image'" "$T/screen" >/dev/null &&
        grep -a "pulling $image: .* MB" "$T/screen" && handsfs destroy "$S"
}
it_holds "with the client's account it is pulled, and a terminal shows how far" shown

helped()
{
    docker image rm -f "$image" >/dev/null
    printf '%s\n' '#!/bin/sh' 'read -r server; echo "$server" >"$0.asked"' \
        'echo "{\"ServerURL\":\"$server\",\"Username\":\"alice\",\"Secret\":\"s3cret\"}"' >"$T/bin/docker-credential-story"
    chmod +x "$T/bin/docker-credential-story"
    echo '{"credHelpers":{"'"$registry"'":"story"}}' >"$T/empty/config.json"
    env PATH="$PATH:$T/bin" DOCKER_CONFIG="$T/empty" "$HANDSFS" provision "$S" --image "$image" &&
        says "$registry" cat "$T/bin/docker-credential-story.asked" && handsfs destroy "$S"
}
it_holds "a credential helper is asked for the account" helped

not_there()
{
    fails_with 'unknown' handsfs provision "$S" --image "$registry/team/none" &&
        fails_with 'pull=never' handsfs provision "$S" --image "$registry/team/none" --set pull=never &&
        fails_with '--image' handsfs provision "$S" &&
        fails_with 'lower case' handsfs provision "$S" --image Debian && ! handsfs ls | grep -x "$S"
}
it_holds "an image that is nowhere is said to be, and nothing is left behind" not_there

stopped()
{
    docker image rm -f "$image" >/dev/null
    timeout -s INT 0.3 "$HANDSFS" provision "$S" --image "$image"
    handsfs provision "$S" --image "$image" && handsfs destroy "$S"
}
it_holds "a pull that is interrupted is begun again" stopped

tap_end
