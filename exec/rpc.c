#include "exec/rpc.h"

#include <errno.h>
#include <string.h>

#include "exec/utf8.h"

#define MAX_ERRNO 4095 /* the kernel's */

/* Counts what the parser would make a value of, without making it: every value but the first follows
 * one of these four characters. */
bool rpc_values_within_bound(const char *line, size_t length)
{
    bool in_string = false;
    size_t count = 1;

    for (size_t i = 0; i < length; i++) {
        char c = line[i];

        if (in_string) {
            if (c == '\\') {
                i++;
            } else if (c == '"') {
                in_string = false;
            }
        } else if (c == '"') {
            in_string = true;
        } else if (c == ',' || c == ':' || c == '[' || c == '{') {
            count++;
        }
    }
    return count <= RPC_MAX_VALUES;
}

static int refuse(enum rpc_code *ret_code, enum rpc_code code, struct error *err, const char *message)
{
    *ret_code = code;
    return error_set(err, ERROR_BAD_REQUEST, 0, "%s", message);
}

/* The envelope's members; the id first, so that a fault can be answered to it. */
static int read_members(struct rpc_call *call, enum rpc_code *ret_code, struct error *err)
{
    json_t *id = json_object_get(call->message, "id");
    json_t *method = json_object_get(call->message, "method");
    json_t *params = json_object_get(call->message, "params");
    const char *version = json_string_value(json_object_get(call->message, "jsonrpc"));

    if (id != NULL && !json_is_string(id) && !json_is_number(id) && !json_is_null(id)) {
        return refuse(ret_code, RPC_INVALID_REQUEST, err, "\"id\" is neither string, number nor null");
    }
    call->id = id;
    if (version == NULL || strcmp(version, "2.0") != 0) {
        return refuse(ret_code, RPC_INVALID_REQUEST, err, "\"jsonrpc\" is not \"2.0\"");
    }
    if (!json_is_string(method)) {
        return refuse(ret_code, RPC_INVALID_REQUEST, err, "\"method\" is not a string");
    }
    if (json_is_array(params)) {
        return refuse(ret_code, RPC_INVALID_PARAMS, err, "\"params\" are given by name, in an object");
    }
    if (params != NULL && !json_is_null(params) && !json_is_object(params)) {
        return refuse(ret_code, RPC_INVALID_REQUEST, err, "\"params\" is not an object");
    }
    call->method = json_string_value(method);
    call->params = json_is_object(params) ? params : NULL;
    return 0;
}

int rpc_parse(const char *line, size_t length, struct rpc_call *ret, enum rpc_code *ret_code,
              struct error *err)
{
    json_error_t why;

    *ret = (struct rpc_call){NULL};
    if (!rpc_values_within_bound(line, length)) {
        return refuse(ret_code, RPC_INVALID_REQUEST, err, "the line holds too many values");
    }
    ret->message =
        json_loadb(line, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &why);
    if (ret->message == NULL) {
        *ret_code = RPC_PARSE_ERROR;
        return error_set(err, ERROR_BAD_REQUEST, 0, "parse error: %s (byte %d)", why.text,
                         why.position);
    }
    if (json_is_array(ret->message)) {
        return refuse(ret_code, RPC_INVALID_REQUEST, err,
                      "a batch is not taken: send its requests one a line");
    }
    if (!json_is_object(ret->message)) {
        return refuse(ret_code, RPC_INVALID_REQUEST, err, "the request is not an object");
    }
    return read_members(ret, ret_code, err);
}

void rpc_call_release(struct rpc_call *call)
{
    json_decref(call->message);
    *call = (struct rpc_call){NULL};
}

json_t *rpc_error(enum rpc_code code, const struct error *err)
{
    const char *os_name = error_errno_name(error_errno(err));

    return json_pack("{s:i, s:o, s:{s:s, s:s*}}", "code", (int)code, "message",
                     utf8_json(err->message, strlen(err->message)), "data", "error",
                     error_name(err->code), "errno", os_name);
}

json_t *rpc_limit_error(enum rpc_code code, const char *name, uint64_t maximum, const struct error *err)
{
    json_t *object = rpc_error(code, err);
    json_t *data = json_object_get(object, "data");

    if (object == NULL || json_object_set_new(data, "limit", json_string(name)) < 0 ||
        json_object_set_new(data, "maximum", json_integer((json_int_t)maximum)) < 0) {
        json_decref(object);
        return NULL;
    }
    return object;
}

json_t *rpc_reply(json_t *id, json_t *result, json_t *error)
{
    if (error != NULL) {
        json_decref(result);
        return json_pack("{s:s, s:O?, s:o}", "jsonrpc", "2.0", "id", id, "error", error);
    }
    return json_pack("{s:s, s:O?, s:o}", "jsonrpc", "2.0", "id", id, "result", result);
}

static int append(const char *text, size_t length, void *arg)
{
    return buffer_append(arg, text, length);
}

int rpc_write(struct buffer *out, const json_t *message)
{
    size_t before = out->length;

    if (json_dump_callback(message, append, out, JSON_COMPACT) < 0 || buffer_append(out, "\n", 1) < 0) {
        out->length = before;
        return -1;
    }
    return 0;
}

static int errno_of_name(const char *name)
{
    for (int i = 1; name != NULL && i <= MAX_ERRNO; i++) {
        const char *this_one = error_errno_name(i);

        if (this_one != NULL && strcmp(this_one, name) == 0) {
            return i;
        }
    }
    return 0;
}

void rpc_read_error(const json_t *object, struct error *err)
{
    const json_t *data = json_object_get(object, "data");
    const char *message = json_string_value(json_object_get(object, "message"));
    const char *name = json_string_value(json_object_get(data, "error"));
    int os_errno = errno_of_name(json_string_value(json_object_get(data, "errno")));
    enum error_code code = name != NULL ? error_code_of_name(name) : ERROR_NONE;

    if (code == ERROR_NONE) { /* not one of ours: what the protocol itself has to say */
        code = json_is_integer(json_object_get(object, "code")) ? ERROR_BAD_REQUEST : ERROR_IO;
    }
    if (code == ERROR_ERRNO && os_errno == 0) {
        code = ERROR_IO;
    }
    error_set(err, code, code == ERROR_ERRNO ? os_errno : 0, "%s",
              message != NULL ? message : error_name(code));
}
