#include "tests/unit/unit.h"

#include <signal.h>
#include <string.h>

#include "exec/result.h"
#include "exec/utf8.h"

#define NOTHING_TOLD                                                                               \
    "\"user_ms\":null,\"system_ms\":null,\"peak_memory\":null,\"oom_killed\":null,\"background\":[]," \
    "\"background_count\":0"

static bool valid(const char *text)
{
    return utf8_valid((const uint8_t *)text, strlen(text));
}

static size_t whole(const char *text)
{
    return utf8_whole((const uint8_t *)text, strlen(text));
}

START_TEST(utf8_is_what_the_standard_says)
{
    ck_assert(valid(""));
    ck_assert(valid("a\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xf0\x90\x80\x80\xf4\x8f\xbf\xbf"));
    ck_assert(utf8_valid((const uint8_t *)"a\0b", 3));
    ck_assert(!valid("\x80"));
    ck_assert(!valid("\xc0\xaf"));         /* overlong */
    ck_assert(!valid("\xe0\x9f\xbf"));     /* overlong */
    ck_assert(!valid("\xf0\x8f\xbf\xbf")); /* overlong */
    ck_assert(!valid("\xed\xa0\x80"));     /* a surrogate */
    ck_assert(!valid("\xf4\x90\x80\x80")); /* above U+10FFFF */
    ck_assert(!valid("\xf5\x80\x80\x80"));
    ck_assert(!valid("\xe2\x82"));
    ck_assert(!valid("\xe2\x28\xac"));
}
END_TEST

START_TEST(only_a_character_that_is_cut_off_is_taken_away)
{
    ck_assert_uint_eq(whole(""), 0);
    ck_assert_uint_eq(whole("abc"), 3);
    ck_assert_uint_eq(whole("ab\xe2\x82\xac"), 5);
    ck_assert_uint_eq(whole("ab\xe2\x82"), 2);
    ck_assert_uint_eq(whole("ab\xe2"), 2);
    ck_assert_uint_eq(whole("\xf0\x9f\x98"), 0);
    ck_assert_uint_eq(whole("ab\x80"), 3);     /* belongs to no character */
    ck_assert_uint_eq(whole("ab\xe0\x80"), 4); /* none begins so */
    ck_assert_uint_eq(whole("ab\xff"), 3);
}
END_TEST

static struct execution_result result;

static void start(void)
{
    result = (struct execution_result){.duration_ms = 812};
    buffer_init(&result.out[0], 4096);
    buffer_init(&result.out[1], 4096);
}

static void end(void)
{
    buffer_release(&result.out[0]);
    buffer_release(&result.out[1]);
}

static void put(int stream, const void *data, size_t length)
{
    ck_assert_int_eq(buffer_append(&result.out[stream], data, length), 0);
}

/* Compares with JSON text; the order of fields does not count. */
static void expect(const char *text)
{
    json_t *is = exec_result_json(&result);
    json_t *should = json_loads(text, JSON_ALLOW_NUL, NULL);

    ck_assert_ptr_nonnull(should);
    ck_assert_ptr_nonnull(is);
    if (!json_equal(is, should)) {
        ck_abort_msg("it is %s", json_dumps(is, 0));
    }
    json_decref(is);
    json_decref(should);
}

START_TEST(a_result_has_exactly_the_fields_of_the_protocol)
{
    put(0, "out\n", 4);
    put(1, "err", 3);
    result.exit_code = 3;
    expect("{\"stdout\":\"out\\n\",\"stderr\":\"err\",\"exit_code\":3,\"signal\":null,\"timed_out\":false,"
           "\"truncated\":false,\"stdout_truncated\":false,\"stderr_truncated\":false,"
           "\"stdout_dropped\":0,\"stderr_dropped\":0,\"duration_ms\":812," NOTHING_TOLD "}");
}
END_TEST

START_TEST(what_the_hand_tells_is_given_in_full)
{
    result.told = result.oom_known = result.oom_killed = true;
    result.user_us = 1999;
    result.system_us = 3000000;
    result.peak_kib = 5;
    result.left = 3;
    result.named = 2;
    result.background[0] = (struct execution_left){7, "sleep"};
    result.background[1] = (struct execution_left){8, "a\"\xff\n"};
    expect("{\"stdout\":\"\",\"stderr\":\"\",\"exit_code\":0,\"signal\":null,\"timed_out\":false,"
           "\"truncated\":false,\"stdout_truncated\":false,\"stderr_truncated\":false,"
           "\"stdout_dropped\":0,\"stderr_dropped\":0,\"duration_ms\":812,\"user_ms\":1,"
           "\"system_ms\":3000,\"peak_memory\":5120,\"oom_killed\":true,\"background_count\":3,"
           "\"background\":[{\"pid\":7,\"name\":\"sleep\"},{\"pid\":8,\"name\":\"a\\\"\\ufffd\\n\"}]}");
}
END_TEST

START_TEST(a_peak_that_cannot_be_is_not_given)
{
    result.told = true;
    result.peak_kib = UINT64_MAX;
    result.user_us = UINT64_MAX;
    expect("{\"stdout\":\"\",\"stderr\":\"\",\"exit_code\":0,\"signal\":null,\"timed_out\":false,"
           "\"truncated\":false,\"stdout_truncated\":false,\"stderr_truncated\":false,"
           "\"stdout_dropped\":0,\"stderr_dropped\":0,\"duration_ms\":812,"
           "\"user_ms\":18446744073709551,\"system_ms\":0,\"peak_memory\":null,\"oom_killed\":null,"
           "\"background\":[],\"background_count\":0}");
}
END_TEST

START_TEST(a_deadline_leaves_a_signal_and_no_exit_code)
{
    result.timed_out = true;
    result.signal = SIGKILL;
    result.exit_code = -1;
    expect("{\"stdout\":\"\",\"stderr\":\"\",\"exit_code\":null,\"signal\":\"SIGKILL\",\"timed_out\":true,"
           "\"truncated\":false,\"stdout_truncated\":false,\"stderr_truncated\":false,"
           "\"stdout_dropped\":0,\"stderr_dropped\":0,\"duration_ms\":812," NOTHING_TOLD "}");
}
END_TEST

START_TEST(bytes_that_are_no_text_come_as_base64_and_nul_is_text)
{
    put(0, "a\0b", 3);
    put(1, "\xff\xfe", 2);
    expect("{\"stdout\":\"a\\u0000b\",\"stderr_base64\":\"//4=\",\"exit_code\":0,\"signal\":null,"
           "\"timed_out\":false,\"truncated\":false,\"stdout_truncated\":false,"
           "\"stderr_truncated\":false,\"stdout_dropped\":0,\"stderr_dropped\":0,\"duration_ms\":812," NOTHING_TOLD "}");
}
END_TEST

START_TEST(a_character_that_the_cap_cut_is_counted_as_dropped)
{
    put(0, "euro \xe2\x82", 7);
    result.dropped[0] = 10;
    expect("{\"stdout\":\"euro \",\"stderr\":\"\",\"exit_code\":0,\"signal\":null,\"timed_out\":false,"
           "\"truncated\":true,\"stdout_truncated\":true,\"stderr_truncated\":false,"
           "\"stdout_dropped\":12,\"stderr_dropped\":0,\"duration_ms\":812," NOTHING_TOLD "}");
}
END_TEST

START_TEST(bytes_without_meaning_keep_every_byte_at_the_cap)
{
    put(1, "\xff\xe2\x82", 3);
    result.dropped[1] = 1;
    expect("{\"stdout\":\"\",\"stderr_base64\":\"/+KC\",\"exit_code\":0,\"signal\":null,"
           "\"timed_out\":false,\"truncated\":true,\"stdout_truncated\":false,"
           "\"stderr_truncated\":true,\"stdout_dropped\":0,\"stderr_dropped\":1,\"duration_ms\":812," NOTHING_TOLD "}");
}
END_TEST

START_TEST(a_character_that_the_command_itself_cut_is_not_touched)
{
    put(0, "a\xe2\x82", 3);
    expect("{\"stdout_base64\":\"YeKC\",\"stderr\":\"\",\"exit_code\":0,\"signal\":null,"
           "\"timed_out\":false,\"truncated\":false,\"stdout_truncated\":false,"
           "\"stderr_truncated\":false,\"stdout_dropped\":0,\"stderr_dropped\":0,\"duration_ms\":812," NOTHING_TOLD "}");
}
END_TEST

START_TEST(every_signal_has_a_name)
{
    for (int i = 1; i <= SIGRTMAX; i++) {
        json_t *json;
        const char *name;

        result.signal = i;
        json = exec_result_json(&result);
        name = json_string_value(json_object_get(json, "signal"));
        ck_assert_ptr_nonnull(name);
        ck_assert_int_eq(strncmp(name, "SIG", 3), 0);
        ck_assert(json_is_null(json_object_get(json, "exit_code")));
        json_decref(json);
    }
}
END_TEST

UNIT_SUITE(result)
{
    tcase_add_checked_fixture(tcase, start, end);
    tcase_add_test(tcase, utf8_is_what_the_standard_says);
    tcase_add_test(tcase, only_a_character_that_is_cut_off_is_taken_away);
    tcase_add_test(tcase, a_result_has_exactly_the_fields_of_the_protocol);
    tcase_add_test(tcase, what_the_hand_tells_is_given_in_full);
    tcase_add_test(tcase, a_peak_that_cannot_be_is_not_given);
    tcase_add_test(tcase, a_deadline_leaves_a_signal_and_no_exit_code);
    tcase_add_test(tcase, bytes_that_are_no_text_come_as_base64_and_nul_is_text);
    tcase_add_test(tcase, a_character_that_the_cap_cut_is_counted_as_dropped);
    tcase_add_test(tcase, bytes_without_meaning_keep_every_byte_at_the_cap);
    tcase_add_test(tcase, a_character_that_the_command_itself_cut_is_not_touched);
    tcase_add_test(tcase, every_signal_has_a_name);
}
