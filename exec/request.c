#include "exec/request.h"

#include <inttypes.h>
#include <string.h>

#include "exec/rpc.h"
#include "exec/shell.h"
#include "sandbox/cleanup.h"

static const char *const known[] = {"command", "stdin",      "stdin_base64", "cwd",
                                    "env",     "timeout_ms", "stream",       "input",
                                    "pty",     "detach",     NULL};
static const char *const known_in_shell[] = {"command", "stdin", "stdin_base64", "timeout_ms",
                                             "stream",  "input", "pty",          "detach",
                                             "shell",   "restart", NULL};

/* One NAME=VALUE. */
static int add_variable(struct env_list *env, const char *name, const json_t *value, struct error *err)
{
    cleanup_buffer struct buffer assignment = BUFFER_INIT(2 * MAX_ENV_VALUE);
    const char *text = json_string_value(value);
    char *joined;

    if (text == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"env\": the value of %.64s is not a string", name);
    }
    if (strlen(text) != json_string_length(value)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"env\": the value of %.64s has a NUL in it", name);
    }
    if (strchr(name, '=') != NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"env\": %.64s is not a name", name);
    }
    if (buffer_append_string(&assignment, name) < 0 || buffer_append(&assignment, "=", 1) < 0 ||
        buffer_append_string(&assignment, text) < 0 || (joined = buffer_text(&assignment)) == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"env\": %.64s is longer than %d bytes", name,
                         MAX_ENV_VALUE);
    }
    return env_list_set(env, joined, err);
}

static int parse_env(const json_t *params, struct env_list *env, struct error *err)
{
    json_t *object = json_object_get(params, "env");
    const char *name;
    json_t *value;

    if (object == NULL || json_is_null(object)) {
        return 0;
    }
    if (!json_is_object(object)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"env\" is not an object of strings");
    }
    if (json_object_size(object) > MAX_ENV_VARIABLES) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"env\" has more than %d variables",
                         MAX_ENV_VARIABLES);
    }
    json_object_foreach(object, name, value)
    {
        if (add_variable(env, name, value, err) < 0) {
            return -1;
        }
    }
    return 0;
}

/* true, false, or an object with the terminal's size and kind. */
static int parse_pty(const json_t *params, struct exec_request *r, struct error *err)
{
    static const char *const known_of_pty[] = {"rows", "cols", "term", NULL};
    const json_t *pty = json_object_get(params, "pty");
    uint64_t rows = 0;
    uint64_t columns = 0;
    const char *term;
    size_t length;

    if (!json_is_object(pty)) {
        return params_boolean(params, "pty", &r->run.terminal, err);
    }
    if (params_check(pty, known_of_pty, err) < 0 ||
        params_number(pty, "rows", EXEC_MAX_ROWS, &rows, err) < 0 ||
        params_number(pty, "cols", EXEC_MAX_ROWS, &columns, err) < 0 ||
        params_text(pty, "term", &term, &length, err) < 0) {
        return error_prefix(err, "\"pty\"");
    }
    r->run.terminal = true;
    r->run.rows = (uint16_t)rows;
    r->run.columns = (uint16_t)columns;
    return term == NULL ? 0 : add_variable(&r->env, "TERM", json_object_get(pty, "term"), err);
}

static int parse_how(const json_t *params, struct exec_request *r, struct error *err)
{
    if (params_boolean(params, "stream", &r->stream, err) < 0 ||
        params_boolean(params, "input", &r->has_input, err) < 0 ||
        params_boolean(params, "detach", &r->detach, err) < 0 || parse_pty(params, r, err) < 0) {
        return -1;
    }
    if (r->stream && r->detach) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"stream\" and \"detach\" are both given");
    }
    return 0;
}

static int parse_fields(const json_t *params, bool in_shell, struct exec_request *r, struct error *err)
{
    size_t cwd_length;

    if (params_check(params, in_shell ? known_in_shell : known, err) < 0 ||
        params_text(params, "command", &r->run.command, &r->run.command_length, err) < 0 ||
        params_text(params, "cwd", &r->run.cwd, &cwd_length, err) < 0 ||
        params_number(params, "timeout_ms", EXEC_MAX_TIMEOUT_MS, &r->run.timeout_ms, err) < 0 ||
        params_bytes(params, "stdin", &r->input, err) < 0 || parse_env(params, &r->env, err) < 0 ||
        parse_how(params, r, err) < 0) {
        return -1;
    }
    if (in_shell && (shell_name_param(params, &r->run.shell, err) < 0 ||
                     params_boolean(params, "restart", &r->run.shell_reset, err) < 0)) {
        return -1;
    }
    if (r->run.command == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"command\" is missing");
    }
    if (r->run.command_length > MAX_COMMAND_BYTES) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"command\" is longer than %" PRIu64 " bytes",
                         MAX_COMMAND_BYTES);
    }
    return 0;
}

int exec_request_parse(const json_t *params, bool in_shell, struct exec_request *ret, struct error *err)
{
    *ret = (struct exec_request){.input.decoded = BUFFER_INIT(0)};
    if (parse_fields(params, in_shell, ret, err) < 0) {
        exec_request_release(ret);
        return -1;
    }
    ret->run.env = (const char *const *)ret->env.entries;
    ret->run.has_stdin = ret->input.given || ret->has_input;
    return 0;
}

void exec_request_release(struct exec_request *request)
{
    env_list_release(&request->env);
    buffer_release(&request->input.decoded);
}

json_t *exec_request_from_text(const char *text, size_t length, struct error *err)
{
    size_t blank = 0;
    json_t *params = NULL;

    while (blank < length && strchr(" \t\r\n", text[blank]) != NULL && text[blank] != '\0') {
        blank++;
    }
    if (blank < length && text[blank] == '{' && rpc_values_within_bound(text, length)) {
        params = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, NULL);
    }
    if (json_object_get(params, "command") == NULL) {
        json_decref(params);
        /* The text goes to bash and into no reply: it need not be UTF-8. */
        params = json_pack("{s:o}", "command", json_stringn_nocheck(text, length));
    }
    if (params == NULL) {
        error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    return params;
}
