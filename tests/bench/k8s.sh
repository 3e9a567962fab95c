# shellcheck shell=bash
# The rows about Kubernetes, where the cluster of tests/bed/kubernetes runs. Sourced by bench.sh; $work, $T, beside
# and row are its own.
# shellcheck disable=SC2154

k8s_rows()
(
    local bed kubectl pod S=bench-k8s-$$ M=$T/k8s
    bed=$(dirname "${BASH_SOURCE[0]}")/../bed/kubernetes
    eval "$("$bed" env)"
    kubectl="$HANDSFS_BED_KUBECTL --kubeconfig $KUBECONFIG"
    $kubectl get pods >/dev/null 2>&1 || return 0
    export HANDSFS_BACKEND=k8s HANDSFS_IMAGE=$HANDSFS_TEST_IMAGE:debian
    mkdir "$M"
    # shellcheck disable=SC2064
    trap "'$HANDSFS' umount '$M' >/dev/null 2>&1; '$HANDSFS' destroy '$S' >/dev/null 2>&1" EXIT
    handsfs mount "$S" "$M" >/dev/null
    pod=$($kubectl get pods -o json | jq -r --arg s "$S" \
        '.items[].metadata | select(.annotations["io.handsfs.session"] == $s) | .name')
    head -c 4194304 /dev/urandom >"$T/large"
    cp "$T/large" "$M/large"
    printf '#!/bin/sh\nexec %s write %s written <%s\n' "$HANDSFS" "$S" "$T/large" >"$T/k8s-write"
    printf '#!/bin/sh\nexec %s cp %s %s:/workspace/copied >/dev/null 2>&1\n' "$kubectl" "$T/large" "$pod" >"$T/k8s-cp-in"
    printf '#!/bin/sh\nexec %s read %s large >%s\n' "$HANDSFS" "$S" "$T/read" >"$T/k8s-read"
    printf '#!/bin/sh\nexec %s cp %s:/workspace/large %s >/dev/null 2>&1\n' "$kubectl" "$pod" "$T/read" >"$T/k8s-cp-out"
    chmod +x "$T"/k8s-*
    beside 'k8s: exec of true, p50' 'kubectl exec' ms 1 : : "$work exec $M.sock $execs" \
        "$work spawn 10 $kubectl exec $pod -c sandbox -- true"
    beside 'k8s: exec of true by the command line' 'kubectl exec' ms 1 : : "$work spawn 10 $HANDSFS exec -n $S -- true" \
        "$work spawn 10 $kubectl exec $pod -c sandbox -- true"
    # Through the mount, from a program's side: fsync included, and what is read was not in the cache.
    remount_k8s() { handsfs umount "$M" >/dev/null; handsfs mount "$S" "$M" >/dev/null; }
    beside 'k8s: write of 4 MiB through the mount, fsync' 'kubectl cp' ms 1 : : "$work write $M 5" "$work spawn 5 $T/k8s-cp-in"
    beside 'k8s: read of 4 MiB through the mount, cold' 'kubectl cp' ms 1 remount_k8s : "$work read $M 5" "$work spawn 5 $T/k8s-cp-out"
    beside 'k8s: write of 4 MiB, by the command line' 'kubectl cp' ms 1 : : "$work spawn 5 $T/k8s-write" "$work spawn 5 $T/k8s-cp-in"
    beside 'k8s: read of 4 MiB, by the command line' 'kubectl cp' ms 1 : : "$work spawn 5 $T/k8s-read" "$work spawn 5 $T/k8s-cp-out"
    row 'k8s: bytes after all of that' "$(cmp -s "$T/large" "$M/large" && cmp -s "$T/large" "$M/written" && echo the same || echo OTHERS)" '' '' ''
)
k8s_rows
