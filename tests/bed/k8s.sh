# shellcheck shell=bash
# What tests of the Kubernetes backend begin with: the cluster of tests/bed/kubernetes, where it runs. Source it
# after tests/tap.sh.

bed=$HANDSFS_SRCDIR/tests/bed/kubernetes

# As who may do all; $KUBECONFIG is that of who may do what the role allows.
kubectl() { "$HANDSFS_BED_KUBECTL" --kubeconfig "$HANDSFS_BED_ADMIN" -n handsfs "$@"; }

k8s_answers()
{
    [ -x "$HANDSFS_BED_KUBECTL" ] && [ -r "$HANDSFS_BED_ADMIN" ] && kubectl --request-timeout 60s get node bed
}

k8s_begin()
{
    eval "$("$bed" env)"
    unset HANDSFS_K8S_CONTEXT HANDSFS_K8S_NAMESPACE HTTPS_PROXY https_proxy ALL_PROXY all_proxy
    needs k8s 'no cluster runs here (tests/bed/kubernetes start)' k8s_answers
}
