#include "backends/local_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <time.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define STAT_BYTES 1024 /* of /proc/PID/stat; the start time comes well before */
#define STAT_START_FIELD 22
#define POLL_MS 5 /* without a pidfd */

/* Reads /proc/PID/stat and points behind the process's name, which may hold anything. */
static const char *read_stat(pid_t pid, char text[STAT_BYTES])
{
    char path[64];
    cleanup_fd int fd = -1;
    const char *end;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, text, STAT_BYTES - 1) : -1;
    if (n <= 0) {
        return NULL;
    }
    text[n] = '\0';
    end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' ? end + 2 : NULL;
}

/* The state's letter and the start time of proc(5); -1 where there is no such process to be seen. */
static int look(pid_t pid, char *ret_state, unsigned long long *ret_start)
{
    char text[STAT_BYTES];
    const char *at = read_stat(pid, text);

    if (at == NULL) {
        return -1;
    }
    *ret_state = at[0];
    for (int field = 3; at != NULL && field < STAT_START_FIELD; field++) {
        at = strchr(at, ' ');
        at = at != NULL ? at + 1 : NULL;
    }
    *ret_start = at != NULL ? strtoull(at, NULL, 10) : 0;
    return at != NULL ? 0 : -1;
}

void local_process_release(struct local_process *process)
{
    cleanup_fd_fn(&process->pidfd);
    *process = (struct local_process)LOCAL_NO_PROCESS;
}

void local_process_of(pid_t pid, struct local_process *ret)
{
    char state;

    *ret = (struct local_process)LOCAL_NO_PROCESS;
    if (pid <= 1) {
        return;
    }
    /* The descriptor first: what is then seen of the number is seen of its process. */
    ret->pidfd = pidfd_open(pid, 0);
    if ((ret->pidfd < 0 && errno != ENOSYS) || look(pid, &state, &ret->start) < 0) {
        local_process_release(ret);
        return;
    }
    ret->pid = pid;
}

bool local_process_lives(const struct local_process *process)
{
    struct pollfd p = {.fd = process->pidfd, .events = POLLIN};
    unsigned long long start;
    char state;

    if (process->pidfd >= 0) {
        return poll(&p, 1, 0) == 0;
    }
    return process->pid > 0 && look(process->pid, &state, &start) == 0 && start == process->start &&
           state != 'Z' && state != 'X';
}

bool local_process_frozen(const struct local_process *process)
{
    unsigned long long start;
    char state;

    return process->pid > 0 && look(process->pid, &state, &start) == 0 && (state == 'T' || state == 't');
}

static int send_kill(const struct local_process *process)
{
    if (process->pidfd >= 0) {
        return pidfd_send_signal(process->pidfd, SIGKILL, NULL, 0);
    }
    if (!local_process_lives(process)) {
        errno = ESRCH;
        return -1;
    }
    return kill(process->pid, SIGKILL);
}

int local_process_kill(const struct local_process *process, uint64_t deadline_ms, struct error *err)
{
    const struct timespec pause = {0, POLL_MS * 1000000};

    if (process->pid == 0) {
        return 0;
    }
    if (send_kill(process) < 0 && errno != ESRCH) {
        return error_set_errno(err, errno, "kill the sandbox");
    }
    while (local_process_lives(process)) {
        uint64_t now = clock_now_ms();
        uint64_t left = deadline_ms > now ? deadline_ms - now : 0;
        struct pollfd p = {.fd = process->pidfd, .events = POLLIN};

        if (left == 0) {
            return error_set(err, ERROR_NO_ANSWER, 0, "the sandbox's processes do not end (killed)");
        }
        if (process->pidfd < 0) {
            nanosleep(&pause, NULL);
        } else {
            poll(&p, 1, left < INT_MAX ? (int)left : INT_MAX);
        }
    }
    return 0;
}
