/* The local backend: Linux namespaces through bubblewrap(1), no daemon. See handsfs-local(7). */
#ifndef HANDSFS_BACKENDS_LOCAL_H
#define HANDSFS_BACKENDS_LOCAL_H

#include "sandbox/sandbox.h"

extern const struct backend backend_local;

#endif
