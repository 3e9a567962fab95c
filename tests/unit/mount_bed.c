#include "tests/unit/mount_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

struct mount_bed mount_bed;

/* What the test asks of the serving process, over a socket; answered by itself. */
struct errand {
    void (*what)(void *arg);
    void (*barrier)(void *ctx, void (*then)(void *arg), void *arg); /* answered when it has passed */
    unsigned char arg[BED_ARG_BYTES];
};

static uv_loop_t loop;    /* of the serving process */
static uv_poll_t control; /* of its end of the socket */
static int server_end = -1, test_end = -1;
static struct errand errand;

bool mount_bed_possible(void)
{
    const char *required = getenv("HANDSFS_REQUIRE");

    return (required != NULL && strstr(required, "fuse") != NULL) ||
           (geteuid() == 0 && access("/dev/fuse", R_OK | W_OK) == 0);
}

/* ---- The serving process -------------------------------------------------------------------------- */

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

static void answer(void *arg __attribute__((unused)))
{
    if (write(server_end, &errand, sizeof errand) != (ssize_t)sizeof errand) {
        _exit(1);
    }
}

static void asked(uv_poll_t *poll __attribute__((unused)), int status __attribute__((unused)),
                  int events __attribute__((unused)))
{
    if (read(server_end, &errand, sizeof errand) != (ssize_t)sizeof errand) {
        _exit(1); /* the test has ended */
    }
    if (errand.barrier != NULL) {
        errand.barrier(fs_barrier(mount_bed.fs).ctx, answer, NULL);
    } else {
        errand.what(errand.arg);
        answer(NULL);
    }
}

extern void __lsan_do_leak_check(void) __attribute__((weak));

/* The serving process. Ends with 0 when the mount was closed. */
static void serve_mount(const struct fs_options *options)
{
    static const struct fs_control files = {
        .exec = control_exec,
        .exec_cancel = control_cancel,
        .status = control_status,
        .ctx = &mount_bed,
    };
    struct error err;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    uv_loop_init(&loop);
    uv_poll_init(&loop, &control, server_end);
    uv_poll_start(&control, UV_READABLE, asked);
    mount_bed.link = files_link_new(&loop, mount_bed.folder, "/inside");
    if (fs_open(&mount_bed.fs, &loop, mount_bed.link, mount_bed.mount, "test", options, &files,
                kernel_ended, NULL, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        _exit(1);
    }
    answer(NULL);
    uv_run(&loop, UV_RUN_DEFAULT);
    files_link_free(mount_bed.link);
    uv_loop_close(&loop);
    if (__lsan_do_leak_check != NULL) {
        __lsan_do_leak_check();
    }
    _exit(0);
}

static void wait_for_answer(void)
{
    ck_assert_int_eq(read(test_end, &errand, sizeof errand), sizeof errand);
}

static void ask(void)
{
    ck_assert_int_eq(write(test_end, &errand, sizeof errand), sizeof errand);
    wait_for_answer();
}

void on_loop(void (*what)(void *arg), void *arg, size_t size)
{
    errand = (struct errand){.what = what};
    ck_assert_uint_le(size, sizeof errand.arg);
    if (size > 0) {
        memcpy(errand.arg, arg, size);
    }
    ask();
    if (size > 0) {
        memcpy(arg, errand.arg, size);
    }
}

struct question {
    bool (*has_happened)(void);
    bool answer;
};

static void look(void *arg)
{
    struct question question;

    memcpy(&question, arg, sizeof question);
    question.answer = question.has_happened();
    memcpy(arg, &question, sizeof question);
}

void wait_until(bool (*has_happened)(void))
{
    struct question question = {has_happened, false};

    while (on_loop(look, &question, sizeof question), !question.answer) {
        usleep(1000);
    }
}

static void change_mode(void *arg)
{
    enum files_link_mode mode;

    memcpy(&mode, arg, sizeof mode);
    files_link_set(mount_bed.link, mode);
}

void set_mode(enum files_link_mode mode)
{
    on_loop(change_mode, &mode, sizeof mode);
}

static void before(void *ctx, void (*then)(void *arg), void *arg)
{
    fs_barrier(mount_bed.fs).before(ctx, then, arg);
}

static void after(void *ctx, void (*then)(void *arg), void *arg)
{
    fs_barrier(mount_bed.fs).after(ctx, then, arg);
}

void barrier_before(void)
{
    errand = (struct errand){.barrier = before};
    ask();
}

void barrier_after(void)
{
    errand = (struct errand){.barrier = after};
    ask();
}

/* ---- Beginning and end -------------------------------------------------------------------------- */

static void make_folders(void)
{
    mount_bed = (struct mount_bed){.folder = "/tmp/handsfs-mount-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(mount_bed.folder));
    snprintf(mount_bed.mount, sizeof mount_bed.mount, "%s/mount", mount_bed.folder);
    snprintf(mount_bed.inside, sizeof mount_bed.inside, "%s/inside", mount_bed.folder);
    ck_assert_int_eq(mkdir(mount_bed.mount, 0700), 0);
    ck_assert_int_eq(mkdir(mount_bed.inside, 0755), 0);
}

void mount_bed_open(const struct fs_options *given)
{
    struct fs_options options;
    int ends[2];

    fs_options_init(&options);
    options.op_timeout_ms = BED_OP_TIMEOUT_MS;
    if (given != NULL) {
        options = *given;
    }
    umask(0);
    make_folders();
    /* In a name space of its own nothing of a failed test stays mounted. */
    if (unshare(CLONE_NEWNS) == 0) {
        ck_assert_int_eq(mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL), 0);
    }
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    server_end = ends[0];
    test_end = ends[1];
    mount_bed.server = fork();
    ck_assert_int_ge(mount_bed.server, 0);
    if (mount_bed.server == 0) {
        close(test_end);
        serve_mount(&options);
    }
    close(server_end);
    wait_for_answer();
}

void mount_bed_default(void)
{
    mount_bed_open(NULL);
}

static void fs_closed(void *arg __attribute__((unused)))
{
    uv_close((uv_handle_t *)&control, NULL);
}

static void start_close(void *arg __attribute__((unused)))
{
    fs_close(mount_bed.fs, fs_closed, NULL);
}

void mount_bed_unmount(void)
{
    int status = -1;

    on_loop(start_close, NULL, 0);
    ck_assert_int_eq(waitpid(mount_bed.server, &status, 0), mount_bed.server);
    ck_assert_int_eq(status, 0);
    mount_bed.server = 0;
    close(test_end);
}

static int remove_entry(const char *path, const struct stat *st __attribute__((unused)),
                        int type __attribute__((unused)), struct FTW *ftw __attribute__((unused)))
{
    return remove(path);
}

void mount_bed_close(void)
{
    if (mount_bed.server != 0) {
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

int end_of_child(pid_t pid)
{
    uint64_t deadline = clock_now_ms() + BED_PATIENCE_MS;
    int status = -1;
    pid_t r;

    while ((r = waitpid(pid, &status, WNOHANG)) == 0 && clock_now_ms() < deadline) {
        usleep(1000);
    }
    return r == pid ? status : -1;
}
