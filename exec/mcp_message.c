/* Messages of the Model Context Protocol, and the methods but tools/call.
 *
 * The protocol has two eras, and this server speaks both, on one connection if need be. Up to revision
 * 2025-11-25 a client opens with `initialize`, and the revision that is agreed on there holds from then on. From
 * 2026-07-28 on there is no opening: each request says in `params._meta` which revision it is of, and is answered
 * by itself. An id is a string or an integer, never null; an error that cannot be told to an id has none. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "exec/mcp_internal.h"
#include "exec/utf8.h"

#define META "io.modelcontextprotocol/"
#define MODERN_VERSION "2026-07-28"
#define BATCH_VERSION "2025-03-26" /* the one that has batches */
#define LIST_TTL_MS (60 * 60 * 1000) /* the tools are this program's: they change with it alone */
#define MAX_NAME 128                 /* bytes of a name of the peer's that are told back */

enum { UNSUPPORTED_VERSION = -32022 };

/* Newest first. */
static const char *const legacy_versions[] = {"2025-11-25", "2025-06-18", BATCH_VERSION, "2024-11-05"};
#define LEGACY_VERSIONS (sizeof legacy_versions / sizeof legacy_versions[0])

/* ---- Answers -------------------------------------------------------------------------------- */

void mcp_send(struct mcp *mcp, json_t *message)
{
    if (message == NULL || rpc_write(&mcp->output, message) < 0) {
        mcp->starved = true;
    }
    json_decref(message);
}

static json_t *server_info(void)
{
    return json_pack("{s:s, s:s, s:s}", "name", "handsfs", "title", "handsfs sandbox", "version",
                     HANDSFS_VERSION);
}

void mcp_answer(struct mcp *mcp, json_t *id, bool modern, json_t *result)
{
    if (result != NULL && modern &&
        (json_object_set_new(result, "resultType", json_string("complete")) < 0 ||
         json_object_set_new(result, "_meta", json_pack("{s:o}", META "serverInfo", server_info())) < 0)) {
        json_decref(result);
        result = NULL;
    }
    mcp_send(mcp, result == NULL ? NULL
                                 : json_pack("{s:s, s:O, s:o}", "jsonrpc", "2.0", "id", id, "result", result));
}

void mcp_refuse(struct mcp *mcp, json_t *id, json_t *error)
{
    mcp_send(mcp, error == NULL ? NULL
                                : json_pack("{s:s, s:O*, s:o}", "jsonrpc", "2.0", "id", id, "error", error));
}

void mcp_refuse_text(struct mcp *mcp, json_t *id, enum rpc_code code, const char *format, ...)
{
    char text[ERROR_MESSAGE_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mcp_refuse(mcp, id,
               json_pack("{s:i, s:o}", "code", (int)code, "message", utf8_json(text, strlen(text))));
}

void mcp_fail(struct mcp *mcp, json_t *id, const struct error *err)
{
    mcp_refuse(mcp, id, rpc_error(RPC_INTERNAL_ERROR, err));
}

/* ---- Methods -------------------------------------------------------------------------------- */

static json_t *capabilities(void)
{
    return json_pack("{s:{}}", "tools");
}

static const char *agree(const char *asked)
{
    for (size_t i = 0; i < LEGACY_VERSIONS; i++) {
        if (strcmp(asked, legacy_versions[i]) == 0) {
            return legacy_versions[i];
        }
    }
    return legacy_versions[0];
}

static void initialize(struct mcp *mcp, const struct mcp_request *request)
{
    const char *asked = json_string_value(json_object_get(request->params, "protocolVersion"));

    if (mcp->version != NULL) {
        mcp_refuse_text(mcp, request->id, RPC_INVALID_REQUEST, "initialize: that has been done already");
        return;
    }
    if (asked == NULL) {
        mcp_refuse_text(mcp, request->id, RPC_INVALID_PARAMS, "initialize: \"protocolVersion\" is missing");
        return;
    }
    mcp->version = agree(asked);
    mcp_answer(mcp, request->id, false,
               json_pack("{s:s, s:o, s:o, s:s}", "protocolVersion", mcp->version, "capabilities",
                         capabilities(), "serverInfo", server_info(), "instructions",
                         mcp->host->instructions));
}

static void ping(struct mcp *mcp, const struct mcp_request *request)
{
    mcp_answer(mcp, request->id, false, json_object());
}

static json_t *all_versions(void)
{
    json_t *list = json_pack("[s]", MODERN_VERSION);

    for (size_t i = 0; i < LEGACY_VERSIONS; i++) {
        if (json_array_append_new(list, json_string(legacy_versions[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static void discover(struct mcp *mcp, const struct mcp_request *request)
{
    mcp_answer(mcp, request->id, true,
               json_pack("{s:o, s:o, s:s, s:i, s:s}", "supportedVersions", all_versions(), "capabilities",
                         capabilities(), "instructions", mcp->host->instructions, "ttlMs", LIST_TTL_MS,
                         "cacheScope", "private"));
}

static void list_tools(struct mcp *mcp, const struct mcp_request *request)
{
    json_t *result;

    if (json_object_get(request->params, "cursor") != NULL) { /* none was ever given out */
        mcp_refuse_text(mcp, request->id, RPC_INVALID_PARAMS, "tools/list: unknown cursor");
        return;
    }
    result = request->modern ? json_pack("{s:O, s:i, s:s}", "tools", mcp->host->tools, "ttlMs", LIST_TTL_MS,
                                         "cacheScope", "public")
                             : json_pack("{s:O}", "tools", mcp->host->tools);
    mcp_answer(mcp, request->id, request->modern, result);
}

/* ---- Requests ------------------------------------------------------------------------------- */

enum { LEGACY = 1, MODERN = 2, BEFORE_INITIALIZE = 4 };

static const struct {
    const char *name;
    unsigned when;
    void (*run)(struct mcp *mcp, const struct mcp_request *request);
} methods[] = {
    {"initialize", LEGACY | BEFORE_INITIALIZE, initialize},
    {"ping", LEGACY | BEFORE_INITIALIZE, ping},
    {"server/discover", MODERN, discover},
    {"tools/list", LEGACY | MODERN, list_tools},
    {"tools/call", LEGACY | MODERN, mcp_call_start},
};

/* A request that says its revision has to say it right. */
static bool check_modern(struct mcp *mcp, const struct mcp_request *request)
{
    json_t *version = json_object_get(request->meta, META "protocolVersion");
    const char *asked = json_string_value(version);

    if (asked == NULL) {
        mcp_refuse_text(mcp, request->id, RPC_INVALID_PARAMS,
                        "_meta[\"" META "protocolVersion\"] is missing or not a string");
        return false;
    }
    if (strcmp(asked, MODERN_VERSION) != 0) {
        mcp_refuse(mcp, request->id,
                   json_pack("{s:i, s:s, s:{s:o, s:O}}", "code", UNSUPPORTED_VERSION, "message",
                             "Unsupported protocol version", "data", "supported", all_versions(),
                             "requested", version));
        return false;
    }
    if (!json_is_object(json_object_get(request->meta, META "clientCapabilities"))) {
        mcp_refuse_text(mcp, request->id, RPC_INVALID_PARAMS,
                        "_meta[\"" META "clientCapabilities\"] is missing or not an object");
        return false;
    }
    return true;
}

static void unknown_method(struct mcp *mcp, const struct mcp_request *request)
{
    mcp_refuse_text(mcp, request->id, RPC_METHOD_NOT_FOUND, "unknown method \"%.*s\"", MAX_NAME,
                    request->method);
}

static void run_request(struct mcp *mcp, const struct mcp_request *request)
{
    unsigned era = request->modern ? MODERN : LEGACY;
    size_t i = 0;

    while (i < sizeof methods / sizeof methods[0] && strcmp(methods[i].name, request->method) != 0) {
        i++;
    }
    if (request->modern && !check_modern(mcp, request)) {
        return;
    }
    if (i == sizeof methods / sizeof methods[0] || (methods[i].when & era) == 0) {
        unknown_method(mcp, request);
    } else if (!request->modern && mcp->version == NULL && (methods[i].when & BEFORE_INITIALIZE) == 0) {
        mcp_refuse_text(mcp, request->id, RPC_INVALID_REQUEST,
                        "%s: the client has not sent initialize, nor does the request say its protocol "
                        "version in _meta",
                        request->method);
    } else if (mcp_call_of_id(mcp, request->id) != NULL) {
        mcp_refuse_text(mcp, request->id, RPC_INVALID_REQUEST, "a request with this id is still in flight");
    } else {
        methods[i].run(mcp, request);
    }
}

/* server/discover is a modern request whatever it says; others are where they say a revision that is not
 * the one that was agreed on before. */
static bool is_modern(const struct mcp *mcp, const struct mcp_request *request)
{
    json_t *version = json_object_get(request->meta, META "protocolVersion");
    const char *text = json_string_value(version);

    if (version == NULL) {
        return strcmp(request->method, "server/discover") == 0;
    }
    return mcp->version == NULL || text == NULL || strcmp(text, mcp->version) != 0;
}

static void take_notification(struct mcp *mcp, const struct rpc_call *call)
{
    if (strcmp(call->method, "notifications/cancelled") == 0) {
        mcp_call_cancel(mcp, json_object_get(call->params, "requestId"));
    } /* others change nothing here */
}

static void take_call(struct mcp *mcp, const struct rpc_call *call)
{
    struct mcp_request request = {
        .id = call->id,
        .method = call->method,
        .params = call->params,
        .meta = json_object_get(call->params, "_meta"),
    };

    if (call->id == NULL) {
        take_notification(mcp, call);
        return;
    }
    if (!json_is_string(call->id) && !json_is_integer(call->id)) {
        mcp_refuse_text(mcp, NULL, RPC_INVALID_REQUEST, "\"id\" is neither a string nor an integer");
        return;
    }
    if (request.meta != NULL && !json_is_object(request.meta)) {
        mcp_refuse_text(mcp, call->id, RPC_INVALID_PARAMS, "\"_meta\" is not an object");
        return;
    }
    request.modern = is_modern(mcp, &request);
    run_request(mcp, &request);
}

/* ---- Lines ---------------------------------------------------------------------------------- */

/* An answer to a request: we never send one, so it is nobody's. */
static bool is_answer(const json_t *message)
{
    return json_object_get(message, "method") == NULL &&
           (json_object_get(message, "result") != NULL || json_object_get(message, "error") != NULL);
}

static void run_text(struct mcp *mcp, const char *text, size_t length, bool batches);

/* Each message of a batch by itself. */
static void run_batch(struct mcp *mcp, const json_t *batch)
{
    size_t i;
    json_t *message;

    json_array_foreach(batch, i, message) {
        char *text = json_dumps(message, JSON_COMPACT | JSON_ENCODE_ANY);

        if (text == NULL) {
            mcp->starved = true;
            return;
        }
        run_text(mcp, text, strlen(text), false);
        free(text);
    }
}

static void run_text(struct mcp *mcp, const char *text, size_t length, bool batches)
{
    struct rpc_call call;
    enum rpc_code code;
    struct error err;

    if (rpc_parse(text, length, &call, &code, &err) == 0) {
        take_call(mcp, &call);
    } else if (batches && json_array_size(call.message) > 0) {
        run_batch(mcp, call.message);
    } else if (!is_answer(call.message)) {
        json_t *id = json_is_string(call.id) || json_is_integer(call.id) ? call.id : NULL;

        mcp_refuse_text(mcp, id, code, "%s", err.message);
    }
    rpc_call_release(&call);
}

void mcp_line(struct mcp *mcp, const char *line, size_t length)
{
    if (length > 0 && line[length - 1] == '\r') {
        length--;
    }
    if (length > 0) {
        run_text(mcp, line, length, mcp->version != NULL && strcmp(mcp->version, BATCH_VERSION) == 0);
    }
}
