#!/usr/bin/env bash
# What a user meets when the cluster's parts, the network to them or the Pod itself fail, and what the API refuses.
# shellcheck disable=SC2154 # $bed
. "$HANDSFS_SRCDIR/tests/stories/story.sh"
. "$HANDSFS_SRCDIR/tests/bed/k8s.sh"
k8s_begin
needs fuse 'no /dev/fuse here' test -c /dev/fuse
story_begin
S=story-k8s-failures-$$
image=$HANDSFS_TEST_IMAGE:debian
export HANDSFS_BACKEND=k8s HANDSFS_IMAGE=$image
server=$(sed -n 's,^ *server: https://,,p' "$HANDSFS_BED_ADMIN")
own_config=$KUBECONFIG
nobody=${HANDSFS_BED_ADMIN%/*}/nobody.conf

# Whatever fails below, the cluster is whole again for who comes next.
# shellcheck disable=SC2317
leave_whole()
{
    local job
    for job in "${proxies[@]}"; do kill -KILL "$job" 2>/dev/null; done
    "$bed" up api >/dev/null 2>&1
    "$bed" up kubelet >/dev/null 2>&1
    export KUBECONFIG=$own_config
    kubectl delete resourcequota story --ignore-not-found >/dev/null 2>&1
    kubectl delete pod -l story=yes --now --wait=false >/dev/null 2>&1
    story_cleanup
}
proxies=()
trap leave_whole EXIT

pod_of() { kubectl get pods -o json | jq -r --arg s "$1" '.items[].metadata | select(.annotations["io.handsfs.session"] == $s) | .name'; }

# A proxy between handsfs and the API server; $proxy is its pid.
begin_proxy()
{
    local port
    "$HANDSFS_BUILDDIR/tests/bed/cutting_proxy" "${server%:*}" "${server#*:}" >"$T/port" 2>"$T/proxy.log" &
    proxy=$!
    proxies+=("$proxy")
    eventually 5 test -s "$T/port" || return 1
    port=$(cat "$T/port")
    sed "s,server: .*,server: https://127.0.0.1:$port," "$own_config" >"$T/proxy.conf"
    : >"$T/port"
}

begin_proxy
export KUBECONFIG=$T/proxy.conf
if ! handsfs mount -o op_timeout=3s "$S" "$M" >"$T/mount.log" 2>&1; then
    echo "not ok 1 - a session is mounted through a proxy"
    sed 's/^/# /' "$T/mount.log"
    echo '1..1'
    exit 1
fi
echo x >"$M/f"

cut_under_command()
{
    inside 'for i in 1 2 3 4 5 6; do echo $i; sleep 0.5; done' >"$T/out" &
    local client=$! code=0
    sleep 1
    kill -USR1 "$proxy"
    wait "$client" || code=$?
    [ "$code" = 0 ] && says $'1\n2\n3\n4\n5\n6' cat "$T/out" && eventually 10 cat "$M/f" && says x cat "$M/f"
}
it_holds "a command and a mount survive that every connection is cut" cut_under_command

cut_in_frame()
{
    local sum code failures=0
    inside 'head -c 4000000 /dev/urandom >big' && sum=$(inside 'sha256sum <big') || return 1
    for _ in 1 2 3 4 5; do
        kill -USR2 "$proxy"
        code=0
        handsfs read "$S" big >"$T/big" 2>"$T/err" || code=$?
        if [ "$code" = 0 ]; then
            says "$sum" sha256sum <"$T/big" || return 1
        else
            failures=$((failures + 1))
        fi
    done
    echo "$failures of 5 failed"
    eventually 10 handsfs read "$S" big && says "$sum" sh -c "'$HANDSFS' read '$S' big | sha256sum"
}
it_holds "a frame that is cut is an error or read again, and never other bytes" cut_in_frame

lost_network()
{
    local start=$EPOCHSECONDS
    kill -STOP "$proxy"
    sleep 0.5
    fails_with '' timeout -s KILL 20 cat "$M/f" || { kill -CONT "$proxy"; return 1; }
    fails_with 'timed out' timeout -s KILL 20 stat "$M/f" || { kill -CONT "$proxy"; return 1; }
    within 20 "$HANDSFS" exec -n "$S" -- true || { kill -CONT "$proxy"; return 1; }
    kill -CONT "$proxy"
    [ $((EPOCHSECONDS - start)) -le 50 ] && eventually 30 cat "$M/f" && says x cat "$M/f"
}
it_holds "a network that loses everything gives ETIMEDOUT in bounded time, and the mount comes back" lost_network

# How long a command may go without a sign of life is the mount's own time for operations.
remount() { handsfs umount "$M" && handsfs mount -o op_timeout="$1" "$S" "$M"; }

api_restarted()
{
    remount 180s || return 1
    inside 'sleep 12; echo end; exit 7' >"$T/out" 2>"$T/err" &
    local client=$! code=0
    sleep 1
    "$bed" down api || return 1
    within 30 "$HANDSFS" ls || return 1
    "$bed" up api || return 1
    wait "$client" || code=$?
    [ "$code" = 7 ] && says end cat "$T/out" || { echo "exec gave $code"; cat "$T/err"; return 1; }
    says x cat "$M/f" && remount 3s && says x cat "$M/f"
}
it_holds "an API server that stops and starts again ends neither a running command nor the mount" api_restarted

kubelet_stopped()
{
    local code=0
    inside 'sleep 3; echo end >ended' >/dev/null 2>&1 &
    local client=$!
    sleep 1
    "$bed" down kubelet || return 1
    fails_with 'timed out' timeout -s KILL 20 stat "$M/f" || code=1
    within 30 "$HANDSFS" exec -n "$S" -- true || code=1
    "$bed" up kubelet || return 1
    wait "$client"
    [ "$code" = 0 ] && eventually 60 cat "$M/f" && says x cat "$M/f" && says end inside 'cat ended'
}
it_holds "a node that does not answer is an error in bounded time, and the mount comes back" kubelet_stopped

# A command that says nothing for longer than the node lets a stream be idle; it runs beside the rest.
silent_seconds=${HANDSFS_STORY_SILENT:-90}
handsfs provision "$S-silent" >"$T/silent.log" 2>&1 &&
    { KUBECONFIG=$own_config handsfs exec -n "$S-silent" -- "sleep $silent_seconds; echo end" >"$T/silent" 2>>"$T/silent.log"
      echo $? >"$T/silent.code"; } &

pod_deleted()
{
    local code=0
    inside 'sleep 300' >/dev/null 2>"$T/err" &
    local client=$!
    sleep 1
    kubectl delete pod "$(pod_of "$S")" --now --wait=false || return 1
    wait "$client" || code=$?
    [ "$code" = 125 ] || { echo "exec gave $code"; return 1; }
    eventually 40 fails_with 'Host is down' cat "$M/f" && fails_with 'Host is down' sh -c "echo x >'$M/new'" &&
        fails_with '' handsfs exec -n "$S" -- true && handsfs provision "$S" && eventually 20 ls "$M" &&
        says '' ls -A "$M" && echo again >"$M/f" && says again inside 'cat f'
}
it_holds "a Pod deleted under a mount gives EHOSTDOWN, and the next provision brings the mount back" pod_deleted

ended_pod()
{
    local pod uid
    pod=$(pod_of "$S")
    uid=$(kubectl get pod "$pod" -o 'jsonpath={.metadata.uid}')
    # As the kubelet leaves it where it evicts: failed, and still listed.
    docker -H "unix://${HANDSFS_BED_ADMIN%/*}/docker.sock" ps -q --filter "label=io.kubernetes.pod.uid=$uid" \
        --filter label=io.kubernetes.container.name=sandbox | xargs -r docker -H "unix://${HANDSFS_BED_ADMIN%/*}/docker.sock" kill
    eventually 40 fails_with 'Host is down' cat "$M/f" && fails_with '' handsfs exec -n "$S" -- true &&
        handsfs provision "$S" && eventually 20 ls "$M" && says '' ls -A "$M"
}
it_holds "a Pod whose container has ended is gone, and provision makes another" ended_pod

# ---- What is refused. Each ends early, says why, and leaves nothing.

leaves_no_pod() { says '' pod_of "$1"; }

# refused_early SECONDS TEXT ARGUMENT...: provision fails in that time with a message that has the text.
refused_early()
{
    local seconds=$1 text=$2 start=$EPOCHSECONDS
    shift 2
    KUBECONFIG=$own_config fails_with "$text" timeout -s KILL 100 "$HANDSFS" provision "$@" "$S-refused" || return 1
    [ $((EPOCHSECONDS - start)) -le "$seconds" ] || { echo "it took $((EPOCHSECONDS - start)) s"; return 1; }
    leaves_no_pod "$S-refused"
}

it_holds "an image that does not exist ends early, with the reason" \
    refused_early 60 ErrImagePull --image "$HANDSFS_TEST_IMAGE:absent"
it_holds "a Pod that no node takes ends early, with the scheduler's reason" \
    refused_early 30 Unschedulable --set node_selector=no-node-has=this
it_holds "a limit on processes, which a Pod cannot have, is refused" refused_early 10 '' --pids 100

forbidden()
{
    KUBECONFIG=$nobody fails_with forbidden handsfs provision "$S-refused" &&
        KUBECONFIG=$nobody fails_with forbidden handsfs ls && leaves_no_pod "$S-refused" &&
        ! KUBECONFIG=$nobody handsfs doctor >"$T/doctor" 2>&1
}
it_holds "a user without the role is told what is forbidden, and by the doctor" forbidden

unauthorized()
{
    sed 's/token: .*/token: wrong/' "$own_config" >"$T/wrong.conf"
    KUBECONFIG=$T/wrong.conf fails_with '' handsfs ls
}
it_holds "a wrong token is an error" unauthorized

quota()
{
    local code=0
    kubectl create quota story --hard pods=0 && eventually 10 kubectl get quota story &&
        kubectl get --raw /api/v1/namespaces/handsfs/resourcequotas/story |
        jq '.status = {hard: {pods: "0"}, used: {pods: "0"}}' |
            kubectl replace --raw /api/v1/namespaces/handsfs/resourcequotas/story/status -f - >/dev/null || return 1
    refused_early 30 quota || code=1
    kubectl delete quota story
    return "$code"
}
it_holds "a quota that is used up ends early, with the API's own words" quota

foreign()
{
    kubectl run "handsfs-$S-foreign" --image "$image" --restart Never --labels story=yes -- sleep 1000 || return 1
    KUBECONFIG=$own_config fails_with '' handsfs provision "$S-foreign" && KUBECONFIG=$own_config handsfs destroy "$S-foreign"
    kubectl get pod "handsfs-$S-foreign" -o 'jsonpath={.metadata.deletionTimestamp}' >"$T/foreign" &&
        [ ! -s "$T/foreign" ] || { echo 'it was deleted'; return 1; }
}
it_holds "a Pod that has our name and not our label is neither adopted nor removed" foreign

silent_ended()
{
    # Not wait: a row is a shell of its own, and the command none of its children.
    eventually $((silent_seconds + 60)) test -s "$T/silent.code"
    says 0 cat "$T/silent.code" && says end cat "$T/silent" || { cat "$T/silent.log"; return 1; }
}
it_holds "a command that says nothing for $silent_seconds s outlives the stream's idle timeout" silent_ended
tap_end
