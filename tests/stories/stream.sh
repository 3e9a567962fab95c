#!/usr/bin/env bash
# Commands that are spoken with over the socket while they run, at their bounds: how much memory a slow
# reader costs, how much goes through exec.write, and that nothing of a killed client stays.
# HANDSFS_STREAM_MIB: how much is streamed, each way (2048 and more for the full size).
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
story

MIB=${HANDSFS_STREAM_MIB:-64}

# What the clients share.
cat >"$T/client.py" <<'P'
import base64, json, os, socket, sys, threading, time
class Client:
    def __init__(self, path):
        self.s = socket.socket(socket.AF_UNIX); self.s.connect(path); self.f = self.s.makefile("rb"); self.n = 0
    def send(self, method, **params):
        self.n += 1
        self.s.sendall(json.dumps(dict(jsonrpc="2.0", id=self.n, method=method, params=params)).encode() + b"\n")
        return self.n
    def receive(self): return json.loads(self.f.readline())
    def call(self, method, **params):
        self.send(method, **params); m = self.receive(); return m["result"] if "result" in m else m["error"]
    def output(self, id):
        """All that a command streams, and its result; answers to other requests are dropped."""
        out = dict(stdout=b"", stderr=b"")
        while True:
            m = self.receive()
            if m.get("method") == "exec.output":
                p = m["params"]; assert p["id"] == id, p
                out[p["stream"]] += p["data"].encode() if "data" in p else base64.b64decode(p["data_base64"])
            elif m["id"] == id: return out, m["result"] if "result" in m else m["error"]
P
client() { PYTHONPATH=$T py "from client import *
$1" "$M.sock" "${@:2}"; }

characters()
{
    client 'c = Client(sys.argv[1])
i = c.send("exec", command=r"printf a\\342; sleep 0.3; printf \\202; sleep 0.3; printf \\254z; printf \\377 >&2; exit 3", stream=True)
texts = []
while True:
    m = c.receive()
    if m.get("id") == i: break
    texts.append((m["params"]["stream"], m["params"].get("data"), m["params"].get("data_base64")))
assert "".join(t[1] for t in texts if t[0] == "stdout") == "a€z", texts
assert [t for t in texts if t[0] == "stderr"] == [("stderr", None, "/w==")], texts
assert m["result"]["stdout"] == "a€z" and m["result"]["stderr_base64"] == "/w==" and m["result"]["exit_code"] == 3'
}
it_holds "output is streamed in whole characters, and the result is the same as without" characters

slow_reader()
{
    client 'mib = int(sys.argv[2]); pid = Client(sys.argv[1]); import struct
cred = pid.s.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12); daemon = struct.unpack("3i", cred)[0]
def status(field): return int([l.split()[1] for l in open(f"/proc/{daemon}/status") if l.startswith(field)][0])
def rss(): return status("VmRSS")
# A sanitizer, known by its terabytes of address space, keeps what was freed.
limit = (640 << 10) if status("VmSize") > 1 << 30 else 24 << 10
c = Client(sys.argv[1]); before = rss()
i = c.send("exec", command=f"yes 0123456789012345678901234567890123456789012345678901234567890 | head -c {mib}M", stream=True)
time.sleep(1)
# 31 others run at once while it is not read from, and the mount works.
others = [Client(sys.argv[1]) for _ in range(31)]; most = 0; data = os.urandom(1 << 20)
for n, o in enumerate(others): o.send("exec", command=f"echo {n}")
with open(sys.argv[3] + "/beside", "wb") as f: f.write(data)
with open(sys.argv[3] + "/beside", "rb") as f: assert f.read() == data
for n, o in enumerate(others):
    assert o.receive()["result"]["stdout"] == f"{n}\n"; most = max(most, rss()); o.f.close(); o.s.close()
# Then it is read, not fast: what comes is counted, and the memory looked at.
got = size = 0; tail = b""; last = 0
while True:
    line = c.f.readline()
    if line.startswith(b"{\"jsonrpc\"") and b"\"exec.output\"" in line[:200]:
        got += len(json.loads(line)["params"]["data"])
        if got - last > mib << 14: last = got; most = max(most, rss()); time.sleep(0.02)
    else: break
r = json.loads(line)["result"]
assert got == mib << 20, got
assert r["exit_code"] == 0 and r["stdout_dropped"] == got - 1048576, r["stdout_dropped"]
print(f"daemon: {before} KiB before, {most} KiB at most")
assert most - before < limit, (before, most)' "$MIB" "$M"
}
it_holds "a reader that is slow costs the daemon little memory, and other commands and the mount nothing" slow_reader

much_input()
{
    client 'mib = int(sys.argv[2]); c = Client(sys.argv[1]); piece = "0123456789abcde\n" * 16384
i = c.send("exec", command="wc -c", input=True); waiting = 0; left = mib * 4; result = None
while left or waiting or result is None:
    if left and waiting < 8: left -= 1; waiting += 1; c.send("exec.write", id=i, data=piece, eof=left == 0); continue
    m = c.receive()
    if m["id"] == i: result = m["result"]
    else: assert m["result"] == dict(written=True), m; waiting -= 1
assert result["stdout"] == f"{mib << 20}\n", result' "$MIB"
}
it_holds "what goes through exec.write is all counted inside" much_input

nobody_reads_input()
{
    client 'c = Client(sys.argv[1]); i = c.send("exec", command="sleep 61.25", input=True)
n = [c.send("exec.write", id=i, data="x" * 262144) for _ in range(40)]
c.s.settimeout(2); answers = 0
try:
    while True: m = c.receive(); assert m["result"]["written"], m; answers += 1
except TimeoutError: pass
assert 0 < answers < 40, answers
d = Client(sys.argv[1]); assert d.call("exec", command="echo fine")["stdout"] == "fine\n"'
    inside '! pgrep -f "^sleep 61.25"'
}
it_holds "writes to a command that does not read are not answered until it does" nobody_reads_input

killed_clients()
{
    # A request cut off at every byte: what was not whole does not run, what was is killed.
    client 'line = json.dumps(dict(jsonrpc="2.0", id=1, method="exec", params=dict(command="sleep 62.5", stream=True, input=True))).encode() + b"\n"
line += json.dumps(dict(jsonrpc="2.0", id=2, method="exec.write", params=dict(id=1, data="x"))).encode() + b"\n"
line += json.dumps(dict(jsonrpc="2.0", id=3, method="exec", params=dict(command="setsid sleep 62.5 & yes", stream=True, pty=True))).encode() + b"\n"
for n in range(len(line) + 1):
    c = Client(sys.argv[1]); c.s.sendall(line[:n])
    if n % 16 == 0: time.sleep(0.05)
    c.f.close(); c.s.close()
c = Client(sys.argv[1])
for _ in range(200):
    r = c.call("exec", command="pgrep -fc \"^(sleep 62.5|yes)\"")
    if r["stdout"] == "0\n": break
    time.sleep(0.1)
assert r["stdout"] == "0\n", r'
}
it_holds "a client that is killed at any byte leaves no process inside" killed_clients

jobs()
{
    client 'c = Client(sys.argv[1])
j = c.call("exec", command="echo begun; cat; sleep 0.5; exit 4", detach=True, input=True)["job"]
c.f.close(); c.s.close(); c = Client(sys.argv[1])
assert c.call("exec.wait", job=j, timeout_ms=0) == dict(job=j, running=True)
assert [x["running"] for x in c.call("exec.list")["jobs"] if x["job"] == j] == [True]
assert c.call("exec.write", job=j, data="typed\n", eof=True) == dict(written=True)
waiters = [Client(sys.argv[1]) for _ in range(3)]; ids = [w.send("exec.wait", job=j) for w in waiters]
for w, i in zip(waiters, ids):
    r = w.receive(); assert r["id"] == i and not r["result"]["running"], r
    assert r["result"]["result"]["stdout"] == "begun\ntyped\n" and r["result"]["result"]["exit_code"] == 4, r
assert c.call("exec.write", job=j, data="x") == dict(written=False)
j = c.call("exec", command="sleep 63.5", detach=True)["job"]
assert c.call("exec.cancel", job=j) == dict(cancelled=True)
assert c.call("exec.wait", job=j)["data"]["error"] == "cancelled"
assert c.call("exec", command="pgrep -fc \"^sleep 63.5\"")["stdout"] == "0\n"
assert c.call("exec.wait", job="none")["code"] == -32602'
}
it_holds "a job outlives its client, is written to and waited for by others, and can be ended" jobs

control_file_job()
{
    local job
    exec 3<>"$M/.handsfs/exec"
    echo '{"command":"echo from a script","detach":true}' >&3
    job=$(cat <&3)
    exec 3<&-
    client 'j = json.loads(sys.argv[2])["job"]
assert Client(sys.argv[1]).call("exec.wait", job=j)["result"]["stdout"] == "from a script\n"' "$job"
}
it_holds "the control file begins jobs, too" control_file_job

tap_end
