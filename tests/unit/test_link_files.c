/* Whole files over the link, and file calls that run in this process. */
#include "backends/link.h"
#include "tests/unit/phony_hand.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct rig rig;

struct whole {
    unsigned times;
    struct error err;
    uint8_t *data;
    size_t length;
};

static void note_read(void *arg, const struct error *err, const uint8_t *data, size_t length)
{
    struct whole *whole = arg;

    whole->times++;
    whole->err.code = ERROR_NONE;
    if (err != NULL) {
        whole->err = *err;
        return;
    }
    ck_assert_ptr_nonnull(data);
    whole->data = malloc(length + 1);
    ck_assert_ptr_nonnull(whole->data);
    memcpy(whole->data, data, length);
    whole->length = length;
}

static void note_written(void *arg, const struct error *err)
{
    note_read(arg, err, (const uint8_t *)"", 0);
}

/* The hand opens a READ_FILE of `size` bytes as handle 9, and answers the path it heard. */
static void open_read(const char *path, uint64_t limit, uint64_t size)
{
    struct wire_reply reply = a_file(size);
    struct wire_call call;
    uint64_t id;

    call = hand_hear_call(&rig, WIRE_READ_FILE, &id);
    ck_assert_uint_eq(call.ref.path.length, strlen(path));
    ck_assert_mem_eq(call.ref.path.data, path, strlen(path));
    ck_assert_int_eq(call.ref.base, WIRE_BASE_ROOT);
    ck_assert_uint_eq(call.limit, limit);
    reply.handle = 9;
    hand_reply(&rig, id, WIRE_READ_FILE, &reply);
}

static void give(uint64_t offset, const char *text)
{
    struct wire_reply reply = {.data = {text, strlen(text)}};
    struct wire_call call;
    uint64_t id;

    call = hand_hear_call(&rig, WIRE_READ, &id);
    ck_assert_uint_eq(call.ref.handle, 9);
    ck_assert_uint_eq(call.offset, offset);
    hand_reply(&rig, id, WIRE_READ, &reply);
}

static void hear_release(void)
{
    uint64_t id;

    ck_assert_uint_eq(hand_hear_call(&rig, WIRE_RELEASE, &id).ref.handle, 9);
}

static void finish(struct whole *whole, enum error_code code, const char *content)
{
    RIG_UNTIL(&rig, whole->times > 0);
    ck_assert_int_eq(whole->err.code, code);
    if (content != NULL) {
        ck_assert_uint_eq(whole->length, strlen(content));
        ck_assert_mem_eq(whole->data, content, whole->length);
    }
    free(whole->data);
    rig_close(&rig);
    ck_assert_uint_eq(whole->times, 1);
}

/* ---- ReadFile --------------------------------------------------------------------------------- */

START_TEST(a_path_is_resolved_as_text_before_it_is_sent)
{
    static const struct {
        const char *given;
        const char *sent;
    } rows[] = {
        {"a.txt", "work/dir/a.txt"}, {"./b//c/", "work/dir/b/c"}, {"../x", "work/x"},
        {"/etc/passwd", "etc/passwd"}, {"/a/./b/../c", "a/c"},    {"../../../..", ""},
        {"/", ""}, {"..a/...", "work/dir/..a/..."},
    };
    struct whole whole = {0};

    rig_up(&rig, 0);
    link_read_file(rig.link, rows[_i].given, 100, 0, note_read, &whole);
    open_read(rows[_i].sent, 100, 2);
    give(0, "ok");
    hear_release();
    finish(&whole, ERROR_NONE, "ok");
}
END_TEST

START_TEST(a_file_is_read_in_pieces_until_its_size)
{
    struct whole whole = {0};

    rig_up(&rig, 0);
    link_read_file(rig.link, "/f", 100, 0, note_read, &whole);
    open_read("f", 100, 10);
    give(0, "0123");
    give(4, "45");
    give(6, "6789");
    hear_release();
    finish(&whole, ERROR_NONE, "0123456789");
}
END_TEST

START_TEST(a_file_that_shrinks_is_what_is_there)
{
    struct whole whole = {0};

    rig_up(&rig, 0);
    link_read_file(rig.link, "/f", 100, 0, note_read, &whole);
    open_read("f", 100, 10);
    give(0, "0123");
    give(4, "");
    hear_release();
    finish(&whole, ERROR_NONE, "0123");
}
END_TEST

START_TEST(a_file_without_a_size_is_read_to_its_end)
{
    struct whole whole = {0};

    rig_up(&rig, 0);
    link_read_file(rig.link, "/proc/x", 8, 0, note_read, &whole);
    open_read("proc/x", 8, 0);
    give(0, "01234567");
    give(8, "");
    hear_release();
    finish(&whole, ERROR_NONE, "01234567");
}
END_TEST

START_TEST(a_file_without_a_size_and_over_the_limit_is_refused)
{
    struct whole whole = {0};

    rig_up(&rig, 0);
    link_read_file(rig.link, "/proc/x", 8, 0, note_read, &whole);
    open_read("proc/x", 8, 0);
    give(0, "01234567");
    give(8, "8");
    hear_release();
    finish(&whole, ERROR_TOO_LARGE, NULL);
}
END_TEST

START_TEST(a_size_over_the_limit_is_refused_whatever_the_hand_thinks)
{
    struct whole whole = {0};

    rig_up(&rig, 0);
    link_read_file(rig.link, "/f", 8, 0, note_read, &whole);
    open_read("f", 8, 9);
    hear_release();
    ck_assert(hand_hears_nothing(&rig));
    finish(&whole, ERROR_TOO_LARGE, NULL);
}
END_TEST

START_TEST(more_bytes_than_were_asked_for_are_refused)
{
    struct whole whole = {0};

    rig_up(&rig, 0);
    link_read_file(rig.link, "/f", 8, 0, note_read, &whole);
    open_read("f", 8, 4);
    give(0, "01234");
    hear_release();
    finish(&whole, ERROR_IO, NULL);
}
END_TEST

START_TEST(one_deadline_holds_for_the_whole_file)
{
    struct whole whole = {0};
    uint64_t id;

    rig_up(&rig, 0);
    link_read_file(rig.link, "/f", 100, 200, note_read, &whole);
    open_read("f", 100, 10);
    give(0, "0123");
    hand_hear_call(&rig, WIRE_READ, &id);
    finish(&whole, ERROR_NO_ANSWER, NULL);
}
END_TEST

START_TEST(an_empty_path_is_refused_from_the_loop)
{
    struct whole whole = {0};

    rig_up(&rig, 0);
    link_read_file(rig.link, "", 100, 0, note_read, &whole);
    ck_assert_uint_eq(whole.times, 0);
    RIG_UNTIL(&rig, whole.times > 0);
    ck_assert(hand_hears_nothing(&rig));
    finish(&whole, ERROR_BAD_REQUEST, NULL);
}
END_TEST

/* ---- WriteFile -------------------------------------------------------------------------------- */

static void open_write(const char *path, uint64_t size)
{
    struct wire_reply reply = {.handle = 9};
    struct wire_call call;
    uint64_t id;

    call = hand_hear_call(&rig, WIRE_WRITE_FILE, &id);
    ck_assert_uint_eq(call.ref.path.length, strlen(path));
    ck_assert_mem_eq(call.ref.path.data, path, strlen(path));
    ck_assert_uint_eq(call.size, size);
    hand_reply(&rig, id, WIRE_WRITE_FILE, &reply);
}

static void take(uint64_t offset, size_t length, uint64_t written)
{
    struct wire_reply reply = a_file(offset + written);
    struct wire_call call;
    uint64_t id;

    call = hand_hear_call(&rig, WIRE_WRITE, &id);
    ck_assert_uint_eq(call.ref.handle, 9);
    ck_assert_uint_eq(call.offset, offset);
    ck_assert_uint_eq(call.data.length, length);
    reply.size = written;
    hand_reply(&rig, id, WIRE_WRITE, &reply);
}

START_TEST(a_file_is_written_in_pieces_and_committed)
{
    static uint8_t data[WIRE_MAX_DATA + 5];
    struct wire_reply reply = a_file(sizeof data);
    struct whole whole = {0};
    uint64_t id;

    rig_up(&rig, 0);
    link_write_file(rig.link, "f", data, sizeof data, 0, note_written, &whole);
    open_write("work/dir/f", sizeof data);
    take(0, WIRE_MAX_DATA, WIRE_MAX_DATA);
    take(WIRE_MAX_DATA, 5, 2);
    take(WIRE_MAX_DATA + 2, 3, 3);
    ck_assert_uint_eq(hand_hear_call(&rig, WIRE_COMMIT, &id).ref.handle, 9);
    ck_assert_uint_eq(whole.times, 0);
    hand_reply(&rig, id, WIRE_COMMIT, &reply);
    hear_release();
    finish(&whole, ERROR_NONE, NULL);
}
END_TEST

START_TEST(a_write_that_fails_is_released_and_never_committed)
{
    struct wire_reply reply = {
        .code = ERROR_ERRNO, .os_errno = ENOSPC, .message = {"disk full", 9}};
    struct whole whole = {0};
    uint64_t id;

    rig_up(&rig, 0);
    link_write_file(rig.link, "/f", "abc", 3, 0, note_written, &whole);
    open_write("f", 3);
    hand_hear_call(&rig, WIRE_WRITE, &id);
    hand_reply(&rig, id, WIRE_WRITE, &reply);
    hear_release();
    RIG_UNTIL(&rig, whole.times > 0);
    ck_assert_int_eq(error_errno(&whole.err), ENOSPC);
    finish(&whole, ERROR_ERRNO, NULL);
}
END_TEST

START_TEST(a_write_of_more_than_was_given_is_refused)
{
    struct whole whole = {0};

    rig_up(&rig, 0);
    link_write_file(rig.link, "/f", "abc", 3, 0, note_written, &whole);
    open_write("f", 3);
    take(0, 3, 4);
    hear_release();
    finish(&whole, ERROR_IO, NULL);
}
END_TEST

/* ---- In this process -------------------------------------------------------------------------- */

/* A rig whose sandbox has a root here: with work/dir/hello in it. False where the kernel (or what plays
 * it: valgrind) has no openat2(2). */
static bool open_in_process(uint64_t timeout_ms)
{
    char path[128];
    int fd;

    if (syscall(SYS_openat2, -1, NULL, NULL, 0) < 0 && errno == ENOSYS) {
        return false;
    }
    snprintf(rig.root, sizeof rig.root, "/tmp/test-link-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(rig.root));
    snprintf(path, sizeof path, "%s/work", rig.root);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/work/dir", rig.root);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/work/dir/hello", rig.root);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "hello\n", 6), 6);
    close(fd);
    rig_open(&rig, timeout_ms, LINK_PLACE_AUTO);
    hand_accept(&rig);
    hand_welcome(&rig, 1);
    RIG_UNTIL(&rig, link_state(rig.link) == LINK_UP);
    return true;
}

static void close_in_process(void)
{
    char path[128];

    rig_close(&rig);
    snprintf(path, sizeof path, "%s/work/dir/hello", rig.root);
    unlink(path);
    snprintf(path, sizeof path, "%s/work/dir", rig.root);
    rmdir(path);
    snprintf(path, sizeof path, "%s/work", rig.root);
    rmdir(path);
    ck_assert_int_eq(rmdir(rig.root), 0); /* nothing else was left there */
    rig.root[0] = '\0';
}

static void let_the_lease_run_out(void)
{
    uint64_t start = uv_hrtime();

    RIG_UNTIL(&rig, uv_hrtime() - start > (LINK_LEASE_MS + 100) * UINT64_C(1000000));
}

START_TEST(calls_run_in_this_process_where_the_root_is_seen)
{
    struct answer answer;

    if (!open_in_process(0)) {
        return;
    }
    ck_assert(link_peer(rig.link)->in_process);
    ck_assert_uint_eq(link_peer(rig.link)->uid, getuid()); /* as this host numbers it */
    start_getattr(&rig, "hello", 0, &answer);
    ck_assert_uint_eq(answer.times, 0);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_NONE);
    ck_assert_uint_eq(answer.reply.attr.size, 6);
    start_getattr(&rig, "nothing", 0, &answer);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_NO_SUCH_FILE);
    ck_assert(hand_hears_nothing(&rig));
    close_in_process();
}
END_TEST

START_TEST(whole_files_are_read_and_written_in_this_process)
{
    struct whole whole = {0};

    if (!open_in_process(0)) {
        return;
    }
    link_write_file(rig.link, "hello", "good bye\n", 9, 0, note_written, &whole);
    RIG_UNTIL(&rig, whole.times > 0);
    ck_assert_int_eq(whole.err.code, ERROR_NONE);
    free(whole.data);
    whole = (struct whole){0};
    link_read_file(rig.link, "/work/dir/hello", 100, 0, note_read, &whole);
    RIG_UNTIL(&rig, whole.times > 0);
    ck_assert_int_eq(whole.err.code, ERROR_NONE);
    ck_assert_mem_eq(whole.data, "good bye\n", whole.length);
    ck_assert_uint_eq(whole.length, 9);
    free(whole.data);
    close_in_process();
}
END_TEST

START_TEST(a_call_after_the_lease_waits_for_a_sign_of_life)
{
    struct answer answer;

    if (!open_in_process(0)) {
        return;
    }
    let_the_lease_run_out();
    start_getattr(&rig, "hello", 0, &answer);
    hand_hear(&rig, WIRE_PING);
    ck_assert_uint_eq(answer.times, 0);
    hand_send_empty(&rig, WIRE_PONG, 0);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_NONE);
    close_in_process();
}
END_TEST

START_TEST(a_frozen_sandbox_never_seems_to_work)
{
    struct answer answer;

    if (!open_in_process(300)) {
        return;
    }
    let_the_lease_run_out();
    start_getattr(&rig, "hello", 0, &answer);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_NO_ANSWER);
    ck_assert_int_eq(link_state(rig.link), LINK_SILENT);
    close_in_process();
}
END_TEST

START_TEST(a_sandbox_that_is_gone_serves_no_file_though_they_are_there)
{
    struct answer answer;

    if (!open_in_process(0)) {
        return;
    }
    rig_set_mode(&rig, PHONY_GONE);
    hand_hang_up(&rig);
    RIG_UNTIL(&rig, link_state(rig.link) == LINK_GONE);
    start_getattr(&rig, "hello", 0, &answer);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_SANDBOX_GONE);
    close_in_process();
}
END_TEST

/* Holds a thread of the pool until the pipe is closed. */
static int pool_pipe[2];

static void hold_thread(uv_work_t *work)
{
    char c;

    (void)work;
    (void)!read(pool_pipe[0], &c, 1);
}

static void thread_free(uv_work_t *work, int status)
{
    (void)work;
    (void)status;
}

START_TEST(a_call_that_gets_no_thread_in_time_is_answered_all_the_same)
{
    enum { THREADS = 4 }; /* of libuv's pool */
    uv_work_t works[THREADS];
    struct answer answer;

    unsetenv("UV_THREADPOOL_SIZE");
    if (!open_in_process(0)) {
        return;
    }
    ck_assert_int_eq(pipe2(pool_pipe, O_CLOEXEC), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        uv_queue_work(&rig.loop, &works[i], hold_thread, thread_free);
    }
    start_getattr(&rig, "hello", 200, &answer);
    hand_hear(&rig, WIRE_PING);
    hand_send_empty(&rig, WIRE_PONG, 0);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_NO_ANSWER);
    close(pool_pipe[1]);
    RIG_UNTIL(&rig, uv_backend_timeout(&rig.loop) == -1);
    close_in_process();
    close(pool_pipe[0]);
    ck_assert_uint_eq(answer.times, 1);
}
END_TEST

UNIT_SUITE(link_files)
{
    tcase_add_loop_test(tcase, a_path_is_resolved_as_text_before_it_is_sent, 0, 8);
    tcase_add_test(tcase, a_file_is_read_in_pieces_until_its_size);
    tcase_add_test(tcase, a_file_that_shrinks_is_what_is_there);
    tcase_add_test(tcase, a_file_without_a_size_is_read_to_its_end);
    tcase_add_test(tcase, a_file_without_a_size_and_over_the_limit_is_refused);
    tcase_add_test(tcase, a_size_over_the_limit_is_refused_whatever_the_hand_thinks);
    tcase_add_test(tcase, more_bytes_than_were_asked_for_are_refused);
    tcase_add_test(tcase, one_deadline_holds_for_the_whole_file);
    tcase_add_test(tcase, an_empty_path_is_refused_from_the_loop);
    tcase_add_test(tcase, a_file_is_written_in_pieces_and_committed);
    tcase_add_test(tcase, a_write_that_fails_is_released_and_never_committed);
    tcase_add_test(tcase, a_write_of_more_than_was_given_is_refused);
    tcase_add_test(tcase, calls_run_in_this_process_where_the_root_is_seen);
    tcase_add_test(tcase, whole_files_are_read_and_written_in_this_process);
    tcase_add_test(tcase, a_call_after_the_lease_waits_for_a_sign_of_life);
    tcase_add_test(tcase, a_frozen_sandbox_never_seems_to_work);
    tcase_add_test(tcase, a_sandbox_that_is_gone_serves_no_file_though_they_are_there);
    tcase_add_test(tcase, a_call_that_gets_no_thread_in_time_is_answered_all_the_same);
}
