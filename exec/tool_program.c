/* The hand's own tool program (hand/tool.h), run as an execution. What it prints is as trustworthy as anything of
 * the sandbox's: bytes. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "exec/tool_internal.h"
#include "exec/utf8.h"

/* ---- Arguments ---- */

void tool_program_text(struct tool_program *p, const char *name, const char *value, size_t length)
{
    size_t whole = strlen(name) + 1 + length;

    p->failed |= buffer_printf(&p->arguments, "%zu:%s=", whole, name) < 0 ||
                 buffer_append(&p->arguments, value, length) < 0;
}

void tool_program_number(struct tool_program *p, const char *name, int64_t value)
{
    char text[24];
    int length = snprintf(text, sizeof text, "%" PRId64, value);

    tool_program_text(p, name, text, (size_t)length);
}

void tool_program_input(struct tool_program *p, const void *data, size_t length)
{
    p->has_input = true;
    p->failed |= buffer_append(&p->input, data, length) < 0;
}

static void program_release(struct tool_program *p)
{
    buffer_release(&p->arguments);
    buffer_release(&p->input);
}

/* ---- What it said ---- */

/* A number, or words. */
static json_t *value_of(const char *text, size_t length)
{
    size_t digits = 0;

    while (digits < length && text[digits] >= '0' && text[digits] <= '9') {
        digits++;
    }
    return digits == length && length > 0 && length < 19
               ? json_integer((json_int_t)strtoull(text, NULL, 10))
               : utf8_json(text, length);
}

/* Lines of NAME VALUE; the first of a name counts. */
static json_t *parse_said(struct buffer *err)
{
    json_t *said = json_object();
    char *at = buffer_text(err);

    while (at != NULL && *at != '\0') {
        size_t length = strcspn(at, "\n");
        char *space = memchr(at, ' ', length);
        char *next = at + length + (at[length] == '\n');

        if (space != NULL) {
            *space = '\0';
            if (utf8_valid((const uint8_t *)at, (size_t)(space - at)) && json_object_get(said, at) == NULL) {
                json_object_set_new(said, at, value_of(space + 1, (size_t)(at + length - space - 1)));
            }
        }
        at = next;
    }
    return said;
}

int64_t tool_said(const struct tool_program_end *end, const char *name)
{
    return json_integer_value(json_object_get(end->said, name));
}

/* ---- The end ---- */

/* It has said that it failed. */
static void end_with_failure(struct tool_call *call, const json_t *said)
{
    const char *message = json_string_value(json_object_get(said, "message"));
    struct error err;

    error_set(&err, error_code_of_name(json_string_value(json_object_get(said, "error"))),
              (int)json_integer_value(json_object_get(said, "errno")), "%s",
              message != NULL ? message : "");
    if (err.code == ERROR_BAD_REQUEST) {
        tool_end_text(call, "%s: %s", call->name, err.message);
    } else {
        tool_end_reason(call, &err);
    }
}

static void ended(struct tool_call *call, struct execution_result *result)
{
    json_t *said = parse_said(&result->out[1]);
    struct tool_program_end end = {.out = &result->out[0], .timed_out = result->timed_out, .said = said};

    if (!result->timed_out && json_is_string(json_object_get(said, "error"))) {
        end_with_failure(call, said);
    } else if (!result->timed_out && result->exit_code != 0) {
        tool_end_text(call, "%s: failed with %s %d", call->name, result->signal != 0 ? "signal" : "exit code",
                      result->signal != 0 ? result->signal : result->exit_code);
    } else {
        call->program_done(call, &end);
    }
    json_decref(said);
}

static void program_ended(void *arg, const struct error *err, struct execution_result *result)
{
    struct tool_call *call = arg;

    call->execution = NULL;
    call->cancel = NULL;
    if (err != NULL) {
        tool_end_fault(call, err);
    } else {
        ended(call, result);
    }
}

static void program_cancel(struct tool_call *call)
{
    if (call->execution != NULL) {
        execution_cancel(call->execution);
    }
}

void tool_end_timed_out(struct tool_call *call, const struct tool_program_end *end, json_t *structured)
{
    char trailer[128];

    buffer_move(&call->text, end->out);
    json_object_set_new(structured, "timed_out", json_true());
    snprintf(trailer, sizeof trailer, "%s: timed out after %dm0s", call->name, TOOL_TIMEOUT_MS / 60000);
    tool_end(call, true, trailer, structured);
}

/* ---- The beginning ---- */

void tool_program_run(struct tool_call *call, const char *verb, struct tool_program *program,
                      uint64_t out_max,
                      void (*then)(struct tool_call *call, const struct tool_program_end *end))
{
    struct execution_request request = {
        .tool = verb, .has_stdin = program->has_input, .timeout_ms = TOOL_TIMEOUT_MS, .keep = TOOL_MAX_OUTPUT};
    struct error err;

    tool_program_number(program, "out_max", (int64_t)out_max);
    if (program->failed) {
        program_release(program);
        tool_end_text(call, "%s: the arguments are too long", call->name);
        return;
    }
    request.command = (const char *)program->arguments.data;
    request.command_length = program->arguments.length;
    call->program_done = then;
    call->cancel = program_cancel;
    call->execution = execution_start(call->gateway->link, &request, program_ended, call);
    if (program->has_input && execution_write(call->execution, program->input.data, program->input.length,
                                              true, &err) < 0) {
        execution_cancel(call->execution);
    }
    program_release(program);
}
