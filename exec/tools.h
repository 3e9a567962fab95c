/* The tools of an agent: bash, read, write, edit, glob, grep, as functions over Exec and the file
 * primitives. What each takes and answers is handsfs-tools(7).
 *
 * A call ends in a result or in an error. What the caller of the tool can do something about (no such file,
 * a text that is not unique, arguments of a wrong type, a command's exit code) is a result whose `is_error`
 * says so and whose text is for a model to act on; only the sandbox failing us is an error. On the
 * gateway's loop; nothing blocks. */
#ifndef HANDSFS_EXEC_TOOLS_H
#define HANDSFS_EXEC_TOOLS_H

#include <jansson.h>

#include "exec/gateway.h"
#include "sandbox/error.h"

#define TOOL_MAX_TEXT (100u << 10)       /* bytes of a result's text; what is more goes to a file inside */
#define TOOL_TIMEOUT_MS 120000           /* of every tool, and of bash where none is given */
#define TOOL_MAX_TIMEOUT_MS 600000       /* what bash may ask for */
#define TOOL_MAX_CALLS 64                /* at once in one gateway; then ERROR_BAD_REQUEST */
#define TOOL_PROGRESS_MS 1000            /* between two words of progress */

struct tool_call;

/* A tool. The schemas are JSON text (JSON Schema, an object each); the hints are those of MCP. */
struct tool {
    const char *name;
    const char *title;
    const char *description;   /* for a model */
    const char *input_schema;
    const char *output_schema; /* of the result's `structured` where it is no error */
    bool read_only, destructive, idempotent, open_world;

    /* Private: starts a call whose arguments fit the schema. tool_internal.h says how it ends. */
    void (*run)(struct tool_call *call);
};

extern const struct tool *const tools[]; /* NULL-terminated */

/* NULL for an unknown name. */
const struct tool *tool_find(const char *name) __attribute__((nonnull));

/* {name, title, description, inputSchema, outputSchema, annotations}, as MCP has it. New reference, NULL
 * out of memory. */
json_t *tool_json(const struct tool *tool) __attribute__((nonnull));

struct tool_result {
    json_t *text;       /* a string, UTF-8; at most TOOL_MAX_TEXT bytes and a note, but for `read` */
    bool is_error;
    json_t *structured; /* an object; its fields are the tool's */
};

/* A word while it runs: at most every TOOL_PROGRESS_MS. `bytes` of output have come so
 * far. */
typedef void (*tool_progress)(void *arg, const char *message, uint64_t bytes);

/* `err` is NULL and `result` given (its values may be kept with json_incref()), or the sandbox failed us, or
 * the call was cancelled (ERROR_CANCELLED). Called exactly once, from the loop, never from inside
 * tool_call_start(). */
typedef void (*tool_done)(void *arg, const struct error *err, const struct tool_result *result);

/* Calls a tool, between the two halves of the gateway's barrier. `arguments` is kept until the end (may be
 * NULL: none); an unknown name and bad arguments are results. NULL where TOOL_MAX_CALLS run or out of memory,
 * with `err` set: then `done` is not called. `progress` may be NULL. The call is freed after `done`. */
struct tool_call *tool_call_start(struct gateway *gateway, const char *name, json_t *arguments,
                                  tool_progress progress, tool_done done, void *arg, struct error *err)
    __attribute__((nonnull(1, 2, 5, 7), warn_unused_result));

/* Makes `done` come soon, with ERROR_CANCELLED where there was something left to stop. */
void tool_call_cancel(struct tool_call *call) __attribute__((nonnull));

#endif
