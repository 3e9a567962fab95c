/* Tool calls in flight.
 *
 * A call waits for the session where that is not open yet, then it is a request of the gateway's until its
 * answer comes, whatever the peer says meanwhile: a call that was cancelled still counts until the gateway
 * has ended it. Progress is told in milliseconds since the call came, since they always grow: what the gateway
 * says about a tool is told with them, and a call that is silent for long is told to be running. */
#include <stdio.h>
#include <string.h>

#include "exec/mcp_internal.h"
#include "sandbox/clock.h"

#define MAX_NAME 128 /* bytes of a name of the peer's that are told back */

/* Ends without an answer. */
static void call_free(struct mcp *mcp, struct mcp_call *call)
{
    TAILQ_REMOVE(&mcp->calls, call, in_flight);
    mcp->call_count--;
    json_decref(call->id);
    json_decref(call->token);
    json_decref(call->params);
    free(call);
}

static void call_fail(struct mcp *mcp, struct mcp_call *call, const struct error *err)
{
    if (call->id != NULL) {
        mcp_fail(mcp, call->id, err);
    }
    call_free(mcp, call);
}

/* ---- Beginning ------------------------------------------------------------------------------ */

static json_t *find_tool(const struct mcp *mcp, const json_t *name)
{
    size_t i;
    json_t *tool;

    json_array_foreach(mcp->host->tools, i, tool) {
        if (json_equal(json_object_get(tool, "name"), name)) {
            return tool;
        }
    }
    return NULL;
}

/* What tools.call is told, or NULL where the peer was answered already. */
static json_t *read_params(struct mcp *mcp, const struct mcp_request *request, bool progress,
                           json_t **ret_tool)
{
    json_t *name = json_object_get(request->params, "name");
    json_t *arguments = json_object_get(request->params, "arguments");
    json_t *params;

    if (!json_is_string(name)) {
        mcp_refuse_text(mcp, request->id, RPC_INVALID_PARAMS, "tools/call: \"name\" is missing");
        return NULL;
    }
    *ret_tool = find_tool(mcp, name);
    if (*ret_tool == NULL) {
        mcp_refuse_text(mcp, request->id, RPC_INVALID_PARAMS, "Unknown tool: %.*s", MAX_NAME,
                        json_string_value(name));
        return NULL;
    }
    if (arguments != NULL && !json_is_object(arguments)) {
        mcp_refuse_text(mcp, request->id, RPC_INVALID_PARAMS, "tools/call: \"arguments\" is not an object");
        return NULL;
    }
    params = json_pack("{s:O, s:o, s:b}", "name", name, "arguments",
                       arguments != NULL ? json_incref(arguments) : json_object(), "progress", progress);
    mcp->starved = mcp->starved || params == NULL;
    return params;
}

static void send_call(struct mcp *mcp, struct mcp_call *call)
{
    struct error err;

    if (client_send(mcp->client, "tools.call", call->params, &call->sent, &err) < 0) {
        call_fail(mcp, call, &err);
        return;
    }
    json_decref(call->params);
    call->params = NULL;
}

void mcp_calls_send(struct mcp *mcp)
{
    struct mcp_call *call = TAILQ_FIRST(&mcp->calls);

    while (call != NULL) {
        struct mcp_call *next = TAILQ_NEXT(call, in_flight);

        if (call->sent == 0) {
            send_call(mcp, call);
        }
        call = next;
    }
}

static bool may_start(struct mcp *mcp, const struct mcp_request *request, const json_t *token)
{
    struct error err;

    if (token != NULL && !json_is_string(token) && !json_is_integer(token)) {
        mcp_refuse_text(mcp, request->id, RPC_INVALID_PARAMS,
                        "\"progressToken\" is neither a string nor an integer");
        return false;
    }
    if (mcp->call_count >= MCP_MAX_CALLS) {
        error_set(&err, ERROR_BAD_REQUEST, 0, "%u calls are in flight already: wait for one to end",
                  mcp->call_count);
        mcp_refuse(mcp, request->id,
                   rpc_limit_error(RPC_INTERNAL_ERROR, "calls", MCP_MAX_CALLS, &err));
        return false;
    }
    return true;
}

void mcp_call_start(struct mcp *mcp, const struct mcp_request *request)
{
    json_t *token = json_object_get(request->meta, "progressToken");
    struct mcp_call *call;
    json_t *params, *tool;

    if (!may_start(mcp, request, token)) {
        return;
    }
    params = read_params(mcp, request, token != NULL, &tool);
    if (params == NULL) {
        return;
    }
    call = calloc(1, sizeof *call);
    if (call == NULL) {
        mcp->starved = true;
        json_decref(params);
        return;
    }
    call->id = json_incref(request->id);
    call->token = json_incref(token);
    call->params = params;
    call->tool = tool;
    call->modern = request->modern;
    call->progress = -1;
    call->begun_ms = call->told_ms = clock_now_ms();
    TAILQ_INSERT_TAIL(&mcp->calls, call, in_flight);
    mcp->call_count++;
    if (mcp_session_want(mcp)) {
        send_call(mcp, call);
    }
}

/* ---- The peer's cancelling ------------------------------------------------------------------ */

struct mcp_call *mcp_call_of_id(struct mcp *mcp, const json_t *id)
{
    struct mcp_call *call;

    TAILQ_FOREACH (call, &mcp->calls, in_flight) {
        if (call->id != NULL && json_equal(call->id, id)) {
            return call;
        }
    }
    return NULL;
}

/* Nothing more is said about it from here on; what is unknown or over is passed over. */
void mcp_call_cancel(struct mcp *mcp, const json_t *id)
{
    struct mcp_call *call = id != NULL ? mcp_call_of_id(mcp, id) : NULL;
    struct error err;
    json_t *params;

    if (call == NULL) {
        return;
    }
    if (call->sent == 0) {
        call_free(mcp, call);
        return;
    }
    json_decref(call->id);
    json_decref(call->token);
    call->id = call->token = NULL;
    params = json_pack("{s:I}", "id", call->sent);
    if (params == NULL || client_notify(mcp->client, "exec.cancel", params, &err) < 0) {
        mcp->starved = true;
    }
    json_decref(params);
}

/* ---- Progress ------------------------------------------------------------------------------- */

static void tell(struct mcp *mcp, struct mcp_call *call, const char *message)
{
    uint64_t now = clock_now_ms();
    json_int_t progress = (json_int_t)(now - call->begun_ms);

    if (progress <= call->progress || mcp->output.length - mcp->written > MCP_MAX_NEWS) {
        return; /* it has to grow; and news that nobody reads is none */
    }
    call->progress = progress;
    call->told_ms = now;
    mcp_send(mcp, json_pack("{s:s, s:s, s:{s:O, s:I, s:s}}", "jsonrpc", "2.0", "method",
                            "notifications/progress", "params", "progressToken", call->token, "progress",
                            progress, "message", message));
}

int mcp_calls_beat(struct mcp *mcp)
{
    uint64_t now = clock_now_ms();
    uint64_t next = UINT64_MAX;
    struct mcp_call *call;

    TAILQ_FOREACH (call, &mcp->calls, in_flight) {
        if (call->token == NULL) {
            continue;
        }
        if (now - call->told_ms >= MCP_BEAT_MS) {
            char text[64];

            snprintf(text, sizeof text, "%s for %u s",
                     call->sent == 0 ? "waiting for the sandbox" : "running",
                     (unsigned)((now - call->begun_ms) / 1000));
            tell(mcp, call, text);
            call->told_ms = now; /* also where it was left out */
        }
        next = call->told_ms + MCP_BEAT_MS < next ? call->told_ms + MCP_BEAT_MS : next;
    }
    return next == UINT64_MAX ? -1 : next > now ? (int)(next - now) : 0;
}

static void take_progress(struct mcp *mcp, struct mcp_call *call, const json_t *params)
{
    const char *message = json_string_value(json_object_get(params, "message"));
    const json_t *bytes = json_object_get(params, "bytes");
    char text[64];

    if (call->token == NULL || (call->progress >= 0 && clock_now_ms() - call->told_ms < MCP_NEWS_MS)) {
        return;
    }
    if (message == NULL && json_is_integer(bytes)) {
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT " bytes", json_integer_value(bytes));
        message = text;
    }
    tell(mcp, call, message != NULL ? message : "running");
}

/* ---- The gateway's answers ------------------------------------------------------------------ */

static struct mcp_call *call_of_request(struct mcp *mcp, const json_t *id)
{
    struct mcp_call *call;

    TAILQ_FOREACH (call, &mcp->calls, in_flight) {
        if (call->sent != 0 && json_is_integer(id) && json_integer_value(id) == call->sent) {
            return call;
        }
    }
    return NULL;
}

static json_t *text_result(json_t *text, bool is_error)
{
    return json_pack("{s:[{s:s, s:O}], s:b}", "content", "type", "text", "text", text, "isError", is_error);
}

/* Whether it has what the tool's schema promises. What a failure has to say in fields of its own may not,
 * and clients refuse a result that does not fit, with its text. */
static bool fits(const struct mcp_call *call, const json_t *structured)
{
    const json_t *required = json_object_get(json_object_get(call->tool, "outputSchema"), "required");
    size_t i;
    json_t *name;

    json_array_foreach(required, i, name) {
        if (json_object_get(structured, json_string_value(name)) == NULL) {
            return false;
        }
    }
    return json_is_object(structured);
}

static json_t *tool_result(const struct mcp_call *call, const json_t *result)
{
    json_t *text = json_object_get(result, "text");
    json_t *structured = json_object_get(result, "structured");
    json_t *answer = text_result(text, json_is_true(json_object_get(result, "is_error")));

    if (answer != NULL && fits(call, structured) &&
        json_object_set(answer, "structuredContent", structured) < 0) {
        json_decref(answer);
        return NULL;
    }
    return answer;
}

/* What a model gave wrong it is told as the tool's result, so that it can do better; all else is the
 * operator's. */
static void take_error(struct mcp *mcp, struct mcp_call *call, const json_t *error)
{
    json_t *message = json_object_get(error, "message");
    json_t *data = json_object_get(error, "data");
    const char *name = json_string_value(json_object_get(data, "error"));

    if (name != NULL && strcmp(name, error_name(ERROR_SANDBOX_GONE)) == 0) {
        mcp->lost = true;
    }
    if (call->id == NULL) {
        return;
    }
    if (json_integer_value(json_object_get(error, "code")) == RPC_INVALID_PARAMS &&
        json_is_string(message)) {
        mcp_answer(mcp, call->id, call->modern, text_result(message, true));
    } else {
        mcp_refuse(mcp, call->id,
                   json_pack("{s:i, s:O, s:O*}", "code", (int)RPC_INTERNAL_ERROR, "message", message, "data",
                             data));
    }
}

static void take_answer(struct mcp *mcp, struct mcp_call *call, const json_t *message)
{
    const json_t *error = json_object_get(message, "error");
    const json_t *result = json_object_get(message, "result");
    struct error err;

    if (json_is_string(json_object_get(error, "message"))) {
        take_error(mcp, call, error);
    } else if (call->id != NULL && json_is_string(json_object_get(result, "text"))) {
        mcp_answer(mcp, call->id, call->modern, tool_result(call, result));
    } else if (call->id != NULL) {
        error_set(&err, ERROR_IO, 0, "the session's gateway gave an answer that is none");
        mcp_fail(mcp, call->id, &err);
    }
    call_free(mcp, call);
}

void mcp_calls_take(struct mcp *mcp, const json_t *message)
{
    const char *method = json_string_value(json_object_get(message, "method"));
    const json_t *params = json_object_get(message, "params");
    struct mcp_call *call;

    if (method != NULL) {
        call = call_of_request(mcp, json_object_get(params, "id"));
        if (call != NULL && strcmp(method, "tools.progress") == 0) {
            take_progress(mcp, call, params);
        }
        return;
    }
    call = call_of_request(mcp, json_object_get(message, "id"));
    if (call != NULL) {
        take_answer(mcp, call, message);
    }
}

/* ---- The end -------------------------------------------------------------------------------- */

void mcp_calls_fail(struct mcp *mcp, bool waiting_only, const struct error *err)
{
    struct mcp_call *call = TAILQ_FIRST(&mcp->calls);

    while (call != NULL) {
        struct mcp_call *next = TAILQ_NEXT(call, in_flight);

        if (call->sent == 0 || !waiting_only) {
            call_fail(mcp, call, err);
        }
        call = next;
    }
}

void mcp_calls_drop(struct mcp *mcp)
{
    while (!TAILQ_EMPTY(&mcp->calls)) {
        call_free(mcp, TAILQ_FIRST(&mcp->calls));
    }
}
