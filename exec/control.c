/* One exec without a socket, for the mount's control file. */
#include <stdlib.h>
#include <string.h>

#include "exec/server.h"
#include "sandbox/cleanup.h"

struct gateway_exec {
    TAILQ_ENTRY(gateway_exec) next; /* in gateway->not_begun */
    struct gateway *gateway;
    struct request *request; /* NULL until it begins */
    gateway_exec_done done;
    void *arg;
    size_t length;
    char text[]; /* what was asked for, until it begins */
};

/* When nothing can be made any more. */
static const char no_memory[] =
    "{\"error\":\"out_of_memory\",\"errno\":\"ENOMEM\",\"message\":\"out of memory\"}\n";

/* The answer as a line of text, without JSON-RPC around it. */
void gateway_exec_answer(struct gateway_exec *exec, json_t *result, json_t *error)
{
    cleanup_buffer struct buffer line = BUFFER_INIT(GATEWAY_MAX_UNSENT);
    json_t *data = json_object_get(error, "data");

    if (error != NULL) {
        json_decref(result);
        json_object_set(data, "message", json_object_get(error, "message"));
        result = json_incref(data);
        json_decref(error);
    }
    if (result != NULL && rpc_write(&line, result) == 0) {
        exec->done(exec->arg, (const char *)line.data, line.length);
    } else {
        exec->done(exec->arg, no_memory, sizeof no_memory - 1);
    }
    json_decref(result);
    free(exec);
}

static void refuse(struct gateway_exec *exec, const struct error *err)
{
    gateway_discharge(exec->gateway, exec->length <= GATEWAY_MAX_LINE ? exec->length : 0);
    gateway_exec_answer(exec, NULL, rpc_error(RPC_SANDBOX_ERROR, err));
}

static void begin(struct gateway_exec *exec)
{
    struct gateway *gateway = exec->gateway;
    json_t *params;
    struct error err;

    if (gateway->closing) {
        error_set(&err, ERROR_CANCELLED, 0, "cancelled");
        refuse(exec, &err);
        return;
    }
    if (exec->length > GATEWAY_MAX_LINE) {
        error_set(&err, ERROR_TOO_LARGE, 0, "the request is longer than %d bytes", GATEWAY_MAX_LINE);
        refuse(exec, &err);
        return;
    }
    params = exec_request_from_text(exec->text, exec->length, &err);
    if (params == NULL) {
        refuse(exec, &err);
        return;
    }
    exec->request = request_new(gateway, NULL, params, exec->length);
    if (exec->request == NULL) {
        json_decref(params);
        error_set(&err, ERROR_NO_MEMORY, 0, "out of memory");
        refuse(exec, &err);
        return;
    }
    exec->request->control = exec;
    exec->request->method = &method_exec;
    method_exec.run(exec->request);
}

void gateway_exec_begin_all(struct gateway *gateway)
{
    struct gateway_exec *exec;

    while ((exec = TAILQ_FIRST(&gateway->not_begun)) != NULL) {
        TAILQ_REMOVE(&gateway->not_begun, exec, next);
        begin(exec);
    }
}

static void begin_all(uv_idle_t *idle)
{
    uv_idle_stop(idle);
    gateway_exec_begin_all(idle->data);
}

/* Only queues it, so that `done` comes from the loop. */
struct gateway_exec *gateway_exec_start(struct gateway *gateway, const char *request, size_t length,
                                        gateway_exec_done done, void *arg)
{
    size_t kept = length <= GATEWAY_MAX_LINE ? length : 0;
    struct gateway_exec *exec;

    if (gateway->closing || !gateway_charge(gateway, kept, false)) {
        done(arg, no_memory, sizeof no_memory - 1);
        return NULL;
    }
    exec = malloc(sizeof *exec + kept);
    if (exec == NULL) {
        gateway_discharge(gateway, kept);
        done(arg, no_memory, sizeof no_memory - 1);
        return NULL;
    }
    *exec = (struct gateway_exec){.gateway = gateway, .done = done, .arg = arg, .length = length};
    if (kept > 0) {
        memcpy(exec->text, request, kept);
    }
    gateway->counts.requests++;
    TAILQ_INSERT_TAIL(&gateway->not_begun, exec, next);
    uv_idle_start(&gateway->begin, begin_all);
    return exec;
}

void gateway_exec_cancel(struct gateway_exec *exec)
{
    if (exec->request != NULL) {
        exec->request->control = NULL;
        request_cancel(exec->request);
    } else {
        TAILQ_REMOVE(&exec->gateway->not_begun, exec, next);
        gateway_discharge(exec->gateway, exec->length <= GATEWAY_MAX_LINE ? exec->length : 0);
    }
    free(exec);
}
