/* A process of this host that is no child: known by its number and the time it started, and held by a pidfd
 * where the kernel has those. */
#ifndef HANDSFS_BACKENDS_LOCAL_PROCESS_H
#define HANDSFS_BACKENDS_LOCAL_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sandbox/error.h"

struct local_process {
    pid_t pid;                /* 0: nothing certain is known of it */
    int pidfd;                /* or -1 */
    unsigned long long start; /* in the kernel's ticks since the boot */
};

#define LOCAL_NO_PROCESS {0, -1, 0}
#define cleanup_process __attribute__((cleanup(local_process_release)))
void local_process_release(struct local_process *process) __attribute__((nonnull));

/* The process that has this number now; unknown where there is none, or none to be seen. */
void local_process_of(pid_t pid, struct local_process *ret) __attribute__((nonnull));

/* Whether it, and so its number, is still the one that it was. */
bool local_process_lives(const struct local_process *process) __attribute__((nonnull));

/* Whether it is stopped (SIGSTOP, or by a tracer). */
bool local_process_frozen(const struct local_process *process) __attribute__((nonnull));

/* SIGKILL, and waits until it has ended; a PID 1 ends after all of its namespace. 0 for an unknown one.
 * ERROR_NO_ANSWER at the deadline. */
int local_process_kill(const struct local_process *process, uint64_t deadline_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
