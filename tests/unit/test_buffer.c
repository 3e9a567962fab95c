/* A buffer never grows past its limit, and a failed append changes nothing. */
#include "sandbox/buffer.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>

START_TEST(bytes_come_out_as_they_went_in)
{
    struct buffer b = BUFFER_INIT(100000);

    for (unsigned i = 0; i < 5000; i++) {
        ck_assert_int_eq(buffer_append(&b, "0123456789abcdef", 16), 0);
    }
    ck_assert_uint_eq(b.length, 80000);
    for (unsigned i = 0; i < 80000; i++) {
        ck_assert_int_eq(b.data[i], "0123456789abcdef"[i % 16]);
    }
    buffer_release(&b);
    ck_assert_uint_eq(b.length, 0);
    ck_assert_ptr_null(b.data);
}
END_TEST

START_TEST(the_limit_is_kept_to_the_byte)
{
    struct buffer b = BUFFER_INIT(10);

    ck_assert_int_eq(buffer_append(&b, "0123456789", 10), 0);
    ck_assert_int_eq(buffer_append(&b, "x", 1), -1);
    ck_assert_int_eq(errno, ENOBUFS);
    ck_assert_ptr_null(buffer_reserve(&b, 1));
    ck_assert_int_eq(buffer_printf(&b, "%d", 1), -1);
    ck_assert_int_eq(buffer_append(&b, "", 0), 0);
    ck_assert_uint_eq(b.length, 10);
    ck_assert_str_eq(buffer_text(&b), "0123456789");
    buffer_release(&b);
}
END_TEST

START_TEST(a_length_near_the_end_of_the_type_does_not_wrap)
{
    struct buffer b = BUFFER_INIT(SIZE_MAX);

    ck_assert_int_eq(buffer_append(&b, "x", 1), 0);
    ck_assert_ptr_null(buffer_reserve(&b, SIZE_MAX - 1));
    ck_assert_uint_eq(b.length, 1);
    buffer_release(&b);
}
END_TEST

START_TEST(what_is_consumed_is_gone_from_the_front)
{
    struct buffer b = BUFFER_INIT(100);

    ck_assert_int_eq(buffer_append_string(&b, "first second"), 0);
    buffer_consume(&b, 6);
    ck_assert_str_eq(buffer_text(&b), "second");
    buffer_consume(&b, 6);
    ck_assert_uint_eq(b.length, 0);
    buffer_release(&b);
}
END_TEST

START_TEST(moving_leaves_the_source_empty_with_its_limit)
{
    struct buffer from = BUFFER_INIT(20);
    struct buffer to = BUFFER_INIT(5);

    ck_assert_int_eq(buffer_append_string(&from, "a longer text"), 0);
    ck_assert_int_eq(buffer_append_string(&to, "old"), 0);
    buffer_move(&to, &from);
    ck_assert_str_eq(buffer_text(&to), "a longer text");
    ck_assert_uint_eq(from.length, 0);
    ck_assert_uint_eq(from.limit, 20);
    buffer_release(&to);
    buffer_release(&from);
}
END_TEST

UNIT_SUITE(buffer)
{
    tcase_add_test(tcase, bytes_come_out_as_they_went_in);
    tcase_add_test(tcase, the_limit_is_kept_to_the_byte);
    tcase_add_test(tcase, a_length_near_the_end_of_the_type_does_not_wrap);
    tcase_add_test(tcase, what_is_consumed_is_gone_from_the_front);
    tcase_add_test(tcase, moving_leaves_the_source_empty_with_its_limit);
}
