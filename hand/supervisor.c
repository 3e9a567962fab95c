/* Everything here after the fork is a plain system call: the hand has threads, so that locks of its C
 * library may be held for ever in the child. */
#include "hand/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_STACK_BYTES 16384
#define KEPT_MAX 8

/* struct rusage as the kernel writes it: utime, stime, then fourteen longs. */
struct rusage_of_kernel {
    long utime[2], stime[2];
    long maxrss;
    long rest[13];
};

/* What the command's process and its supervisor share until execve(2). */
struct start {
    const struct launch *launch;
    bool failed; /* and was told so */
};

static void tell(int fd, const struct report *report)
{
    while (write(fd, report, sizeof *report) < 0 && errno == EINTR) {
    }
}

static void tell_failure(int fd, uint32_t step, int os_errno)
{
    struct report report = {
        .kind = REPORT_FAILED,
        .step = step,
        .os_errno = os_errno > 0 ? os_errno : EIO,
    };

    tell(fd, &report);
}

/* ---- Descriptors ----------------------------------------------------------------------------- */

static void close_between(unsigned first, unsigned last)
{
    struct rlimit limit = {.rlim_cur = 1024, .rlim_max = 1024};

    if (first > last) {
        return;
    }
#ifdef SYS_close_range
    if (syscall(SYS_close_range, first, last, 0) == 0) {
        return;
    }
#endif
    getrlimit(RLIMIT_NOFILE, &limit);
    for (unsigned fd = first; fd <= last && fd < limit.rlim_cur; fd++) {
        close((int)fd);
    }
}

/* Closes all but these. */
static void close_others(const int *kept, size_t count)
{
    unsigned from = 0;

    for (;;) {
        unsigned next = ~0u;

        for (size_t i = 0; i < count; i++) {
            if (kept[i] >= 0 && (unsigned)kept[i] >= from && (unsigned)kept[i] < next) {
                next = (unsigned)kept[i];
            }
        }
        if (next == ~0u) {
            close_between(from, next);
            return;
        }
        if (next > 0) {
            close_between(from, next - 1);
        }
        from = next + 1;
    }
}

/* ---- The command's process -------------------------------------------------------------------- */

/* The hand ignores none (server.c), and what has a handler is reset by execve(2). */
static void unblock_signals(void)
{
    sigset_t none;

    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Returns only where it fails, with errno and the step that did. */
static uint32_t become(const struct launch *l)
{
    struct report born = {.kind = REPORT_BORN, .pid = getpid()};

    setsid();
    umask(l->umask);
    if (l->terminal && ioctl(l->in, TIOCSCTTY, 0) < 0) {
        return -1;
    }
    if (setrlimit(RLIMIT_NOFILE, &l->descriptors) < 0) {
        return LAUNCH_SETUP;
    }
    if (fchdir(l->workdir) < 0 || (l->cwd != NULL && chdir(l->cwd) < 0)) {
        return LAUNCH_CHDIR;
    }
    if (dup2(l->in, 0) < 0 || dup2(l->out, 1) < 0 || dup2(l->err, 2) < 0) {
        return LAUNCH_SETUP;
    }
    if (l->text == COMMAND_TEXT_FD ? fcntl(l->text, F_SETFD, 0) < 0
                                   : l->text >= 0 && dup2(l->text, COMMAND_TEXT_FD) < 0) {
        return LAUNCH_SETUP;
    }
    if (l->state >= 0 && dup2(l->state, COMMAND_STATE_FD) < 0) {
        return LAUNCH_SETUP;
    }
    unblock_signals();
    tell(l->report, &born);
    if (l->program >= 0) {
        syscall(SYS_execveat, l->program, "", l->argv, l->env, AT_EMPTY_PATH);
    } else {
        execve(l->argv[0], l->argv, l->env);
    }
    return LAUNCH_EXEC;
}

static int command_main(void *arg)
{
    struct start *start = arg;
    uint32_t step = become(start->launch);

    tell_failure(start->launch->report, step, errno);
    start->failed = true;
    _exit(127);
}

/* The child borrows this process's memory until it has executed. */
static pid_t command_start(struct start *start)
{
    _Alignas(16) char stack[CHILD_STACK_BYTES];

    return clone(command_main, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, start);
}

/* ---- The supervisor --------------------------------------------------------------------------- */

static int status_of(const siginfo_t *info)
{
    return info->si_code == CLD_EXITED ? (info->si_status & 0xff) << 8 : info->si_status & 0x7f;
}

/* Reports the command's end before the zombie is taken away: killed in between, this process leaves the
 * status for the hand to find. */
static void report_end(int fd, pid_t command, const siginfo_t *info, const struct rusage_of_kernel *use)
{
    struct report report = {
        .kind = REPORT_ENDED,
        .pid = command,
        .status = status_of(info),
        .user_us = (uint64_t)use->utime[0] * 1000000 + (uint64_t)use->utime[1],
        .system_us = (uint64_t)use->stime[0] * 1000000 + (uint64_t)use->stime[1],
        .peak_kib = (uint64_t)use->maxrss,
    };

    tell(fd, &report);
}

/* Takes away what is dead; returns whether anything lives on. */
static bool reap_dead(void)
{
    pid_t pid;

    do {
        pid = waitpid(-1, NULL, WNOHANG);
    } while (pid > 0);
    return pid == 0;
}

static void watch(int fd, pid_t command)
{
    struct rusage_of_kernel use;
    struct report rest = {.kind = REPORT_REST, .pid = command};
    siginfo_t info;

    for (;;) {
        memset(&info, 0, sizeof info);
        memset(&use, 0, sizeof use);
        if (syscall(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOWAIT, &use) < 0) {
            if (errno == EINTR) {
                continue;
            }
            return; /* no child is left */
        }
        if (info.si_pid != command) {
            waitpid(info.si_pid, NULL, 0);
            continue;
        }
        report_end(fd, command, &info, &use);
        waitpid(command, NULL, 0);
        rest.others = reap_dead();
        tell(fd, &rest);
        command = 0;
    }
}

static _Noreturn void supervisor_main(const struct launch *l)
{
    const int needed[KEPT_MAX] = {l->in, l->out, l->err, l->report, l->workdir, l->text, l->program, l->state};
    struct report report = {.kind = REPORT_STARTED};
    struct start start = {.launch = l};

    setsid();
    if (prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0) {
        tell_failure(l->report, LAUNCH_SETUP, errno);
        _exit(1);
    }
    close_others(needed, KEPT_MAX);
    report.pid = command_start(&start);
    if (report.pid < 0) {
        tell_failure(l->report, LAUNCH_FORK, errno);
    }
    if (report.pid < 0 || start.failed) {
        _exit(1);
    }
    close_others(&l->report, 1);
    tell(l->report, &report);
    watch(l->report, report.pid);
    _exit(0);
}

pid_t supervisor_start(const struct launch *launch)
{
    pid_t pid = fork();

    if (pid == 0) {
        supervisor_main(launch);
    }
    return pid;
}
