#!/bin/bash
# The contract on the Kubernetes backend: a real cluster (tests/bed/kubernetes), as a user who has the
# role of contrib/k8s and no other. Pods are made some ahead, since one takes seconds, and one that a row has left
# clean serves the next; HANDSFS_CONTRACT_ROWS=1 gives each row its own.
. "$HANDSFS_SRCDIR/tests/tap.sh"
. "$HANDSFS_SRCDIR/tests/bed/k8s.sh"
k8s_begin
export HANDSFS_CONTRACT_AHEAD=${HANDSFS_CONTRACT_AHEAD-2}
export HANDSFS_CONTRACT_ROWS=${HANDSFS_CONTRACT_ROWS-20}
exec ${HANDSFS_WRAPPER-} "$HANDSFS_BUILDDIR/tests/contract/contract" k8s auto "$HANDSFS_TEST_IMAGE:debian"
