/* The methods tools.list and tools.call. */
#include <string.h>

#include "exec/server.h"
#include "exec/tools.h"

/* ---- tools.list ---- */

static void list_run(struct request *r)
{
    static const char *const none[] = {NULL};
    json_t *list = json_array();
    struct error err;

    if (params_check(r->params, none, &err) < 0) {
        json_decref(list);
        request_refuse(r, RPC_INVALID_PARAMS, &err);
        return;
    }
    for (size_t i = 0; tools[i] != NULL; i++) {
        if (json_array_append_new(list, tool_json(tools[i])) < 0) {
            json_decref(list);
            list = NULL;
            break;
        }
    }
    request_answer(r, list != NULL ? json_pack("{s:o}", "tools", list) : NULL);
}

const struct method method_tools_list = {.name = "tools.list", .run = list_run};

/* ---- tools.call ---- */

static void tell_progress(void *arg, const char *message, uint64_t bytes)
{
    struct request *r = arg;

    if (r->connection == NULL || r->id == NULL) {
        return;
    }
    connection_send(r->connection,
                    json_pack("{s:s, s:s, s:{s:O, s:s, s:I}}", "jsonrpc", "2.0", "method",
                              "tools.progress", "params", "id", r->id, "message", message, "bytes",
                              (json_int_t)bytes));
}

static void tool_ended(void *arg, const struct error *err, const struct tool_result *result)
{
    struct request *r = arg;

    r->tool = NULL;
    if (err != NULL) {
        request_fail(r, err);
    } else {
        request_answer(r, json_pack("{s:O, s:b, s:O}", "text", result->text, "is_error",
                                    (int)result->is_error, "structured", result->structured));
    }
}

static void run_tool(struct request *r)
{
    static const char *const known[] = {"name", "arguments", "progress", NULL};
    json_t *arguments = json_object_get(r->params, "arguments");
    json_t *progress = json_object_get(r->params, "progress");
    const char *name = NULL;
    size_t length;
    struct error err;
    bool fits = params_check(r->params, known, &err) == 0 &&
                params_text(r->params, "name", &name, &length, &err) == 0;

    if (fits && name == NULL) {
        fits = false;
        error_set(&err, ERROR_BAD_REQUEST, 0, "\"name\" is missing");
    } else if (fits && progress != NULL && !json_is_null(progress) && !json_is_boolean(progress)) {
        fits = false;
        error_set(&err, ERROR_BAD_REQUEST, 0, "\"progress\" is neither true nor false");
    }
    if (!fits) {
        request_refuse(r, RPC_INVALID_PARAMS, &err);
        return;
    }
    r->tool = tool_call_start(r->gateway, name, json_is_null(arguments) ? NULL : arguments,
                              json_is_true(progress) ? tell_progress : NULL, tool_ended, r, &err);
    if (r->tool == NULL && err.code == ERROR_BAD_REQUEST) {
        request_over_limit(r, "tool_calls", TOOL_MAX_CALLS, err.message);
    } else if (r->tool == NULL) {
        request_fail(r, &err);
    }
}

static bool cancel_tool(struct request *r)
{
    if (r->tool == NULL) {
        return false;
    }
    tool_call_cancel(r->tool);
    return true;
}

const struct method method_tools_call = {
    .name = "tools.call",
    .run = run_tool,
    .cancel = cancel_tool,
    .by_client = true,
};
