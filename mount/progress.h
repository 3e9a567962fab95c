/* Long work, shown on a terminal: one line of standard error that changes and is gone at the end. Where
 * standard error is no terminal nothing is said. */
#ifndef HANDSFS_MOUNT_PROGRESS_H
#define HANDSFS_MOUNT_PROGRESS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "sandbox/sandbox.h"

#define PROGRESS_SIGNALS 3
#define PROGRESS_PAUSE_MS 100 /* between two changes */

struct progress {
    struct sandbox_progress sandbox; /* first: what the backends are given */
    int fd;                          /* the terminal, or -1 */
    uint64_t next_ms;                /* nothing is written before */
    bool shown;                      /* there is a line, and signals are caught */
    struct sigaction before[PROGRESS_SIGNALS];
};

/* On this descriptor, if that is a terminal; not with a log that goes there, too. From begin to end the work is
 * done by one thread. While a line is shown, a signal that ends the process takes it away first. */
void progress_begin(struct progress *progress, int fd) __attribute__((nonnull));
void progress_end(struct progress *progress) __attribute__((nonnull));

#endif
