/* The contract's rows about ReadFile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "tests/contract/session.h"

/* Reads what must be refused. */
static void refused(const char *path, uint64_t limit, enum error_code code)
{
    struct buffer content;
    struct error err = {0};

    assert_fault(session_read(&S, path, limit, &content, &err), err, code);
}

START_TEST(reading_what_is_not_a_regular_file_is_refused_with_its_own_error)
{
    static const struct {
        const char *prepare;
        const char *path;
        enum error_code code;
    } rows[] = {
        {"true", "/workspace/nope.txt", ERROR_NO_SUCH_FILE},
        {"true", "/workspace", ERROR_IS_DIRECTORY},
        {"mkfifo f", "/workspace/f", ERROR_NOT_REGULAR},
        {"echo x >t; ln -s t l", "/workspace/l", ERROR_NOT_REGULAR},
        {"ln -s /etc/passwd l", "/workspace/l", ERROR_NOT_REGULAR},
        {"ln -s nowhere l", "/workspace/l", ERROR_NOT_REGULAR},
        {"echo x >t", "/workspace/t/a", ERROR_NOT_DIRECTORY},
        {"echo x >t", "/workspace/t/a/b", ERROR_NOT_DIRECTORY},
        {"true", "/dev/null", ERROR_NOT_REGULAR},
        {"true", "/dev/zero", ERROR_NOT_REGULAR},
        {"true", "", ERROR_BAD_REQUEST},
    };

    session_output(&S, rows[_i].prepare);
    refused(rows[_i].path, MAX_FILE_BYTES, rows[_i].code);
}
END_TEST

START_TEST(a_file_at_the_cap_is_read_whole_and_one_byte_more_is_refused)
{
    cleanup_free uint8_t *bytes = noise(MAX_FILE_BYTES, 4);
    struct buffer content;
    struct error err;

    assert_ok(session_write(&S, "/workspace/cap", bytes, MAX_FILE_BYTES, &err), err);
    assert_ok(session_read(&S, "/workspace/cap", MAX_FILE_BYTES, &content, &err), err);
    assert_bytes(&content, bytes, MAX_FILE_BYTES);
    session_output(&S, "printf x >>cap");
    refused("/workspace/cap", MAX_FILE_BYTES, ERROR_TOO_LARGE);
}
END_TEST

START_TEST(a_larger_limit_reads_a_larger_file)
{
    size_t length = 5u << 20;
    cleanup_free uint8_t *bytes = noise(length, 5);
    struct buffer content;
    struct error err;

    assert_ok(session_write(&S, "/workspace/five", bytes, length, &err), err);
    refused("/workspace/five", MAX_FILE_BYTES, ERROR_TOO_LARGE);
    assert_ok(session_read(&S, "/workspace/five", length + 1, &content, &err), err);
    assert_bytes(&content, bytes, length);
    refused("/workspace/five", 1024, ERROR_TOO_LARGE);
}
END_TEST

START_TEST(a_sparse_giant_is_refused_before_anything_is_allocated)
{
    session_output(&S, "truncate -s 8G giant");
    refused("/workspace/giant", MAX_FILE_BYTES, ERROR_TOO_LARGE);
}
END_TEST

START_TEST(an_empty_file_is_an_empty_content)
{
    struct buffer content;
    struct error err;

    session_output(&S, ": >empty");
    assert_ok(session_read(&S, "/workspace/empty", MAX_FILE_BYTES, &content, &err), err);
    ck_assert_uint_eq(content.length, 0);
}
END_TEST

START_TEST(bytes_are_read_verbatim)
{
    static const char bytes[] = {0, 1, '\xff', '\xfe', 'h', 'i', 0};
    struct buffer content;
    struct error err;

    assert_ok(session_write(&S, "/workspace/b", bytes, sizeof bytes, &err), err);
    assert_ok(session_read(&S, "/workspace/b", MAX_FILE_BYTES, &content, &err), err);
    assert_bytes(&content, bytes, sizeof bytes);
}
END_TEST

START_TEST(a_file_of_proc_is_read_to_its_end)
{
    struct buffer content;
    struct error err;

    assert_ok(session_read(&S, "/proc/version", MAX_FILE_BYTES, &content, &err), err);
    ck_assert_uint_gt(content.length, 10);
}
END_TEST

START_TEST(parents_may_be_reached_through_links_inside)
{
    struct buffer content;
    struct error err;

    session_output(&S, "mkdir real; echo x >real/f; ln -s real way; ln -s /workspace/real abs");
    assert_ok(session_read(&S, "/workspace/way/f", MAX_FILE_BYTES, &content, &err), err);
    assert_text(content, "x\n");
    assert_ok(session_read(&S, "/workspace/abs/f", MAX_FILE_BYTES, &content, &err), err);
    assert_text(content, "x\n");
}
END_TEST

START_TEST(no_path_leads_out_of_the_sandbox)
{
    static const char *const rows[] = {
        "/../../../../../../../../../..", "../../../../../../../../../../../proc/1/root/..",
        "/workspace/up", "/proc/1/root", "/proc/self/root",
    };
    char outside[] = "/tmp/handsfs-outside-XXXXXX"; /* of the host */
    cleanup_fd int fd = mkstemp(outside);
    struct buffer content;
    struct error err = {0};
    char path[128];
    int r;

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "x", 1), 1);
    session_output(&S, "ln -s ../../../../../../../.. up");
    snprintf(path, sizeof path, "%s%s", rows[_i], outside);
    r = session_read(&S, path, MAX_FILE_BYTES, &content, &err);
    unlink(outside);
    ck_assert_int_eq(r, -1);
}
END_TEST

START_TEST(a_file_that_grows_while_it_is_read_is_never_over_the_limit)
{
    struct buffer content;
    struct error err = {0};
    int r;

    session_output(&S, "(while :; do head -c 65536 /dev/zero >>grow; done) >/dev/null 2>&1 & sleep 0.2");
    for (unsigned i = 0; i < 10; i++) {
        r = session_read(&S, "/workspace/grow", MAX_FILE_BYTES, &content, &err);
        ck_assert(r == 0 || err.code == ERROR_TOO_LARGE);
        ck_assert_uint_le(content.length, MAX_FILE_BYTES);
    }
    session_exec(&S, "kill -9 -1", 5000);
}
END_TEST

TCase *case_read(void)
{
    TCase *tc = tcase_create("read");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup_session, teardown_session);
    tcase_add_loop_test(tc, reading_what_is_not_a_regular_file_is_refused_with_its_own_error, 0, 11);
    tcase_add_test(tc, a_file_at_the_cap_is_read_whole_and_one_byte_more_is_refused);
    tcase_add_test(tc, a_larger_limit_reads_a_larger_file);
    tcase_add_test(tc, a_sparse_giant_is_refused_before_anything_is_allocated);
    tcase_add_test(tc, an_empty_file_is_an_empty_content);
    tcase_add_test(tc, bytes_are_read_verbatim);
    tcase_add_test(tc, a_file_of_proc_is_read_to_its_end);
    tcase_add_test(tc, parents_may_be_reached_through_links_inside);
    tcase_add_loop_test(tc, no_path_leads_out_of_the_sandbox, 0, 5);
    tcase_add_test(tc, a_file_that_grows_while_it_is_read_is_never_over_the_limit);
    return tc;
}
