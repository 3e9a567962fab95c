# shellcheck shell=bash
# The rows about Docker, where the daemon of tests/bed/docker runs. Sourced by bench.sh; $work, $T, beside, row and
# the rest are its own.
# shellcheck disable=SC2154

# What no program at hand does: `raw SOCKET CONTAINER N` makes N execs of true over the engine's API and prints the
# percentiles, `at-once SOCKET N` has N of 64 KiB run at once through a gateway and prints the time that all took.
docker_peer()
{
    cat <<'END'
import http.client, json, socket, sys, time

class Engine(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[2])

def raw():
    engine, times = Engine('engine'), []
    def call(method, path, body=None):
        engine.request(method, path, body and json.dumps(body), {'Content-Type': 'application/json'})
        return engine.getresponse().read()
    for i in range(int(sys.argv[4])):
        start = time.monotonic()
        made = json.loads(call('POST', '/containers/%s/exec' % sys.argv[3],
                               {'AttachStdout': True, 'AttachStderr': True, 'Cmd': ['bash', '-c', 'true']}))
        stream = Engine('engine')
        stream.request('POST', '/exec/%s/start' % made['Id'], '{}', {'Content-Type': 'application/json'})
        stream.getresponse().read()
        if json.loads(call('GET', '/exec/%s/json' % made['Id']))['ExitCode'] != 0:
            sys.exit('an exec has failed')
        times.append((time.monotonic() - start) * 1000)
    times.sort()
    print('%.3f %.3f' % (times[len(times) // 2], times[len(times) * 99 // 100]))

def at_once():
    s, n = socket.socket(socket.AF_UNIX), int(sys.argv[3])
    s.connect(sys.argv[2])
    f = s.makefile('rwb')
    start = time.monotonic()
    for i in range(n):
        f.write(json.dumps({'jsonrpc': '2.0', 'id': i, 'method': 'exec',
                            'params': {'command': 'head -c 65536 /dev/zero'}}).encode() + b'\n')
    f.flush()
    for i in range(n):
        if len(json.loads(f.readline())['result']['stdout']) != 65536:
            sys.exit('bytes are lost')
    print('%.3f' % ((time.monotonic() - start) * 1000))

{'raw': raw, 'at-once': at_once}[sys.argv[1]]()
END
}

# at_once NAME COMMAND: a script that runs it 32 times at once.
at_once()
{
    printf '%s\n' '#!/bin/bash' 'for ((i = 0; i < 32; i++)); do' "$2 >$T/out.\$i &" 'done; wait' >"$T/$1"
    chmod +x "$T/$1"
}

docker_rows()
(
    local socket container peer S=bench-docker-$$ M=$T/docker
    local files=${BENCH_DOCKER_FILES:-2000}
    eval "$("$(dirname "${BASH_SOURCE[0]}")/../bed/docker" env)"
    timeout 10 docker image inspect "$HANDSFS_TEST_IMAGE:debian" >/dev/null 2>&1 || return 0
    export HANDSFS_BACKEND=docker HANDSFS_IMAGE=$HANDSFS_TEST_IMAGE:debian
    container=handsfs-$S socket=${DOCKER_HOST#unix://} peer="python3 $T/docker-peer.py"
    mkdir "$M" "$T/docker-sshfs"
    docker_peer >"$T/docker-peer.py"
    docker_end()
    {
        fusermount3 -uz "$T/docker-sshfs" 2>/dev/null
        handsfs umount "$M"
        handsfs destroy "$S"
        handsfs destroy "$S-p"
        docker rm --force bench-peer
    } >/dev/null 2>&1
    trap docker_end EXIT
    handsfs mount "$S" "$M" >/dev/null
    at_once docker-at-once "docker exec $container head -c 65536 /dev/zero"
    at_once bash-at-once 'bash -c "head -c 65536 /dev/zero"'

    beside 'docker: exec of true, p50' 'docker exec' ms 1 : : "$work exec $M.sock $execs" \
        "$work spawn 20 docker exec $container bash -c true"
    beside 'docker: exec of true, p50' 'the Engine API itself' ms 1 : : "$work exec $M.sock $execs" \
        "$peer raw $socket $container 20"
    beside 'docker: exec of true, p50' 'bash -c true on the host' ms 1 : : "$work exec $M.sock $execs" \
        "$work spawn $execs bash -c true"
    beside 'docker: 32 execs of 64 KiB at once, all' '32 docker exec' ms 1 : : \
        "$peer at-once $M.sock 32" "$work spawn 1 $T/docker-at-once"
    beside 'docker: 32 execs of 64 KiB at once, all' '32 bash -c on the host' ms 1 : : \
        "$peer at-once $M.sock 32" "$work spawn 1 $T/bash-at-once"
    destroy_peers() { { handsfs destroy "$S-p"; docker rm --force bench-peer; } >/dev/null 2>&1 || true; }
    beside 'docker: provision, image present' 'docker run -d' ms 1 destroy_peers : \
        "$work spawn 1 $HANDSFS provision $S-p" \
        "$work spawn 1 docker run --detach --name bench-peer --network none $HANDSFS_IMAGE sleep 100000"
    destroy_peers

    # Files of the one container, by both.
    printf '#!/bin/sh\nexec docker exec -i %s /usr/lib/openssh/sftp-server\n' "$container" >"$T/docker-sftp"
    chmod +x "$T/docker-sftp"
    sshfs_docker()
    {
        fusermount3 -u "$T/docker-sshfs" 2>/dev/null || true
        sshfs -o ssh_command="$T/docker-sftp" "x:/workspace" "$T/docker-sshfs"
    }
    remount_docker() { handsfs umount "$M" >/dev/null; handsfs mount "$S" "$M" >/dev/null; }
    command -v sshfs >/dev/null || return 0
    mkdir "$M/tree"
    "$work" tree "$M/tree" "$files"
    echo '! grep -r nowhere "$1"' >"$T/grep" # which succeeds when all was read and nothing found
    handsfs exec -n "$S" -- 'for f in tree/*/*; do echo "int x;" >"$f"; done'
    beside "docker: stat walk of $files files, cold" 'sshfs over docker exec' ms 1 remount_docker sshfs_docker \
        "$work walk $M/tree" "$work walk $T/docker-sshfs/tree"
    beside "docker: grep through $files files, cold" 'sshfs over docker exec' ms 1 remount_docker sshfs_docker \
        "$work spawn 1 bash $T/grep $M/tree" "$work spawn 1 bash $T/grep $T/docker-sshfs/tree"
    beside 'docker: create, write, close of 100 bytes' 'sshfs over docker exec' ms 1 : : \
        "$work create $M 1000" "$work create $T/docker-sshfs 1000"
    handsfs umount "$M" >/dev/null
    HANDSFS_DOCKER_RELAY=1 handsfs mount "$S" "$M" >/dev/null
    remount_relay() { handsfs umount "$M" >/dev/null; HANDSFS_DOCKER_RELAY=1 handsfs mount "$S" "$M" >/dev/null; }
    beside 'docker, by relay: exec of true, p50' 'docker exec' ms 1 : : "$work exec $M.sock $execs" \
        "$work spawn 20 docker exec $container bash -c true"
    beside "docker, by relay: stat walk of $files files" 'sshfs over docker exec' ms 1 remount_relay sshfs_docker \
        "$work walk $M/tree" "$work walk $T/docker-sshfs/tree"
    beside 'docker, by relay: create, write, close' 'sshfs over docker exec' ms 1 : : \
        "$work create $M 1000" "$work create $T/docker-sshfs 1000"
)
docker_rows
