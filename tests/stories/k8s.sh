#!/usr/bin/env bash
# What people do with sessions on a cluster: a mount, settings, other ways to log in, many at once.
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
. "$HANDSFS_SRCDIR/tests/bed/k8s.sh"
k8s_begin
needs fuse 'no /dev/fuse here' test -c /dev/fuse
story_begin
S=story-k8s-$$
image=$HANDSFS_TEST_IMAGE:debian
export HANDSFS_BACKEND=k8s HANDSFS_IMAGE=$image
rounds=${HANDSFS_STORY_ROUNDS:-200}

pod_of() { kubectl get pods -o json | jq -r --arg s "$1" '.items[].metadata | select(.annotations["io.handsfs.session"] == $s) | .name'; }
pod_json() { kubectl get pod "$(pod_of "$S")" -o json; }
pods_of_stories() { kubectl get pods -o json | jq -r '.items[].metadata.annotations["io.handsfs.session"] // ""' | grep "^story-k8s-$$" || true; }

mounted()
{
    handsfs mount "$S" "$M" && echo outside >"$M/a" && says outside inside 'cat a' &&
        inside 'echo inside >b; mkdir d' && says inside cat "$M/b" && [ -d "$M/d" ]
}
it_holds "a session on the cluster is mounted, and both sides see the same files" mounted

as_promised()
{
    local json
    json=$(pod_json)
    jq -e '.spec.restartPolicy == "Never" and .spec.automountServiceAccountToken == false and
        .spec.securityContext.seccompProfile.type == "RuntimeDefault" and
        (.metadata.labels["app.kubernetes.io/managed-by"] == "handsfs")' <<<"$json" || { echo "$json"; return 1; }
    says none inside 'ls /var/run/secrets/kubernetes.io 2>/dev/null || echo none' &&
        inside 'tr "\0" " " </proc/1/cmdline | grep -q hand'
}
it_holds "its Pod has no token, a filter of system calls, and the hand as its first process" as_promised

once()
{
    local i uid
    uid=$(pod_json | jq -r .metadata.uid)
    for ((i = 0; i < 20; i++)); do
        handsfs provision --json "$S" >"$T/provision.$i" 2>&1 &
    done
    wait
    says 20 sh -c "cat $T/provision.* | grep -c '\"created\": *false'" && says "$uid" sh -c "cat $T/provision.* |
        jq -r .id | sort -u" && says 1 sh -c "'$HANDSFS_BED_KUBECTL' --kubeconfig '$HANDSFS_BED_ADMIN' -n handsfs \
        get pods -o json | jq '[.items[] | select(.metadata.annotations[\"io.handsfs.session\"] == \"$S\")] | length'"
}
it_holds "twenty more provisions of it find the one Pod" once

mismatch() { fails_with "$HANDSFS_TEST_IMAGE" handsfs provision --image "$HANDSFS_TEST_IMAGE:small" "$S"; }
it_holds "another image is refused, and both are named" mismatch

told()
{
    says "$S" sh -c "'$HANDSFS' ls | grep -x '$S'" &&
        handsfs status --json "$S" >"$T/status" && jq -e '.engine.node == "bed"' "$T/status" &&
        grep -q Running "$T/status" || { cat "$T/status"; return 1; }
}
it_holds "ls and status tell of it, with its node and its phase" told

well() { handsfs doctor >"$T/doctor" 2>&1 || { cat "$T/doctor"; return 1; }; }
it_holds "the doctor has nothing to say to a user who has the role and no other" well

byte_exact()
{
    python3 - "$M" "$M.sock" "$rounds" <<'END'
import json, os, random, socket, sys
mount, path, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
s = socket.socket(socket.AF_UNIX)
s.connect(path)
f = s.makefile('rwb')
def call(method, **params):
    f.write(json.dumps({'jsonrpc': '2.0', 'id': 1, 'method': method, 'params': params}).encode() + b'\n')
    f.flush()
    reply = json.loads(f.readline())
    if 'result' not in reply:
        sys.exit('%s: %s' % (method, reply))
    return reply['result']
import base64
want = ''.join('%d\n' % i for i in range(1, 200001))[:1 << 20]
for i in range(rounds):
    data = random.randbytes(4 << 20)
    with open(mount + '/large', 'wb') as out:
        out.write(data)
    got = base64.b64decode(call('read_file', path='large')['content_base64'])
    if got != data:
        sys.exit('round %d: the 4 MiB are other bytes (%d of them)' % (i, len(got)))
    result = call('exec', command='seq 1 200000')
    if result['exit_code'] != 0 or result['stdout'] != want:
        sys.exit('round %d: seq gave %d bytes, %r' % (i, len(result['stdout']), result['exit_code']))
END
}
it_holds "$rounds round trips of 4 MiB and $rounds times the output of seq 1 200000 lose no byte" byte_exact

# ---- Other ways to log in. Each has the same rights, so `ls` finds the session.

config() # NAME USER-JSON [CLUSTER-JSON]
{
    jq -n --argjson user "$2" --argjson cluster "${3:-{\}}" --arg ca "$(base64 -w0 "$keys/ca.crt")" \
        --arg server "$server" '{apiVersion: "v1", kind: "Config", "current-context": "c",
        contexts: [{name: "c", context: {cluster: "k", user: "u", namespace: "handsfs"}}],
        clusters: [{name: "k", cluster: ({server: $server, "certificate-authority-data": $ca} + $cluster)}],
        users: [{name: "u", user: $user}]}' >"$T/$1.conf"
}
keys=$(dirname "$HANDSFS_BED_ADMIN")/pki
server=$(sed -n 's/^ *server: //p' "$HANDSFS_BED_ADMIN")
secret=$(sed -n 's/^ *token: //p' "$KUBECONFIG")
finds() { KUBECONFIG=$1 handsfs ls | grep -x "$S" >/dev/null; }

by_certificate()
{
    config certificate "{\"client-certificate\": \"$keys/user.crt\", \"client-key\": \"$keys/user.key\"}" &&
        finds "$T/certificate.conf" &&
        config data "{\"client-certificate-data\": \"$(base64 -w0 "$keys/user.crt")\",
            \"client-key-data\": \"$(base64 -w0 "$keys/user.key")\"}" && finds "$T/data.conf"
}
it_holds "one may log in by a certificate, in a file or in the configuration" by_certificate

by_token_file()
{
    (umask 077 && echo "$secret" >"$T/token") && config file "{\"tokenFile\": \"$T/token\"}" && finds "$T/file.conf"
}
it_holds "one may log in by a file with a token" by_token_file

by_plugin()
{
    cat >"$T/plugin" <<END
#!/bin/sh
echo x >>"$T/plugin.calls"
[ "\$EXTRA" = yes ] || exit 1
printf '{"apiVersion":"client.authentication.k8s.io/v1beta1","kind":"ExecCredential","status":{"token":"%s"}}' "$secret"
END
    chmod +x "$T/plugin"
    config plugin "{\"exec\": {\"apiVersion\": \"client.authentication.k8s.io/v1beta1\", \"command\": \"$T/plugin\",
        \"env\": [{\"name\": \"EXTRA\", \"value\": \"yes\"}]}}" && finds "$T/plugin.conf" && [ -s "$T/plugin.calls" ]
}
it_holds "one may log in by a credential plugin" by_plugin

by_several_files()
{
    config whole "{\"token\": \"$secret\"}"
    jq 'del(.users) | del(.["current-context"])' "$T/whole.conf" >"$T/part1.conf"
    jq '{apiVersion, kind, users, "current-context"}' "$T/whole.conf" >"$T/part2.conf"
    finds "$T/part1.conf:$T/absent.conf:$T/part2.conf"
}
it_holds "a configuration may be in several files" by_several_files

unknown_authority()
{
    openssl req -x509 -newkey rsa:2048 -nodes -keyout "$T/other.key" -subj /CN=other -out "$T/other.crt" 2>/dev/null
    config other "{\"token\": \"$secret\"}" "{\"certificate-authority-data\": \"$(base64 -w0 "$T/other.crt")\"}"
    ! KUBECONFIG=$T/other.conf handsfs ls && config insecure "{\"token\": \"$secret\"}" \
        '{"insecure-skip-tls-verify": true, "certificate-authority-data": ""}' && finds "$T/insecure.conf"
}
it_holds "a server of another authority is refused, but where one asked for it" unknown_authority

other_name()
{
    config name "{\"token\": \"$secret\"}" '{"tls-server-name": "nobody.example"}'
    ! KUBECONFIG=$T/name.conf handsfs ls && config name "{\"token\": \"$secret\"}" \
        '{"tls-server-name": "kubernetes.default.svc"}' && finds "$T/name.conf"
}
it_holds "the server's certificate is checked against the name that the configuration gives" other_name

# ---- Inside of the cluster

# The example of contrib/k8s as it stands there, with this machine's programs and libraries in place of an image's, and
# the account's own token, which this cluster does not hand out by itself.
in_cluster()
{
    local token node=${server#https://} phase
    token=$(kubectl create -f - --raw /api/v1/namespaces/handsfs/serviceaccounts/handsfs/token <<END | jq -r .status.token
{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
END
    )
    [ -n "$token" ] && [ "$token" != null ] || return 1
    mkdir -p "$T/account" && chmod 755 "$T" "$T/account"
    printf %s "$token" >"$T/account/token"
    printf handsfs >"$T/account/namespace"
    cp "$keys/ca.crt" "$T/account/ca.crt"
    kubectl create --dry-run=client -o json -f "$HANDSFS_SRCDIR/contrib/k8s/in-cluster.yaml" |
        jq --arg name "inside-$$" --arg session "$S-inside" --arg image "$image" --arg build "$HANDSFS_BUILDDIR" \
            --arg hand "$HANDSFS_HAND" --arg host "${node%:*}" --arg port "${node#*:}" --arg account "$T/account" '
        def volume($name; $path; $at): .spec.volumes += [{name: $name, hostPath: {path: $path}}] |
            .spec.containers[0].volumeMounts += [{name: $name, mountPath: $at, readOnly: true}];
        .metadata.name = $name | .spec.containers[0] |= (.image = $image | .command[2] |= gsub("s1"; $session) |
            .env |= map(if .name == "HANDSFS_IMAGE" then .value = $image else . end) + [
                {name: "KUBERNETES_SERVICE_HOST", value: $host}, {name: "KUBERNETES_SERVICE_PORT", value: $port},
                {name: "HANDSFS_HAND", value: $hand}, {name: "PATH", value: ($build + "/mount:/usr/bin:/bin")}]) |
        volume("usr"; "/usr"; "/usr") | volume("build"; $build; $build) |
        volume("account"; $account; "/var/run/secrets/kubernetes.io/serviceaccount")' | kubectl apply -f - || return 1
    eventually 240 has_ended "inside-$$"
    phase=$(kubectl get pod "inside-$$" -o 'jsonpath={.status.phase}')
    kubectl logs "inside-$$" | tee "$T/inside"
    kubectl delete --wait=false --now pod "inside-$$"
    [ "$phase" = Succeeded ] && grep -q '^Linux ' "$T/inside" && says '' pod_of "$S-inside"
}
has_ended() { kubectl get pod "$1" -o 'jsonpath={.status.phase}' | grep -E 'Succeeded|Failed'; }
it_holds "handsfs works in the cluster as contrib/k8s shows it, with the token of its Pod's account" in_cluster

# ---- No network by a policy

policy() { kubectl get networkpolicy handsfs-no-network "$@"; }
by_policy()
{
    local code=0
    fails_with networkpolicies handsfs provision --set network_none=policy "$S-policy" && says '' pod_of "$S-policy" || return 1
    # The lines of the Role that are commented out.
    sed '/^# - apiGroups: \[networking/,/verbs:/s/^# //' "$HANDSFS_SRCDIR/contrib/k8s/rbac.yaml" | kubectl apply -f - &&
        handsfs provision --set network_none=policy "$S-policy" && policy -o json >"$T/policy" &&
        jq -e '.spec.policyTypes == ["Ingress", "Egress"] and .spec.ingress == null and .spec.egress == null and
            .spec.podSelector.matchLabels["io.handsfs.network"] == "none"' "$T/policy" &&
        kubectl get pod "$(pod_of "$S-policy")" -o json >"$T/policy-pod" && jq -e '.metadata.labels["io.handsfs.network"] == "none" and
            ([.spec.initContainers[].securityContext.capabilities.add // [] | .[]] | index("NET_ADMIN") | not)' "$T/policy-pod" &&
        says alive handsfs exec -n "$S-policy" -- 'echo alive' || code=1
    handsfs destroy "$S-policy"
    # One that lets something through is no such policy, and not ours to change.
    kubectl patch networkpolicy handsfs-no-network --type merge -p '{"spec": {"egress": [{}]}}' &&
        fails_with handsfs-no-network handsfs provision --set network_none=policy "$S-policy" && says '' pod_of "$S-policy" || code=1
    kubectl delete networkpolicy handsfs-no-network
    kubectl apply -f "$HANDSFS_SRCDIR/contrib/k8s/rbac.yaml"
    return "$code"
}
it_holds "no network by a policy takes the Role's further lines, and a policy that lets nothing through" by_policy

# ---- Hosts that die

runs() { handsfs exec -n "$S-killed" -- 'for f in /proc/[0-9]*/cmdline; do tr "\0" " " <"$f" 2>/dev/null; echo; done' | grep -qx "$1 "; }
runs_not() { handsfs exec -n "$S-killed" -- true && ! runs "$1"; }

killed_exec()
{
    handsfs provision "$S-killed" || return 1
    "$HANDSFS" exec -n "$S-killed" -- 'exec sleep 987655' &
    local client=$!
    eventually 60 runs 'sleep 987655' && kill -KILL "$client" && eventually 30 runs_not 'sleep 987655'
}
it_holds "a command dies with its exec, also where that is killed and nothing is mounted" killed_exec

killed_daemon()
{
    mkdir "$T/killed" && handsfs mount "$S-killed" "$T/killed" || return 1
    handsfs exec -n "$S-killed" -- 'exec sleep 987656' &
    eventually 60 runs 'sleep 987656' && kill -KILL "$(jq .pid <"$T/killed/.handsfs/status")" && wait
    handsfs umount "$T/killed" && sleep 5 && eventually 90 runs_not 'sleep 987656'
    local code=$?
    handsfs destroy "$S-killed"
    return "$code"
}
it_holds "what a killed mount has left running is given up when another host comes and that one does not" killed_daemon

# ---- A Pod of somebody else

attached()
{
    kubectl run "other-$$" --image "$image" --restart Never --labels story=yes -- sleep 1000 &&
        kubectl wait --for condition=Ready --timeout 60s "pod/other-$$" &&
        kubectl exec "other-$$" -- sh -c 'mkdir -p /workspace && echo theirs >/workspace/file' || return 1
    handsfs mount --attach "other-$$" --workdir /workspace "$S-attached" "$T/attached" && says theirs cat "$T/attached/file" &&
        echo ours >"$T/attached/new" && says ours kubectl exec "other-$$" -- cat /workspace/new &&
        fails_with '' handsfs destroy "$S-attached"
    local code=$?
    handsfs umount "$T/attached"
    [ "$code" = 0 ] && says Running kubectl get pod "other-$$" -o 'jsonpath={.status.phase}'
    code=$?
    kubectl delete --now --wait=false pod "other-$$"
    return "$code"
}
mkdir "$T/attached"
it_holds "a Pod that somebody else made is mounted, and not removed by destroy" attached

# ---- Many

many=20
crowd()
{
    local i failed=0
    for ((i = 0; i < many; i++)); do
        mkdir "$T/m$i"
        # Twenty Pods that start at once on a small node may be slower than one mount waits.
        (handsfs mount "$S-$i" "$T/m$i" || handsfs mount "$S-$i" "$T/m$i") >"$T/crowd.$i" 2>&1 &
    done
    wait
    for ((i = 0; i < many; i++)); do
        echo "$i" >"$T/m$i/number" || failed=1
    done
    for ((i = 0; i < many; i++)); do
        says "$i $S-$i" sh -c "echo \$('$HANDSFS' exec -n '$S-$i' -- 'cat number') $S-$i" || { failed=1; cat "$T/crowd.$i"; }
    done
    return "$failed"
}
it_holds "$many sessions live at once, each mounted, each with its own files" crowd

gone()
{
    local i
    for ((i = 0; i < many; i++)); do
        (handsfs umount "$T/m$i"; handsfs destroy "$S-$i") >"$T/crowd.$i" 2>&1 &
    done
    wait
    handsfs umount "$M" && handsfs destroy "$S" && says '' pods_of_stories &&
        says '' sh -c "grep ' $T/' /proc/mounts" && eventually 60 no_container
}
no_container() { says '' sh -c "docker -H 'unix://${HANDSFS_BED_ADMIN%/*}/docker.sock' ps -a --format '{{.Names}}' | grep 'story-k8s-$$'"; }
it_holds "all of them are destroyed, and nothing is left in the cluster or on its node" gone
tap_end
