#!/usr/bin/env bash
# A harness: persistent shells on the socket, and the example clients that README shows.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
story

examples=$HANDSFS_SRCDIR/contrib/examples
printf '3\nstdout hi\n/tmp value\n' >"$T/wanted"

in_python()
{
    python3 "$examples/harness.py" "$M.sock" >"$T/got" && diff "$T/wanted" "$T/got"
}
it_holds "the client in Python runs a command, shows output as it comes, and keeps a shell" in_python

in_javascript()
{
    node "$examples/harness.js" "$M.sock" >"$T/got" && diff "$T/wanted" "$T/got"
}
if command -v node >/dev/null; then
    it_holds "the client in JavaScript does the same" in_javascript
else
    echo "# the client in JavaScript is not run: there is no node"
fi

in_readme()
{
    py 'import sys
readme = open(sys.argv[1]).read()
for name in sys.argv[2:]:
    text = "".join("    " + line if line.strip() else line for line in open(name))
    assert text in readme, f"README.md does not show {name} as it is"' \
        "$HANDSFS_SRCDIR/README.md" "$examples/harness.py" "$examples/harness.js"
}
it_holds "README shows both as they are" in_readme

turns()
{
    py 'import json, socket, sys
def connect():
    s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); return s, s.makefile("r")
both = [connect(), connect()]
for i in range(10):
    s, f = both[i % 2]
    s.sendall(json.dumps(dict(jsonrpc="2.0", id=i, method="shell.run", params=dict(shell="turns",
        command="n=${N-0}; sleep 0.05; export N=$((n + 1))"))).encode() + b"\n")
for i in range(10): assert json.loads(both[i % 2][1].readline())["result"]["state_kept"]
s, f = both[0]
s.sendall(json.dumps(dict(jsonrpc="2.0", id=1, method="shell.run", params=dict(shell="turns", command="echo $N"))).encode() + b"\n")
assert json.loads(f.readline())["result"]["stdout"] == "10\n"' "$M.sock"
}
it_holds "calls of one shell from two connections take turns, and none is lost" turns

restarted()
{
    py 'import json, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile("r")
def send(i, m, **p): s.sendall(json.dumps(dict(jsonrpc="2.0", id=i, method=m, params=p)).encode() + b"\n")
send(0, "shell.run", command="export X=1"); f.readline()
send(1, "shell.run", command="export X=2; sleep 300", stream=True)
send(2, "shell.run", command="echo never")
send(3, "shell.restart")
got = {}
while len(got) < 3:
    r = json.loads(f.readline())
    if "id" in r: got[r["id"]] = r
assert got[1]["result"]["signal"] == "SIGKILL" or got[1]["error"]["data"]["error"] == "cancelled", got[1]
assert got[2]["error"]["data"]["error"] == "cancelled", got[2]
assert got[3]["result"] == {"shell": "main"}, got[3]
send(4, "shell.run", command="echo ${X-none}")
assert json.loads(f.readline())["result"]["stdout"] == "none\n"' "$M.sock"
}
it_holds "a restart ends what runs in a shell and what waits for it, and begins anew" restarted

refused()
{
    py 'import json, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile("r")
for p in (dict(shell="a/b", command=":"), dict(shell="", command=":"), dict(shell="x" * 65, command=":"), dict(cwd="/", command=":"), dict(env={}, command=":"), dict(), dict(restart=1, command=":")):
    s.sendall(json.dumps(dict(jsonrpc="2.0", id=1, method="shell.run", params=p)).encode() + b"\n")
    assert json.loads(f.readline())["error"]["code"] == -32602, p' "$M.sock"
}
it_holds "names that no shell has and parameters that no shell takes are refused" refused

without_mount()
{
    handsfs exec "$S" --shell s --no-stdin -- 'cd /tmp && export A=1' || return 1
    [ "$(handsfs exec "$S" --shell s --no-stdin -- 'echo $PWD $A')" = '/tmp 1' ] || return 1
    ! handsfs exec "$S" --shell s --cwd /tmp --no-stdin -- pwd
}
it_holds "handsfs exec --shell keeps a shell from one process to the next" without_mount

tap_end
