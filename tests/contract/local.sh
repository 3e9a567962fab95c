#!/bin/bash
# The contract on the local backend, files served in this process where they can be.
exec ${HANDSFS_WRAPPER-} "$HANDSFS_BUILDDIR/tests/contract/contract" local auto
