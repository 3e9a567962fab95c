#!/usr/bin/env bash
# A terminal inside, as a person uses it: handsfs exec -t and handsfs shell.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
needs local 'the local backend does not work here' handsfs doctor
story_begin
handsfs provision "$S" >/dev/null || exit 1

# person SCRIPT COMMAND...: terminal.py says what a script may do.
person() { python3 "$HANDSFS_SRCDIR/tests/stories/terminal.py" "$@"; }

is_terminal()
{
    person 'expect("inside"); expect("30 90"); expect("vt100"); assert code() == 7; assert not raw()' \
        env TERM=vt100 "$HANDSFS" exec -t "$S" -- 'test -t 0 -a -t 1 -a -t 2 && echo inside; stty size; echo $TERM; exit 7'
}

keys()
{
    person 'expect("ready"); assert raw(); type("\x03"); expect("caught"); assert code() == 9; assert not raw()' \
        "$HANDSFS" exec -t "$S" -- 'trap "echo caught; exit 9" INT; echo ready; while :; do sleep 0.05; done' &&
        person 'expect("ready"); type("a line\n\x04"); expect("<a line>"); assert code() == 0' "$HANDSFS" exec -t "$S" -- 'echo ready; read -r x; cat; echo "<$x>"'
}

resized()
{
    person 'expect("ready"); size(41, 123); expect("41 123"); assert code() == 0' \
        "$HANDSFS" exec -t "$S" -- 'trap "stty size; exit 0" WINCH; echo ready; while :; do sleep 0.05; done'
}

ended_from_outside()
{
    person 'expect("ready"); kill(signal.SIGTERM); assert code() == -15, ended; assert not raw()' "$HANDSFS" exec -t "$S" -- 'echo ready; sleep 1000' &&
        person 'expect("ready"); kill(signal.SIGHUP); assert code() == -1, ended; assert not raw()' "$HANDSFS" exec -t "$S" -- 'echo ready; sleep 1000' &&
        eventually 20 inside '! cat /proc/[0-9]*/comm | grep -qx sleep'
}

stopped()
{
    person 'expect("ready"); kill(signal.SIGTSTP); wait_for("it stops", is_stopped); assert not raw()
kill(signal.SIGCONT); wait_for("it goes on", raw); type("x\n"); expect("<x>"); assert code() == 0' "$HANDSFS" exec -t "$S" -- 'echo ready; read -r x; echo "<$x>"'
}

shell()
{
    person '
expect(sys.argv[4]); type("echo $((6 * 7)) $0\n"); expect("42 bash")
type("cat\n"); expect("cat\r\n"); time.sleep(0.5); type("\x1a"); expect("Stopped"); type("jobs\n"); expect("Stopped")
type("fg\n"); expect("fg\r\n"); time.sleep(0.5); type("again\n"); expect("again\r\nagain"); type("\x03"); expect("$" if os.getuid() else "#")
type("exit 5\n"); assert code() == 5, ended; assert not raw()' "$HANDSFS" shell "$S" &&
        says 'piped' sh -c "echo 'echo piped' | '$HANDSFS' shell $S" && sh -c "echo 'exit 6' | '$HANDSFS' shell $S"
    says 6 echo $?
}

rows()
{
    it_holds "-t gives a terminal of this one's size and kind, and the command's exit code ($1)" is_terminal
    it_holds "every key goes inside, Ctrl-C and Ctrl-D too ($1)" keys
    it_holds "the window's size goes inside ($1)" resized
    it_holds "the terminal is as it was when a signal ends it ($1)" ended_from_outside
    it_holds "the terminal is as it was while it is stopped from outside ($1)" stopped
    it_holds "a shell has a prompt, job control and an exit code ($1)" shell
}

rows 'no mount'
if [ -c /dev/fuse ]; then
    handsfs mount "$S" "$M" >"$T/mount.log" 2>&1 || { cat "$T/mount.log"; exit 1; }
    rows mounted
fi

daemon_dies()
{
    [ -c /dev/fuse ] || return 0
    person 'import json
expect("ready"); os.kill(json.load(open(os.environ["M"] + "/.handsfs/status"))["pid"], signal.SIGKILL); assert code() == 125, ended; assert not raw()' \
        "$HANDSFS" exec -t "$S" -- 'echo ready; sleep 1000'
}
it_holds "the terminal is as it was when the mount's daemon dies" daemon_dies
tap_end
