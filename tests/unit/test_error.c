/* The one error table: each code has an errno and a name, and no two share one. */
#include "sandbox/error.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>

START_TEST(every_code_has_a_name_that_leads_back_to_it)
{
    for (int code = ERROR_NONE + 1; code < ERROR_CODES; code++) {
        const char *name = error_name((enum error_code)code);

        ck_assert_str_ne(name, "");
        ck_assert_int_eq(error_code_of_name(name), code);
    }
    ck_assert_int_eq(error_code_of_name("no such name"), ERROR_NONE);
}
END_TEST

START_TEST(every_code_has_an_errno_that_leads_back_to_it)
{
    for (int code = ERROR_NONE + 1; code < ERROR_ERRNO; code++) {
        struct error err = {0};

        ck_assert_int_eq(error_set(&err, (enum error_code)code, 0, "x"), -1);
        ck_assert_int_gt(error_errno(&err), 0);
        ck_assert_int_eq(error_code_of_errno(error_errno(&err)), code);
    }
}
END_TEST

START_TEST(an_errno_without_a_code_stays_itself)
{
    static const int errnos[] = {ENOSPC, EDQUOT, EROFS, ENAMETOOLONG, ENOTEMPTY, EXDEV};

    for (size_t i = 0; i < sizeof errnos / sizeof errnos[0]; i++) {
        struct error err = {0};

        ck_assert_int_eq(error_set_errno(&err, errnos[i], "write %s", "a"), -1);
        ck_assert_int_eq(err.code, ERROR_ERRNO);
        ck_assert_int_eq(error_errno(&err), errnos[i]);
    }
}
END_TEST

START_TEST(an_errno_that_makes_no_sense_is_an_io_error)
{
    static const int errnos[] = {0, -1, -ENOENT, 4096, 1 << 30};

    for (size_t i = 0; i < sizeof errnos / sizeof errnos[0]; i++) {
        struct error err = {0};

        error_set_errno(&err, errnos[i], "read");
        ck_assert_int_eq(err.code, ERROR_IO);
        ck_assert_int_eq(error_errno(&err), EIO);
    }
}
END_TEST

START_TEST(a_message_says_what_was_tried_and_why_it_failed)
{
    struct error err = {0};

    error_set_errno(&err, ENOENT, "open %s", "a");
    ck_assert_str_eq(err.message, "open a: No such file or directory");
    ck_assert_int_eq(error_prefix(&err, "session %d", 7), -1);
    ck_assert_str_eq(err.message, "session 7: open a: No such file or directory");
    ck_assert_int_eq(err.code, ERROR_NO_SUCH_FILE);
}
END_TEST

START_TEST(a_message_that_is_too_long_is_cut_and_stays_a_string)
{
    char text[2 * ERROR_MESSAGE_MAX];
    struct error err = {0};

    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    error_set_errno(&err, EIO, "%s", text);
    ck_assert_uint_eq(strlen(err.message), ERROR_MESSAGE_MAX - 1);
    error_prefix(&err, "%s", text);
    ck_assert_uint_eq(strlen(err.message), ERROR_MESSAGE_MAX - 1);
}
END_TEST

START_TEST(the_operator_is_told_what_only_he_can_mend)
{
    ck_assert_int_eq(error_audience(ERROR_SANDBOX_GONE), ERROR_FOR_OPERATOR);
    ck_assert_int_eq(error_audience(ERROR_NO_ANSWER), ERROR_FOR_OPERATOR);
    ck_assert_int_eq(error_audience(ERROR_NO_SUCH_FILE), ERROR_FOR_CALLER);
    ck_assert_int_eq(error_audience(ERROR_SPEC_MISMATCH), ERROR_FOR_CALLER);
}
END_TEST

UNIT_SUITE(error)
{
    tcase_add_test(tcase, every_code_has_a_name_that_leads_back_to_it);
    tcase_add_test(tcase, every_code_has_an_errno_that_leads_back_to_it);
    tcase_add_test(tcase, an_errno_without_a_code_stays_itself);
    tcase_add_test(tcase, an_errno_that_makes_no_sense_is_an_io_error);
    tcase_add_test(tcase, a_message_says_what_was_tried_and_why_it_failed);
    tcase_add_test(tcase, a_message_that_is_too_long_is_cut_and_stays_a_string);
    tcase_add_test(tcase, the_operator_is_told_what_only_he_can_mend);
}
