/* A container's process 1, where this host's kernel shows it: the ground of the fast lane. */
#ifndef HANDSFS_BACKENDS_DOCKER_PROCESS_H
#define HANDSFS_BACKENDS_DOCKER_PROCESS_H

#include <stdint.h>

#include "backends/docker_internal.h"

struct docker_process {
    int dir;                /* /proc/PID, which stays that very process's */
    unsigned long long start; /* its start, in ticks since the boot */
    struct sandbox_rights rights; /* of its file accesses, in this host's numbering */
    bool foreign_users;     /* in a user namespace of its own */
};
#define DOCKER_NO_PROCESS {.dir = -1}
void docker_process_release(struct docker_process *process) __attribute__((nonnull));
#define cleanup_docker_process __attribute__((cleanup(docker_process_release)))

/* Opens process `pid` and looks whether it is the process 1 of the container `id`: its control groups have the
 * container's id in their path, which only the host's root can make so, and it is the first of its PID namespace. -1 where it is
 * not, or is not to be seen (another host's, another PID namespace's number, not enough rights); no error, since
 * there is another way. */
int docker_process_open(pid_t pid, const char *id, struct docker_process *ret)
    __attribute__((nonnull, warn_unused_result));

/* Whether this process may go past the engine at all: root, an engine behind a Unix socket of this host, and
 * HANDSFS_DOCKER_RELAY unset (or "", "0"). */
bool docker_fast_lane(const struct docker_engine *engine) __attribute__((nonnull));

#endif
