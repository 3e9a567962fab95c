#include "exec/shell.h"

#include <string.h>

#include "exec/command.h"
#include "exec/params.h"
#include "exec/result.h"

bool shell_name_is_good(const char *name)
{
    size_t length = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

    return length > 0 && name[length] == '\0' && length <= WIRE_MAX_SHELL_NAME;
}

int shell_name_param(const json_t *params, const char **ret, struct error *err)
{
    size_t length;

    if (params_text(params, "shell", ret, &length, err) < 0) {
        return -1;
    }
    if (*ret == NULL) {
        *ret = SHELL_DEFAULT;
    }
    if (!shell_name_is_good(*ret)) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "\"shell\" is not 1 to %d letters, digits, dots, dashes and underscores",
                         WIRE_MAX_SHELL_NAME);
    }
    return 0;
}

const char *shell_state_reason(const struct execution_result *result)
{
    if (result->timed_out) {
        return "timed_out";
    }
    switch (result->state) {
    case WIRE_STATE_KEPT:
        return NULL;
    case WIRE_STATE_TOO_LARGE:
        return "too_large";
    default:
        return "ended_early";
    }
}

json_t *shell_result_json(const char *name, const struct execution_result *result)
{
    const char *reason = shell_state_reason(result);
    json_t *object = exec_result_json(result);
    json_t *state = json_pack("{s:s, s:b, s:s?}", "shell", name, "state_kept", reason == NULL,
                              "state_reason", reason);

    if (json_object_update(object, state) < 0) {
        json_decref(object);
        object = NULL;
    }
    json_decref(state);
    return object;
}

/* ---- shell.restart ---- */

static void run_restart(struct request *r)
{
    static const char *const known[] = {"shell", NULL};
    struct error err;

    if (params_check(r->params, known, &err) < 0) {
        request_refuse(r, RPC_INVALID_PARAMS, &err);
        return;
    }
    if (r->params == NULL) {
        r->params = json_object();
    }
    if (json_object_set_new(r->params, "command", json_string("")) < 0 ||
        json_object_set_new(r->params, "restart", json_true()) < 0) {
        request_answer(r, NULL);
        return;
    }
    method_shell_run.run(r);
}

static bool cancel_restart(struct request *r)
{
    return method_shell_run.cancel(r);
}

const struct method method_shell_restart = {
    .name = "shell.restart",
    .run = run_restart,
    .cancel = cancel_restart,
    .by_client = true,
};
