import itertools, json, socket, sys


class Sandbox:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.lines, self.ids = self.socket.makefile("rb"), itertools.count(1)

    def call(self, method, on_output=None, **params):
        call = {"jsonrpc": "2.0", "id": next(self.ids), "method": method, "params": params}
        self.socket.sendall(json.dumps(call).encode() + b"\n")
        for line in self.lines:
            message = json.loads(line)
            if message.get("method") == "exec.output":
                on_output(message["params"]["stream"], message["params"].get("data", ""))
            elif "error" in message:
                raise RuntimeError(message["error"]["message"])
            else:
                return message["result"]


sandbox = Sandbox(sys.argv[1])
print(sandbox.call("exec", command="exit 3", timeout_ms=60000)["exit_code"])
sandbox.call("exec", lambda stream, text: print(stream, text, end=""), command="echo hi", stream=True)
sandbox.call("shell.run", command="cd /tmp && export NAME=value")
print(sandbox.call("shell.run", command='echo "$PWD $NAME"')["stdout"], end="")
