/* The parameters of `exec`, made into what an execution takes. */
#ifndef HANDSFS_EXEC_REQUEST_H
#define HANDSFS_EXEC_REQUEST_H

#include <jansson.h>

#include "backends/execution.h"
#include "exec/params.h"

#define EXEC_MAX_ROWS 65535 /* and columns */
#define EXEC_MAX_TIMEOUT_MS (UINT64_C(3660) * 24 * 3600 * 1000) /* ten years and some */

struct exec_request {
    struct execution_request run; /* points into what follows and into the parameters */
    struct env_list env;
    struct params_bytes input;
    bool stream;    /* output as notifications */
    bool has_input; /* stdin stays open for exec.write */
    bool detach;    /* answered at once, with a job */
};

/* ERROR_BAD_REQUEST for what is no ExecRequest; with `in_shell` for no parameters of shell.run, which has
 * a shell in place of cwd and env. On success `ret` is to be released, and `params` to be kept until then. */
int exec_request_parse(const json_t *params, bool in_shell, struct exec_request *ret, struct error *err)
    __attribute__((nonnull(3, 4), warn_unused_result));
void exec_request_release(struct exec_request *request) __attribute__((nonnull));

/* Makes parameters of a text: an ExecRequest in JSON where it is an object with a "command", else the
 * command itself. New reference; NULL with `err` set. */
json_t *exec_request_from_text(const char *text, size_t length, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
