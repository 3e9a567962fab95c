#include "tests/unit/hand_driver.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define LISTEN_FD 20
#define READY_FD 21

/* ---- The hand ---------------------------------------------------------------------------------- */

static int bind_at(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_uint_lt(strlen(path), sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void execute(const struct hand *hand, int listen_fd, int ready_fd)
{
    const char *program = getenv("HANDSFS_HAND");
    char listen_text[16], ready_text[16];

    snprintf(listen_text, sizeof listen_text, "%d", LISTEN_FD);
    snprintf(ready_text, sizeof ready_text, "%d", READY_FD);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* with a test that fails and takes no leave */
    if (dup2(listen_fd, LISTEN_FD) == LISTEN_FD && dup2(ready_fd, READY_FD) == READY_FD) {
        execl(program, "hand", "serve", "--workdir", hand->workdir, "--listen-fd", listen_text,
              "--ready-fd", ready_text, "--linger-ms", hand->linger_ms,
              "--apart-ms", hand->apart_ms, (char *)NULL);
    }
    _exit(127);
}

/* Makes the caller's next child PID 1 of a namespace. */
static int enter_namespace(void)
{
    if (geteuid() != 0 && unshare(CLONE_NEWUSER) < 0) {
        return -1;
    }
    return unshare(CLONE_NEWPID | CLONE_NEWNS);
}

/* The child that stays outside: passes on how its own child, the hand, ends. */
static void hold_namespace(const struct hand *hand, int listen_fd, int ready_fd)
{
    int status = 0;
    pid_t pid;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (enter_namespace() < 0) {
        _exit(77);
    }
    pid = fork();
    if (pid == 0) {
        if (mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) < 0 ||
            mount("proc", "/proc", "proc", 0, NULL) < 0 ||
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
            _exit(77);
        }
        execute(hand, listen_fd, ready_fd);
    }
    dprintf(ready_fd, "%ld\n", (long)pid);
    close(ready_fd);
    waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

/* Reads the ready pipe until the hand is ready and, where another process tells it, its pid is known. They come
 * in any order. */
static bool wait_ready(struct hand *hand, int fd)
{
    char text[600] = "";
    size_t length = 0;
    ssize_t n = 1;

    while (n > 0 && length < sizeof text - 1) {
        const char *pid = strpbrk(text, "123456789");

        if (strstr(text, "ready\n") != NULL &&
            (!hand->is_init || (pid != NULL && strchr(pid, '\n') != NULL))) {
            hand->pid = hand->is_init ? (pid_t)strtol(pid, NULL, 10) : hand->pid;
            return true;
        }
        n = read(fd, text + length, sizeof text - 1 - length);
        length += n > 0 ? (size_t)n : 0;
        text[length] = '\0';
    }
    return false;
}

bool hand_start(struct hand *hand, bool is_init)
{
    int ready[2];
    int listen_fd;
    bool ok;

    *hand = (struct hand){.is_init = is_init, .linger_ms = hand->linger_ms, .apart_ms = hand->apart_ms};
    if (hand->linger_ms == NULL) {
        hand->linger_ms = "15000";
    }
    if (hand->apart_ms == NULL) {
        hand->apart_ms = "0";
    }
    ck_assert_ptr_nonnull(getenv("HANDSFS_HAND"));
    snprintf(hand->folder, sizeof hand->folder, "/tmp/test-hand.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(hand->folder));
    snprintf(hand->workdir, sizeof hand->workdir, "%s/work", hand->folder);
    snprintf(hand->socket, sizeof hand->socket, "%s/socket", hand->folder);
    listen_fd = bind_at(hand->socket);
    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    hand->pid = fork();
    if (hand->pid == 0) {
        setpgid(0, 0);
        if (is_init) {
            hold_namespace(hand, listen_fd, ready[1]);
        }
        execute(hand, listen_fd, ready[1]);
    }
    close(listen_fd);
    close(ready[1]);
    ok = wait_ready(hand, ready[0]);
    close(ready[0]);
    if (!ok) {
        hand_stop(hand);
    }
    ck_assert(ok || is_init);
    return ok;
}

static void remove_folder(const char *folder)
{
    pid_t pid = fork();

    if (pid == 0) {
        execlp("rm", "rm", "-rf", folder, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
}

int hand_stop(struct hand *hand)
{
    int status = -1;

    kill(hand->pid, SIGTERM);
    while (waitpid(hand->is_init ? -1 : hand->pid, &status, 0) < 0 && errno == EINTR) {
    }
    remove_folder(hand->folder);
    return status;
}

/* ---- The host's end ---------------------------------------------------------------------------- */

int host_connect(const struct hand *hand)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path, hand->socket, strlen(hand->socket) + 1);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

void host_open(struct host *host, const struct hand *hand, uint8_t client)
{
    host_open_at(host, hand, client, host_connect(hand));
}

void host_open_at(struct host *host, const struct hand *hand, uint8_t client, int fd)
{
    cleanup_buffer struct buffer out = BUFFER_INIT(4096);
    struct wire_hello hello;
    struct wire_welcome welcome;
    struct frame f;
    size_t frame = wire_begin_frame(&out, WIRE_HELLO, 0);

    host->fd = fd;
    host->used = 0;
    buffer_init(&host->in, 2 * (WIRE_MAX_EXEC_PAYLOAD + WIRE_HEADER_BYTES));
    memset(host->client, client, sizeof host->client);
    memcpy(hello.client, host->client, sizeof hello.client);
    ck_assert_int_eq(wire_put_hello(&out, &hello), 0);
    wire_end_frame(&out, frame);
    host_send(host, &out);
    f = host_next(host);
    ck_assert_int_eq(f.header.type, WIRE_WELCOME);
    ck_assert_int_eq(wire_get_welcome(f.payload, f.header.length, &welcome), 0);
    ck_assert_uint_eq(welcome.workdir.length, strlen(hand->workdir));
    ck_assert_mem_eq(welcome.workdir.data, hand->workdir, welcome.workdir.length);
}

void host_close(struct host *host)
{
    close(host->fd);
    host->fd = -1;
    buffer_release(&host->in);
}

void host_send(struct host *host, const struct buffer *frames)
{
    size_t at = 0;

    while (at < frames->length) {
        ssize_t n = send(host->fd, frames->data + at, frames->length - at, MSG_NOSIGNAL);

        ck_assert_msg(n > 0, "the hand takes no more: %s", strerror(errno));
        at += (size_t)n;
    }
}

void host_send_empty(struct host *host, enum wire_type type, uint64_t id)
{
    cleanup_buffer struct buffer out = BUFFER_INIT(64);

    ck_assert_int_eq(wire_put_empty(&out, type, id), 0);
    host_send(host, &out);
}

void host_send_u32(struct host *host, enum wire_type type, uint64_t id, uint32_t v)
{
    cleanup_buffer struct buffer out = BUFFER_INIT(64);
    size_t frame = wire_begin_frame(&out, type, id);

    ck_assert_int_eq(wire_put_u32(&out, v), 0);
    wire_end_frame(&out, frame);
    host_send(host, &out);
}

void host_send_exec(struct host *host, uint64_t id, const struct wire_exec *exec)
{
    cleanup_buffer struct buffer out = BUFFER_INIT(WIRE_MAX_EXEC_PAYLOAD + WIRE_HEADER_BYTES);
    size_t frame = wire_begin_frame(&out, WIRE_EXEC, id);

    ck_assert_int_eq(wire_put_exec(&out, exec), 0);
    wire_end_frame(&out, frame);
    host_send(host, &out);
}

void host_send_input(struct host *host, uint64_t id, uint64_t offset, const void *data, size_t length)
{
    cleanup_buffer struct buffer out = BUFFER_INIT(WIRE_MAX_PAYLOAD);
    size_t frame = wire_begin_frame(&out, WIRE_EXEC_INPUT, id);

    ck_assert_int_eq(wire_put_u64(&out, offset), 0);
    ck_assert_int_eq(wire_put_bytes(&out, data, length), 0);
    wire_end_frame(&out, frame);
    host_send(host, &out);
}

void host_send_credit(struct host *host, uint64_t id, enum wire_stream stream, uint64_t total)
{
    cleanup_buffer struct buffer out = BUFFER_INIT(64);
    size_t frame = wire_begin_frame(&out, WIRE_EXEC_CREDIT, id);

    ck_assert_int_eq(wire_put_u8(&out, (uint8_t)stream), 0);
    ck_assert_int_eq(wire_put_u64(&out, total), 0);
    wire_end_frame(&out, frame);
    host_send(host, &out);
}

void host_send_attach(struct host *host, uint64_t id, uint64_t out_bytes, uint64_t err_bytes)
{
    cleanup_buffer struct buffer out = BUFFER_INIT(64);
    size_t frame = wire_begin_frame(&out, WIRE_EXEC_ATTACH, id);

    ck_assert_int_eq(wire_put_u64(&out, out_bytes), 0);
    ck_assert_int_eq(wire_put_u64(&out, err_bytes), 0);
    wire_end_frame(&out, frame);
    host_send(host, &out);
}

/* Bytes from the hand: how many, 0 at the end. */
static size_t receive(struct host *host)
{
    struct pollfd p = {.fd = host->fd, .events = POLLIN};
    uint8_t *to = buffer_reserve(&host->in, 65536);
    ssize_t n;

    ck_assert_ptr_nonnull(to);
    ck_assert_msg(poll(&p, 1, DRIVER_WAIT_MS) == 1, "the hand says nothing");
    n = recv(host->fd, to, 65536, 0);
    if (n < 0) {
        ck_assert_int_eq(errno, ECONNRESET);
        return 0;
    }
    buffer_commit(&host->in, (size_t)n);
    return (size_t)n;
}

struct frame host_next(struct host *host)
{
    struct frame f;

    buffer_consume(&host->in, host->used);
    host->used = 0;
    for (;;) {
        if (host->in.length >= WIRE_HEADER_BYTES) {
            ck_assert_int_eq(wire_decode_header(host->in.data, &f.header), 0);
            if (host->in.length >= WIRE_HEADER_BYTES + f.header.length) {
                break;
            }
        }
        ck_assert_msg(receive(host) > 0, "the hand has closed the connection");
    }
    host->used = WIRE_HEADER_BYTES + f.header.length;
    f.payload = host->in.data + WIRE_HEADER_BYTES;
    f.reader = (struct wire_reader){f.payload, f.header.length, false};
    return f;
}

bool host_sees_end(struct host *host)
{
    do {
        buffer_clear(&host->in);
        host->used = 0;
    } while (receive(host) > 0);
    return true;
}

/* ---- Commands ---------------------------------------------------------------------------------- */

void outcome_init(struct outcome *o)
{
    *o = (struct outcome){.failed = false};
    for (unsigned i = 0; i < 2; i++) {
        buffer_init(&o->out[i], 16u << 20);
    }
}

void outcome_release(struct outcome *o)
{
    for (unsigned i = 0; i < 2; i++) {
        buffer_release(&o->out[i]);
    }
}

static void take_output(struct outcome *o, const struct frame *f)
{
    struct wire_reader r = f->reader;
    unsigned stream = wire_get_u8(&r);
    uint64_t offset = wire_get_u64(&r);
    size_t length;
    const uint8_t *data = wire_get_bytes(&r, 65536, &length);

    ck_assert_int_eq(wire_end(&r), 0);
    ck_assert(stream == WIRE_STDOUT || stream == WIRE_STDERR);
    ck_assert_uint_gt(length, 0);
    ck_assert_uint_eq(offset, o->out[stream - WIRE_STDOUT].length);
    ck_assert_int_eq(buffer_append(&o->out[stream - WIRE_STDOUT], data, length), 0);
}

static void take_failed(struct outcome *o, const struct frame *f)
{
    struct wire_reader r = f->reader;
    const uint8_t *message;
    size_t length;
    unsigned code = wire_get_u16(&r);

    o->failed = true;
    ck_assert_uint_lt(code, ERROR_CODES);
    o->code = (enum error_code)code;
    wire_get_u32(&r);
    message = wire_get_bytes(&r, ERROR_MESSAGE_MAX - 1, &length);
    ck_assert_int_eq(wire_end(&r), 0);
    memcpy(o->message, message, length);
    o->message[length] = '\0';
}

bool outcome_take(struct outcome *o, const struct frame *f)
{
    struct wire_reader r = f->reader;

    switch (f->header.type) {
    case WIRE_EXEC_STARTED:
        o->pid = wire_get_u32(&r);
        return false;
    case WIRE_EXEC_WANT:
        o->want = wire_get_u64(&r);
        return false;
    case WIRE_EXEC_OUTPUT:
        take_output(o, f);
        return false;
    case WIRE_EXEC_FAILED:
        take_failed(o, f);
        return true;
    case WIRE_EXEC_EXIT:
        ck_assert_int_eq(wire_get_exit(f->payload, f->header.length, &o->exit), 0);
        for (unsigned i = 0; i < 2; i++) {
            ck_assert_uint_eq(o->exit.sent[i], o->out[i].length);
        }
        return true;
    default:
        ck_abort_msg("frame of type %d", (int)f->header.type);
    }
    return false;
}

void host_finish(struct host *host, uint64_t id, struct outcome *o)
{
    struct frame f;

    do {
        f = host_next(host);
        ck_assert_uint_eq(f.header.id, id);
    } while (!outcome_take(o, &f));
    host_send_empty(host, WIRE_EXEC_FORGET, id);
}

void host_run(struct host *host, const char *command, struct outcome *o)
{
    struct wire_exec exec = {
        .command = {command, strlen(command)},
        .cwd = {"", 0},
        .env = (const uint8_t *)"",
        .keep = 1u << 20,
    };

    outcome_init(o);
    host_send_exec(host, 1, &exec);
    host_finish(host, 1, o);
}

/* ---- Processes --------------------------------------------------------------------------------- */

static bool cmdline_has(const char *pid, const char *text)
{
    char path[300];
    char line[4096];
    ssize_t n;
    cleanup_fd int fd = -1;

    snprintf(path, sizeof path, "/proc/%s/cmdline", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? 0 : read(fd, line, sizeof line - 1);
    if (n <= 0) {
        return false;
    }
    for (ssize_t i = 0; i < n; i++) {
        line[i] = line[i] == '\0' ? ' ' : line[i];
    }
    line[n] = '\0';
    return strstr(line, text) != NULL;
}

bool process_lives(const char *text)
{
    cleanup_dir DIR *dir = opendir("/proc");
    struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && cmdline_has(entry->d_name, text)) {
            return true;
        }
    }
    return false;
}

static bool process_becomes(const char *text, bool alive)
{
    uint64_t end = clock_now_ms() + DRIVER_WAIT_MS;

    while (process_lives(text) != alive) {
        if (clock_now_ms() > end) {
            return false;
        }
        usleep(2000);
    }
    return true;
}

bool process_comes(const char *text)
{
    return process_becomes(text, true);
}

bool process_goes(const char *text)
{
    return process_becomes(text, false);
}
