/* The table of tools, and a call's life: a first turn of the loop, arguments checked, the barrier, the tool,
 * the barrier again, `done`. */
#include "exec/tool_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The end ---- */

static void call_closed(uv_handle_t *handle)
{
    struct tool_call *call = handle->data;
    struct gateway *gateway = call->gateway;

    gateway->tool_calls--;
    if (!call->failed && (call->result.text == NULL || call->result.structured == NULL)) {
        call->failed = true;
        error_set(&call->error, ERROR_NO_MEMORY, 0, "out of memory");
    }
    call->done(call->arg, call->failed ? &call->error : NULL, call->failed ? NULL : &call->result);
    json_decref(call->arguments);
    json_decref(call->result.text);
    json_decref(call->result.structured);
    buffer_release(&call->path);
    buffer_release(&call->text);
    free(call);
}

static void behind_after(void *arg)
{
    struct tool_call *call = arg;

    uv_close((uv_handle_t *)&call->timer, call_closed);
}

void tool_finish(struct tool_call *call)
{
    const struct exec_barrier *barrier = &call->gateway->host.barrier;

    call->cancel = NULL;
    uv_timer_stop(&call->timer);
    if (barrier->after != NULL && call->tool != NULL && !call->tool->read_only) {
        barrier->after(barrier->ctx, behind_after, call);
    } else {
        behind_after(call);
    }
}

/* ---- The beginning ---- */

static void give_up(struct tool_call *call)
{
    struct error err;

    error_set(&err, ERROR_CANCELLED, 0, "cancelled");
    tool_end_fault(call, &err);
}

static void behind_before(void *arg)
{
    struct tool_call *call = arg;

    if (call->cancelled) {
        give_up(call);
    } else {
        call->tool->run(call);
    }
}

static void tell_progress(uv_timer_t *timer)
{
    struct tool_call *call = timer->data;
    uint64_t seconds = (uv_now(call->gateway->loop) - call->started_ms) / 1000;
    char message[128];

    snprintf(message, sizeof message, "%s: running for %llu s", call->name,
             (unsigned long long)seconds);
    call->progress(call->arg, message,
                   call->execution != NULL ? execution_received(call->execution) : 0);
}

static void begin(uv_timer_t *timer)
{
    struct tool_call *call = timer->data;
    const struct exec_barrier *barrier = &call->gateway->host.barrier;
    struct error err;

    if (call->cancelled) {
        give_up(call);
        return;
    }
    if (call->tool == NULL) {
        tool_end_text(call, "unknown tool \"%s\"", call->name);
        return;
    }
    if (tool_check(call->tool, call->arguments, &err) < 0) {
        tool_end_text(call, "invalid %s input: %s", call->name, err.message);
        return;
    }
    if (call->progress != NULL) {
        uv_timer_start(timer, tell_progress, TOOL_PROGRESS_MS, TOOL_PROGRESS_MS);
    }
    if (barrier->before != NULL) {
        barrier->before(barrier->ctx, behind_before, call);
    } else {
        behind_before(call);
    }
}

struct tool_call *tool_call_start(struct gateway *gateway, const char *name, json_t *arguments,
                                  tool_progress progress, tool_done done, void *arg, struct error *err)
{
    struct tool_call *call = NULL;

    if (gateway->tool_calls >= TOOL_MAX_CALLS) {
        error_set(err, ERROR_BAD_REQUEST, 0, "more than %d calls of tools", TOOL_MAX_CALLS);
        return NULL;
    }
    call = calloc(1, sizeof *call);
    if (call == NULL) {
        error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        return NULL;
    }
    gateway->tool_calls++;
    call->gateway = gateway;
    call->tool = tool_find(name);
    snprintf(call->name, sizeof call->name, "%s", name);
    call->arguments = json_incref(arguments);
    call->progress = progress;
    call->done = done;
    call->arg = arg;
    buffer_init(&call->path, 2 * TOOL_MAX_PATH);
    buffer_init(&call->text, TOOL_MAX_OUTPUT);
    uv_timer_init(gateway->loop, &call->timer);
    call->timer.data = call;
    call->started_ms = uv_now(gateway->loop);
    uv_timer_start(&call->timer, begin, 0, 0);
    return call;
}

void tool_call_cancel(struct tool_call *call)
{
    call->cancelled = true;
    if (call->cancel != NULL) {
        call->cancel(call);
    }
}

/* ---- By name ---- */

const struct tool *tool_find(const char *name)
{
    for (size_t i = 0; tools[i] != NULL; i++) {
        if (strcmp(tools[i]->name, name) == 0) {
            return tools[i];
        }
    }
    return NULL;
}

json_t *tool_json(const struct tool *tool)
{
    json_t *in = json_loads(tool->input_schema, 0, NULL);
    json_t *out = json_loads(tool->output_schema, 0, NULL);

    return json_pack("{s:s, s:s, s:s, s:o, s:o, s:{s:b, s:b, s:b, s:b}}", "name", tool->name, "title",
                     tool->title, "description", tool->description, "inputSchema", in,
                     "outputSchema", out, "annotations", "readOnlyHint", (int)tool->read_only,
                     "destructiveHint", (int)tool->destructive, "idempotentHint",
                     (int)tool->idempotent, "openWorldHint", (int)tool->open_world);
}

const struct tool *const tools[] = {
    &tool_bash, &tool_read, &tool_write, &tool_edit, &tool_glob, &tool_grep, NULL,
};
