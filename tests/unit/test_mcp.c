/* Messages of the protocol, in both of its eras, and the ends of a server. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/rpc.h"
#include "tests/unit/mcp_bed.h"

#define META                                                                                       \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{}}"

static struct mcp_bed bed;

static void start(void)
{
    mcp_bed_open(&bed);
}

static void end(void)
{
    mcp_bed_close(&bed);
}

static const char *text_at(const json_t *message, const char *outer, const char *inner)
{
    const char *text = json_string_value(json_object_get(json_object_get(message, outer), inner));

    return text != NULL ? text : "(none)";
}

static void hear_version(const char *asked, const char *agreed)
{
    char line[256];
    json_t *message;

    snprintf(line, sizeof line,
             "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"%s\"}}",
             asked);
    mcp_say(&bed, line);
    message = mcp_hear(&bed);
    ck_assert_str_eq(text_at(message, "result", "protocolVersion"), agreed);
    ck_assert_str_eq(text_at(message, "result", "instructions"), "be careful");
    ck_assert_str_eq(text_at(json_object_get(message, "result"), "serverInfo", "name"), "handsfs");
    ck_assert(json_is_object(
        json_object_get(json_object_get(json_object_get(message, "result"), "capabilities"), "tools")));
    json_decref(message);
}

static const char *const revisions[][2] = {
    {"2025-11-25", "2025-11-25"}, {"2025-06-18", "2025-06-18"}, {"2025-03-26", "2025-03-26"},
    {"2024-11-05", "2024-11-05"}, {"2026-07-28", "2025-11-25"}, {"1999-01-01", "2025-11-25"},
};

START_TEST(a_revision_that_is_known_is_agreed_on_and_else_the_newest_that_begins_so)
{
    hear_version(revisions[_i][0], revisions[_i][1]);
}
END_TEST

START_TEST(nothing_but_ping_is_answered_before_initialize)
{
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"tools/list\"}");
    free(mcp_hear_error(&bed, RPC_INVALID_REQUEST, 7));
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":8,\"method\":\"tools/call\",\"params\":{\"name\":\"bash\"}}");
    free(mcp_hear_error(&bed, RPC_INVALID_REQUEST, 8));
    mcp_hear_silence(&bed);
    ck_assert_int_eq(bed.openings, 0);
}
END_TEST

START_TEST(initialize_works_once_and_wants_a_version)
{
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{}}");
    free(mcp_hear_error(&bed, RPC_INVALID_PARAMS, 1));
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"initialize\",\"params\":{\"protocolVersion\":3}}");
    free(mcp_hear_error(&bed, RPC_INVALID_PARAMS, 2));
    mcp_greet(&bed);
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"initialize\","
                  "\"params\":{\"protocolVersion\":\"2025-11-25\"}}");
    free(mcp_hear_error(&bed, RPC_INVALID_REQUEST, 3));
    mcp_hear_silence(&bed);
}
END_TEST

START_TEST(the_tools_are_listed_as_they_are_and_without_a_sandbox)
{
    json_t *message;

    mcp_greet(&bed);
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{}}");
    message = mcp_hear(&bed);
    ck_assert(json_equal(json_object_get(json_object_get(message, "result"), "tools"), bed.host.tools));
    ck_assert_ptr_null(json_object_get(json_object_get(message, "result"), "nextCursor"));
    json_decref(message);
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{\"cursor\":\"x\"}}");
    free(mcp_hear_error(&bed, RPC_INVALID_PARAMS, 2));
    ck_assert_int_eq(bed.openings, 0);
}
END_TEST

START_TEST(a_request_that_says_its_revision_needs_no_opening)
{
    json_t *message, *result;

    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"server/discover\",\"params\":{" META "}}");
    message = mcp_hear(&bed);
    result = json_object_get(message, "result");
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(result, "supportedVersions"), 0)),
                     "2026-07-28");
    ck_assert_str_eq(text_at(message, "result", "resultType"), "complete");
    ck_assert_str_eq(text_at(message, "result", "cacheScope"), "private");
    ck_assert(json_is_integer(json_object_get(result, "ttlMs")));
    ck_assert_str_eq(text_at(json_object_get(result, "_meta"), "io.modelcontextprotocol/serverInfo", "name"),
                     "handsfs");
    json_decref(message);
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{" META "}}");
    message = mcp_hear(&bed);
    ck_assert(json_equal(json_object_get(json_object_get(message, "result"), "tools"), bed.host.tools));
    ck_assert_str_eq(text_at(message, "result", "resultType"), "complete");
    ck_assert(json_is_integer(json_object_get(json_object_get(message, "result"), "ttlMs")));
    json_decref(message);
}
END_TEST

START_TEST(a_request_that_says_its_revision_badly_is_refused)
{
    json_t *message, *data;

    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
                  "\"io.modelcontextprotocol/protocolVersion\":\"1900-01-01\"}}}");
    message = mcp_hear(&bed);
    ck_assert_int_eq(json_integer_value(json_object_get(json_object_get(message, "error"), "code")), -32022);
    data = json_object_get(json_object_get(message, "error"), "data");
    ck_assert_str_eq(json_string_value(json_object_get(data, "requested")), "1900-01-01");
    ck_assert_int_eq(json_array_size(json_object_get(data, "supported")), 5);
    json_decref(message);
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
                  "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}}");
    free(mcp_hear_error(&bed, RPC_INVALID_PARAMS, 2));
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
                  "\"io.modelcontextprotocol/protocolVersion\":5}}}");
    free(mcp_hear_error(&bed, RPC_INVALID_PARAMS, 3));
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"server/discover\"}");
    free(mcp_hear_error(&bed, RPC_INVALID_PARAMS, 4));
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"tools/list\",\"params\":{\"_meta\":[]}}");
    free(mcp_hear_error(&bed, RPC_INVALID_PARAMS, 5));
}
END_TEST

START_TEST(each_era_has_methods_of_its_own_and_one_connection_serves_both)
{
    mcp_greet(&bed);
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{" META "}}");
    free(mcp_hear_error(&bed, RPC_METHOD_NOT_FOUND, 1));
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"initialize\",\"params\":{" META "}}");
    free(mcp_hear_error(&bed, RPC_METHOD_NOT_FOUND, 2));
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"resources/list\"}");
    free(mcp_hear_error(&bed, RPC_METHOD_NOT_FOUND, 3));
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"tools/list\",\"params\":{" META "}}");
    json_decref(mcp_hear(&bed));
    mcp_hear_silence(&bed);
}
END_TEST

static const struct {
    const char *line;
    int code, id;
} faults[] = {
    {"{", RPC_PARSE_ERROR, -1},
    {"not JSON at all", RPC_PARSE_ERROR, -1},
    {"\xff\xfe", RPC_PARSE_ERROR, -1},
    {"1", RPC_INVALID_REQUEST, -1},
    {"[]", RPC_INVALID_REQUEST, -1},
    {"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", RPC_INVALID_REQUEST, -1},
    {"{}", RPC_INVALID_REQUEST, -1},
    {"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", RPC_INVALID_REQUEST, 1},
    {"{\"id\":1,\"method\":\"ping\"}", RPC_INVALID_REQUEST, 1},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", RPC_INVALID_REQUEST, 1},
    {"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", RPC_INVALID_REQUEST, -1},
    {"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", RPC_INVALID_REQUEST, -1},
    {"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"ping\"}", RPC_INVALID_REQUEST, -1},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", RPC_PARSE_ERROR, -1},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", RPC_INVALID_PARAMS, 1},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":3}", RPC_INVALID_REQUEST, 1},
    {"{\"jsonrpc\":\"2.0\",\"id\":99999999999999999999,\"method\":\"ping\"}", RPC_PARSE_ERROR, -1},
    {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\"}", RPC_METHOD_NOT_FOUND, 1},
};

START_TEST(what_is_no_message_is_told_so_and_the_next_one_is_answered)
{
    mcp_say(&bed, faults[_i].line);
    free(mcp_hear_error(&bed, faults[_i].code, faults[_i].id));
    mcp_hear_silence(&bed);
}
END_TEST

START_TEST(what_wants_no_answer_gets_none)
{
    mcp_say(&bed, "");
    mcp_say(&bed, "\r");
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":1,\"message\":\"x\"}}");
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/roots/list_changed\"}");
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"bash\"}}");
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"}");
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":{}}}");
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":\"silence\",\"method\":\"ping\"}\r");
    json_decref(mcp_hear(&bed));
    mcp_hear_silence(&bed);
    ck_assert_int_eq(bed.openings, 0);
}
END_TEST

START_TEST(batches_are_taken_in_the_one_revision_that_has_them)
{
    hear_version("2025-03-26", "2025-03-26");
    mcp_say(&bed, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"nothing\"},5,[],"
                  "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"},"
                  "{\"jsonrpc\":\"2.0\",\"id\":\"silence\",\"method\":\"ping\"}]");
    free(mcp_hear_error(&bed, RPC_METHOD_NOT_FOUND, 1));
    free(mcp_hear_error(&bed, RPC_INVALID_REQUEST, -1));
    free(mcp_hear_error(&bed, RPC_INVALID_REQUEST, -1));
    json_decref(mcp_hear(&bed));
    mcp_say(&bed, "[]");
    free(mcp_hear_error(&bed, RPC_INVALID_REQUEST, -1));
    mcp_hear_silence(&bed);
}
END_TEST

/* A ping of this length, all in all. */
static char *long_ping(size_t length)
{
    static const char head[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":{\"x\":\"";
    char *line = malloc(length + 1);

    ck_assert_ptr_nonnull(line);
    memset(line, 'x', length);
    memcpy(line, head, sizeof head - 1);
    memcpy(line + length - 3, "\"}}", 4);
    return line;
}

START_TEST(a_line_may_have_its_bound_and_not_a_byte_more)
{
    char *line = long_ping(MCP_MAX_LINE);
    char *text;

    mcp_say(&bed, line);
    json_decref(mcp_hear(&bed));
    free(line);
    line = long_ping(MCP_MAX_LINE + 1);
    mcp_say(&bed, line);
    text = mcp_hear_error(&bed, RPC_INVALID_REQUEST, -1);
    ck_assert_ptr_nonnull(strstr(text, "longer than"));
    free(text);
    free(line);
    mcp_hear_silence(&bed);
}
END_TEST

START_TEST(lines_come_whole_however_they_are_cut)
{
    static const char lines[] = "{\"jsonrpc\":\"2.0\",\"id\":\"silence\",\"method\":\"ping\"}\n"
                                "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"none\"}\n";

    for (size_t i = 0; i < sizeof lines - 1; i++) {
        mcp_say_bytes(&bed, lines + i, 1);
    }
    json_decref(mcp_hear(&bed));
    free(mcp_hear_error(&bed, RPC_METHOD_NOT_FOUND, 1));
}
END_TEST

START_TEST(the_input_s_end_is_the_server_s_and_what_was_asked_before_is_answered)
{
    mcp_say(&bed, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"none\"}");
    close(bed.to);
    bed.to = -1;
    free(mcp_hear_error(&bed, RPC_METHOD_NOT_FOUND, 1));
    ck_assert_int_eq(mcp_bed_end(&bed), 0);
}
END_TEST

START_TEST(a_reader_that_goes_away_ends_the_server)
{
    close(bed.peer.fd);
    bed.peer.fd = -1;
    ck_assert_int_eq(mcp_bed_end(&bed), 0);
}
END_TEST

START_TEST(the_descriptor_for_it_stops_the_server)
{
    mcp_greet(&bed);
    ck_assert_int_eq(write(bed.stop[1], "", 1), 1);
    ck_assert_int_eq(mcp_bed_end(&bed), 0);
}
END_TEST

/* Without waiting, as long as it goes. */
static size_t say_what_is_taken(const char *line, size_t most)
{
    size_t said = 0;
    struct pollfd fd = {.fd = bed.to, .events = POLLOUT};

    fcntl(bed.to, F_SETFL, O_NONBLOCK);
    while (said < most && poll(&fd, 1, 2000) == 1) {
        ck_assert_int_eq(write(bed.to, line, strlen(line)), strlen(line)); /* less than PIPE_BUF */
        said++;
    }
    fcntl(bed.to, F_SETFL, 0);
    return said;
}

START_TEST(a_peer_that_does_not_read_is_not_read_from_and_loses_nothing)
{
    size_t most = 100000, said;

    said = say_what_is_taken("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a method that nobody knows, "
                             "with a name that is told back in the error\"}\n",
                             most);
    ck_assert_uint_lt(said, most);
    for (size_t i = 0; i < said; i++) {
        free(mcp_hear_error(&bed, RPC_METHOD_NOT_FOUND, 1));
    }
    mcp_hear_silence(&bed);
}
END_TEST

UNIT_SUITE(mcp)
{
    tcase_add_checked_fixture(tcase, start, end);
    tcase_add_loop_test(tcase, a_revision_that_is_known_is_agreed_on_and_else_the_newest_that_begins_so, 0,
                        sizeof revisions / sizeof revisions[0]);
    tcase_add_test(tcase, nothing_but_ping_is_answered_before_initialize);
    tcase_add_test(tcase, initialize_works_once_and_wants_a_version);
    tcase_add_test(tcase, the_tools_are_listed_as_they_are_and_without_a_sandbox);
    tcase_add_test(tcase, a_request_that_says_its_revision_needs_no_opening);
    tcase_add_test(tcase, a_request_that_says_its_revision_badly_is_refused);
    tcase_add_test(tcase, each_era_has_methods_of_its_own_and_one_connection_serves_both);
    tcase_add_loop_test(tcase, what_is_no_message_is_told_so_and_the_next_one_is_answered, 0,
                        sizeof faults / sizeof faults[0]);
    tcase_add_test(tcase, what_wants_no_answer_gets_none);
    tcase_add_test(tcase, batches_are_taken_in_the_one_revision_that_has_them);
    tcase_add_test(tcase, a_line_may_have_its_bound_and_not_a_byte_more);
    tcase_add_test(tcase, lines_come_whole_however_they_are_cut);
    tcase_add_test(tcase, the_input_s_end_is_the_server_s_and_what_was_asked_before_is_answered);
    tcase_add_test(tcase, a_reader_that_goes_away_ends_the_server);
    tcase_add_test(tcase, the_descriptor_for_it_stops_the_server);
    tcase_add_test(tcase, a_peer_that_does_not_read_is_not_read_from_and_loses_nothing);
}
