#include "tests/unit/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "exec/base64.h"
#include "exec/request.h"
#include "exec/rpc.h"

static struct rpc_call call;
static enum rpc_code code;
static struct error err;

static int parse(const char *line)
{
    return rpc_parse(line, strlen(line), &call, &code, &err);
}

/* ---- The envelope ---- */

START_TEST(a_request_gives_its_method_its_params_and_its_id)
{
    ck_assert_int_eq(parse("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"exec\",\"params\":{\"x\":1}}"),
                     0);
    ck_assert_str_eq(call.method, "exec");
    ck_assert_str_eq(json_string_value(call.id), "a");
    ck_assert_int_eq(json_integer_value(json_object_get(call.params, "x")), 1);
    rpc_call_release(&call);
}
END_TEST

START_TEST(without_an_id_it_is_a_notification)
{
    ck_assert_int_eq(parse("{\"jsonrpc\":\"2.0\",\"method\":\"status\"}"), 0);
    ck_assert_ptr_null(call.id);
    ck_assert_ptr_null(call.params);
    rpc_call_release(&call);
    ck_assert_int_eq(parse("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"status\",\"params\":null}"), 0);
    ck_assert(json_is_null(call.id));
    rpc_call_release(&call);
}
END_TEST

static const struct {
    const char *line;
    int code;
    bool has_id;
} faults[] = {
    {"", RPC_PARSE_ERROR, false},
    {"{", RPC_PARSE_ERROR, false},
    {"{} {}", RPC_PARSE_ERROR, false},
    {"{\"id\":1,\"id\":2}", RPC_PARSE_ERROR, false},
    {"{\"id\":123456789012345678901234567890}", RPC_PARSE_ERROR, false},
    {"{\"id\":1e999}", RPC_PARSE_ERROR, false},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", RPC_PARSE_ERROR, false},
    {"5", RPC_INVALID_REQUEST, false},
    {"[]", RPC_INVALID_REQUEST, false},
    {"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\"}]", RPC_INVALID_REQUEST, false},
    {"{\"id\":1,\"method\":\"status\"}", RPC_INVALID_REQUEST, true},
    {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"status\"}", RPC_INVALID_REQUEST, true},
    {"{\"jsonrpc\":\"2.0\",\"id\":1}", RPC_INVALID_REQUEST, true},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":7}", RPC_INVALID_REQUEST, true},
    {"{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"status\"}", RPC_INVALID_REQUEST, false},
    {"{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"status\"}", RPC_INVALID_REQUEST, false},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\",\"params\":3}", RPC_INVALID_REQUEST, true},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\",\"params\":[1]}", RPC_INVALID_PARAMS, true},
};

START_TEST(what_is_no_request_is_refused_with_the_code_that_says_why)
{
    err.code = ERROR_NONE;
    ck_assert_int_eq(parse(faults[_i].line), -1);
    ck_assert_int_eq(code, faults[_i].code);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_int_eq(call.id != NULL, faults[_i].has_id);
    rpc_call_release(&call);
}
END_TEST

START_TEST(a_line_of_very_many_values_is_refused_before_it_is_parsed)
{
    size_t length = 4 << 20;
    char *line = malloc(length);

    memset(line, '[', length);
    ck_assert(!rpc_values_within_bound(line, length));
    ck_assert_int_eq(rpc_parse(line, length, &call, &code, &err), -1);
    ck_assert_int_eq(code, RPC_INVALID_REQUEST);
    rpc_call_release(&call);
    memset(line, ',', length); /* in a string they count for nothing */
    line[0] = line[length - 1] = '"';
    line[10] = '\\';
    line[11] = '"';
    ck_assert(rpc_values_within_bound(line, length));
    free(line);
}
END_TEST

START_TEST(deep_nesting_is_a_parse_error)
{
    char line[12001];

    memset(line, '[', 6000);
    memset(line + 6000, ']', 6000);
    line[12000] = '\0';
    ck_assert_int_eq(parse(line), -1);
    ck_assert_int_eq(code, RPC_PARSE_ERROR);
    rpc_call_release(&call);
}
END_TEST

/* ---- Errors ---- */

START_TEST(an_error_object_leads_back_to_its_error)
{
    for (int i = ERROR_NONE + 1; i < ERROR_CODES; i++) {
        struct error before;
        struct error after = {0};
        json_t *object;

        error_set(&before, (enum error_code)i, i == ERROR_ERRNO ? ENOSPC : 0, "message %d", i);
        object = rpc_error(RPC_SANDBOX_ERROR, &before);
        ck_assert_int_eq(json_integer_value(json_object_get(object, "code")), -32000);
        rpc_read_error(object, &after);
        ck_assert_int_eq(after.code, i);
        ck_assert_int_eq(error_errno(&after), error_errno(&before));
        ck_assert_str_eq(after.message, before.message);
        json_decref(object);
    }
}
END_TEST

START_TEST(an_error_object_names_the_errno)
{
    json_t *object;
    json_t *data;

    error_set_errno(&err, EDQUOT, "write a");
    object = rpc_error(RPC_SANDBOX_ERROR, &err);
    data = json_object_get(object, "data");
    ck_assert_str_eq(json_string_value(json_object_get(data, "error")), "errno");
    ck_assert_str_eq(json_string_value(json_object_get(data, "errno")), "EDQUOT");
    json_decref(object);
}
END_TEST

START_TEST(a_message_that_is_not_utf8_is_made_so)
{
    json_t *object;

    error_set(&err, ERROR_NO_SUCH_FILE, 0, "caf\xe9 \xe2\x82");
    object = rpc_error(RPC_SANDBOX_ERROR, &err);
    ck_assert_ptr_nonnull(object);
    ck_assert_str_eq(json_string_value(json_object_get(object, "message")),
                     "caf\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd");
    json_decref(object);
}
END_TEST

/* ---- Base64 ---- */

START_TEST(base64_leads_there_and_back_at_every_length)
{
    uint8_t data[64];

    for (size_t i = 0; i < sizeof data; i++) {
        data[i] = (uint8_t)(i * 37 + 200);
    }
    for (size_t n = 0; n <= sizeof data; n++) {
        struct buffer back = BUFFER_INIT(64);
        json_t *text = base64_json(data, n);

        ck_assert_int_eq(base64_decode(&back, json_string_value(text), json_string_length(text)), 0);
        ck_assert_uint_eq(back.length, n);
        ck_assert(n == 0 || memcmp(back.data, data, n) == 0);
        buffer_release(&back);
        json_decref(text);
    }
}
END_TEST

START_TEST(what_is_not_base64_to_the_letter_is_refused)
{
    static const char *const bad[] = {"A",     "AA",    "AAA",  "AA=A", "=AAA", "A===", "====", "AA==AAAA",
                                      "AB==", "AAF=", "AA A", "AA\nA", "A-_A", "AAAA="};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct buffer out = BUFFER_INIT(64);

        ck_assert_msg(base64_decode(&out, bad[i], strlen(bad[i])) < 0, "%s", bad[i]);
        ck_assert_int_eq(errno, EINVAL);
        ck_assert_uint_eq(out.length, 0);
        buffer_release(&out);
    }
}
END_TEST

START_TEST(each_character_of_base64_has_its_value_and_no_other_has_one)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (int c = 0; c < 256; c++) {
        const char text[] = {'A', 'A', 'A', (char)c};
        const char *known = c != 0 ? strchr(alphabet, c) : NULL;
        struct buffer out = BUFFER_INIT(64);

        if (c == '=') {
            continue; /* padding */
        }
        ck_assert_int_eq(base64_decode(&out, text, sizeof text), known != NULL ? 0 : -1);
        ck_assert(known == NULL || (out.length == 3 && out.data[2] == known - alphabet));
        buffer_release(&out);
    }
}
END_TEST

/* ---- exec's parameters ---- */

static int parse_params(const char *text, json_t **ret_params, struct exec_request *ret)
{
    *ret_params = json_loads(text, JSON_ALLOW_NUL, NULL);
    ck_assert_ptr_nonnull(*ret_params);
    return exec_request_parse(*ret_params, false, ret, &err);
}

START_TEST(all_parameters_of_exec_arrive)
{
    struct exec_request request;
    json_t *params;

    ck_assert_int_eq(parse_params("{\"command\":\"ls\",\"cwd\":\"sub\",\"env\":{\"A\":\"1=2\",\"B\":\"\"},"
                                  "\"timeout_ms\":1500,\"stdin_base64\":\"AP8=\"}",
                                  &params, &request),
                     0);
    ck_assert_str_eq(request.run.command, "ls");
    ck_assert_uint_eq(request.run.command_length, 2);
    ck_assert_str_eq(request.run.cwd, "sub");
    ck_assert_str_eq(request.run.env[0], "A=1=2");
    ck_assert_str_eq(request.run.env[1], "B=");
    ck_assert_ptr_null(request.run.env[2]);
    ck_assert_uint_eq(request.run.timeout_ms, 1500);
    ck_assert(request.run.has_stdin);
    ck_assert_uint_eq(request.input.length, 2);
    ck_assert_mem_eq(request.input.data, "\0\xff", 2);
    exec_request_release(&request);
    json_decref(params);
}
END_TEST

START_TEST(null_is_the_same_as_not_given)
{
    struct exec_request request;
    json_t *params;

    ck_assert_int_eq(parse_params("{\"command\":\"\",\"cwd\":null,\"env\":null,\"timeout_ms\":null,"
                                  "\"stdin\":null,\"stdin_base64\":null}",
                                  &params, &request),
                     0);
    ck_assert_ptr_null(request.run.cwd);
    ck_assert(!request.run.has_stdin);
    ck_assert_uint_eq(request.run.timeout_ms, 0);
    exec_request_release(&request);
    json_decref(params);
}
END_TEST

static const char *const bad_params[] = {
    "{}",
    "{\"command\":null}",
    "{\"command\":5}",
    "{\"command\":\"a\\u0000b\"}",
    "{\"command\":\"a\",\"verbose\":true}",
    "{\"command\":\"a\",\"stream\":1}",
    "{\"command\":\"a\",\"input\":\"yes\"}",
    "{\"command\":\"a\",\"detach\":[]}",
    "{\"command\":\"a\",\"detach\":true,\"stream\":true}",
    "{\"command\":\"a\",\"pty\":1}",
    "{\"command\":\"a\",\"pty\":{\"columns\":1}}",
    "{\"command\":\"a\",\"pty\":{\"rows\":65536}}",
    "{\"command\":\"a\",\"pty\":{\"term\":1}}",
    "{\"command\":\"a\",\"cwd\":1}",
    "{\"command\":\"a\",\"cwd\":\"a\\u0000\"}",
    "{\"command\":\"a\",\"timeout_ms\":-1}",
    "{\"command\":\"a\",\"timeout_ms\":1.5}",
    "{\"command\":\"a\",\"timeout_ms\":\"1\"}",
    "{\"command\":\"a\",\"timeout_ms\":9223372036854775807}",
    "{\"command\":\"a\",\"stdin\":\"x\",\"stdin_base64\":\"AA==\"}",
    "{\"command\":\"a\",\"stdin\":{}}",
    "{\"command\":\"a\",\"stdin_base64\":\"A\"}",
    "{\"command\":\"a\",\"stdin_base64\":7}",
    "{\"command\":\"a\",\"env\":[]}",
    "{\"command\":\"a\",\"env\":{\"A\":1}}",
    "{\"command\":\"a\",\"env\":{\"A\":\"\\u0000\"}}",
    "{\"command\":\"a\",\"env\":{\"A=B\":\"\"}}",
    "{\"command\":\"a\",\"env\":{\"\":\"x\"}}",
    "{\"command\":\"a\",\"env\":{\"1A\":\"x\"}}",
};

START_TEST(what_does_not_fit_is_refused_by_name)
{
    struct exec_request request;
    json_t *params;

    ck_assert_int_eq(parse_params(bad_params[_i], &params, &request), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    json_decref(params);
}
END_TEST

START_TEST(a_text_is_a_command_unless_it_is_an_exec_request)
{
    static const struct {
        const char *text;
        const char *command;
    } cases[] = {
        {"uname -s\n", "uname -s\n"},
        {"{\"command\":\"ls\"}", "ls"},
        {" \n{\"command\":\"ls\"}\n", "ls"},
        {"{ echo a; }", "{ echo a; }"},
        {"{\"comand\":\"ls\"}", "{\"comand\":\"ls\"}"},
        {"[\"command\"]", "[\"command\"]"},
        {"", ""},
        {"echo \xff", "echo \xff"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        json_t *params = exec_request_from_text(cases[i].text, strlen(cases[i].text), &err);

        ck_assert_str_eq(json_string_value(json_object_get(params, "command")), cases[i].command);
        json_decref(params);
    }
}
END_TEST

UNIT_SUITE(rpc)
{
    tcase_add_test(tcase, a_request_gives_its_method_its_params_and_its_id);
    tcase_add_test(tcase, without_an_id_it_is_a_notification);
    tcase_add_loop_test(tcase, what_is_no_request_is_refused_with_the_code_that_says_why, 0,
                        sizeof faults / sizeof faults[0]);
    tcase_add_test(tcase, a_line_of_very_many_values_is_refused_before_it_is_parsed);
    tcase_add_test(tcase, deep_nesting_is_a_parse_error);
    tcase_add_test(tcase, an_error_object_leads_back_to_its_error);
    tcase_add_test(tcase, an_error_object_names_the_errno);
    tcase_add_test(tcase, a_message_that_is_not_utf8_is_made_so);
    tcase_add_test(tcase, base64_leads_there_and_back_at_every_length);
    tcase_add_test(tcase, what_is_not_base64_to_the_letter_is_refused);
    tcase_add_test(tcase, each_character_of_base64_has_its_value_and_no_other_has_one);
    tcase_add_test(tcase, all_parameters_of_exec_arrive);
    tcase_add_test(tcase, null_is_the_same_as_not_given);
    tcase_add_loop_test(tcase, what_does_not_fit_is_refused_by_name, 0,
                        sizeof bad_params / sizeof bad_params[0]);
    tcase_add_test(tcase, a_text_is_a_command_unless_it_is_an_exec_request);
}
