/* From a spec to a running hand:
 *
 *     handsfs --fork--> (leaves at once) --fork--> bwrap (stays, waits for the hand) --clone--> hand
 *
 * bwrap is nobody's child when it runs, so it and the hand outlive this process and leave it no zombie; it
 * is in a session (setsid(2)) of its own. This process may have threads: between fork and exec only
 * async-signal-safe calls are made, so everything is prepared before. The hand gets a bound socket, on which
 * it will listen, and the writing end of a pipe, on which it says "ready" or what went wrong; if this
 * process dies in between, the hand finds the pipe broken and ends itself. */
#include "backends/local_start.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/hand_program.h"
#include "backends/local_bwrap.h"
#include "backends/local_programs.h"
#include "backends/local_state.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define READY_LINE_MAX 512
#define ERROR_TAIL_MAX 384 /* of the log's end, in an error's message */
#define RANGE_IDS 65536

/* ---- A user namespace with many ids ---- */

static int wait_for(pid_t pid)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return 0; /* SIGCHLD is ignored in this process: it is gone all the same */
        }
    }
    return status;
}

static int write_map(pid_t pid, const char *which)
{
    char path[64];
    char map[64];
    cleanup_fd int fd = -1;
    int n = snprintf(map, sizeof map, "0 0 %d", RANGE_IDS);

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, which);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, map, (size_t)n) == n ? 0 : -1;
}

/* The child that a namespace is taken from: it says when it is in it, and stays until it is killed. */
static void hold_namespace(int said, int wait)
{
    char byte = 0;

    if (unshare(CLONE_NEWUSER) == 0 && write(said, &byte, 1) == 1) {
        (void)!read(wait, &byte, 1);
    }
    _exit(0);
}

void local_range_namespace(int *ret_fd)
{
    char path[64];
    char byte;
    int said[2], wait[2];
    pid_t pid;

    *ret_fd = -1;
    if (pipe2(said, O_CLOEXEC) < 0) {
        return;
    }
    if (pipe2(wait, O_CLOEXEC) < 0) {
        close(said[0]);
        close(said[1]);
        return;
    }
    pid = fork();
    if (pid == 0) {
        close(wait[1]);
        hold_namespace(said[1], wait[0]);
    }
    close(said[1]);
    close(wait[0]);
    if (pid > 0) {
        snprintf(path, sizeof path, "/proc/%d/ns/user", (int)pid);
        if (read(said[0], &byte, 1) == 1 && write_map(pid, "uid_map") == 0 &&
            write_map(pid, "gid_map") == 0) {
            *ret_fd = open(path, O_RDONLY | O_CLOEXEC);
        }
        kill(pid, SIGKILL);
        wait_for(pid);
    }
    close(said[0]);
    close(wait[1]);
}

/* ---- The processes ---- */

/* What the child needs, prepared. */
struct launch {
    const char *bwrap;
    const char *const *argv;
    const int *inherit; /* descriptors that bwrap gets under their own numbers */
    size_t inherit_count;
    const int *groups; /* cgroup.procs to join */
    size_t group_count;
    int null_fd;
    int log_fd;
};

static void complain(const char *text)
{
    (void)!write(STDERR_FILENO, text, strlen(text));
}

/* In the grandchild: becomes bwrap. */
static void become_bwrap(const struct launch *launch)
{
    static char *const environment[] = {NULL};
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t none;

    for (int signal_number = 1; signal_number < NSIG; signal_number++) {
        sigaction(signal_number, &action, NULL);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    umask(022);
    if (dup2(launch->null_fd, 0) < 0 || dup2(launch->null_fd, 1) < 0 || dup2(launch->log_fd, 2) < 0 ||
        chdir("/") < 0) {
        _exit(126);
    }
    for (size_t i = 0; i < launch->group_count; i++) {
        if (write(launch->groups[i], "0", 1) != 1) {
            complain("cannot enter the control group\n");
            _exit(126);
        }
    }
    /* The keys of the caller's session (keyrings(7)) are none of the sandbox's. */
    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
    close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
    for (size_t i = 0; i < launch->inherit_count; i++) {
        fcntl(launch->inherit[i], F_SETFD, 0);
    }
    execve(launch->bwrap, (char *const *)launch->argv, environment);
    complain("cannot run bubblewrap\n");
    _exit(127);
}

/* Starts it as nobody's child; *ret_group is its process group, for as long as anything of it lives. */
static int spawn(const struct launch *launch, pid_t *ret_group, struct error *err)
{
    sigset_t all, before;
    pid_t pid;

    /* No handler of this program may run in the child. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid == 0) {
        pid_t grandchild;

        setsid();
        grandchild = fork();
        if (grandchild == 0) {
            become_bwrap(launch);
        }
        _exit(grandchild < 0 ? 1 : 0);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (pid < 0) {
        return error_set_errno(err, errno, "fork");
    }
    if (wait_for(pid) != 0) {
        return error_set(err, ERROR_IO, 0, "cannot start bubblewrap: no more processes");
    }
    *ret_group = pid;
    return 0;
}

/* ---- Waiting for the hand ---- */

/* Reads one line until the deadline: 1 with the line (without its end), 0 at the end of the stream, -1 at
 * the deadline. */
static int read_line(int fd, uint64_t deadline_ms, char line[READY_LINE_MAX])
{
    size_t used = 0;

    for (;;) {
        uint64_t now = clock_now_ms();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;

        line[used] = '\0';
        if (now >= deadline_ms) {
            return -1;
        }
        if (poll(&p, 1, deadline_ms - now > 60000 ? 60000 : (int)(deadline_ms - now)) <= 0) {
            continue;
        }
        n = read(fd, line + used, READY_LINE_MAX - 1 - used);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return 0;
        }
        used += (size_t)n;
        line[used] = '\0';
        if (strchr(line, '\n') != NULL || used == READY_LINE_MAX - 1) {
            line[strcspn(line, "\n")] = '\0';
            return 1;
        }
    }
}

/* The end of what was complained about, as one line. */
static void log_tail(int session_fd, char tail[ERROR_TAIL_MAX])
{
    cleanup_fd int fd = openat(session_fd, LOCAL_LOG, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;
    ssize_t n = -1;

    if (fd >= 0 && fstat(fd, &st) == 0) {
        off_t from = st.st_size >= ERROR_TAIL_MAX ? st.st_size - (ERROR_TAIL_MAX - 1) : 0;

        n = pread(fd, tail, ERROR_TAIL_MAX - 1, from);
    }
    for (n = n > 0 ? n : 0; n > 0 && tail[n - 1] == '\n'; n--) {
    }
    tail[n] = '\0';
    for (char *p = tail; *p != '\0'; p++) {
        if (*p == '\n') {
            *p = ' ';
        }
    }
}

/* The number that bwrap gave of its child ("child-pid": N), without waiting; 0 for none. */
static pid_t child_of(int info_fd)
{
    static const char key[] = "\"child-pid\":";
    char text[512];
    const char *at;
    ssize_t n;

    fcntl(info_fd, F_SETFL, O_NONBLOCK);
    n = read(info_fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    at = strstr(text, key);
    return at != NULL ? (pid_t)strtol(at + sizeof key - 1, NULL, 10) : 0;
}

/* Ends what was started in vain: bwrap, and the hand, which may have left its process group. */
static void abandon(pid_t group, int info_fd)
{
    pid_t hand = child_of(info_fd);

    if (hand > 1) {
        kill(hand, SIGKILL);
    }
    kill(-group, SIGKILL);
}

static int wait_until_ready(int session_fd, int ready_fd, int info_fd, pid_t group, uint64_t deadline_ms,
                            struct error *err)
{
    static const char refusal[] = "error: ";
    char line[READY_LINE_MAX];
    char tail[ERROR_TAIL_MAX];
    int r = read_line(ready_fd, deadline_ms, line);

    if (r > 0 && strcmp(line, "ready") == 0) {
        return 0;
    }
    log_tail(session_fd, tail);
    if (r == 0) {
        return error_set(err, ERROR_IO, 0, "the sandbox did not start: %s",
                         tail[0] != '\0' ? tail : "it ended without a word");
    }
    abandon(group, info_fd);
    if (r > 0) {
        bool refused = strncmp(line, refusal, sizeof refusal - 1) == 0;

        return error_set(err, ERROR_IO, 0, "the sandbox did not start: hand: %.300s",
                         refused ? line + sizeof refusal - 1 : line);
    }
    return error_set(err, ERROR_NO_ANSWER, 0, "the sandbox did not get ready in time%s%s",
                     tail[0] != '\0' ? ": " : "", tail);
}

/* ---- Together ---- */

/* The descriptors of one start. */
struct start {
    int socket;
    int log;
    int null;
    int ready[2];
    int info[2];
    int groups[LOCAL_MAX_CGROUPS];
    size_t group_count;
};

static void start_release(struct start *start)
{
    const int fds[] = {start->socket,   start->log,     start->null,   start->ready[0],
                       start->ready[1], start->info[0], start->info[1]};

    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        cleanup_fd_fn(&fds[i]);
    }
    while (start->group_count > 0) {
        close(start->groups[--start->group_count]);
    }
}

static int start_open(struct start *start, int session_fd, const struct local_record *record,
                      struct error *err)
{
    if (local_socket_bind(session_fd, record->id, &start->socket, err) < 0) {
        return -1;
    }
    start->log = openat(session_fd, LOCAL_LOG,
                        O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
    start->null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (start->log < 0 || start->null < 0 || pipe2(start->ready, O_CLOEXEC) < 0 ||
        pipe2(start->info, O_CLOEXEC) < 0) {
        return error_set_errno(err, errno, "start the sandbox");
    }
    for (char *const *group = record->cgroups; *group != NULL; group++) {
        cleanup_free char *path = NULL;
        int fd;

        if (asprintf(&path, "%s/cgroup.procs", *group) < 0) {
            path = NULL;
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
        fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0) {
            return error_set_errno(err, errno, "%s", path);
        }
        start->groups[start->group_count++] = fd;
    }
    return 0;
}

/* Runs bwrap with these arguments and waits for the hand. */
static int run(int session_fd, struct local_arguments *arguments, struct start *start, const char *bwrap,
               const struct local_record *record, uint64_t deadline_ms, struct error *err)
{
    char numbers[4][16];
    int inherit[LOCAL_MAX_FDS + 3];
    struct launch launch = {.bwrap = bwrap,
                            .inherit = inherit,
                            .groups = start->groups,
                            .group_count = start->group_count,
                            .null_fd = start->null,
                            .log_fd = start->log};
    int sealed;
    pid_t group = 0;

    if (local_arguments_seal(arguments, &sealed, err) < 0) {
        return -1;
    }
    memcpy(inherit, arguments->fds, arguments->fd_count * sizeof inherit[0]);
    launch.inherit_count = arguments->fd_count;
    inherit[launch.inherit_count++] = start->socket;
    inherit[launch.inherit_count++] = start->ready[1];
    inherit[launch.inherit_count++] = start->info[1];
    snprintf(numbers[0], sizeof numbers[0], "%d", sealed);
    snprintf(numbers[1], sizeof numbers[1], "%d", start->info[1]);
    snprintf(numbers[2], sizeof numbers[2], "%d", start->socket);
    snprintf(numbers[3], sizeof numbers[3], "%d", start->ready[1]);
    launch.argv = (const char *const[]){
        "bwrap",     "--args",           numbers[0],       "--info-fd",   numbers[1], "--",
        LOCAL_HAND_INSIDE, "serve",      "--workdir",      record->spec.workdir,
        "--listen-fd", numbers[2],       "--ready-fd",     numbers[3],    NULL};
    if (spawn(&launch, &group, err) < 0) {
        return -1;
    }
    close(take_fd(&start->ready[1]));
    close(take_fd(&start->info[1]));
    return wait_until_ready(session_fd, start->ready[0], start->info[0], group, deadline_ms, err);
}

int local_start(int session_fd, const char *directory, const struct local_record *record,
                uint64_t deadline_ms, struct error *err)
{
    cleanup_free char *hand = NULL;
    cleanup_free char *bwrap = NULL;
    cleanup_fd int userns_fd = -1;
    cleanup_arguments struct local_arguments arguments = {.fd_count = 0};
    __attribute__((cleanup(start_release))) struct start start = {
        .socket = -1, .log = -1, .null = -1, .ready = {-1, -1}, .info = {-1, -1}};
    struct local_identity identity;

    local_arguments_init(&arguments);
    if (local_find_bwrap(&bwrap, err) < 0 || hand_program_find(&hand, err) < 0 ||
        local_identity_of(&record->spec, &identity, err) < 0 ||
        start_open(&start, session_fd, record, err) < 0) {
        return -1;
    }
    if (identity.range) {
        local_range_namespace(&userns_fd);
    }
    if (local_arguments_build(&arguments, record, &identity, userns_fd, directory, hand, err) < 0) {
        return -1;
    }
    return run(session_fd, &arguments, &start, bwrap, record, deadline_ms, err);
}
