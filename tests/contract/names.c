/* Names that break careless code, through ReadFile, WriteFile and Exec. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sandbox/cleanup.h"
#include "tests/contract/session.h"

START_TEST(an_odd_name_is_a_name_like_any_other)
{
    static const char *const rows[] = {
        "x\ny", "-rf", " lead", "trail ", "$(id)", "`id`", "\xc3\xa9", "bad\xff", "a'b\"c", "\\n", "*", "~",
        "No such container", "ends\n", "...", "\x01\x02", "--", "a=b",
    };
    char path[128];
    struct buffer content;
    struct error err;
    struct run run;

    snprintf(path, sizeof path, "/workspace/dir/%s", rows[_i]);
    assert_ok(session_write(&S, path, "content", 7, &err), err);
    assert_ok(session_read(&S, path, MAX_FILE_BYTES, &content, &err), err);
    assert_text(content, "content");
    run = session_exec(&S, "shopt -s dotglob; cd dir; for f in *; do printf %s \"$f\"; done", 0);
    assert_exit(run, 0);
    ck_assert_uint_le(run.result.out[0].length, strlen(rows[_i]));
    assert_bytes(&run.result.out[0], rows[_i], run.result.out[0].length);
}
END_TEST

START_TEST(a_name_of_255_bytes_is_fine_and_256_are_too_long)
{
    char path[400];
    char *name = path + snprintf(path, sizeof path, "/workspace/");
    struct buffer content;
    struct error err = {0};

    memset(name, 'n', 255);
    name[255] = '\0';
    assert_ok(session_write(&S, path, "x", 1, &err), err);
    assert_ok(session_read(&S, path, MAX_FILE_BYTES, &content, &err), err);
    name[255] = 'n';
    name[256] = '\0';
    ck_assert_int_eq(session_write(&S, path, "x", 1, &err), -1);
    ck_assert_int_eq(error_errno(&err), ENAMETOOLONG);
    ck_assert_int_eq(session_read(&S, path, MAX_FILE_BYTES, &content, &err), -1);
    ck_assert_int_eq(error_errno(&err), ENAMETOOLONG);
}
END_TEST

START_TEST(dots_and_slashes_are_resolved_as_text)
{
    struct buffer content;
    struct error err;

    assert_ok(session_write(&S, "a//b/./c/../d", "x", 1, &err), err);
    assert_ok(session_read(&S, "/workspace/a/b/d", MAX_FILE_BYTES, &content, &err), err);
    assert_text(content, "x");
}
END_TEST

START_TEST(a_path_longer_than_the_kernel_s_is_an_error_not_a_crash)
{
    size_t length = 100000;
    cleanup_free char *path = malloc(length + 1);
    struct buffer content;
    struct error err = {0};

    ck_assert_ptr_nonnull(path);
    for (size_t i = 0; i < length; i++) {
        path[i] = i % 2 == 0 ? '/' : 'd';
    }
    path[length] = '\0';
    ck_assert_int_eq(session_read(&S, path, MAX_FILE_BYTES, &content, &err), -1);
    ck_assert_int_eq(session_write(&S, path, "x", 1, &err), -1);
    ck_assert_str_eq(session_output(&S, "echo alive"), "alive\n");
}
END_TEST

TCase *case_names(void)
{
    TCase *tc = tcase_create("names");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup_session, teardown_session);
    tcase_add_loop_test(tc, an_odd_name_is_a_name_like_any_other, 0, 18);
    tcase_add_test(tc, a_name_of_255_bytes_is_fine_and_256_are_too_long);
    tcase_add_test(tc, dots_and_slashes_are_resolved_as_text);
    tcase_add_test(tc, a_path_longer_than_the_kernel_s_is_an_error_not_a_crash);
    return tc;
}
