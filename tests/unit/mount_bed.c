#include "tests/unit/mount_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/cleanup.h"

struct mount_bed mount_bed;

static uv_loop_t loop;
static pthread_t thread;
static uv_async_t wake;
static sem_t ready; /* posted when what was asked of the loop is done */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void (*asked)(void *arg); /* protected by lock, as its argument */
static void *asked_arg;
static struct fs_options bed_options;
static struct error open_error;
static bool opened;

bool mount_bed_possible(void)
{
    const char *required = getenv("HANDSFS_REQUIRE");

    return (required != NULL && strstr(required, "fuse") != NULL) ||
           (geteuid() == 0 && access("/dev/fuse", R_OK | W_OK) == 0);
}

/* ---- The loop's thread -------------------------------------------------------------------------- */

static void *control_exec(void *ctx, const char *request, size_t length,
                          void (*done)(void *arg, const char *text, size_t length), void *arg)
{
    mount_bed.execs++;
    if (length < 4 || strncmp(request, "hang", 4) != 0) {
        done(arg, request, length);
    }
    return ctx;
}

static void control_cancel(void *ctx __attribute__((unused)), void *token __attribute__((unused)))
{
    mount_bed.cancels++;
}

static int control_status(void *ctx __attribute__((unused)), struct buffer *out)
{
    return buffer_append_string(out, "{\"state\": \"up\"}\n");
}

static void kernel_ended(void *arg __attribute__((unused)))
{
    mount_bed.ended = true;
}

static void woken(uv_async_t *async __attribute__((unused)))
{
    void (*what)(void *arg);
    void *arg;

    pthread_mutex_lock(&lock);
    what = asked;
    arg = asked_arg;
    asked = NULL;
    pthread_mutex_unlock(&lock);
    if (what != NULL) {
        what(arg);
    }
}

static void *run(void *arg __attribute__((unused)))
{
    static const struct fs_control control = {
        .exec = control_exec,
        .exec_cancel = control_cancel,
        .status = control_status,
        .ctx = &mount_bed,
    };

    /* Descriptors of its own: when the test is killed while it waits for the mount, this thread ends, its
     * end of the mount with it, and so the test is let go. */
    ck_assert_int_eq(unshare(CLONE_FILES), 0);
    mount_bed.link = files_link_new(&loop, mount_bed.folder, "/inside");
    opened = fs_open(&mount_bed.fs, &loop, mount_bed.link, mount_bed.mount, "test", &bed_options,
                     &control, kernel_ended, NULL, &open_error) == 0;
    sem_post(&ready);
    if (!opened) {
        uv_close((uv_handle_t *)&wake, NULL);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    files_link_free(mount_bed.link);
    uv_loop_close(&loop);
    return NULL;
}

static void ask(void (*what)(void *arg), void *arg)
{
    pthread_mutex_lock(&lock);
    asked = what;
    asked_arg = arg;
    pthread_mutex_unlock(&lock);
    uv_async_send(&wake);
    while (sem_wait(&ready) < 0) {
        ck_assert_int_eq(errno, EINTR);
    }
}

struct errand {
    void (*what)(void *arg);
    void *arg;
};

static void run_errand(void *arg)
{
    struct errand *errand = arg;

    errand->what(errand->arg);
    sem_post(&ready);
}

void on_loop(void (*what)(void *arg), void *arg)
{
    struct errand errand = {what, arg};

    ask(run_errand, &errand);
}

static void change_mode(void *mode)
{
    files_link_set(mount_bed.link, *(enum files_link_mode *)mode);
}

void set_mode(enum files_link_mode mode)
{
    on_loop(change_mode, &mode);
}

static void passed(void *arg __attribute__((unused)))
{
    sem_post(&ready);
}

static void start_before(void *arg)
{
    struct exec_barrier barrier = fs_barrier(mount_bed.fs);

    barrier.before(barrier.ctx, passed, arg);
}

static void start_after(void *arg)
{
    struct exec_barrier barrier = fs_barrier(mount_bed.fs);

    barrier.after(barrier.ctx, passed, arg);
}

void barrier_before(void)
{
    ask(start_before, NULL);
}

void barrier_after(void)
{
    ask(start_after, NULL);
}

/* ---- Beginning and end -------------------------------------------------------------------------- */

void mount_bed_open(const struct fs_options *options)
{
    fs_options_init(&bed_options);
    if (options != NULL) {
        bed_options = *options;
    }
    bed_options.op_timeout_ms = BED_OP_TIMEOUT_MS;
    mount_bed = (struct mount_bed){.folder = "/tmp/handsfs-mount-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(mount_bed.folder));
    snprintf(mount_bed.mount, sizeof mount_bed.mount, "%s/mount", mount_bed.folder);
    snprintf(mount_bed.inside, sizeof mount_bed.inside, "%s/inside", mount_bed.folder);
    ck_assert_int_eq(mkdir(mount_bed.mount, 0700), 0);
    ck_assert_int_eq(mkdir(mount_bed.inside, 0755), 0);
    umask(0);
    /* In a name space of its own nothing of a failed test stays mounted. */
    if (unshare(CLONE_NEWNS) == 0) {
        ck_assert_int_eq(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    }
    ck_assert_int_eq(sem_init(&ready, 0, 0), 0);
    uv_loop_init(&loop);
    uv_async_init(&loop, &wake, woken);
    ck_assert_int_eq(pthread_create(&thread, NULL, run, NULL), 0);
    while (sem_wait(&ready) < 0) {
        ck_assert_int_eq(errno, EINTR);
    }
    ck_assert_msg(opened, "%s", open_error.message);
}

void mount_bed_default(void)
{
    mount_bed_open(NULL);
}

static void fs_closed(void *arg __attribute__((unused)))
{
    uv_close((uv_handle_t *)&wake, NULL);
}

static void start_close(void *arg __attribute__((unused)))
{
    fs_close(mount_bed.fs, fs_closed, NULL);
    sem_post(&ready);
}

void mount_bed_unmount(void)
{
    ask(start_close, NULL);
    pthread_join(thread, NULL);
    opened = false;
}

static int remove_entry(const char *path, const struct stat *st __attribute__((unused)),
                        int type __attribute__((unused)), struct FTW *ftw __attribute__((unused)))
{
    return remove(path);
}

void mount_bed_close(void)
{
    if (opened) {
        mount_bed_unmount();
    }
    ck_assert_int_eq(nftw(mount_bed.folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT), 0);
}

/* ---- Files -------------------------------------------------------------------------------------- */

static const char *path_in(const char *folder, const char *name)
{
    static char paths[4][4096];
    static unsigned next;
    char *path = paths[next++ % 4];

    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

const char *outer(const char *name)
{
    return path_in(mount_bed.mount, name);
}

const char *inner(const char *name)
{
    return path_in(mount_bed.inside, name);
}

void write_text(const char *path, const char *text)
{
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

void expect_content(const char *path, const char *text)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    char content[65536];
    ssize_t n;

    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    n = read(fd, content, sizeof content - 1);
    ck_assert_msg(n >= 0, "%s: %s", path, strerror(errno));
    content[n] = '\0';
    ck_assert_str_eq(content, text);
}

int open_errno(const char *path, int flags)
{
    cleanup_fd int fd = open(path, flags | O_CLOEXEC, 0644);

    return fd < 0 ? errno : 0;
}

pid_t in_child(int (*what)(void))
{
    pid_t pid = fork();

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        signal(SIGTERM, SIG_DFL);
        _exit(what());
    }
    return pid;
}

int end_of_child(pid_t pid, int timeout_ms)
{
    cleanup_fd int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd poller = {.fd = fd, .events = POLLIN};
    int status = -1;

    ck_assert_int_ge(fd, 0);
    if (poll(&poller, 1, timeout_ms) == 1) {
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    }
    return status;
}
