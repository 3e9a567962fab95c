#include "mount/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "sandbox/log.h"

#define THREADS "8" /* of libuv's pool: calls that block in this host's kernel */
#define ARENAS 2    /* of malloc: one a thread would cost memory and give nothing here */

/* What a process that serves needs, in the background and in the foreground. Before any thread. */
static void prepare(void)
{
    struct rlimit files;

    mallopt(M_ARENA_MAX, ARENAS);
    mallopt(M_TRIM_THRESHOLD, 256 * 1024);
    mallopt(M_MMAP_THRESHOLD,
            128 * 1024); /* set, so that it does not grow: large blocks go back at once */
    setenv("UV_THREADPOOL_SIZE", THREADS, 1);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a limit of ours on a file's size is EFBIG for one caller, not our end */
    umask(0); /* modes of new files are the caller's, and the kernel has applied its mask */
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
}

/* ---- In the background ---------------------------------------------------------------------- */

/* The child's ends of what it shares with its parent. */
struct background {
    int parent; /* the pipe that is told how it went */
    int null;   /* /dev/null */
};

/* Tells the parent: the error as it is, ERROR_NONE for success. It is the same program. Programs that the
 * start runs (fusermount3) have been able to say why they fail; from here on nobody listens. */
static int tell_parent(void *arg, const struct error *err)
{
    struct background *background = arg;
    const struct error none = {0};
    ssize_t n;

    dup2(background->null, STDERR_FILENO);
    close(take_fd(&background->null));
    n = write(background->parent, err != NULL ? err : &none, sizeof none);
    close(take_fd(&background->parent));
    return n == (ssize_t)sizeof none ? 0 : -1;
}

/* Leaves terminal, session, folder and standard streams, but for standard error. */
static int detach(int null, struct error *err)
{
    if (null < 0 || setsid() < 0 || chdir("/") < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(null, STDOUT_FILENO) < 0) {
        return error_set_errno(err, errno, "cannot become a daemon");
    }
    log_to_syslog();
    return 0;
}

static void run_child(const struct mount_plan *plan, int parent) __attribute__((noreturn));
static void run_child(const struct mount_plan *plan, int parent)
{
    struct background background = {
        .parent = parent,
        .null = open("/dev/null", O_RDWR | O_CLOEXEC),
    };
    struct error err = {0};

    prepare();
    if (detach(background.null, &err) < 0) {
        tell_parent(&background, &err);
        _exit(EXIT_FAILURE);
    }
    exit(serve(plan, tell_parent, &background));
}

/* Says of what the child died that told nothing. */
static int child_died(pid_t pid, struct error *err)
{
    int status = 0;

    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFSIGNALED(status)) {
        return error_set(err, ERROR_IO, 0, "the daemon was killed by signal %d (%s)",
                         WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    return error_set(err, ERROR_IO, 0, "the daemon ended without a word");
}

/* Waits for what the child has to tell. */
static int hear_child(int fd, pid_t pid, struct error *err)
{
    uint64_t deadline = clock_now_ms() + SERVE_START_MS + SERVE_END_MS;
    struct error told = {0};

    for (;;) {
        struct pollfd waiting = {.fd = fd, .events = POLLIN};
        uint64_t now = clock_now_ms();
        int r = poll(&waiting, 1, now < deadline ? (int)(deadline - now) : 0);

        if (r == 0) {
            kill(pid, SIGTERM);
            return error_set(err, ERROR_NO_ANSWER, 0, "the daemon is not ready after %d s",
                             (SERVE_START_MS + SERVE_END_MS) / 1000);
        }
        if (r > 0) {
            break;
        }
    }
    if (read(fd, &told, sizeof told) != (ssize_t)sizeof told) {
        return child_died(pid, err);
    }
    if (told.code != ERROR_NONE) {
        told.message[sizeof told.message - 1] = '\0';
        *err = told;
        return -1;
    }
    return 0;
}

int daemon_start(const struct mount_plan *plan, struct error *err)
{
    int fds[2];
    pid_t pid;
    int r;

    if (pipe2(fds, O_CLOEXEC) < 0) {
        return error_set_errno(err, errno, "cannot make a pipe");
    }
    fflush(NULL);
    pid = fork();
    if (pid < 0) {
        r = error_set_errno(err, errno, "cannot start the daemon");
        close(fds[0]);
        close(fds[1]);
        return r;
    }
    if (pid == 0) {
        close(fds[0]);
        run_child(plan, fds[1]);
    }
    close(fds[1]);
    r = hear_child(fds[0], pid, err);
    close(fds[0]);
    return r;
}

/* ---- In the foreground ---------------------------------------------------------------------- */

struct foreground {
    const struct mount_plan *plan;
    struct error *err;
    bool failed;
};

static int say_ready(void *arg, const struct error *err)
{
    struct foreground *foreground = arg;

    if (err != NULL) {
        *foreground->err = *err;
        foreground->failed = true;
    } else {
        log_info("%s is mounted on %s", foreground->plan->session, foreground->plan->mountpoint);
    }
    return 0;
}

int daemon_foreground(const struct mount_plan *plan, struct error *err)
{
    struct foreground foreground = {.plan = plan, .err = err};

    prepare();
    serve(plan, say_ready, &foreground);
    return foreground.failed ? -1 : 0;
}
