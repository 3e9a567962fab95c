/* The contract's rows about images: what is in one never changes what our own files and commands do. */
#include <stdlib.h>
#include <string.h>

#include "sandbox/cleanup.h"
#include "tests/contract/session.h"

static void open_image(const char *tag)
{
    struct sandbox_spec spec;

    session_spec(&spec);
    free(spec.image);
    spec.image = other_image(tag);
    session_open(&S, &spec);
}

static void file_round_trip(const char *path)
{
    size_t length = 300000;
    cleanup_free uint8_t *bytes = noise(length, 21);
    struct buffer content;
    struct error err = {0};

    assert_ok(session_write(&S, path, bytes, length, &err), err);
    assert_ok(session_read(&S, path, MAX_FILE_BYTES, &content, &err), err);
    assert_bytes(&content, bytes, length);
}

START_TEST(an_image_s_user_environment_and_home_are_kept)
{
    struct error err = {0};

    open_image("user");
    ck_assert_str_eq(session_output(&S, "id -u; id -g; id -un; echo $HOME $AGENT; pwd"),
                     "1000\n1000\nagent\n/home/agent yes\n/workspace\n");
    session_output(&S, "echo x >made; mkdir d; touch $HOME/mine");
    file_round_trip("/workspace/a/b/c");
    assert_ok(session_write(&S, "/workspace/made", "y", 1, &err), err);
    ck_assert_str_eq(session_output(&S, "stat -c '%u:%g' . made a a/b a/b/c"),
                     "1000:1000\n1000:1000\n1000:1000\n1000:1000\n1000:1000\n");
    assert_fault(session_write(&S, "/etc/x", "y", 1, &err), err, ERROR_NOT_WRITABLE);
    session_close(&S, true);
}
END_TEST

START_TEST(a_user_may_be_another_than_the_image_s)
{
    struct sandbox_spec spec;

    session_spec(&spec);
    free(spec.image);
    spec.image = other_image("user");
    spec.user = strdup("1234:4321");
    session_open(&S, &spec);
    ck_assert_str_eq(session_output(&S, "id -u; id -g"), "1234\n4321\n");
    file_round_trip("/workspace/f");
    ck_assert_str_eq(session_output(&S, "stat -c '%u:%g' f"), "1234:4321\n");
    session_close(&S, true);
}
END_TEST

/* BASH_ENV prints and redefines words, and the first folder of PATH holds programs that lie. */
START_TEST(a_hostile_image_corrupts_nothing)
{
    struct error err = {0};
    struct run run;

    open_image("hostile");
    file_round_trip("/workspace/deep/er/file");
    run = session_exec(&S, "builtin exit 3", 20000);
    assert_exit(run, 3);
    run = session_exec(&S, "/bin/sleep 987800 & setsid /bin/sleep 987800 & /bin/sleep 987800", 700);
    assert_ran(run);
    ck_assert(run.result.timed_out);
    assert_no_sleep_is_left(&S);
    assert_ok(session_write(&S, "/workspace/deep/er/file", "short", 5, &err), err);
    session_close(&S, true);
}
END_TEST

START_TEST(an_image_without_a_libc_runs_commands)
{
    open_image("small");
    ck_assert_str_eq(session_output(&S, "echo $((6 * 7)); pwd"), "42\n/workspace\n");
    file_round_trip("/workspace/a/b");
    session_close(&S, true);
}
END_TEST

START_TEST(an_image_without_bash_serves_files_and_says_what_it_lacks)
{
    struct run run;

    open_image("busybox");
    file_round_trip("/workspace/a/b");
    run = session_exec(&S, "echo x", 20000);
    ck_assert(run.failed);
    ck_assert_msg(strstr(run.err.message, "/bin/bash") != NULL, "%s", run.err.message);
    ck_assert_int_ne(run.err.code, ERROR_SANDBOX_GONE);
    file_round_trip("/workspace/a/c");
    session_close(&S, true);
}
END_TEST

TCase *case_images(void)
{
    TCase *tc = tcase_create("images");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, an_image_s_user_environment_and_home_are_kept);
    tcase_add_test(tc, a_user_may_be_another_than_the_image_s);
    tcase_add_test(tc, a_hostile_image_corrupts_nothing);
    tcase_add_test(tc, an_image_without_a_libc_runs_commands);
    tcase_add_test(tc, an_image_without_bash_serves_files_and_says_what_it_lacks);
    return tc;
}
