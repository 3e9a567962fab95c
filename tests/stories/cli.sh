#!/usr/bin/env bash
# The command line, as a newcomer and as a script use it.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
needs fuse 'no /dev/fuse here' test -c /dev/fuse
needs local 'the local backend does not work here' handsfs doctor
story_begin

code() { local want=$1 got=0; shift; "$@" >"$T/out" 2>"$T/err" || got=$?; [ "$got" = "$want" ] || { echo "exit $got"; cat "$T/err"; return 1; }; }

provision_json()
{
    handsfs provision --json "$S" >"$T/p1" && handsfs provision --json "$S" >"$T/p2" &&
        py 'import json, sys
a, b = (json.load(open(f)) for f in sys.argv[1:3])
assert a["session"] == sys.argv[3] and a["backend"] == "local" and a["created"] is True, a
assert b["created"] is False and a["id"] == b["id"], b' "$T/p1" "$T/p2" "$S"
}
it_holds "provision says what it made, and the second time that it made nothing" provision_json

listing() { says "$S" handsfs ls && handsfs ls --json | py 'import json, sys; assert len(json.load(sys.stdin)) == 1'; }
it_holds "ls names the sessions" listing

exec_codes()
{
    code 7 handsfs exec "$S" -- sh -c 'exit 7' && code 0 handsfs exec "$S" -- true &&
        code 137 handsfs exec "$S" -- 'kill -9 $$' && code 124 handsfs exec --timeout 300ms "$S" -- sleep 60 &&
        code 124 handsfs exec "$S" -- 'exit 124' && code 125 handsfs exec no-such-session -- true &&
        code 125 handsfs exec --cwd /nope "$S" -- true && code 127 handsfs exec "$S" -- no-such-program &&
        code 125 handsfs exec "$S" && code 125 handsfs exec --no-such-option "$S" -- true && code 2 handsfs nonsense
}
it_holds "exec gives the command's own exit code, 124 for a deadline, 125 for a failure of ours" exec_codes

vectors()
{
    says "a b|\$x|it's|" handsfs exec "$S" -- printf '%s|%s|%s|' 'a b' '$x' "it's" &&
        says 6 handsfs exec "$S" -- 'echo $((1 + 5))' && says 'in put' sh -c "printf 'in put' | '$HANDSFS' exec $S -- cat"
}
it_holds "one argument is a shell text, several are an argument vector, a pipe is the input" vectors

read_write()
{
    printf 'written' | handsfs write "$S" dir/file && says written handsfs read "$S" /workspace/dir/file &&
        code 1 handsfs read "$S" none && grep -q 'no such file\|No such file' "$T/err" &&
        ! head -c 4194305 /dev/zero | handsfs write "$S" big 2>/dev/null && code 1 handsfs read "$S" big
}
it_holds "read and write move whole files, mounted or not" read_write

mounting()
{
    handsfs mount "$S" "$M" && says written cat "$M/dir/file" && code 0 handsfs mount "$S" "$M" &&
        grep -qi 'already' "$T/out" "$T/err" && code 1 handsfs mount other-session "$M" &&
        says 1 sh -c "grep -c ' $M ' /proc/mounts" && mkdir "$T/m2" && handsfs mount "$S" "$T/m2" &&
        echo two >"$T/m2/second" && eventually 20 cat "$M/second" && handsfs umount "$T/m2" && says two cat "$M/second"
}
it_holds "mounting twice says so, another session is refused, two mountpoints are allowed" mounting

acceptance()
{
    echo hi >"$M/a" && says hi handsfs exec "$S" -- cat a && says written handsfs read "$S" dir/file &&
        printf new | handsfs write "$S" fresh && says new cat "$M/fresh" && handsfs status "$S" | grep -q "$M"
}
it_holds "a file goes in, a command comes back" acceptance

sigterm()
{
    local pid
    pid=$(py 'import json, sys; print(json.load(open(sys.argv[1]))["pid"])' "$M/.handsfs/status")
    kill -TERM "$pid" && eventually 20 sh -c "! grep -q ' $M ' /proc/mounts" && [ ! -e "$M.sock" ]
}
it_holds "SIGTERM unmounts and takes the socket along" sigterm

mount_helper()
{
    [ "$(id -u)" = 0 ] || return 0
    # The program by its path: mount -t fuse.handsfs finds only one that is installed.
    mount -t fuse "$HANDSFS#$S" "$M" -o op_timeout=5s,nosuid,noauto && says hi cat "$M/a" && umount "$M" &&
        eventually 20 test ! -e "$M.sock"
}
it_holds "mount(8) mounts a session, and umount(8) ends it" mount_helper

copied_mount()
{
    [ "$(id -u)" = 0 ] || return 0
    local holder r
    handsfs mount "$S" "$M" || return 1
    unshare --mount --propagation private sh -c 'echo >"$0"; exec sleep 60' "$T/copied" >/dev/null 2>&1 &
    holder=$!
    eventually 20 test -e "$T/copied" && handsfs umount "$M" && [ ! -e "$M.sock" ] && handsfs mount "$S" "$M" && handsfs umount "$M"
    r=$?
    kill "$holder"
    return "$r"
}
it_holds "umount ends the daemon also while another mount namespace has a copy of the mount" copied_mount

bad_mounts()
{
    code 1 handsfs mount "$S" "$T/none" && touch "$T/plain" && code 1 handsfs mount "$S" "$T/plain" &&
        code 2 handsfs mount -o no_such_option "$S" "$M" && code 1 handsfs mount --backend nosuch "$S" "$M" &&
        grep -q local "$T/err" && code 1 handsfs mount 'bad/name' "$M" && says '' ls -A "$M"
}
it_holds "a bad mount is one clear error" bad_mounts

configured()
{
    mkdir -p "$XDG_CONFIG_HOME/handsfs" && printf '# mine\nnetwork = full\n' >"$XDG_CONFIG_HOME/handsfs/config" &&
        code 1 handsfs provision "$S" && grep -qi network "$T/err" && code 0 handsfs provision --network none "$S" &&
        code 0 env HANDSFS_NETWORK=none "$HANDSFS" provision "$S" &&
        printf 'netwrok = full\n' >"$XDG_CONFIG_HOME/handsfs/config" && code 2 handsfs ls && grep -q netwrok "$T/err"
    local r=$?
    rm -f "$XDG_CONFIG_HOME/handsfs/config"
    return "$r"
}
it_holds "the config file, the environment and the command line outrank each other in that order" configured

destroying() { handsfs destroy "$S" && handsfs destroy "$S" && says '' handsfs ls && code 125 handsfs exec "$S" -- true; }
it_holds "destroy is idempotent and leaves nothing" destroying

helps() { handsfs --help | grep -q mount && for v in mount umount exec provision ls status read write destroy doctor; do handsfs "$v" --help | grep -q "handsfs $v" || return 1; done; }
it_holds "every verb explains itself" helps

# A verb that is killed, where no mount serves the session, takes what it runs with it; nobody waits for its output.
runs_inside() { handsfs exec -n "$S-killed" -- 'for f in /proc/[0-9]*/cmdline; do tr "\0" " " <"$f" 2>/dev/null; echo; done' | grep -qx "$1 "; }
killed_alone()
{
    handsfs provision "$S-killed" || return 1
    ("$HANDSFS" exec -n "$S-killed" -- 'echo up; sleep 987654' & echo $! >"$T/killed"; wait) >"$T/killed.out" 2>&1 &
    eventually 20 runs_inside 'sleep 987654' && kill -KILL "$(cat "$T/killed")" && wait
    eventually 10 not_inside 'sleep 987654'
    local r=$?
    handsfs destroy "$S-killed"
    return "$r"
}
not_inside() { handsfs exec -n "$S-killed" -- true && ! runs_inside "$1"; }
it_holds "a command dies with its exec, also where that is killed and nothing is mounted" killed_alone

ordinary_user()
{
    [ "$(id -u)" = 0 ] && id nobody >/dev/null && command -v setpriv >/dev/null || return 0
    local u=$T/user
    install -d -o 65534 -g 65534 "$u" "$u/m" && chmod 711 "$T"
    as() { setpriv --reuid 65534 --regid 65534 --clear-groups env HOME="$u" HANDSFS_STATE_DIR="$u/state" "$@"; }
    as "$HANDSFS" mount u1 "$u/m" && as sh -c "echo hi >'$u/m/a'" && says hi as "$HANDSFS" exec -n u1 -- cat a &&
        says 65534 as stat -c %u "$u/m/a"
    local r=$?
    as "$HANDSFS" umount "$u/m"; as "$HANDSFS" destroy u1
    return "$r"
}
# Where /dev/fuse is root's alone: in a mount namespace in which it is not.
with_a_common_fuse()
{
    mknod "$T/fuse" c 10 229 && chmod 666 "$T/fuse" &&
        unshare -m --propagation private bash -c "$(declare -f says "$1"); mount --bind '$T/fuse' /dev/fuse && $1"
}

reachable() { setpriv --reuid 65534 --regid 65534 --clear-groups test -x "$HANDSFS" -a -x "$HANDSFS_HAND"; }

if [ "$(id -u)" != 0 ] || ! reachable; then
    it_is_skipped "an ordinary user has all of it" "not root, or nobody else may reach the program here"
elif [ "$(stat -c %a /dev/fuse)" = 666 ]; then
    it_holds "an ordinary user has all of it" ordinary_user
else
    it_holds "an ordinary user has all of it" with_a_common_fuse ordinary_user
fi
tap_end
