#include "backends/local_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define PROCESS_FILE "process"
#define PROCESS_TEMPORARY "process.new"
#define LOCK_POLL_MS 5 /* flock(2) has no deadline of its own */
#define SOCKET_SUFFIX ".sock"

/* ---- The lock ---- */

static void lock_name(char name[LOCAL_NAME_BYTES], const char *session)
{
    snprintf(name, LOCAL_NAME_BYTES, ".%s.lock", session);
}

static void wait_ms(unsigned ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

/* 1 where the lock was taken, 0 at the deadline, -1 with errno. */
static int flock_until(int fd, uint64_t deadline_ms)
{
    while (flock(fd, LOCK_EX | LOCK_NB) < 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) {
            return -1;
        }
        if (clock_now_ms() >= deadline_ms) {
            return 0;
        }
        wait_ms(LOCK_POLL_MS);
    }
    return 1;
}

int local_lock(int state_fd, const char *session, uint64_t deadline_ms, int *ret_fd, struct error *err)
{
    char name[LOCAL_NAME_BYTES];

    lock_name(name, session);
    for (;;) {
        cleanup_fd int fd =
            openat(state_fd, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        struct stat held, named;
        int r;

        if (fd < 0) {
            return error_set_errno(err, errno, "the lock of session %s", session);
        }
        r = flock_until(fd, deadline_ms);
        if (r < 0) {
            return error_set_errno(err, errno, "the lock of session %s", session);
        }
        if (r == 0) {
            return error_set(err, ERROR_NO_ANSWER, 0,
                             "another handsfs is still at work on session %s", session);
        }
        /* A destroyer removes the file while it holds it: then this lock is nobody's any more. */
        if (fstat(fd, &held) == 0 && fstatat(state_fd, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
            held.st_dev == named.st_dev && held.st_ino == named.st_ino) {
            *ret_fd = take_fd(&fd);
            return 0;
        }
    }
}

void local_lock_remove(int state_fd, const char *session)
{
    char name[LOCAL_NAME_BYTES];

    lock_name(name, session);
    unlinkat(state_fd, name, 0);
}

/* ---- The directory ---- */

int local_session_open(int state_fd, const char *session, int *ret_fd, struct error *err)
{
    int fd = openat(state_fd, session, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (fd < 0) {
        return errno == ENOENT
                   ? error_set(err, ERROR_SANDBOX_GONE, ENOENT, "session %s has no sandbox", session)
                   : error_set_errno(err, errno, "session %s", session);
    }
    *ret_fd = fd;
    return 0;
}

/* The mode is given whatever the umask is. */
static int make_directory(int parent, const char *name, mode_t mode)
{
    if (mkdirat(parent, name, mode) < 0) {
        return errno == EEXIST ? 0 : -1;
    }
    return fchmodat(parent, name, mode, 0) < 0 ? -1 : 1;
}

int local_session_make(int state_fd, const char *session, int *ret_fd, bool *ret_made, struct error *err)
{
    int made = make_directory(state_fd, session, 0700);
    cleanup_fd int fd = -1;

    if (made < 0) {
        return error_set_errno(err, errno, "session %s", session);
    }
    if (local_session_open(state_fd, session, &fd, err) < 0) {
        return -1;
    }
    *ret_made = made > 0;
    if (make_directory(fd, LOCAL_WORKSPACE, 0755) < 0 || make_directory(fd, LOCAL_HOME, 0700) < 0) {
        return error_set_errno(err, errno, "the directories of session %s", session);
    }
    *ret_fd = take_fd(&fd);
    return 0;
}

/* ---- The socket ---- */

/* Through /proc, so that the path's length never matters. */
static void socket_address(struct sockaddr_un *address, int session_fd, const char *id)
{
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%s" SOCKET_SUFFIX, session_fd,
             id);
}

static void remove_sockets(int session_fd)
{
    int fd = openat(session_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_dir DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    const struct dirent *entry;

    if (dir == NULL) {
        cleanup_fd_fn(&fd);
        return;
    }
    while ((entry = readdir(dir)) != NULL) {
        size_t length = strlen(entry->d_name);
        size_t suffix = sizeof SOCKET_SUFFIX - 1;

        if (length > suffix && strcmp(entry->d_name + length - suffix, SOCKET_SUFFIX) == 0) {
            unlinkat(session_fd, entry->d_name, 0);
        }
    }
}

int local_socket_bind(int session_fd, const char *id, int *ret_fd, struct error *err)
{
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address;

    socket_address(&address, session_fd, id);
    remove_sockets(session_fd);
    /* The mode set before bind(2) is the one that the name is born with. */
    if (fd < 0 || fchmod(fd, 0600) < 0 ||
        bind(fd, (const struct sockaddr *)&address, sizeof address) < 0) {
        return error_set_errno(err, errno, "the hand's socket");
    }
    *ret_fd = take_fd(&fd);
    return 0;
}

/* connect(2) with a deadline: a Unix socket's send time-out bounds the wait for room in the queue. */
static int connect_until(int fd, const struct sockaddr_un *address, uint64_t deadline_ms)
{
    for (;;) {
        uint64_t now = clock_now_ms();
        uint64_t left = deadline_ms > now ? deadline_ms - now : 0;
        struct timeval timeout = {(time_t)(left / 1000), (suseconds_t)(left % 1000) * 1000};
        int flags = left == 0 ? O_NONBLOCK : 0;

        if (fcntl(fd, F_SETFL, flags) < 0 ||
            setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) < 0) {
            return -1;
        }
        if (connect(fd, (const struct sockaddr *)address, sizeof *address) == 0) {
            timeout = (struct timeval){0};
            return setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) < 0 ||
                           fcntl(fd, F_SETFL, O_NONBLOCK) < 0
                       ? -1
                       : 0;
        }
        if (errno != EINTR && (errno != EAGAIN || left == 0)) {
            return -1;
        }
    }
}

int local_socket_connect(int session_fd, const char *id, uint64_t deadline_ms, int *ret_fd,
                         struct error *err)
{
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un address;

    if (fd < 0) {
        return error_set_errno(err, errno, "socket");
    }
    socket_address(&address, session_fd, id);
    if (connect_until(fd, &address, deadline_ms) == 0) {
        *ret_fd = take_fd(&fd);
        return 0;
    }
    switch (errno) {
    case ENOENT:
    case ECONNREFUSED:
        return error_set(err, ERROR_SANDBOX_GONE, errno, "the sandbox is not running");
    case EAGAIN:
        return error_set(err, ERROR_NO_ANSWER, 0, "the sandbox takes no connection");
    default:
        return error_set_errno(err, errno, "connect to the hand");
    }
}

/* ---- The process ---- */

/* Numbers of processes and their times start anew with each boot. */
static void boot_id(char ret[40])
{
    cleanup_fd int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, ret, 36) : -1;

    ret[n > 0 ? n : 0] = '\0';
    if (n <= 0) {
        snprintf(ret, 40, "?");
    }
}

/* The process at the other end of a connection; 0 where it has no number here. */
static pid_t peer_pid(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 ? peer.pid : 0;
}

int local_process_write(int session_fd, const char *id, struct error *err)
{
    cleanup_process struct local_process process = LOCAL_NO_PROCESS;
    cleanup_fd int file = -1;
    cleanup_fd int fd = -1;
    char boot[40];

    if (local_socket_connect(session_fd, id, 0, &fd, err) < 0) {
        return -1;
    }
    local_process_of(peer_pid(fd), &process);
    if (process.pid == 0) {
        return 0; /* another PID namespace, or /proc hides it: nothing to write down */
    }
    boot_id(boot);
    file = openat(session_fd, PROCESS_TEMPORARY, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
                  0600);
    if (file < 0 || dprintf(file, "%d %llu %s\n", (int)process.pid, process.start, boot) < 0 ||
        renameat(session_fd, PROCESS_TEMPORARY, session_fd, PROCESS_FILE) < 0) {
        return error_set_errno(err, errno, PROCESS_FILE);
    }
    return 0;
}

void local_process_read(int session_fd, struct local_process *ret)
{
    cleanup_fd int fd = openat(session_fd, PROCESS_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    char text[128];
    char boot[40], recorded_boot[40];
    unsigned long long start;
    ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    int pid;

    *ret = (struct local_process)LOCAL_NO_PROCESS;
    text[n > 0 ? n : 0] = '\0';
    boot_id(boot);
    if (sscanf(text, "%d %llu %39s", &pid, &start, recorded_boot) != 3 ||
        strcmp(boot, recorded_boot) != 0) {
        return;
    }
    local_process_of(pid, ret);
    if (ret->start != start) {
        local_process_release(ret);
    }
}

int local_probe(int session_fd, const char *id, struct local_process *ret, struct error *err)
{
    struct error why = {0};
    cleanup_fd int fd = -1;

    *ret = (struct local_process)LOCAL_NO_PROCESS;
    if (local_socket_connect(session_fd, id, 0, &fd, &why) < 0 && why.code != ERROR_NO_ANSWER) {
        *err = why;
        return -1;
    }
    local_process_read(session_fd, ret);
    if (fd >= 0 && ret->pid != peer_pid(fd)) {
        local_process_release(ret);
    }
    return 0;
}
