/* What a sandbox may be made from. */
#include "sandbox/sandbox.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

START_TEST(an_empty_workdir_becomes_the_default)
{
    struct sandbox_spec spec;
    struct error err;

    sandbox_spec_init(&spec);
    spec.session = strdup("s1");
    ck_assert_int_eq(sandbox_spec_check(&spec, &err), 0);
    ck_assert_str_eq(spec.workdir, DEFAULT_WORKDIR);
    sandbox_spec_release(&spec);
}
END_TEST

START_TEST(a_workdir_out_of_its_grammar_is_refused)
{
    static const char *const rows[] = {"relative", "/",       "/a/",    "/a//b",  "/a/./b",     "/a/../b",
                                       "/tmp",     "/tmp/x",  "/proc",  "/dev/x", "/usr/local", "/etc",
                                       "//a",      "/a/b/..", "/sys/x", "/run/handsfs"};
    struct sandbox_spec spec;
    struct error err = {0};

    sandbox_spec_init(&spec);
    spec.session = strdup("s1");
    spec.workdir = strdup(rows[_i]);
    ck_assert_msg(sandbox_spec_check(&spec, &err) == -1, "\"%s\" was taken", rows[_i]);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    sandbox_spec_release(&spec);
}
END_TEST

START_TEST(a_workdir_within_it_is_taken)
{
    static const char *const rows[] = {"/workspace", "/a", "/with space/b", "/tmpfoo", "/.hidden", "/..a"};
    struct sandbox_spec spec;
    struct error err = {0};

    sandbox_spec_init(&spec);
    spec.session = strdup("s1");
    spec.workdir = strdup(rows[_i]);
    ck_assert_msg(sandbox_spec_check(&spec, &err) == 0, "%s", err.message);
    sandbox_spec_release(&spec);
}
END_TEST

START_TEST(a_session_name_has_a_grammar)
{
    static const char *const good[] = {"s1", "A", "9", "a.b-c_d", "x..y"};
    static const char *const bad[] = {"", ".", "-a", "_a", "a/b", "a b", "a\n", "\xc3\xa9", "a:b"};
    char name[MAX_SESSION_NAME + 2];
    struct error err = {0};

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(session_name_check(good[i], &err) == 0, "%s", err.message);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(session_name_check(bad[i], &err) == -1, "\"%s\" was taken", bad[i]);
    }
    memset(name, 'a', sizeof name);
    name[MAX_SESSION_NAME + 1] = '\0';
    ck_assert_int_eq(session_name_check(name, &err), -1);
    name[MAX_SESSION_NAME] = '\0';
    ck_assert_int_eq(session_name_check(name, &err), 0);
}
END_TEST

START_TEST(a_variable_set_twice_has_its_last_value)
{
    struct env_list list = {0};
    struct error err;

    ck_assert_int_eq(env_list_set(&list, "A=1", &err), 0);
    ck_assert_int_eq(env_list_set(&list, "AB=2", &err), 0);
    ck_assert_int_eq(env_list_set(&list, "A=3", &err), 0);
    ck_assert_uint_eq(list.count, 2);
    ck_assert_str_eq(list.entries[0], "A=3");
    ck_assert_str_eq(list.entries[1], "AB=2");
    ck_assert_ptr_null(list.entries[2]);
    env_list_release(&list);
}
END_TEST

START_TEST(variables_are_bounded_in_number_and_size)
{
    struct env_list list = {0};
    struct error err = {0};
    char *large = malloc(MAX_ENV_VALUE + 2);
    char name[32];

    ck_assert_ptr_nonnull(large);
    memset(large, 'v', MAX_ENV_VALUE + 1);
    large[1] = '=';
    large[MAX_ENV_VALUE] = '\0';
    ck_assert_int_eq(env_list_set(&list, large, &err), 0);
    large[MAX_ENV_VALUE] = 'v';
    large[MAX_ENV_VALUE + 1] = '\0';
    ck_assert_int_eq(env_list_set(&list, large, &err), -1);
    for (unsigned i = 1; i < MAX_ENV_VARIABLES; i++) {
        snprintf(name, sizeof name, "N%u=", i);
        ck_assert_int_eq(env_list_set(&list, name, &err), 0);
    }
    ck_assert_int_eq(env_list_set(&list, "ONE_MORE=", &err), -1);
    ck_assert_int_eq(env_list_set(&list, "N5=changed", &err), 0);
    ck_assert_uint_eq(list.count, MAX_ENV_VARIABLES);
    env_list_release(&list);
    free(large);
}
END_TEST

START_TEST(a_capability_has_a_name_that_the_kernel_knows)
{
    char chown[] = "chown", raw[] = "CAP_NET_RAW", all[] = "all", flying[] = "CAP_FLYING";
    char session[] = "s", workdir[] = "/workspace";
    char *known[] = {chown, raw, all, NULL};
    char *unknown[] = {chown, flying, NULL};
    struct sandbox_spec spec;
    struct error err = {0};

    sandbox_spec_init(&spec);
    spec.session = session;
    spec.workdir = workdir;
    spec.cap_drop = known;
    ck_assert_int_eq(sandbox_spec_check(&spec, &err), 0);
    spec.cap_drop = unknown;
    ck_assert_int_eq(sandbox_spec_check(&spec, &err), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(err.message, "CAP_FLYING"));
}
END_TEST

UNIT_SUITE(spec)
{
    tcase_add_test(tcase, a_capability_has_a_name_that_the_kernel_knows);
    tcase_add_test(tcase, an_empty_workdir_becomes_the_default);
    tcase_add_loop_test(tcase, a_workdir_out_of_its_grammar_is_refused, 0, 16);
    tcase_add_loop_test(tcase, a_workdir_within_it_is_taken, 0, 6);
    tcase_add_test(tcase, a_session_name_has_a_grammar);
    tcase_add_test(tcase, a_variable_set_twice_has_its_last_value);
    tcase_add_test(tcase, variables_are_bounded_in_number_and_size);
}
