/* The link and the program that it speaks to: a real hand, on a socket in a folder of its own. */
#include "backends/execution.h"
#include "backends/link.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_NS (UINT64_C(20) * 1000000000)

static struct {
    char folder[64];
    char workdir[80];
    char socket[80];
    pid_t hand;
    uv_loop_t loop;
    struct link *link;
    pthread_mutex_t lock; /* of the next one */
    int stream;           /* a duplicate of the newest stream, to break it */
    bool closed;
} rig;

#define UNTIL(condition)                                                                           \
    do {                                                                                           \
        uint64_t start_ = uv_hrtime();                                                             \
        while (!(condition)) {                                                                     \
            ck_assert_msg(uv_hrtime() - start_ < PATIENCE_NS, "waited in vain for: %s",            \
                          #condition);                                                             \
            uv_run(&rig.loop, UV_RUN_NOWAIT);                                                      \
            poll(NULL, 0, uv_backend_timeout(&rig.loop) != 0);                                     \
        }                                                                                          \
    } while (0)

/* ---- The sandbox ------------------------------------------------------------------------------ */

static int hand_connect(struct sandbox *sandbox, uint64_t deadline_ms, int *ret_fd, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)sandbox;
    (void)deadline_ms;
    memcpy(address.sun_path, rig.socket, strlen(rig.socket) + 1);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        int os_errno = errno;

        if (fd >= 0) {
            close(fd);
        }
        return os_errno == ECONNREFUSED ? error_set(err, ERROR_SANDBOX_GONE, 0, "the hand is gone")
                                        : error_set_errno(err, os_errno, "connect");
    }
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    pthread_mutex_lock(&rig.lock);
    if (rig.stream >= 0) {
        close(rig.stream);
    }
    rig.stream = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_unlock(&rig.lock);
    *ret_fd = fd;
    return 0;
}

static void break_stream(void)
{
    pthread_mutex_lock(&rig.lock);
    shutdown(rig.stream, SHUT_RDWR);
    pthread_mutex_unlock(&rig.lock);
}

static void nothing_to_release(struct sandbox *sandbox)
{
    (void)sandbox;
}

static const struct backend_ops hand_ops = {
    .connect = hand_connect,
    .release = nothing_to_release,
};

static const struct backend backend_hand = {"hand", &hand_ops};

static void start_hand(const char *program)
{
    char ready[16] = "";
    int ends[2];

    ck_assert_int_eq(pipe2(ends, 0), 0);
    rig.hand = fork();
    if (rig.hand == 0) {
        char number[16];

        snprintf(number, sizeof number, "%d", ends[1]);
        close(ends[0]);
        execl(program, "hand", "serve", "--workdir", rig.workdir, "--socket", rig.socket, "--ready-fd",
              number, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], ready, sizeof ready - 1), 6);
    ck_assert_str_eq(ready, "ready\n");
    close(ends[0]);
}

/* False where no hand was built. */
static bool open_rig(uint64_t timeout_ms)
{
    struct link_options options = {.placement = LINK_PLACE_STREAM, .timeout_ms = timeout_ms};
    struct sandbox sandbox = {.backend = &backend_hand};
    const char *build = getenv("HANDSFS_BUILDDIR");
    char program[4096];
    struct error err;

    snprintf(program, sizeof program, "%s/hand/hand", build != NULL ? build : ".");
    if (access(program, X_OK) < 0) {
        return false;
    }
    snprintf(rig.folder, sizeof rig.folder, "/tmp/test-link-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(rig.folder));
    snprintf(rig.workdir, sizeof rig.workdir, "%s/work", rig.folder);
    snprintf(rig.socket, sizeof rig.socket, "%s/socket", rig.folder);
    rig.stream = -1;
    rig.closed = false;
    pthread_mutex_init(&rig.lock, NULL);
    start_hand(program);
    sandbox.session = strdup("s1");
    sandbox.id = strdup("1");
    sandbox.workdir = strdup(rig.workdir);
    ck_assert_int_eq(uv_loop_init(&rig.loop), 0);
    ck_assert_int_eq(link_open(&rig.link, &rig.loop, &sandbox, &options, &err), 0);
    return true;
}

static void note_closed(void *arg)
{
    (void)arg;
    rig.closed = true;
}

static void remove_folder(void)
{
    char command[128];
    pid_t pid;

    snprintf(command, sizeof command, "%s", rig.folder);
    pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", command, (char *)NULL);
        _exit(127);
    }
    waitpid(pid, NULL, 0);
}

static void close_rig(void)
{
    link_close(rig.link, note_closed, NULL);
    UNTIL(rig.closed);
    ck_assert_int_eq(uv_loop_close(&rig.loop), 0);
    if (rig.hand > 0) {
        kill(rig.hand, SIGTERM);
        waitpid(rig.hand, NULL, 0);
    }
    close(rig.stream);
    remove_folder();
}

/* ---- Commands --------------------------------------------------------------------------------- */

struct outcome {
    unsigned times;
    struct error err;
    struct execution_result result;
};

static void note_outcome(void *arg, const struct error *err, struct execution_result *result)
{
    struct outcome *o = arg;

    o->times++;
    if (err != NULL) {
        o->err = *err;
        return;
    }
    o->err.code = ERROR_NONE;
    o->result = *result;
    for (unsigned i = 0; i < 2; i++) { /* is ours now */
        buffer_init(&o->result.out[i], 0);
        buffer_move(&o->result.out[i], &result->out[i]);
    }
}

static void release(struct outcome *o)
{
    buffer_release(&o->result.out[0]);
    buffer_release(&o->result.out[1]);
}

static struct execution *start(const char *command, uint64_t timeout_ms, bool has_stdin,
                               struct outcome *outcome)
{
    struct execution_request request = {.command = command,
                                        .command_length = strlen(command),
                                        .timeout_ms = timeout_ms,
                                        .has_stdin = has_stdin};

    memset(outcome, 0, sizeof *outcome);
    return execution_start(rig.link, &request, note_outcome, outcome);
}

static void expect(const struct outcome *o, enum error_code code)
{
    UNTIL(o->times > 0);
    ck_assert_msg(o->err.code == code, "%s: %s", error_name(o->err.code), o->err.message);
}

static void expect_text(const struct buffer *b, const char *text)
{
    ck_assert_uint_eq(b->length, strlen(text));
    if (b->length > 0) {
        ck_assert_mem_eq(b->data, text, b->length);
    }
}

START_TEST(a_command_runs)
{
    struct outcome o;

    if (!open_rig(0)) {
        return;
    }
    start("pwd; echo oops >&2; exit 7", 0, false, &o);
    expect(&o, ERROR_NONE);
    ck_assert_int_eq(o.result.exit_code, 7);
    ck_assert_uint_eq(o.result.out[0].length, strlen(rig.workdir) + 1);
    expect_text(&o.result.out[1], "oops\n");
    release(&o);
    close_rig();
}
END_TEST

START_TEST(both_streams_over_the_cap_are_kept_to_the_byte_and_the_rest_is_counted)
{
    struct outcome o;

    if (!open_rig(0)) {
        return;
    }
    start("head -c 3000000 /dev/zero; head -c 2000000 /dev/zero >&2; exit 3", 0, false, &o);
    expect(&o, ERROR_NONE);
    ck_assert_int_eq(o.result.exit_code, 3);
    ck_assert_uint_eq(o.result.out[0].length, MAX_OUTPUT_BYTES);
    ck_assert_uint_eq(o.result.out[1].length, MAX_OUTPUT_BYTES);
    ck_assert_uint_eq(o.result.dropped[0], 3000000 - MAX_OUTPUT_BYTES);
    ck_assert_uint_eq(o.result.dropped[1], 2000000 - MAX_OUTPUT_BYTES);
    release(&o);
    close_rig();
}
END_TEST

START_TEST(stdin_of_many_windows_arrives_whole_though_the_stream_breaks)
{
    enum { BYTES = 8 << 20 };
    uint8_t *data = malloc(BYTES);
    struct execution *x;
    struct outcome o;
    struct error err;

    if (!open_rig(0)) {
        free(data);
        return;
    }
    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < BYTES; i++) {
        data[i] = (uint8_t)(i * 2654435761u >> 13);
    }
    x = start("(sleep 0.1; cksum) | cut -d' ' -f2", 0, true, &o);
    ck_assert_int_eq(execution_write(x, data, BYTES, true, &err), 0);
    free(data);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t from = uv_hrtime();

        UNTIL(uv_hrtime() - from > 20000000);
        break_stream();
    }
    expect(&o, ERROR_NONE);
    ck_assert_msg(o.result.out[0].length >= 8 && memcmp(o.result.out[0].data, "8388608\n", 8) == 0,
                  "%.*s", (int)o.result.out[0].length, (char *)o.result.out[0].data);
    release(&o);
    close_rig();
}
END_TEST

START_TEST(output_is_whole_though_the_stream_breaks)
{
    struct outcome o;

    if (!open_rig(0)) {
        return;
    }
    start("for i in $(seq 1 50); do seq 1 500; sleep 0.01; done | head -c 900000; exit 5", 0, false, &o);
    for (unsigned i = 0; i < 4; i++) {
        uint64_t from = uv_hrtime();

        UNTIL(uv_hrtime() - from > 50000000);
        break_stream();
    }
    expect(&o, ERROR_NONE);
    ck_assert_int_eq(o.result.exit_code, 5);
    ck_assert_uint_eq(o.result.out[0].length, 50 * (9 * 2 + 90 * 3 + 401 * 4));
    release(&o);
    close_rig();
}
END_TEST

START_TEST(a_deadline_kills_what_hides_from_it)
{
    struct outcome o;
    struct outcome look;

    if (!open_rig(0)) {
        return;
    }
    start("trap '' TERM; echo part; (setsid sleep 4711 &) ; sleep 4711", 300, false, &o);
    expect(&o, ERROR_NONE);
    ck_assert(o.result.timed_out);
    ck_assert_uint_ge(o.result.duration_ms, 300);
    ck_assert_uint_lt(o.result.duration_ms, 300 + EXECUTION_KILL_WAIT_MS);
    expect_text(&o.result.out[0], "part\n");
    release(&o);
    start("pgrep -fc '^sleep 4711'", 0, false, &look);
    expect(&look, ERROR_NONE);
    expect_text(&look.result.out[0], "0\n");
    release(&look);
    close_rig();
}
END_TEST

START_TEST(a_cancelled_command_is_dead_when_that_is_said)
{
    struct execution *x;
    struct outcome o;
    struct outcome look;
    uint64_t from = uv_hrtime();

    if (!open_rig(0)) {
        return;
    }
    x = start("sleep 4712", 0, false, &o);
    UNTIL(uv_hrtime() - from > 200000000);
    execution_cancel(x);
    expect(&o, ERROR_CANCELLED);
    start("pgrep -fc '^sleep 4712'", 0, false, &look);
    expect(&look, ERROR_NONE);
    expect_text(&look.result.out[0], "0\n");
    release(&look);
    close_rig();
}
END_TEST

START_TEST(a_cwd_that_is_not_there_is_named)
{
    struct execution_request request = {.command = "true", .command_length = 4, .cwd = "not/there"};
    struct outcome o = {0};

    if (!open_rig(0)) {
        return;
    }
    execution_start(rig.link, &request, note_outcome, &o);
    expect(&o, ERROR_NO_SUCH_FILE);
    ck_assert_ptr_nonnull(strstr(o.err.message, "not/there"));
    close_rig();
}
END_TEST

START_TEST(a_killed_hand_is_a_sandbox_that_is_gone_and_a_frozen_one_is_silent)
{
    struct outcome o;

    if (!open_rig(600)) {
        return;
    }
    start("true", 0, false, &o);
    expect(&o, ERROR_NONE);
    release(&o);
    start("sleep 100", 0, false, &o);
    kill(rig.hand, SIGSTOP);
    expect(&o, ERROR_NO_ANSWER);
    ck_assert_int_eq(link_state(rig.link), LINK_SILENT);
    kill(rig.hand, SIGCONT);
    UNTIL(link_state(rig.link) == LINK_UP);
    start("sleep 100", 0, false, &o);
    kill(rig.hand, SIGKILL);
    waitpid(rig.hand, NULL, 0);
    rig.hand = 0;
    expect(&o, ERROR_SANDBOX_GONE);
    ck_assert_int_eq(link_state(rig.link), LINK_GONE);
    close_rig();
}
END_TEST

/* ---- Files ------------------------------------------------------------------------------------ */

struct whole {
    unsigned times;
    struct error err;
    size_t length;
    bool same;
    const uint8_t *expected;
};

static void note_read(void *arg, const struct error *err, const uint8_t *data, size_t length)
{
    struct whole *w = arg;

    w->times++;
    w->err.code = ERROR_NONE;
    if (err != NULL) {
        w->err = *err;
        return;
    }
    w->length = length;
    w->same = w->expected != NULL && memcmp(data, w->expected, length) == 0;
}

static void note_written(void *arg, const struct error *err)
{
    note_read(arg, err, (const uint8_t *)"", 0);
}

START_TEST(a_file_of_the_largest_size_goes_in_and_comes_back)
{
    uint8_t *data = malloc(MAX_FILE_BYTES + 1);
    struct whole w = {0};

    if (!open_rig(0)) {
        free(data);
        return;
    }
    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i <= MAX_FILE_BYTES; i++) {
        data[i] = (uint8_t)(i * 2654435761u >> 11);
    }
    link_write_file(rig.link, "new/folder/file", data, MAX_FILE_BYTES, 0, note_written, &w);
    UNTIL(w.times > 0);
    ck_assert_msg(w.err.code == ERROR_NONE, "%s", w.err.message);
    w = (struct whole){.expected = data};
    link_read_file(rig.link, "new/folder/../folder/file", MAX_FILE_BYTES, 0, note_read, &w);
    UNTIL(w.times > 0);
    ck_assert_msg(w.err.code == ERROR_NONE, "%s", w.err.message);
    ck_assert_uint_eq(w.length, MAX_FILE_BYTES);
    ck_assert(w.same);
    w = (struct whole){0};
    link_read_file(rig.link, "new/folder/file", MAX_FILE_BYTES - 1, 0, note_read, &w);
    UNTIL(w.times > 0);
    ck_assert_int_eq(w.err.code, ERROR_TOO_LARGE);
    free(data);
    close_rig();
}
END_TEST

START_TEST(what_is_no_regular_file_is_refused_with_its_own_error)
{
    static const struct {
        const char *path;
        enum error_code code;
    } rows[] = {
        {"fifo", ERROR_NOT_REGULAR},       {"dir", ERROR_IS_DIRECTORY}, {"link", ERROR_NOT_REGULAR},
        {"file/below", ERROR_NOT_DIRECTORY}, {"none", ERROR_NO_SUCH_FILE},
    };
    struct outcome o;
    struct whole w = {0};

    if (!open_rig(0)) {
        return;
    }
    start("mkfifo fifo; mkdir dir; ln -s /etc/passwd link; echo x >file", 0, false, &o);
    expect(&o, ERROR_NONE);
    release(&o);
    link_read_file(rig.link, rows[_i].path, 1000, 0, note_read, &w);
    UNTIL(w.times > 0);
    ck_assert_msg(w.err.code == rows[_i].code, "%s: %s", error_name(w.err.code), w.err.message);
    close_rig();
}
END_TEST

START_TEST(a_file_of_proc_is_read_to_its_end)
{
    struct whole w = {0};

    if (!open_rig(0)) {
        return;
    }
    link_read_file(rig.link, "/proc/self/status", 65536, 0, note_read, &w);
    UNTIL(w.times > 0);
    ck_assert_msg(w.err.code == ERROR_NONE, "%s", w.err.message);
    ck_assert_uint_gt(w.length, 500);
    close_rig();
}
END_TEST

UNIT_SUITE(link_hand)
{
    tcase_add_test(tcase, a_command_runs);
    tcase_add_test(tcase, both_streams_over_the_cap_are_kept_to_the_byte_and_the_rest_is_counted);
    tcase_add_test(tcase, stdin_of_many_windows_arrives_whole_though_the_stream_breaks);
    tcase_add_test(tcase, output_is_whole_though_the_stream_breaks);
    tcase_add_test(tcase, a_deadline_kills_what_hides_from_it);
    tcase_add_test(tcase, a_cancelled_command_is_dead_when_that_is_said);
    tcase_add_test(tcase, a_cwd_that_is_not_there_is_named);
    tcase_add_test(tcase, a_killed_hand_is_a_sandbox_that_is_gone_and_a_frozen_one_is_silent);
    tcase_add_test(tcase, a_file_of_the_largest_size_goes_in_and_comes_back);
    tcase_add_loop_test(tcase, what_is_no_regular_file_is_refused_with_its_own_error, 0, 5);
    tcase_add_test(tcase, a_file_of_proc_is_read_to_its_end);
}
