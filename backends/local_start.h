/* Starting a session's hand. */
#ifndef HANDSFS_BACKENDS_LOCAL_START_H
#define HANDSFS_BACKENDS_LOCAL_START_H

#include "backends/local_identity.h"
#include "backends/local_record.h"

/* Starts bubblewrap with the hand as its PID 1 and returns when that says that it is ready. `directory` is
 * the path of `session_fd`. On failure, the deadline's included, nothing of it is left running. The text of
 * an error is what bubblewrap or the hand said. */
int local_start(int session_fd, const char *directory, const struct local_record *record,
                uint64_t deadline_ms, struct error *err) __attribute__((nonnull, warn_unused_result));

/* A user namespace with as many ids as this caller has, each one standing for itself; -1 in *ret_fd where
 * the kernel does not let him make one. */
void local_range_namespace(int *ret_fd) __attribute__((nonnull));

#endif
