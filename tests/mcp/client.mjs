// The official TypeScript SDK's client against `handsfs mcp`: node client.mjs ERA PROGRAM SESSION
//
// ERA is `legacy`, the SDK's first generation, which opens with initialize, or `modern`, the second, whose
// requests say their revision each. Prints TAP.
import { execFileSync } from 'node:child_process';
import assert from 'node:assert/strict';
import { Ajv2020 } from 'ajv/dist/2020.js';

const [era, program, session] = process.argv.slice(2);
const modern = era === 'modern';
const { Client } = await import(modern ? '@modelcontextprotocol/client'
    : '@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = await import(modern ? '@modelcontextprotocol/client/stdio'
    : '@modelcontextprotocol/sdk/client/stdio.js');

const patience = { timeout: 120000 };
const client = new Client({ name: 'handsfs-test', version: '1' },
    modern ? { versionNegotiation: { mode: 'auto' } } : {});
const transport = new StdioClientTransport({ command: program, args: ['mcp', session], env: process.env });
const complaints = [];
client.onerror = (error) => complaints.push(error);

let count = 0;
let failed = 0;
async function holds(sentence, run) {
    count++;
    try {
        await run();
        console.log(`ok ${count} - ${era}: ${sentence}`);
    } catch (error) {
        failed = 1;
        console.log(`not ok ${count} - ${era}: ${sentence}`);
        console.log(String(error.stack).replace(/^/gm, '# '));
    }
}

const call = (name, args, options = {}) => modern
    ? client.callTool({ name, arguments: args }, { ...patience, ...options })
    : client.callTool({ name, arguments: args }, undefined, { ...patience, ...options });
const handsfs = (...words) => execFileSync(program, words, { encoding: 'utf8' });

let tools = [];
const validators = new Map();

// The tool's text; its structured content is what its schema says.
async function text(name, args, options) {
    const result = await call(name, args, options);
    const validate = validators.get(name);
    assert.equal(result.content.length, 1);
    assert.equal(result.content[0].type, 'text');
    if (!result.isError) {
        assert.ok(validate(result.structuredContent), JSON.stringify(validate.errors));
    }
    return result.content[0].text;
}

async function until(seconds, what) {
    const end = Date.now() + seconds * 1000;
    while (!await what()) {
        assert.ok(Date.now() < end, 'it does not come to that');
        await new Promise((resolve) => setTimeout(resolve, 50));
    }
}

await holds('it connects, and agrees on the newest revision that it knows', async () => {
    await client.connect(transport);
    assert.equal(client.getServerVersion().name, 'handsfs');
    assert.match(client.getInstructions(), new RegExp(`"${session}"`));
    if (modern) {
        assert.equal(client.getNegotiatedProtocolVersion(), '2026-07-28');
    }
});

await holds('it lists every tool, with schemas and annotations', async () => {
    ({ tools } = await client.listTools());
    const ajv = new Ajv2020({ strict: false });
    for (const tool of tools) {
        const only = ['read', 'glob', 'grep'].includes(tool.name);
        assert.ok(tool.title && tool.description);
        assert.equal(ajv.validateSchema(tool.inputSchema), true);
        validators.set(tool.name, ajv.compile(tool.outputSchema));
        assert.equal(tool.annotations.readOnlyHint, only);
        for (const hint of ['destructiveHint', 'idempotentHint', 'openWorldHint']) {
            assert.equal(typeof tool.annotations[hint], 'boolean');
        }
    }
    assert.deepEqual(tools.map((tool) => tool.name).sort(), ['bash', 'edit', 'glob', 'grep', 'read', 'write']);
});

await holds('it calls every tool, and their structured content fits their schemas', async () => {
    const path = 'src/greeting.txt';
    await text('write', { file_path: path, content: 'hello\nworld\n' });
    assert.match(await text('read', { file_path: path }), /hello[^]*world/);
    await text('edit', { file_path: path, old_string: 'world', new_string: 'w\u00f6rld' });
    assert.match(await text('glob', { pattern: '**/*.txt' }), /greeting\.txt/);
    assert.match(await text('grep', { pattern: 'w.*rld' }), /greeting\.txt/);
    assert.equal(await text('bash', { command: `cat ${path}` }), 'hello\nw\u00f6rld\n');
});

await holds('what a model does wrong it is told in the result', async () => {
    const result = await call('read', { file_path: 'is/not/there' });
    assert.equal(result.isError, true);
    assert.match(result.content[0].text, /is\/not\/there/);
    assert.equal((await call('read', { file_path: 5 })).isError, true);
    assert.equal((await call('edit', {})).isError, true);
});

await holds('an unknown tool is an error of the protocol', async () => {
    await assert.rejects(call('nothing', {}), (error) => error.code === -32602 && /nothing/.test(error.message));
});

await holds('a command that takes long tells its progress, which grows', async () => {
    const told = [];
    await text('bash', { command: 'sleep 4; echo done' }, { onprogress: (progress) => told.push(progress.progress) });
    assert.ok(told.length > 0);
    assert.ok(told.every((value, i) => i === 0 || value > told[i - 1]), told.join());
});

await holds('a long command that is cancelled is dead inside, and the shell goes on', async () => {
    const running = 'cat /proc/[0-9]*/cmdline 2>/dev/null | tr "\\0" "\\n" | grep -cx 98765 || true';
    const abort = new AbortController();
    const cancelled = call('bash', { command: 'sleep 98765 & sleep 98765' }, { signal: abort.signal });
    const over = assert.rejects(cancelled);
    await until(60, () => handsfs('exec', '-n', session, '--', running).trim() !== '0');
    abort.abort();
    await over;
    await until(60, () => handsfs('exec', '-n', session, '--', running).trim() === '0');
    assert.equal(await text('bash', { command: 'echo on' }), 'on\n');
});

await holds('many calls at once are all answered, each with its own', async () => {
    const wanted = Array.from({ length: 24 }, (_, i) => `file-${i}.txt`);
    await Promise.all(wanted.map((path) => text('write', { file_path: path, content: path })));
    const got = await Promise.all(wanted.map((path) => text('read', { file_path: path })));
    wanted.forEach((path, i) => assert.ok(got[i].includes(path), got[i]));
});

await holds('a megabyte goes in and a bounded text comes out', async () => {
    await text('write', { file_path: 'big', content: '\u20ac'.repeat(350000) });
    assert.equal(await text('bash', { command: 'wc -c <big' }), '1050000\n');
    assert.ok((await text('bash', { command: 'cat big' })).length < 200000);
});

await holds('a sandbox that is destroyed is an error and not the end, and a new one is found', async () => {
    handsfs('destroy', session);
    await assert.rejects(async () => {
        const result = await call('bash', { command: 'echo hi' });
        assert.ok(!result.isError);
    }, (error) => error.code === -32603);
    assert.equal((await client.listTools()).tools.length, tools.length);
    handsfs('provision', session);
    await until(30, async () => {
        try {
            return await text('bash', { command: 'echo back' }) === 'back\n';
        } catch (error) {
            assert.equal(error.code, -32603);
            return false;
        }
    });
});

await holds('the server ends when the client closes', async () => {
    const pid = transport.pid;
    assert.ok(pid > 0);
    await client.close();
    await until(30, () => {
        try {
            return !process.kill(pid, 0);
        } catch {
            return true;
        }
    });
});

await holds('the server said nothing that the client did not understand', async () => {
    assert.deepEqual(complaints, []);
});

console.log(`1..${count}`);
process.exit(failed);
