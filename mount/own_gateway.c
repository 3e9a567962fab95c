#include "mount/own_gateway.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "exec/gateway.h"
#include "mount/attached.h"
#include "sandbox/cleanup.h"
#include "sandbox/log.h"

/* What the process keeps, under these numbers. */
enum { CONNECTION_FD = 3, LIFE_FD, REPORT_FD, FIRST_UNUSED_FD };

/* ---- The process ---------------------------------------------------------------------------- */

struct serving {
    struct attached attached;
    struct gateway *gateway;
    uv_pipe_t life;
};

static void link_ended(void *arg)
{
    (void)arg; /* the loop is empty now */
}

static void gateway_ended(void *arg)
{
    struct serving *serving = arg;

    link_close(take_ptr(serving->attached.link), link_ended, NULL);
}

static void give_room(uv_handle_t *handle, size_t wanted, uv_buf_t *ret)
{
    static char byte;

    (void)handle;
    (void)wanted;
    *ret = uv_buf_init(&byte, 1);
}

/* The verb has closed its end, or is no more. The gateway first: it waits until its commands are dead. */
static void verb_is_gone(uv_stream_t *life, ssize_t n, const uv_buf_t *buffer)
{
    struct serving *serving = life->data;

    (void)buffer;
    if (n < 0) {
        uv_close((uv_handle_t *)life, NULL);
        gateway_close(take_ptr(serving->gateway), gateway_ended, serving);
    }
}

static int begin(struct serving *serving, const struct backend *backend, const char *session,
                 struct error *err)
{
    static const struct gateway_host nobody = {.silent = true};
    int r;

    if (attached_open(&serving->attached, backend, session, err) < 0 ||
        gateway_open(&serving->gateway, &serving->attached.loop, serving->attached.link, NULL,
                     &nobody, err) < 0 ||
        gateway_serve(serving->gateway, CONNECTION_FD, err) < 0) {
        return -1;
    }
    serving->life.data = serving;
    r = uv_pipe_init(&serving->attached.loop, &serving->life, 0);
    r = r < 0 ? r : uv_pipe_open(&serving->life, LIFE_FD);
    r = r < 0 ? r : uv_read_start((uv_stream_t *)&serving->life, give_room, verb_is_gone);
    return r < 0 ? error_set_errno(err, -r, "cannot watch the verb") : 0;
}

/* Nothing of the verb's is kept but those three; where traces are wanted, its stderr too. */
static int keep_only(int connection, int life, int report)
{
    int kept[] = {connection, life, report};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int last = log_enabled(LOG_LEVEL_TRACE) ? STDOUT_FILENO : STDERR_FILENO;
    bool ok = null >= 0;

    for (unsigned i = 0; i < 3; i++) { /* out of each other's way */
        kept[i] = fcntl(kept[i], F_DUPFD_CLOEXEC, FIRST_UNUSED_FD);
        ok = ok && kept[i] >= 0;
    }
    for (int i = 0; ok && i <= last; i++) {
        ok = dup2(null, i) == i;
    }
    for (unsigned i = 0; ok && i < 3; i++) {
        ok = dup3(kept[i], CONNECTION_FD + (int)i, O_CLOEXEC) >= 0;
    }
    return ok && close_range(FIRST_UNUSED_FD, ~0U, 0) == 0 ? 0 : -1;
}

static void own_signals(void)
{
    sigset_t none;

    for (int i = 1; i < SIGRTMIN; i++) {
        signal(i, SIG_DFL);
    }
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Never returns. What the verb has in memory is not ours to put away. */
static void serve(const struct backend *backend, const char *session, int connection, int life,
                  int report) __attribute__((noreturn));
static void serve(const struct backend *backend, const char *session, int connection, int life,
                  int report)
{
    struct serving serving = {.gateway = NULL};
    struct error err = {0};

    setsid();
    own_signals();
    if (keep_only(connection, life, report) < 0) {
        _exit(1);
    }
    if (begin(&serving, backend, session, &err) < 0) {
        (void)!write(REPORT_FD, &err, sizeof err);
        _exit(1);
    }
    if (write(REPORT_FD, &err, sizeof err) != sizeof err) {
        _exit(1);
    }
    close(REPORT_FD);
    uv_run(&serving.attached.loop, UV_RUN_DEFAULT);
    _exit(0);
}

/* ---- The verb's side ------------------------------------------------------------------------ */

static void reap(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

/* Whether it serves: it says so by an error without a code. */
static int hear(int report, struct error *err)
{
    struct error said;
    ssize_t n;

    do {
        n = read(report, &said, sizeof said);
    } while (n < 0 && errno == EINTR);
    if (n != sizeof said) {
        return error_set(err, ERROR_IO, 0, "the process that is to reach the sandbox has ended");
    }
    if (said.code != ERROR_NONE) {
        *err = said;
        return -1;
    }
    return 0;
}

static void close_pair(int (*pair)[2])
{
    for (unsigned i = 0; i < 2; i++) {
        if ((*pair)[i] >= 0) {
            close((*pair)[i]);
        }
    }
}
#define cleanup_pair __attribute__((cleanup(close_pair)))

int own_gateway_open(struct own_gateway *ret, const struct backend *backend, const char *session,
                     int *ret_fd, struct error *err)
{
    cleanup_pair int connection[2] = {-1, -1};
    cleanup_pair int life[2] = {-1, -1};
    cleanup_pair int report[2] = {-1, -1};
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, connection) < 0 ||
        pipe2(life, O_CLOEXEC) < 0 || pipe2(report, O_CLOEXEC) < 0) {
        return error_set_errno(err, errno, "no way to a process that is to reach the sandbox");
    }
    pid = fork();
    if (pid < 0) {
        return error_set_errno(err, errno, "fork");
    }
    if (pid == 0) {
        serve(backend, session, connection[1], life[0], report[1]);
    }
    close(take_fd(&connection[1]));
    close(take_fd(&report[1]));
    if (hear(report[0], err) < 0) {
        close(take_fd(&life[1]));
        reap(pid);
        return -1;
    }
    *ret = (struct own_gateway){pid, take_fd(&life[1])};
    *ret_fd = take_fd(&connection[0]);
    return 0;
}

void own_gateway_close(struct own_gateway *gateway)
{
    close(gateway->life);
    reap(gateway->pid);
}
