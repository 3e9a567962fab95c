#!/bin/bash
# The contract on the local backend, everything over the stream to the hand.
exec ${HANDSFS_WRAPPER-} "$HANDSFS_BUILDDIR/tests/contract/contract" local stream
