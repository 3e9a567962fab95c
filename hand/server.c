/* What the process is, and its loop. As PID 1 of the sandbox it takes orders to end from outside only,
 * it reaps everything, and nobody inside may look into it. */
#include "hand/server.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "hand/guard.h"
#include "hand/tree.h"

#define BACKLOG 64
#define RETRY_MS 100

/* ---- Listening --------------------------------------------------------------------------------- */

/* A relay is put into our PID namespace by an engine, so it has no parent in here. All that was started inside has one:
 * at the latest us. Such a process of our user may do all that a command of the host's may, but it is not to take up the
 * connections that are there for hosts. */
static bool came_from_outside(const struct server *server, pid_t pid)
{
    return process_parent(server->executions.proc_fd, pid) == 0;
}

static bool peer_may(const struct server *server, int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0) {
        return false;
    }
    if (server->handed && peer.pid == 0) {
        return true; /* outside our PID namespace: numbers of users mean nothing between us */
    }
    if (server->handed && getpid() == 1) {
        return false;
    }
    if (getpid() == 1 && (peer.pid == 0 || came_from_outside(server, peer.pid))) {
        return true;
    }
    return getpid() != 1 && (peer.uid == 0 || peer.uid == geteuid());
}

static void listen_again(struct timer *timer)
{
    struct server *server = container_of(timer, struct server, retry);

    loop_want(&server->loop, &server->listener, EPOLLIN);
}

static void listener_ready(struct source *source, uint32_t events)
{
    struct server *server = container_of(source, struct server, listener);
    int fd = accept4(source->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    (void)events;
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
            loop_want(&server->loop, source, 0);
            loop_arm(&server->loop, &server->retry, RETRY_MS);
        }
        return;
    }
    if (server->connection_count >= HAND_MAX_CONNECTIONS || !peer_may(server, fd) ||
        connection_open(server, fd) < 0) {
        close(fd);
    }
}

/* ---- Leaving ----------------------------------------------------------------------------------- */

/* Processes that commands have left in the background keep us: they would die with us. */
static bool has_processes(void)
{
    siginfo_t info;

    return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

static void leave_over(struct timer *timer)
{
    struct server *server = container_of(timer, struct server, leave);

    server->leaving = false;
    server->stop = !has_processes();
}

/* Where it was said so, a hand that nobody needs ends. */
static void watch_need(struct server *server)
{
    bool idle = server->leave_ms != 0 && server->client_count == 0 && server->connection_count == 0;

    if (idle && !server->leaving) {
        loop_arm(&server->loop, &server->leave, server->leave_ms);
    } else if (!idle && server->leaving) {
        loop_disarm(&server->leave);
    }
    server->leaving = idle;
}

/* ---- Signals ----------------------------------------------------------------------------------- */

/* Who is below PID 1 may not end it, and a signal that was queued may claim any sender. */
static bool may_stop(const struct signalfd_siginfo *info)
{
    return getpid() != 1 || (info->ssi_code == SI_USER && info->ssi_pid == 0);
}

static void signals_ready(struct source *source, uint32_t events)
{
    struct server *server = container_of(source, struct server, signals);
    struct signalfd_siginfo info;
    bool child = false;

    (void)events;
    while (read(source->fd, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD) {
            child = true;
        } else if (may_stop(&info)) {
            server->stop = true;
        }
    }
    if (child) {
        executions_reap(&server->executions);
    }
}

/* Who started us may have ignored some; that would be handed on to every command. (Those that the C library keeps to
 * itself, 32 to 34, it does not let us touch.) */
static void ignore_no_signal(void)
{
    struct sigaction action;

    for (int s = 1; s <= 64; s++) {
        if (sigaction(s, NULL, &action) == 0 && action.sa_handler == SIG_IGN) {
            action.sa_handler = SIG_DFL;
            sigaction(s, &action, NULL);
        }
    }
}

static int signals_open(struct server *server, struct error *err)
{
    sigset_t set;
    int fd;

    /* All are blocked, for the threads of the pool too; commands start with none (supervisor.c). */
    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    ignore_no_signal();
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0 || loop_add(&server->loop, &server->signals, fd, EPOLLIN, signals_ready) < 0) {
        return error_set_errno(err, errno, "signalfd");
    }
    return 0;
}

/* ---- The process ------------------------------------------------------------------------------- */

static int protect_process(struct executions *set, struct error *err)
{
    struct rlimit all;

    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ||
        (getpid() != 1 && prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) < 0)) {
        return error_set_errno(err, errno, "prctl");
    }
    guard_limits();
    set->umask = umask(0); /* modes are the host's to say */
    if (getrlimit(RLIMIT_NOFILE, &set->descriptors) < 0) {
        return error_set_errno(err, errno, "getrlimit");
    }
    all = set->descriptors;
    all.rlim_cur = all.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &all) < 0 ? error_set_errno(err, errno, "setrlimit") : 0;
}

static int make_directories(const char *path, struct error *err)
{
    char *copy = strdup(path);
    int r = 0;

    if (copy == NULL) {
        return error_set_errno(err, ENOMEM, "%s", path);
    }
    for (char *p = copy + 1; r == 0; p++) {
        char c = *p;

        if (c != '/' && c != '\0') {
            continue;
        }
        *p = '\0';
        if (mkdir(copy, 0755) < 0 && errno != EEXIST && (c == '\0' || errno != EROFS)) {
            r = error_set_errno(err, errno, "mkdir %s", copy);
        }
        *p = c;
        if (c == '\0') {
            break;
        }
    }
    free(copy);
    return r;
}

static int open_or_say(const char *path, int flags, struct error *err)
{
    int fd = open(path, flags | O_CLOEXEC);

    return fd < 0 ? error_set_errno(err, errno, "%s", path) : fd;
}

static int open_places(struct server *server, const char *workdir, struct error *err)
{
    struct executions *set = &server->executions;

    if (workdir[0] != '/') {
        return error_set(err, ERROR_BAD_REQUEST, 0, "%s: not an absolute path", workdir);
    }
    server->workdir = strdup(workdir);
    if (server->workdir == NULL) {
        return error_set_errno(err, ENOMEM, "%s", workdir);
    }
    set->workdir = server->workdir;
    server->root_fd = open_or_say("/", O_PATH | O_DIRECTORY, err);
    set->proc_fd = server->root_fd < 0 ? -1 : open_or_say("/proc", O_RDONLY | O_DIRECTORY, err);
    set->null_fd = set->proc_fd < 0 ? -1 : open_or_say("/dev/null", O_RDONLY, err);
    set->program_fd = set->null_fd < 0 ? -1 : open_or_say("/proc/self/exe", O_PATH, err);
    if (set->program_fd < 0) {
        return -1;
    }
    /* Commands have something of their own there: nothing else gets these numbers. */
    (void)dup3(set->null_fd, COMMAND_TEXT_FD, O_CLOEXEC);
    (void)dup3(set->null_fd, COMMAND_STATE_FD, O_CLOEXEC);
    /* Who made the sandbox may know a way, and whose it must be. */
    if (access(workdir, F_OK) < 0 && make_directories(workdir, err) < 0) {
        size_t length = strlen(err->message);

        snprintf(err->message + length, sizeof err->message - length, " (as user %u:%u)",
                 (unsigned)geteuid(), (unsigned)getegid());
        return -1;
    }
    terminals_find(set);
    oom_find(set);
    set->workdir_fd = open_or_say(workdir, O_PATH | O_DIRECTORY, err);
    return set->workdir_fd < 0 ? -1 : 0;
}

static int introduce(struct server *server, struct error *err)
{
    struct wire_welcome *w = &server->welcome;
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0, 0, 0}};
    struct utsname name;

    if (getrandom(w->instance, sizeof w->instance, 0) != sizeof w->instance) {
        return error_set_errno(err, errno, "getrandom");
    }
    if (uname(&name) < 0 || syscall(SYS_capget, &header, data) < 0) {
        return error_set_errno(err, errno, "capget");
    }
    w->uid = geteuid();
    w->gid = getegid();
    w->capabilities = data[0].effective | (uint64_t)data[1].effective << 32;
    w->workdir = (struct wire_text){server->workdir, strlen(server->workdir)};
    w->version = (struct wire_text){HANDSFS_VERSION, strlen(HANDSFS_VERSION)};
    strncpy(server->machine, name.machine, sizeof server->machine - 1);
    w->machine = (struct wire_text){server->machine, strnlen(server->machine, 64)};
    return 0;
}

/* ---- The server -------------------------------------------------------------------------------- */

static void work_ready(struct source *source, uint32_t events)
{
    (void)events;
    clients_take_results(container_of(source, struct server, work));
}

static int server_listen(struct server *server, const struct server_options *options,
                         struct error *err)
{
    int flags = fcntl(options->listen_fd, F_GETFL);

    server->handed = options->handed;
    server->linger_ms = options->linger_ms;
    server->apart_ms = options->apart_ms;
    server->leave_ms = options->leave_ms;
    timer_init(&server->retry, listen_again);
    timer_init(&server->leave, leave_over);
    if (flags < 0 || fcntl(options->listen_fd, F_SETFL, flags | O_NONBLOCK) < 0 ||
        fcntl(options->listen_fd, F_SETFD, FD_CLOEXEC) < 0 || listen(options->listen_fd, BACKLOG) < 0 ||
        loop_add(&server->loop, &server->listener, options->listen_fd, EPOLLIN, listener_ready) < 0) {
        return error_set_errno(err, errno, "listen");
    }
    return 0;
}

int server_new(struct server **ret, const struct server_options *options, struct error *err)
{
    struct server *server = calloc(1, sizeof *server); /* lives as long as the process */

    if (server == NULL) {
        return error_set_errno(err, ENOMEM, "server");
    }
    list_init(&server->clients);
    list_init(&server->connections);
    server->executions.loop = &server->loop;
    executions_init(&server->executions);
    if (protect_process(&server->executions, err) < 0 || loop_init(&server->loop, err) < 0 ||
        signals_open(server, err) < 0 || open_places(server, options->workdir, err) < 0 ||
        introduce(server, err) < 0 || pool_new(&server->pool, err) < 0) {
        return -1;
    }
    if (loop_add(&server->loop, &server->work, pool_fd(server->pool), EPOLLIN, work_ready) < 0) {
        return error_set_errno(err, errno, "epoll_ctl");
    }
    if (server_listen(server, options, err) < 0) {
        return -1;
    }
    *ret = server;
    return 0;
}

/* Looks after every connection that something happened to; one may change another. */
static void settle_connections(struct server *server)
{
    bool again = true;

    while (again) {
        again = false;
        list_each(at, next, &server->connections) {
            struct connection *c = container_of(at, struct connection, node);

            if (c->changed) {
                again = true;
                connection_settle(c);
            }
        }
    }
}

void server_run(struct server *server)
{
    watch_need(server);
    while (!server->stop) {
        loop_turn(&server->loop);
        settle_connections(server);
        watch_need(server);
    }
    executions_kill_all(&server->executions);
}
