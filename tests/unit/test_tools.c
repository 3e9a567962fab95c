/* The tools over a link without a sandbox: what is checked before anything runs, what is answered, and how a call
 * ends before its end. */
#include <string.h>
#include <unistd.h>

#include "exec/tools.h"
#include "tests/unit/gateway_bed.h"
#include "tests/unit/unit.h"

static struct bed bed;
static int fd;
static json_t *answer;

static void begin(void)
{
    memset(&bed, 0, sizeof bed);
    bed_open(&bed);
    fd = bed_connect(&bed);
    answer = NULL;
}

static void end(void)
{
    json_decref(answer);
    close(fd);
    bed_close(&bed);
}

static const char *call(const char *params)
{
    json_decref(answer);
    answer = bed_call(fd, "tools.call", params);
    return json_string_value(json_object_get(answer, "text"));
}

static bool is_error(void)
{
    return json_is_true(json_object_get(answer, "is_error"));
}

START_TEST(the_list_has_six_tools_with_schemas_and_hints)
{
    json_t *list = bed_call(fd, "tools.list", "{}");
    json_t *all = json_object_get(list, "tools");
    json_t *one;
    size_t i;

    ck_assert_uint_eq(json_array_size(all), 6);
    json_array_foreach(all, i, one)
    {
        ck_assert(json_is_string(json_object_get(one, "description")));
        ck_assert_str_eq(
            json_string_value(json_object_get(json_object_get(one, "inputSchema"), "type")), "object");
        ck_assert(json_is_object(json_object_get(one, "outputSchema")));
        ck_assert(json_is_boolean(json_object_get(json_object_get(one, "annotations"), "readOnlyHint")));
    }
    json_decref(list);
}
END_TEST

static const struct {
    const char *params, *part;
} refused[] = {
    {"{\"name\":\"nope\"}", "unknown tool \"nope\""},
    {"{\"name\":\"read\"}", "\"file_path\" is missing"},
    {"{\"name\":\"read\",\"arguments\":{\"file_path\":null}}", "\"file_path\" is missing"},
    {"{\"name\":\"read\",\"arguments\":[]}", "not an object"},
    {"{\"name\":\"read\",\"arguments\":{\"file_path\":3}}", "\"file_path\" is not a string"},
    {"{\"name\":\"read\",\"arguments\":{\"path\":\"x\"}}", "unknown property \"path\""},
    {"{\"name\":\"read\",\"arguments\":{\"file_path\":\"x\",\"view_range\":[1,2,3]}}", "3 items instead of 2"},
    {"{\"name\":\"read\",\"arguments\":{\"file_path\":\"x\",\"view_range\":[1,\"2\"]}}", "not a whole number"},
    {"{\"name\":\"read\",\"arguments\":{\"file_path\":\"x\",\"max_bytes\":1.5}}", "not a whole number"},
    {"{\"name\":\"read\",\"arguments\":{\"file_path\":\"x\\u0000\"}}", "must not contain a NUL byte"},
    {"{\"name\":\"grep\",\"arguments\":{\"pattern\":\"x\",\"mode\":\"y\"}}", "none of \"content\""},
    {"{\"name\":\"grep\",\"arguments\":{\"pattern\":\"x\",\"fixed\":\"true\"}}", "not true or false"},
    {"{\"name\":\"edit\",\"arguments\":{\"file_path\":\"x\",\"old_string\":\"\",\"new_string\":\"y\"}}",
     "old_string is required"},
    {"{\"name\":\"edit\",\"arguments\":{\"file_path\":\"x\",\"old_string\":\"y\",\"new_string\":\"y\"}}",
     "are the same"},
    {"{\"name\":\"glob\",\"arguments\":{\"pattern\":\"\"}}", "pattern is required"},
    {"{\"name\":\"bash\",\"arguments\":{}}", "command is required"},
    {"{\"name\":\"bash\",\"arguments\":{\"command\":\"x\",\"shell\":\"a b\"}}", "letters"},
};

START_TEST(what_does_not_fit_is_a_result_that_says_why)
{
    const char *text = call(refused[_i].params);

    ck_assert_ptr_nonnull(text);
    ck_assert_msg(strstr(text, refused[_i].part) != NULL, "%s", text);
    ck_assert(is_error());
    ck_assert_uint_eq(bed_link_counts(&bed).started, 0);
}
END_TEST

START_TEST(bash_answers_with_its_output_and_its_code)
{
    /* The link has no shells: what is said of their state may follow. */
    ck_assert_int_eq(
        strncmp(call("{\"name\":\"bash\",\"arguments\":{\"command\":\"echo hi\"}}"), "hi\n", 3), 0);
    ck_assert(!is_error());
    ck_assert_int_eq(strncmp(call("{\"name\":\"bash\",\"arguments\":{\"command\":\"exit 3\"}}"),
                             "exit code: 3", 12), 0);
    ck_assert(is_error());
    ck_assert_ptr_nonnull(
        strstr(call("{\"name\":\"bash\",\"arguments\":{\"command\":\"timeout\",\"timeout_ms\":86400000}}"),
               "partial\ntimed out after 10m0s"));
    ck_assert_ptr_nonnull(
        strstr(call("{\"name\":\"bash\",\"arguments\":{\"command\":\"timeout\",\"timeout_ms\":-1}}"),
               "timed out after 2m0s"));
}
END_TEST

START_TEST(a_sandbox_that_fails_is_an_error_and_no_result)
{
    call("{\"name\":\"bash\",\"arguments\":{\"command\":\"gone\"}}");
    ck_assert_ptr_null(json_object_get(answer, "text"));
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(answer, "data"), "error")),
                     "sandbox_gone");
}
END_TEST

START_TEST(a_long_output_is_cut_and_the_whole_is_in_a_file)
{
    const char *text = call("{\"name\":\"bash\",\"arguments\":{\"command\":\"fill 300000\"}}");
    json_t *file = json_object_get(json_object_get(answer, "structured"), "output_file");

    ck_assert_ptr_nonnull(text);
    ck_assert_uint_gt(strlen(text), TOOL_MAX_TEXT);
    ck_assert_uint_lt(strlen(text), TOOL_MAX_TEXT + 300);
    ck_assert_ptr_nonnull(strstr(text, "\n[output truncated: 300000 bytes in all"));
    ck_assert(json_is_string(file));
    ck_assert_ptr_nonnull(strstr(text, json_string_value(file)));
}
END_TEST

START_TEST(a_cancelled_call_ends_with_an_error)
{
    json_t *message;
    json_t *cancelled;

    bed_send(fd, "{\"jsonrpc\":\"2.0\",\"id\":\"t\",\"method\":\"tools.call\",\"params\":{\"name\":\"bash\","
                 "\"arguments\":{\"command\":\"hang\"},\"progress\":true}}\n");
    message = bed_receive(fd); /* a second later */
    ck_assert_str_eq(json_string_value(json_object_get(message, "method")), "tools.progress");
    ck_assert_str_eq(
        json_string_value(json_object_get(json_object_get(message, "params"), "id")), "t");
    json_decref(message);
    bed_send(fd, "{\"jsonrpc\":\"2.0\",\"id\":\"c\",\"method\":\"exec.cancel\",\"params\":{\"id\":\"t\"}}\n");
    for (int left = 2; left > 0;) {
        message = bed_receive(fd);
        ck_assert_ptr_nonnull(message);
        if (json_object_get(message, "id") == NULL) {
            json_decref(message);
            continue;
        }
        left--;
        cancelled = json_object_get(json_object_get(message, "error"), "data");
        if (strcmp(json_string_value(json_object_get(message, "id")), "t") == 0) {
            ck_assert_str_eq(json_string_value(json_object_get(cancelled, "error")), "cancelled");
        } else {
            ck_assert(json_is_true(json_object_get(json_object_get(message, "result"), "cancelled")));
        }
        json_decref(message);
    }
    ck_assert_uint_eq(bed_link_counts(&bed).cancelled, 1);
}
END_TEST

START_TEST(a_caller_that_hangs_up_ends_its_call)
{
    int other = bed_connect(&bed);

    bed_send(other, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools.call\",\"params\":{\"name\":\"bash\","
                    "\"arguments\":{\"command\":\"hang\"}}}\n");
    while (bed_link_counts(&bed).running == 0) {
        usleep(1000);
    }
    close(other);
    while (bed_link_counts(&bed).running > 0) {
        usleep(1000);
    }
    ck_assert_uint_eq(bed_link_counts(&bed).cancelled, 1);
}
END_TEST

START_TEST(calls_over_the_limit_are_told_so)
{
    json_t *message;

    for (int i = 0; i <= TOOL_MAX_CALLS; i++) {
        bed_send(fd, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools.call\",\"params\":{\"name\":\"bash\","
                     "\"arguments\":{\"command\":\"hang\"}}}\n");
    }
    message = bed_receive(fd);
    ck_assert_str_eq(json_string_value(json_object_get(
                         json_object_get(json_object_get(message, "error"), "data"), "limit")),
                     "tool_calls");
    json_decref(message);
}
END_TEST

UNIT_SUITE(tools)
{
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, the_list_has_six_tools_with_schemas_and_hints);
    tcase_add_loop_test(tcase, what_does_not_fit_is_a_result_that_says_why, 0,
                        sizeof refused / sizeof refused[0]);
    tcase_add_test(tcase, bash_answers_with_its_output_and_its_code);
    tcase_add_test(tcase, a_sandbox_that_fails_is_an_error_and_no_result);
    tcase_add_test(tcase, a_long_output_is_cut_and_the_whole_is_in_a_file);
    tcase_add_test(tcase, a_cancelled_call_ends_with_an_error);
    tcase_add_test(tcase, a_caller_that_hangs_up_ends_its_call);
    tcase_add_test(tcase, calls_over_the_limit_are_told_so);
}
