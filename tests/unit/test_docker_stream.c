/* The frames of an engine's stream, whole and in pieces, and such as are none; and what may be shown. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "backends/docker_stream.h"
#include "backends/printable.h"

#define FRAME(type, length) type "\0\0\0\0\0\0" length

static const char stream[] = FRAME("\1", "\3") "abc" FRAME("\2", "\4") "err\n" FRAME("\1", "\0") FRAME("\0", "\1") "d" FRAME(
    "\1", "\2") "ef";

START_TEST(output_is_taken_out_of_frames_that_are_split_anywhere)
{
    for (size_t piece = 1; piece < sizeof stream; piece++) {
        struct docker_demux demux = {.have = 0};
        struct buffer out = BUFFER_INIT(64);
        struct error err;

        for (size_t at = 0; at < sizeof stream - 1; at += piece) {
            size_t n = sizeof stream - 1 - at < piece ? sizeof stream - 1 - at : piece;

            ck_assert_int_eq(docker_demux_take(&demux, (const uint8_t *)stream + at, n, &out, &err), 0);
        }
        ck_assert_str_eq(buffer_text(&out), "abcdef");
        ck_assert(docker_demux_end(&demux));
        buffer_release(&out);
    }
}
END_TEST

START_TEST(an_end_within_a_frame_is_told)
{
    for (size_t n = 1; n < 11; n++) {
        struct docker_demux demux = {.have = 0};
        struct buffer out = BUFFER_INIT(64);
        struct error err;

        ck_assert_int_eq(docker_demux_take(&demux, (const uint8_t *)stream, n, &out, &err), 0);
        ck_assert(!docker_demux_end(&demux));
        buffer_release(&out);
    }
}
END_TEST

static const char wrong_frames[][9] = {
    FRAME("\3", "\1"),
    FRAME("\377", "\1"),
    "\1\1\0\0\0\0\0\1",
    "\1\0\0\1\0\0\0\1",
    "{\"a\":12}",
};

START_TEST(what_is_no_frame_ends_the_stream)
{
    struct docker_demux demux = {.have = 0};
    struct buffer out = BUFFER_INIT(64);
    struct error err;

    ck_assert_int_eq(docker_demux_take(&demux, (const uint8_t *)wrong_frames[_i], 8, &out, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    buffer_release(&out);
}
END_TEST

START_TEST(a_frame_of_the_greatest_length_is_passed_on_as_it_comes)
{
    static const uint8_t header[] = {1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    struct docker_demux demux = {.have = 0};
    struct buffer out = BUFFER_INIT(64);
    struct error err;

    ck_assert_int_eq(docker_demux_take(&demux, header, sizeof header, &out, &err), 0);
    ck_assert_uint_eq(out.capacity, 0);
    for (unsigned i = 0; i < 1000; i++) {
        ck_assert_int_eq(docker_demux_take(&demux, (const uint8_t *)"0123456789", 10, &out, &err), 0);
        ck_assert_uint_eq(out.length, 10);
        buffer_clear(&out);
    }
    ck_assert_uint_eq(demux.left, 0xffffffffu - 10000);
    buffer_release(&out);
}
END_TEST

START_TEST(standard_error_without_end_costs_nothing)
{
    static const uint8_t header[] = {2, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    struct docker_demux demux = {.have = 0};
    struct buffer out = BUFFER_INIT(1);
    struct error err;

    ck_assert_int_eq(docker_demux_take(&demux, header, sizeof header, &out, &err), 0);
    for (unsigned i = 0; i < 10000; i++) {
        ck_assert_int_eq(docker_demux_take(&demux, (const uint8_t *)"x\n\033[2J line", 12, &out, &err), 0);
    }
    ck_assert_uint_eq(demux.lines, DOCKER_ERRORS_LINES);
    ck_assert_uint_eq(out.length, 0);
    buffer_release(&out);
}
END_TEST

static const struct {
    const char *from, *to;
} texts[] = {
    {"No such container: x", "No such container: x"},
    {" \n a\t\r\n b \n", "a b"},
    {"\033[2Jred\a", "?[2Jred?"},
    {"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x8b", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x90\x8b"},
    {"\xc3", "?"},
    {"\xc0\xaf\xed\xa0\x80\xf5", "??????"},
    {"a\xc2\x9b"
     "b", "a??b"},
    {"a\xe2\x80\xae"
     "b", "a???b"},
    {"", ""},
};

START_TEST(text_of_others_is_made_printable)
{
    char text[64];

    ck_assert_uint_eq(copy_printable(text, sizeof text, texts[_i].from, strlen(texts[_i].from)),
                      strlen(texts[_i].to));
    ck_assert_str_eq(text, texts[_i].to);
}
END_TEST

START_TEST(text_that_is_too_long_is_cut_between_characters)
{
    char text[5];

    ck_assert_uint_eq(copy_printable(text, sizeof text, "ab\xe2\x82\xac", 5), 2);
    ck_assert_str_eq(text, "ab");
    ck_assert_uint_eq(copy_printable(text, 1, "ab", 2), 0);
    ck_assert_str_eq(text, "");
}
END_TEST

UNIT_SUITE(docker_stream)
{
    tcase_add_test(tcase, output_is_taken_out_of_frames_that_are_split_anywhere);
    tcase_add_test(tcase, an_end_within_a_frame_is_told);
    tcase_add_loop_test(tcase, what_is_no_frame_ends_the_stream, 0,
                        sizeof wrong_frames / sizeof wrong_frames[0]);
    tcase_add_test(tcase, a_frame_of_the_greatest_length_is_passed_on_as_it_comes);
    tcase_add_test(tcase, standard_error_without_end_costs_nothing);
    tcase_add_loop_test(tcase, text_of_others_is_made_printable, 0, sizeof texts / sizeof texts[0]);
    tcase_add_test(tcase, text_that_is_too_long_is_cut_between_characters);
}
