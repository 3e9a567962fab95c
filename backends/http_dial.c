#include "backends/http_dial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backends/printable.h"
#include "sandbox/cleanup.h"
#include "sandbox/log.h"

#define ERRORS_BYTES 4096 /* of the program's standard error; what is more is lost to it */
#define LEAVE_MS 200      /* to end after the connection was closed, and again after SIGTERM */
#define POLL_MS 5         /* without a pidfd */
#define NOT_RUN 127       /* what a child exits with whose program is not there, where that is not told at once */

struct http_child {
    pid_t pid;
    int pidfd; /* -1 where the kernel has none */
    int status;
    int errors; /* a file in memory that cannot grow */
};

/* The file that stands in for the program's standard error: nobody has to read it, and it is bounded. */
static int open_errors(void)
{
    cleanup_fd int fd = memfd_create("errors", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || ftruncate(fd, ERRORS_BYTES) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK) < 0) {
        return open("/dev/null", O_WRONLY | O_CLOEXEC);
    }
    return take_fd(&fd);
}

/* Gives 0 or an errno value. */
static int spawn(pid_t *ret, char *const *argv, int fd, int errors)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int r;

    sigemptyset(&none);
    sigfillset(&all);
    if (posix_spawn_file_actions_init(&actions) != 0) {
        return ENOMEM;
    }
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                              POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    r = posix_spawn_file_actions_adddup2(&actions, fd, STDIN_FILENO);
    if (r == 0) {
        r = posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO);
    }
    if (r == 0 && errors >= 0) {
        r = posix_spawn_file_actions_adddup2(&actions, errors, STDERR_FILENO);
    }
    if (r == 0) {
        r = posix_spawnp(ret, argv[0], &actions, &attributes, argv, environ);
    }
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

int http_child_start(struct http_child **ret, char *const *argv, int fd, struct error *err)
{
    cleanup_free struct http_child *child = calloc(1, sizeof *child);
    int r;

    if (child == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "run %s: out of memory", argv[0]);
    }
    child->errors = open_errors();
    r = spawn(&child->pid, argv, fd, child->errors);
    if (r != 0) {
        cleanup_fd_fn(&child->errors);
        return error_set(err, ERROR_BAD_REQUEST, r, "%s cannot be run: %s", argv[0], strerror(r));
    }
    child->pidfd = pidfd_open(child->pid, 0);
    *ret = take_ptr(child);
    return 0;
}

/* True where the child has ended and was reaped. */
static bool ended_within(struct http_child *child, int ms)
{
    const struct timespec pause = {0, POLL_MS * 1000000};
    struct pollfd p = {.fd = child->pidfd, .events = POLLIN};
    pid_t r = waitpid(child->pid, &child->status, WNOHANG);

    while (r == 0 && ms > 0) {
        if (child->pidfd >= 0) {
            poll(&p, 1, ms);
            ms = 0;
        } else {
            nanosleep(&pause, NULL);
            ms -= POLL_MS;
        }
        r = waitpid(child->pid, &child->status, WNOHANG);
    }
    return r != 0; /* -1: somebody else reaped it */
}

static void read_errors(int fd, char *words)
{
    char text[ERRORS_BYTES];
    ssize_t n = pread(fd, text, sizeof text, 0);

    copy_printable(words, HTTP_LAST_WORDS, text, n > 0 ? strnlen(text, (size_t)n) : 0);
}

void http_child_end(struct http_child *child, char *words)
{
    if (!ended_within(child, LEAVE_MS)) {
        kill(child->pid, SIGTERM);
        if (!ended_within(child, LEAVE_MS)) {
            kill(child->pid, SIGKILL);
            waitpid(child->pid, &child->status, 0);
        }
    }
    read_errors(child->errors, words);
    if (words[0] == '\0' && WIFEXITED(child->status) && WEXITSTATUS(child->status) == NOT_RUN) {
        snprintf(words, HTTP_LAST_WORDS, "it cannot be run");
    }
    if (words[0] != '\0') {
        log_trace("the program of a connection said: %s", words);
    }
    cleanup_fd_fn(&child->errors);
    cleanup_fd_fn(&child->pidfd);
    free(child);
}
