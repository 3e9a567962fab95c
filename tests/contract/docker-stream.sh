#!/bin/bash
# The contract on a Docker daemon as from another machine: all through the relay and the engine's streams.
. "$HANDSFS_SRCDIR/tests/tap.sh"
. "$HANDSFS_SRCDIR/tests/bed/engine.sh"
engine_begin docker
export HANDSFS_DOCKER_RELAY=1
export HANDSFS_CONTRACT_AHEAD=${HANDSFS_CONTRACT_AHEAD-2}
exec ${HANDSFS_WRAPPER-} "$HANDSFS_BUILDDIR/tests/contract/contract" docker stream "$HANDSFS_TEST_IMAGE:debian"
