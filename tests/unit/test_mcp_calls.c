/* Tool calls, their progress and their cancelling, and a session that comes and goes. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/rpc.h"
#include "tests/unit/mcp_bed.h"

static struct mcp_bed bed;

static void start(void)
{
    mcp_bed_open(&bed);
    mcp_greet(&bed);
}

static void end(void)
{
    mcp_bed_close(&bed);
}

static void say_call(int id, const char *more)
{
    char line[512];

    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"tools/call\",\"params\":{\"name\":\"bash\"%s}}", id,
             more);
    mcp_say(&bed, line);
}

static void say_cancel(int id)
{
    char line[128];

    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":%d}}", id);
    mcp_say(&bed, line);
}

static void gate_answer(json_int_t id, const char *text)
{
    gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":{\"text\":\"%s\",\"is_error\":false}}",
             (long long)id, text);
}

/* The text of the result to `id`. */
static void hear_result(int id, const char *text, bool is_error)
{
    json_t *message = mcp_hear(&bed);
    json_t *result = json_object_get(message, "result");
    json_t *content = json_object_get(result, "content");

    ck_assert_int_eq(json_integer_value(json_object_get(message, "id")), id);
    ck_assert_int_eq(json_array_size(content), 1);
    content = json_array_get(content, 0);
    ck_assert_str_eq(json_string_value(json_object_get(content, "type")), "text");
    ck_assert_str_eq(json_string_value(json_object_get(content, "text")), text);
    ck_assert_int_eq(json_is_true(json_object_get(result, "isError")), is_error);
    json_decref(message);
}

/* Calls once, so that the session is open. */
static void warm_up(void)
{
    say_call(1000, "");
    gate_wait(&bed);
    gate_answer(gate_hear_call(&bed, "bash"), "warm");
    hear_result(1000, "warm", false);
}

START_TEST(a_call_is_the_gateway_s_and_its_answer_the_tool_s_result)
{
    json_t *message, *params;
    json_int_t id;

    say_call(1, ",\"arguments\":{\"command\":\"echo hi\",\"n\":[1,{\"a\":null}]}");
    gate_wait(&bed);
    message = gate_hear(&bed);
    params = json_object_get(message, "params");
    id = json_integer_value(json_object_get(message, "id"));
    ck_assert_str_eq(json_string_value(json_object_get(message, "method")), "tools.call");
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(params, "arguments"), "command")),
                     "echo hi");
    ck_assert(json_is_false(json_object_get(params, "progress")));
    json_decref(message);
    gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":{\"text\":\"hi\\u0000\\n\",\"is_error\":false,"
                   "\"structured\":{\"exit_code\":0}}}", (long long)id);
    message = mcp_hear(&bed);
    params = json_object_get(message, "result");
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(params, "structuredContent"),
                                                        "exit_code")), 0);
    ck_assert(json_is_object(json_object_get(params, "structuredContent")));
    ck_assert_uint_eq(json_string_length(json_object_get(
                          json_array_get(json_object_get(params, "content"), 0), "text")), 4);
    ck_assert_ptr_null(json_object_get(params, "resultType"));
    json_decref(message);
}
END_TEST

START_TEST(what_a_failure_says_in_fields_goes_along_where_it_fits_the_schema)
{
    static const char *const fields[] = {"{\"exit_code\":3}", "{\"error\":\"bad\"}", "[1]", "{}"};

    warm_up();
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        json_t *message, *structured;

        say_call(1, "");
        gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":{\"text\":\"x\",\"is_error\":true,"
                       "\"structured\":%s}}", (long long)gate_hear_call(&bed, "bash"), fields[i]);
        message = mcp_hear(&bed);
        structured = json_object_get(json_object_get(message, "result"), "structuredContent");
        ck_assert_int_eq(structured != NULL, i == 0);
        json_decref(message);
    }
}
END_TEST

START_TEST(answers_come_as_they_are_ready_each_to_its_call)
{
    json_int_t ids[3];

    warm_up();
    for (int i = 0; i < 3; i++) {
        say_call(i, "");
        ids[i] = gate_hear_call(&bed, "bash");
    }
    gate_answer(ids[2], "third");
    hear_result(2, "third", false);
    gate_answer(ids[0], "first");
    gate_answer(ids[1], "second");
    hear_result(0, "first", false);
    hear_result(1, "second", false);
    ck_assert_int_eq(bed.openings, 1);
}
END_TEST

START_TEST(a_modern_call_gets_a_modern_result)
{
    json_t *message;

    say_call(1, ",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
                "\"io.modelcontextprotocol/clientCapabilities\":{}}");
    gate_wait(&bed);
    gate_answer(gate_hear_call(&bed, "bash"), "x");
    message = mcp_hear(&bed);
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(message, "result"), "resultType")),
                     "complete");
    json_decref(message);
}
END_TEST

START_TEST(what_the_model_did_wrong_is_a_result_and_what_failed_it_is_an_error)
{
    json_t *message, *error;
    json_int_t id;

    warm_up();
    say_call(1, "");
    id = gate_hear_call(&bed, "bash");
    gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":{\"text\":\"no such file\",\"is_error\":true}}",
             (long long)id);
    hear_result(1, "no such file", true);
    say_call(2, "");
    id = gate_hear_call(&bed, "bash");
    gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"error\":{\"code\":-32602,\"message\":\"bad\"}}",
             (long long)id);
    hear_result(2, "bad", true);
    say_call(3, "");
    id = gate_hear_call(&bed, "bash");
    gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"error\":{\"code\":-32000,\"message\":\"silent\","
                   "\"data\":{\"error\":\"no_answer\"}}}", (long long)id);
    message = mcp_hear(&bed);
    error = json_object_get(message, "error");
    ck_assert_int_eq(json_integer_value(json_object_get(error, "code")), RPC_INTERNAL_ERROR);
    ck_assert_str_eq(json_string_value(json_object_get(error, "message")), "silent");
    ck_assert_str_eq(json_string_value(json_object_get(json_object_get(error, "data"), "error")), "no_answer");
    json_decref(message);
}
END_TEST

static const char *const bad_params[] = {
    "{}",
    "{\"name\":5}",
    "{\"name\":\"nothing\"}",
    "{\"name\":\"bash\",\"arguments\":[]}",
    "{\"name\":\"bash\",\"arguments\":\"ls\"}",
    "{\"name\":\"bash\",\"_meta\":{\"progressToken\":{}}}",
    "{\"name\":\"bash\",\"_meta\":{\"progressToken\":1.5}}",
    "{\"name\":\"bash\",\"_meta\":7}",
};

START_TEST(a_call_with_bad_parameters_never_reaches_the_session)
{
    char line[256];

    snprintf(line, sizeof line, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":%s}",
             bad_params[_i]);
    mcp_say(&bed, line);
    free(mcp_hear_error(&bed, RPC_INVALID_PARAMS, 1));
    ck_assert_int_eq(bed.openings, 0);
}
END_TEST

START_TEST(progress_is_told_under_its_token_and_grows)
{
    json_int_t before = -1;
    json_int_t id;

    warm_up();
    say_call(1, ",\"_meta\":{\"progressToken\":\"tok\"}");
    id = gate_hear_call(&bed, "bash");
    for (int i = 0; i < 3; i++) {
        json_t *message, *params;

        usleep((MCP_NEWS_MS + 10) * 1000);
        gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"method\":\"tools.progress\",\"params\":{\"id\":%lld,%s}}",
                 (long long)id, i == 0 ? "\"bytes\":77" : "\"message\":\"half\"");
        message = mcp_hear(&bed);
        params = json_object_get(message, "params");
        ck_assert_str_eq(json_string_value(json_object_get(message, "method")), "notifications/progress");
        ck_assert_str_eq(json_string_value(json_object_get(params, "progressToken")), "tok");
        ck_assert_int_gt(json_integer_value(json_object_get(params, "progress")), before);
        ck_assert_str_eq(json_string_value(json_object_get(params, "message")), i == 0 ? "77 bytes" : "half");
        before = json_integer_value(json_object_get(params, "progress"));
        json_decref(message);
    }
    gate_answer(id, "done");
    hear_result(1, "done", false);
    gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"method\":\"tools.progress\",\"params\":{\"id\":%lld}}", (long long)id);
    mcp_hear_silence(&bed);
}
END_TEST

START_TEST(a_call_that_is_silent_for_long_is_told_to_be_running)
{
    json_t *message, *params;

    warm_up();
    say_call(1, ",\"_meta\":{\"progressToken\":0}");
    gate_hear_call(&bed, "bash");
    message = mcp_hear(&bed);
    params = json_object_get(message, "params");
    ck_assert(json_is_integer(json_object_get(params, "progressToken")));
    ck_assert_int_ge(json_integer_value(json_object_get(params, "progress")), MCP_BEAT_MS);
    ck_assert_ptr_nonnull(strstr(json_string_value(json_object_get(params, "message")), "running for"));
    json_decref(message);
}
END_TEST

START_TEST(who_asked_for_no_progress_hears_none)
{
    json_int_t id;

    warm_up();
    say_call(1, "");
    id = gate_hear_call(&bed, "bash");
    gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"method\":\"tools.progress\",\"params\":{\"id\":%lld}}", (long long)id);
    gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"method\":\"tools.progress\",\"params\":{\"id\":12345}}");
    gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"method\":\"exec.output\",\"params\":{\"id\":%lld}}", (long long)id);
    mcp_hear_silence(&bed);
    gate_answer(id, "done");
    hear_result(1, "done", false);
}
END_TEST

START_TEST(a_call_that_is_cancelled_is_cancelled_inside_and_not_answered)
{
    json_int_t id, second;
    json_t *message;

    warm_up();
    say_call(1, ",\"_meta\":{\"progressToken\":1}");
    id = gate_hear_call(&bed, "bash");
    say_cancel(99);
    say_cancel(1);
    message = gate_hear(&bed);
    ck_assert_str_eq(json_string_value(json_object_get(message, "method")), "exec.cancel");
    ck_assert_ptr_null(json_object_get(message, "id"));
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(message, "params"), "id")), id);
    json_decref(message);
    say_call(1, ""); /* the id is free again */
    second = gate_hear_call(&bed, "bash");
    ck_assert_int_ne(id, second);
    gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"method\":\"tools.progress\",\"params\":{\"id\":%lld}}", (long long)id);
    gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"error\":{\"code\":-32000,\"message\":\"cancelled\"}}",
             (long long)id);
    gate_answer(second, "the second");
    hear_result(1, "the second", false);
    say_cancel(1);
    mcp_hear_silence(&bed);
}
END_TEST

START_TEST(an_id_that_is_in_flight_is_not_taken_twice)
{
    json_int_t id;

    warm_up();
    say_call(1, "");
    id = gate_hear_call(&bed, "bash");
    say_call(1, "");
    free(mcp_hear_error(&bed, RPC_INVALID_REQUEST, 1));
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}");
    free(mcp_hear_error(&bed, RPC_INVALID_REQUEST, 1));
    gate_answer(id, "done");
    hear_result(1, "done", false);
}
END_TEST

START_TEST(calls_in_flight_have_a_bound_and_cancelled_ones_count)
{
    json_int_t first = 0;
    json_t *message;

    warm_up();
    for (int i = 0; i < MCP_MAX_CALLS; i++) {
        json_int_t id;

        say_call(i, "");
        id = gate_hear_call(&bed, "bash");
        first = i == 0 ? id : first;
    }
    say_cancel(0);
    json_decref(gate_hear(&bed));
    say_call(500, "");
    message = mcp_hear(&bed);
    ck_assert_str_eq(json_string_value(json_object_get(
                         json_object_get(json_object_get(message, "error"), "data"), "limit")), "calls");
    json_decref(message);
    gate_answer(first, "late");
    mcp_hear_silence(&bed);
    say_call(501, "");
    gate_answer(gate_hear_call(&bed, "bash"), "room");
    hear_result(501, "room", false);
}
END_TEST

/* ---- The session ---------------------------------------------------------------------------- */

START_TEST(while_the_session_is_being_opened_all_else_is_answered)
{
    json_t *message;

    bed.holds = true;
    say_call(1, ",\"_meta\":{\"progressToken\":1}");
    say_call(2, "");
    mcp_hear_silence(&bed);
    message = mcp_hear(&bed);
    ck_assert_ptr_nonnull(strstr(json_string_value(json_object_get(json_object_get(message, "params"),
                                                                   "message")), "waiting for the sandbox"));
    json_decref(message);
    say_cancel(1);
    mcp_hear_silence(&bed);
    ck_assert_int_eq(write(bed.hold[1], "", 1), 1);
    gate_wait(&bed);
    gate_answer(gate_hear_call(&bed, "bash"), "at last"); /* the first was never sent */
    hear_result(2, "at last", false);
    ck_assert_int_eq(bed.openings, 1);
}
END_TEST

START_TEST(a_session_that_cannot_be_opened_fails_the_call_and_is_tried_for_the_next)
{
    char *text;

    bed.failures = 2;
    for (int i = 0; i < 2; i++) {
        say_call(i, "");
        text = mcp_hear_error(&bed, RPC_INTERNAL_ERROR, i);
        ck_assert_str_eq(text, "there is no sandbox");
        free(text);
    }
    warm_up();
    ck_assert_int_eq(bed.openings, 3);
}
END_TEST

START_TEST(a_gateway_that_hangs_up_fails_its_calls_and_the_next_one_connects_anew)
{
    warm_up();
    say_call(1, "");
    say_call(2, ",\"_meta\":{\"progressToken\":1}");
    gate_hear_call(&bed, "bash");
    gate_hear_call(&bed, "bash");
    gate_hang_up(&bed);
    free(mcp_hear_error(&bed, RPC_INTERNAL_ERROR, 1));
    free(mcp_hear_error(&bed, RPC_INTERNAL_ERROR, 2));
    mcp_hear_silence(&bed);
    warm_up();
    ck_assert_int_eq(bed.openings, 2);
}
END_TEST

START_TEST(a_sandbox_that_is_gone_is_told_and_the_next_call_looks_for_it_anew)
{
    json_int_t id;

    warm_up();
    say_call(1, "");
    id = gate_hear_call(&bed, "bash");
    gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"error\":{\"code\":-32000,\"message\":\"gone\","
                   "\"data\":{\"error\":\"sandbox_gone\"}}}", (long long)id);
    free(mcp_hear_error(&bed, RPC_INTERNAL_ERROR, 1));
    warm_up();
    ck_assert_int_eq(bed.openings, 2);
}
END_TEST

static const char *const no_answers[] = {
    "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":{}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":{\"text\":5}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"result\":[]}",
    "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"error\":{}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%lld,\"error\":{\"code\":\"x\",\"message\":[]}}",
    "{\"jsonrpc\":\"2.0\",\"id\":%lld}",
    "this is no JSON %lld",
};

START_TEST(a_gateway_that_talks_nonsense_fails_the_call_and_not_the_server)
{
    char line[256];
    json_int_t id;

    warm_up();
    say_call(1, "");
    id = gate_hear_call(&bed, "bash");
    gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"result\":{\"text\":\"\"}}");
    gate_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":-1,\"result\":{\"text\":\"\"}}");
    gate_say(&bed, "[]");
    gate_say(&bed, "{}");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(line, sizeof line, no_answers[_i], (long long)id);
#pragma GCC diagnostic pop
    gate_say(&bed, "%s", line);
    free(mcp_hear_error(&bed, RPC_INTERNAL_ERROR, 1));
    mcp_hear_silence(&bed);
}
END_TEST

START_TEST(the_end_cancels_what_runs)
{
    char byte;

    warm_up();
    say_call(1, "");
    gate_hear_call(&bed, "bash");
    close(bed.to);
    bed.to = -1;
    ck_assert_int_eq(mcp_bed_end(&bed), 0);
    ck_assert_int_eq(read(bed.gate.fd, &byte, 1), 0);
}
END_TEST

START_TEST(an_opening_that_hangs_does_not_keep_the_server_from_its_end)
{
    bed.holds = true;
    say_call(1, "");
    mcp_hear_silence(&bed);
    close(bed.to);
    bed.to = -1;
    ck_assert_int_eq(mcp_bed_end(&bed), 1);
    /* The thread still has the bed: let it come to its end before that goes. */
    bed.failures = 1;
    ck_assert_int_eq(write(bed.hold[1], "", 1), 1);
    while (bed.failures > 0) {
        usleep(1000);
    }
}
END_TEST

UNIT_SUITE(mcp_calls)
{
    tcase_add_checked_fixture(tcase, start, end);
    tcase_add_test(tcase, a_call_is_the_gateway_s_and_its_answer_the_tool_s_result);
    tcase_add_test(tcase, what_a_failure_says_in_fields_goes_along_where_it_fits_the_schema);
    tcase_add_test(tcase, answers_come_as_they_are_ready_each_to_its_call);
    tcase_add_test(tcase, a_modern_call_gets_a_modern_result);
    tcase_add_test(tcase, what_the_model_did_wrong_is_a_result_and_what_failed_it_is_an_error);
    tcase_add_loop_test(tcase, a_call_with_bad_parameters_never_reaches_the_session, 0,
                        sizeof bad_params / sizeof bad_params[0]);
    tcase_add_test(tcase, progress_is_told_under_its_token_and_grows);
    tcase_add_test(tcase, a_call_that_is_silent_for_long_is_told_to_be_running);
    tcase_add_test(tcase, who_asked_for_no_progress_hears_none);
    tcase_add_test(tcase, a_call_that_is_cancelled_is_cancelled_inside_and_not_answered);
    tcase_add_test(tcase, an_id_that_is_in_flight_is_not_taken_twice);
    tcase_add_test(tcase, calls_in_flight_have_a_bound_and_cancelled_ones_count);
    tcase_add_test(tcase, while_the_session_is_being_opened_all_else_is_answered);
    tcase_add_test(tcase, a_session_that_cannot_be_opened_fails_the_call_and_is_tried_for_the_next);
    tcase_add_test(tcase, a_gateway_that_hangs_up_fails_its_calls_and_the_next_one_connects_anew);
    tcase_add_test(tcase, a_sandbox_that_is_gone_is_told_and_the_next_call_looks_for_it_anew);
    tcase_add_loop_test(tcase, a_gateway_that_talks_nonsense_fails_the_call_and_not_the_server, 0,
                        sizeof no_answers / sizeof no_answers[0]);
    tcase_add_test(tcase, the_end_cancels_what_runs);
    tcase_add_test(tcase, an_opening_that_hangs_does_not_keep_the_server_from_its_end);
}
