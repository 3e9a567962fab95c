/* The tool bash: a command of a persistent shell (exec/shell.h). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exec/shell.h"
#include "exec/tool_internal.h"
#include "exec/utf8.h"

static uint64_t timeout_of(const struct tool_call *call)
{
    int64_t asked = tool_number(call, "timeout_ms", 0);

    return asked <= 0 ? TOOL_TIMEOUT_MS : asked > TOOL_MAX_TIMEOUT_MS ? TOOL_MAX_TIMEOUT_MS : (uint64_t)asked;
}

/* "2m0s", "1.5s", "250ms": as people write it. */
static void in_words(uint64_t ms, char *to, size_t size)
{
    if (ms < 1000) {
        snprintf(to, size, "%" PRIu64 "ms", ms);
    } else if (ms >= 60000) {
        snprintf(to, size, "%" PRIu64 "m%" PRIu64 "s", ms / 60000, ms % 60000 / 1000);
    } else if (ms % 1000 == 0) {
        snprintf(to, size, "%" PRIu64 "s", ms / 1000);
    } else {
        snprintf(to, size, "%g" "s", (double)ms / 1000);
    }
}

/* stdout, then stderr on a line of its own. */
static int join_streams(struct tool_call *call, struct execution_result *result)
{
    struct buffer *text = &call->text;
    const struct buffer *out = &result->out[0];
    const struct buffer *err = &result->out[1];
    bool cut = result->dropped[0] > 0 || result->dropped[1] > 0;

    if (cut && buffer_append_string(text, "[output truncated]\n") < 0) {
        return -1;
    }
    if (buffer_append(text, out->data, out->length) < 0) {
        return -1;
    }
    if (out->length > 0 && err->length > 0 && out->data[out->length - 1] != '\n' &&
        buffer_append(text, "\n", 1) < 0) {
        return -1;
    }
    return buffer_append(text, err->data, err->length);
}

static void bash_done(void *arg, const struct error *err, struct execution_result *result)
{
    struct tool_call *call = arg;
    char trailer[256] = "";
    char duration[32];
    bool ended_well;
    json_t *structured;
    const char *reason;

    call->execution = NULL;
    call->cancel = NULL;
    if (err != NULL) {
        if (err->code == ERROR_NO_SUCH_FILE || err->code == ERROR_BAD_REQUEST) {
            tool_end_text(call, "bash: %s", err->message);
        } else {
            tool_end_fault(call, err);
        }
        return;
    }
    if (tool_string(call, "command", NULL) == NULL) {
        if (buffer_append_string(&call->text, "bash session restarted") < 0) {
            call->text.length = 0;
        }
        tool_end(call, false, NULL, NULL);
        return;
    }
    ended_well = !result->timed_out && result->exit_code == 0;
    if (result->timed_out) {
        in_words(timeout_of(call), duration, sizeof duration);
        snprintf(trailer, sizeof trailer,
                 "timed out after %s; the command was killed and what it changed in the shell's state is "
                 "dropped", duration);
    } else if (result->exit_code < 0) {
        snprintf(trailer, sizeof trailer, "killed by signal %d (%s)", result->signal,
                 strsignal(result->signal));
    } else if (result->exit_code > 0) {
        snprintf(trailer, sizeof trailer, "exit code: %d", result->exit_code);
    }
    reason = result->timed_out ? NULL : shell_state_reason(result);
    if (reason != NULL) {
        size_t used = strlen(trailer);

        snprintf(trailer + used, sizeof trailer - used,
                 "%s[what it changed in the shell's state is dropped: %s]", used > 0 ? "\n" : "",
                 strcmp(reason, "too_large") == 0 ? "too large" : "its bash did not end by itself");
    }
    structured = json_pack("{s:o, s:b, s:b, s:I}", "exit_code",
                           result->exit_code >= 0 && !result->timed_out ? json_integer(result->exit_code)
                                                                        : json_null(),
                           "timed_out", (int)result->timed_out, "truncated",
                           result->dropped[0] > 0 || result->dropped[1] > 0, "duration_ms",
                           (json_int_t)result->duration_ms);
    tool_strip_nul(&result->out[0]);
    tool_strip_nul(&result->out[1]);
    if (join_streams(call, result) < 0) {
        struct error none;

        error_set(&none, ERROR_NO_MEMORY, 0, "out of memory");
        json_decref(structured);
        tool_end_fault(call, &none);
        return;
    }
    tool_end(call, !ended_well, trailer[0] != '\0' ? trailer : NULL, structured);
}

static void bash_cancel(struct tool_call *call)
{
    if (call->execution != NULL) {
        execution_cancel(call->execution);
    }
}

static void bash_run(struct tool_call *call)
{
    struct execution_request request = {.timeout_ms = timeout_of(call)};

    request.command = tool_string(call, "command", &request.command_length);
    if (request.command == NULL && !tool_flag(call, "restart")) {
        tool_end_text(call, "bash: command is required (or restart)");
        return;
    }
    request.shell = tool_string(call, "shell", NULL);
    if (request.shell == NULL) {
        request.shell = SHELL_DEFAULT;
    }
    if (!shell_name_is_good(request.shell)) {
        tool_end_text(call, "bash: \"shell\" is not 1 to %d letters, digits, dots, dashes and underscores",
                      WIRE_MAX_SHELL_NAME);
        return;
    }
    request.shell_reset = tool_flag(call, "restart");
    if (request.command == NULL) {
        request.command = "";
    }
    if (request.command_length > MAX_COMMAND_BYTES) {
        tool_end_text(call, "bash: the command is longer than %" PRIu64 " bytes", MAX_COMMAND_BYTES);
        return;
    }
    call->cancel = bash_cancel;
    call->execution = execution_start(call->gateway->link, &request, bash_done, call);
}

const struct tool tool_bash = {
    .name = "bash",
    .title = "Run a command",
    .description =
        "Runs a command in the sandbox's persistent bash session: working directory, variables, functions "
        "and options carry over from call to call. Returns stdout, then stderr; a code other than 0 "
        "follows as \"exit code: N\". Processes left in the background go on and do not delay the answer. "
        "A command that passes its timeout is killed with all its children, its partial output is "
        "returned, and its changes to the session are dropped. Output over 100 KiB is cut; the whole is "
        "in a file inside, which the answer names. For files prefer read, edit, write, glob and grep.",
    .input_schema =
        "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
        "\"command\":{\"type\":\"string\",\"description\":\"The text for bash.\"},"
        "\"restart\":{\"type\":\"boolean\",\"description\":\"Begin a fresh session first.\"},"
        "\"timeout_ms\":{\"type\":\"integer\",\"description\":\"Milliseconds; 120000 where it is not given, "
        "600000 at most.\"},"
        "\"shell\":{\"type\":\"string\",\"description\":\"Name of the session, where several are wanted.\"}"
        "}}",
    .output_schema =
        "{\"type\":\"object\",\"properties\":{"
        "\"output\":{\"type\":\"string\"},\"exit_code\":{\"type\":[\"integer\",\"null\"]},"
        "\"timed_out\":{\"type\":\"boolean\"},\"truncated\":{\"type\":\"boolean\"},"
        "\"duration_ms\":{\"type\":\"integer\"},\"output_file\":{\"type\":\"string\"}},"
        "\"required\":[\"output\"]}",
    .destructive = true,
    .open_world = true,
    .run = bash_run,
};
