/* JSON-RPC 2.0: the text of requests and replies, one object a line. Pure functions; the gateway and
 * its client share them. */
#ifndef HANDSFS_EXEC_RPC_H
#define HANDSFS_EXEC_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "sandbox/buffer.h"
#include "sandbox/error.h"

/* A line of 16 MiB could hold millions of empty arrays, each of which costs fifty times its text. */
#define RPC_MAX_VALUES 16384 /* values and keys in one line */

enum rpc_code {
    RPC_PARSE_ERROR = -32700,
    RPC_INVALID_REQUEST = -32600,
    RPC_METHOD_NOT_FOUND = -32601,
    RPC_INVALID_PARAMS = -32602,
    RPC_INTERNAL_ERROR = -32603, /* MCP alone */
    RPC_SANDBOX_ERROR = -32000, /* `data.error` says which */
    RPC_OVER_LIMIT = -32001,    /* `data.limit` says which */
};

/* A request as it came. `id`, `method` and `params` are borrowed from `message`. */
struct rpc_call {
    json_t *message; /* owned; NULL where the line is not JSON */
    json_t *id;      /* NULL for a notification, and where none can be made out */
    const char *method;
    json_t *params; /* an object, or NULL where none were given */
};

/* Reads one line (without its newline). -1: `*ret_code` and `err` say what to answer, and to which id
 * (`ret->id`; NULL stands for null then). `ret` is to be released in any case. */
int rpc_parse(const char *line, size_t length, struct rpc_call *ret, enum rpc_code *ret_code,
              struct error *err) __attribute__((nonnull, warn_unused_result));
void rpc_call_release(struct rpc_call *call) __attribute__((nonnull));

/* Whether a line may be given to the parser: no more than RPC_MAX_VALUES. */
bool rpc_values_within_bound(const char *line, size_t length);

/* An error object from an error of ours. New references, NULL out of memory. */
json_t *rpc_error(enum rpc_code code, const struct error *err) __attribute__((nonnull));

/* An error object for a limit: `code` is RPC_OVER_LIMIT but for a line, `name` that of handsfs-exec(7). */
json_t *rpc_limit_error(enum rpc_code code, const char *name, uint64_t maximum, const struct error *err)
    __attribute__((nonnull));

/* The whole reply. `id` NULL stands for null; `result` or `error` is given, and stolen. */
json_t *rpc_reply(json_t *id, json_t *result, json_t *error);

/* Appends the message as one line. -1 as buffer_append(). */
int rpc_write(struct buffer *out, const json_t *message) __attribute__((nonnull, warn_unused_result));

/* The error that an error object was made from, as far as it can be told. */
void rpc_read_error(const json_t *object, struct error *err) __attribute__((nonnull));

#endif
