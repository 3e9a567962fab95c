#!/usr/bin/env bash
# The control socket and the control files, as a script meets them.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
story

ask() { printf '%s\n' "$1" | socat -t 30 - "UNIX-CONNECT:$M.sock"; }

raw_exec()
{
    ask '{"jsonrpc":"2.0","id":1,"method":"exec","params":{"command":"printf out; printf err >&2; exit 3"}}' >"$T/reply"
    py 'import json, sys
lines = open(sys.argv[1]).read().splitlines(); assert len(lines) == 1, lines
r = json.loads(lines[0]); assert r["jsonrpc"] == "2.0" and r["id"] == 1, r
x = r["result"]; assert x.pop("duration_ms") >= 0
want = dict(stdout="out", stderr="err", exit_code=3, signal=None, timed_out=False, truncated=False,
    stdout_truncated=False, stderr_truncated=False, stdout_dropped=0, stderr_dropped=0)
assert {k: x.get(k, "missing") for k in want} == want, x' "$T/reply"
}
it_holds "a raw client gets the documented object" raw_exec

many_at_once()
{
    py 'import json, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
for i in range(40): s.sendall(json.dumps(dict(jsonrpc="2.0", id=i, method="exec", params=dict(command=f"sleep 0.{i%3}; echo {i}"))).encode() + b"\n")
s.shutdown(socket.SHUT_WR)
got = {}
for line in s.makefile(): r = json.loads(line); got[r["id"]] = r["result"]["stdout"]
assert got == {i: f"{i}\n" for i in range(40)}, got' "$M.sock"
}
it_holds "forty requests on one connection are all answered, also after its writing side is shut" many_at_once

files()
{
    py 'import base64, json, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile("rw")
def call(m, **p):
    f.write(json.dumps(dict(jsonrpc="2.0", id=7, method=m, params=p)) + "\n"); f.flush(); return json.loads(f.readline())
assert "result" in call("write_file", path="a/b", content="text é")
assert call("read_file", path="/workspace/a/b")["result"] == dict(content="text é", size=7)
raw = bytes(range(256)); call("write_file", path="raw", content_base64=base64.b64encode(raw).decode())
r = call("read_file", path="raw")["result"]; assert base64.b64decode(r["content_base64"]) == raw and r["size"] == 256
e = call("read_file", path="none")["error"]; assert e["data"]["error"] == "no_such_file", e
big = base64.b64encode(b"x" * 4194304).decode(); assert "result" in call("write_file", path="cap", content_base64=big)
assert len(call("read_file", path="cap")["result"]["content"]) == 4194304
e = call("write_file", path="over", content="x" * 4194305)["error"]; assert e["data"]["error"] == "too_large", e
assert call("nonsense")["error"]["code"] == -32601
assert call("exec", command="true", unknown=1)["error"]["code"] == -32602
assert call("exec", command="true", cwd="/nope")["error"]["data"]["error"] == "no_such_file"
f.write("{not json\n"); f.flush(); assert json.loads(f.readline())["error"]["code"] == -32700
r = call("exec", command="head -c 3 /dev/urandom | wc -c; printf \"\\377\"")["result"]; assert base64.b64decode(r["stdout_base64"])[-1] == 255
r = call("exec", command="wc -c", stdin="x" * 1000000)["result"]; assert r["stdout"] == "1000000\n"
r = call("exec", command="sleep 60", timeout_ms=300)["result"]; assert r["timed_out"] and r["exit_code"] is None and r["signal"] == "SIGKILL", r
s = call("status")["result"]; assert s["session"] == sys.argv[2], s' "$M.sock" "$S" &&
        says 'text é' cat "$M/a/b"
}
it_holds "files, errors, deadlines and inputs go over the socket as documented" files

cancel()
{
    py 'import json, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile("rw")
def send(i, m, **p): f.write(json.dumps(dict(jsonrpc="2.0", id=i, method=m, params=p)) + "\n"); f.flush()
send("long", "exec", command="echo begun >begun; sleep 987611")
import os, time
while not os.path.exists(sys.argv[2] + "/begun"): time.sleep(0.01)
send(2, "exec.cancel", id="long")
got = {r["id"]: r for r in (json.loads(f.readline()) for _ in range(2))}
assert got["long"]["error"]["data"]["error"] == "cancelled", got
assert got[2]["result"]["cancelled"] is True, got' "$M.sock" "$M" &&
        says 0 inside 'grep -l "slee[p].987611" /proc/[0-9]*/cmdline 2>/dev/null | wc -l'
}
it_holds "exec.cancel kills a command by its request's id" cancel

hang_up()
{
    py 'import json, os, socket, sys, time
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
s.sendall(json.dumps(dict(jsonrpc="2.0", id=1, method="exec", params=dict(command="echo x >up; setsid sleep 987612 & sleep 987612"))).encode() + b"\n")
while not os.path.exists(sys.argv[2] + "/up"): time.sleep(0.01)
s.close()' "$M.sock" "$M" &&
        eventually 20 sh -c "[ \$($HANDSFS exec -n $S -- 'grep -l \"slee[p].987612\" /proc/[0-9]*/cmdline 2>/dev/null | wc -l') = 0 ]"
}
it_holds "a client that hangs up cancels its commands" hang_up

control_file()
{
    exec 3<>"$M/.handsfs/exec" && echo 'echo "from $(uname -s)"; echo side >made' >&3 &&
        cat <&3 >"$T/answer" && exec 3>&- &&
        says 'from Linux' py 'import json, sys; print(json.load(open(sys.argv[1]))["stdout"], end="")' "$T/answer" &&
        says side cat "$M/made"
    exec 3<>"$M/.handsfs/exec" && echo '{"command": "cat; exit 4", "stdin": "given"}' >&3 && cat <&3 >"$T/answer" && exec 3>&- &&
        says 'given 4' py 'import json, sys; r = json.load(open(sys.argv[1])); print(r["stdout"], r["exit_code"])' "$T/answer"
}
it_holds "a command written to .handsfs/exec is answered on the same descriptor" control_file

status_file()
{
    py 'import json, sys; r = json.load(open(sys.argv[1])); assert r["session"] == sys.argv[2] and r["pid"] > 1, r' \
        "$M/.handsfs/status" "$S"
}
it_holds ".handsfs/status is JSON about the session" status_file

private() { says 600 stat -c %a "$M.sock"; }
it_holds "the socket is its owner's alone" private

long_line()
{
    py 'import json, socket, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); f = s.makefile("r")
command = "v=" + "x" * (4 << 20) + "; echo ${#v}"
s.sendall(json.dumps(dict(jsonrpc="2.0", id=1, method="exec", params=dict(command=command))).encode() + b"\n")
assert json.loads(f.readline())["result"]["stdout"] == "4194304\n"
s.sendall(b"x" * (17 << 20) + b"\n")
assert json.loads(f.readline())["error"]["code"] == -32600
s.sendall(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"exec\",\"params\":{\"command\":\"echo on\"}}\n")
assert json.loads(f.readline())["result"]["stdout"] == "on\n"' "$M.sock"
}
it_holds "a command of four mebibytes passes, a line over the limit is refused, the next one is served" long_line

gone_after_umount() { handsfs umount "$M" && [ ! -e "$M.sock" ]; }
it_holds "the socket goes with the mount" gone_after_umount
tap_end
