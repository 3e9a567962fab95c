#!/bin/bash
# The contract on Podman's service.
. "$HANDSFS_SRCDIR/tests/tap.sh"
. "$HANDSFS_SRCDIR/tests/bed/engine.sh"
engine_begin podman
export HANDSFS_CONTRACT_AHEAD=${HANDSFS_CONTRACT_AHEAD-2}
exec ${HANDSFS_WRAPPER-} "$HANDSFS_BUILDDIR/tests/contract/contract" docker auto "$HANDSFS_TEST_IMAGE:debian"
