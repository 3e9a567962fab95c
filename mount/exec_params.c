#include "mount/exec_params.h"

#include <string.h>

#include "sandbox/cleanup.h"

static json_t *env_json(const struct env_list *env)
{
    json_t *object = json_object();

    for (size_t i = 0; i < env->count; i++) {
        const char *value = strchr(env->entries[i], '=') + 1;
        cleanup_free char *name = strndup(env->entries[i], (size_t)(value - 1 - env->entries[i]));

        if (name == NULL || json_object_set_new(object, name, json_string(value)) < 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* Steals the text. A shell has a directory and variables of its own. */
static json_t *shell_params(const struct options *options, json_t *text, struct error *err)
{
    json_t *params = NULL;

    if (options->cwd != NULL || options->exec_env.count > 0) {
        error_set(err, ERROR_BAD_REQUEST, 0, "--shell takes neither --cwd nor --env: use cd and export");
        json_decref(text);
        return NULL;
    }
    params = json_pack("{s:o, s:I, s:s}", "command", text, "timeout_ms",
                       (json_int_t)options->timeout_ms, "shell", options->shell);
    if (params == NULL) {
        error_set(err, ERROR_BAD_REQUEST, 0, "the shell's name is not UTF-8");
    }
    return params;
}

json_t *exec_params(const struct options *options, const char *command, size_t length,
                    struct error *err)
{
    json_t *text = json_stringn(length > 0 ? command : "", length);
    json_t *params;

    if (text == NULL) {
        error_set(err, ERROR_BAD_REQUEST, 0, "the command is not UTF-8");
        return NULL;
    }
    if (options->shell != NULL) {
        return shell_params(options, text, err);
    }
    params = json_pack("{s:o, s:I, s:o}", "command", text, "timeout_ms",
                       (json_int_t)options->timeout_ms, "env", env_json(&options->exec_env));
    if (params != NULL && options->cwd != NULL &&
        json_object_set_new(params, "cwd", json_string(options->cwd)) < 0) {
        json_decref(params);
        params = NULL;
    }
    if (params == NULL) {
        error_set(err, ERROR_BAD_REQUEST, 0, "--cwd or a value of --env is not UTF-8");
    }
    return params;
}
