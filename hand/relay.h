/* `hand connect`: joins this process's standard input and output with the hand's socket. */
#ifndef HANDSFS_HAND_RELAY_H
#define HANDSFS_HAND_RELAY_H

#include "sandbox/error.h"

#define RELAY_BUFFER_BYTES 65536

/* Returns 0 when either side has ended. ERROR_NOT_WRITABLE where another process than `peer_pid` (0: any) listens. */
int relay_run(const char *socket_path, int peer_pid, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
