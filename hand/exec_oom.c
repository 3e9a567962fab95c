/* Whether the kernel killed a process of a command because memory had run out. The kernel counts such kills
 * in the sandbox's memory cgroup, not in a process's status; so the count is looked at before and after.
 * Where several commands ran and none of them died of SIGKILL, nobody knows whose process it was. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "hand/exec.h"

#define COUNTER "oom_kill "
#define KILLED_CODE (128 + SIGKILL) /* what a shell says of a child's end */

/* The number on the counter's line. */
static uint64_t read_count(int fd)
{
    char text[1024];
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    const char *line = text;

    if (n <= 0) {
        return OOM_UNKNOWN;
    }
    text[n] = '\0';
    while (line != NULL && strncmp(line, COUNTER, strlen(COUNTER)) != 0) {
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    return line != NULL ? strtoull(line + strlen(COUNTER), NULL, 10) : OOM_UNKNOWN;
}

/* In a container these are the container's own; where no cgroup has limits of its own, they are not there. */
void oom_find(struct executions *set)
{
    static const char *const places[] = {"/sys/fs/cgroup/memory.events",
                                         "/sys/fs/cgroup/memory/memory.oom_control"};

    set->oom_fd = -1;
    for (unsigned i = 0; i < sizeof places / sizeof places[0] && set->oom_fd < 0; i++) {
        int fd = open(places[i], O_RDONLY | O_NONBLOCK | O_CLOEXEC);

        if (fd >= 0 && read_count(fd) == OOM_UNKNOWN) {
            close(fd);
        } else {
            set->oom_fd = fd;
        }
    }
}

uint64_t oom_count(const struct executions *set)
{
    return set->oom_fd < 0 ? OOM_UNKNOWN : read_count(set->oom_fd);
}

enum wire_oom oom_since_start(const struct execution *e)
{
    uint64_t now = oom_count(e->set);

    if (now == OOM_UNKNOWN || e->oom_before == OOM_UNKNOWN) {
        return WIRE_OOM_UNKNOWN;
    }
    if (now == e->oom_before) {
        return WIRE_OOM_NO;
    }
    return e->exit.signal == SIGKILL || e->exit.exit_code == KILLED_CODE || e->set->count == 1
               ? WIRE_OOM_YES
               : WIRE_OOM_UNKNOWN;
}
