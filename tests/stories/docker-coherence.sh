#!/usr/bin/env bash
# What each side sees of the other's changes, on a Docker daemon.
. "$HANDSFS_SRCDIR/tests/tap.sh"
. "$HANDSFS_SRCDIR/tests/bed/engine.sh"
engine_begin docker
export HANDSFS_BACKEND=docker HANDSFS_IMAGE=$HANDSFS_TEST_IMAGE:debian
exec bash "$HANDSFS_SRCDIR/tests/stories/coherence.sh"
