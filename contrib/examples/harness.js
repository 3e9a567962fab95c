const net = require("net");

class Sandbox {
    constructor(path) {
        this.calls = [];
        let rest = "";
        this.socket = net.connect(path).setEncoding("utf8").on("data", (text) => {
            const lines = (rest + text).split("\n");
            rest = lines.pop();
            for (const { id, method, params, result, error } of lines.map((l) => JSON.parse(l)))
                if (method === "exec.output") this.calls[params.id].output(params);
                else if (error) this.calls[id].reject(new Error(error.message));
                else this.calls[id].resolve(result);
        });
    }
    call(method, params, output) {
        const id = this.calls.length;
        this.socket.write(JSON.stringify({ jsonrpc: "2.0", id, method, params }) + "\n");
        return new Promise((resolve, reject) => this.calls.push({ resolve, reject, output }));
    }
}

(async () => {
    const sandbox = new Sandbox(process.argv[2]);
    console.log((await sandbox.call("exec", { command: "exit 3", timeout_ms: 60000 })).exit_code);
    const show = ({ stream, data }) => process.stdout.write(`${stream} ${data}`);
    await sandbox.call("exec", { command: "echo hi", stream: true }, show);
    await sandbox.call("shell.run", { command: "cd /tmp && export NAME=value" });
    process.stdout.write((await sandbox.call("shell.run", { command: 'echo "$PWD $NAME"' })).stdout);
    sandbox.socket.end();
})();
