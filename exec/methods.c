#include "exec/methods.h"

#include <stdlib.h>
#include <string.h>

#include "exec/command.h"
#include "exec/utf8.h"
#include "sandbox/log.h"

/* ---- A request's life ---- */

struct request *request_new(struct gateway *gateway, json_t *id, json_t *params, size_t charged)
{
    struct request *r = calloc(1, sizeof *r);

    if (r == NULL) {
        return NULL;
    }
    r->gateway = gateway;
    r->id = id;
    r->params = params;
    r->charged = charged;
    TAILQ_INSERT_TAIL(&gateway->requests, r, in_flight);
    return r;
}

/* Gives the answer where it is wanted. Both are stolen. */
static void give_answer(struct request *r, json_t *result, json_t *error)
{
    struct connection *c = r->connection;
    struct error err;

    if (result == NULL && error == NULL) {
        error_set(&err, ERROR_NO_MEMORY, 0, "out of memory");
        error = rpc_error(RPC_SANDBOX_ERROR, &err);
    }
    if (r->control != NULL) {
        gateway_exec_answer(r->control, result, error);
    } else if (c != NULL && r->id != NULL) {
        connection_send(c, rpc_reply(r->id, result, error));
    } else {
        json_decref(result);
        json_decref(error);
    }
}

/* The one way out: takes the request out of flight, gives its answer, frees it. */
static void request_end(struct request *r, json_t *result, json_t *error)
{
    struct gateway *gateway = r->gateway;
    struct connection *c = r->connection;

    TAILQ_REMOVE(&gateway->requests, r, in_flight);
    if (r->job != NULL) {
        job_end(r->job, result, error);
    } else {
        give_answer(r, result, error);
    }
    if (c != NULL) {
        connection_request_ended(c);
    }
    gateway_discharge(gateway, r->charged);
    json_decref(r->id);
    json_decref(r->params);
    json_decref(r->result);
    free(r);
    gateway_ended(gateway);
}

void request_answer_early(struct request *r, json_t *result)
{
    struct connection *c = r->connection;

    give_answer(r, result, NULL);
    r->connection = NULL;
    r->control = NULL;
    if (c != NULL) {
        connection_request_ended(c);
    }
}

void request_answer_error(struct request *r, json_t *error)
{
    request_end(r, NULL, error);
}

void request_answer(struct request *r, json_t *result)
{
    request_end(r, result, NULL);
}

void request_refuse(struct request *r, enum rpc_code code, const struct error *err)
{
    request_end(r, NULL, rpc_error(code, err));
}

void request_fail(struct request *r, const struct error *err)
{
    if (error_audience(err->code) == ERROR_FOR_OPERATOR && !r->gateway->host.silent) {
        const char *session = link_sandbox(r->gateway->link)->session;

        log_warning("%s: %s: %s: %s", session != NULL ? session : "?", r->method->name,
                    error_name(err->code), err->message);
    }
    request_refuse(r, RPC_SANDBOX_ERROR, err);
}

void request_over_limit(struct request *r, const char *limit, uint64_t maximum, const char *message)
{
    struct error err;

    error_set(&err, ERROR_BAD_REQUEST, 0, "%s", message);
    request_end(r, NULL, rpc_limit_error(RPC_OVER_LIMIT, limit, maximum, &err));
}

bool request_cancel(struct request *r)
{
    if (r->cancelled) {
        return true;
    }
    if (r->method->cancel == NULL || !r->method->cancel(r)) {
        return false;
    }
    r->cancelled = true;
    return true;
}

static void behind_barrier(void *arg)
{
    struct request *r = arg;

    r->next(r);
}

void request_step(struct request *r, void (*barrier)(void *ctx, void (*then)(void *arg), void *arg),
                  void (*next)(struct request *))
{
    if (barrier == NULL) {
        next(r);
        return;
    }
    r->next = next;
    barrier(r->gateway->host.barrier.ctx, behind_barrier, r);
}

/* ---- The small methods ---- */

/* Refuses parameters where there are to be none. */
static bool has_no_params(struct request *r)
{
    static const char *const none[] = {NULL};
    struct error err;

    if (params_check(r->params, none, &err) < 0) {
        request_refuse(r, RPC_INVALID_PARAMS, &err);
        return false;
    }
    return true;
}

static void run_cancel(struct request *r)
{
    static const char *const known[] = {"id", "job", NULL};
    json_t *id = json_object_get(r->params, "id");
    bool cancelled = false;
    struct request *other;
    struct command *command;
    struct error err;

    if (params_check(r->params, known, &err) < 0) {
        request_refuse(r, RPC_INVALID_PARAMS, &err);
        return;
    }
    if (command_named(r, &command, &err) < 0) {
        request_refuse(r, RPC_INVALID_PARAMS, &err);
        return;
    }
    if (id == NULL || json_is_null(id)) {
        cancelled = command != NULL && request_cancel(command->request);
    }
    TAILQ_FOREACH(other, &r->gateway->requests, in_flight)
    {
        if (other->connection == r->connection && other->method->by_client &&
            json_equal(other->id, id) && request_cancel(other)) {
            cancelled = true;
        }
    }
    request_answer(r, json_pack("{s:b}", "cancelled", (int)cancelled));
}

static void run_status(struct request *r)
{
    if (has_no_params(r)) {
        request_answer(r, gateway_status(r->gateway));
    }
}

/* The host answers provision and destroy. */
static void host_reply(void *arg, const struct error *err, json_t *result)
{
    struct request *r = arg;

    if (err != NULL) {
        json_decref(result);
        request_fail(r, err);
    } else {
        request_answer(r, result != NULL ? result : json_object());
    }
}

static void run_provision(struct request *r)
{
    if (has_no_params(r)) {
        r->gateway->host.provision(r->gateway->host.ctx, host_reply, r);
    }
}

static void run_destroy(struct request *r)
{
    if (has_no_params(r)) {
        r->gateway->host.destroy(r->gateway->host.ctx, host_reply, r);
    }
}

static const char *state_name(enum link_state state)
{
    static const char *const names[] = {
        [LINK_CONNECTING] = "connecting",
        [LINK_UP] = "up",
        [LINK_SILENT] = "silent",
        [LINK_GONE] = "gone",
    };

    return names[state];
}

json_t *gateway_status(struct gateway *gateway)
{
    const struct sandbox *sandbox = link_sandbox(gateway->link);
    const struct link_peer *peer = link_peer(gateway->link);
    json_t *status = json_pack(
        "{s:s*, s:s*, s:s*, s:s*, s:s, s:s, s:i, s:i, s:I}", "session", sandbox->session, "backend",
        sandbox->backend != NULL ? sandbox->backend->name : NULL, "id", sandbox->id, "workdir",
        sandbox->workdir, "state", state_name(link_state(gateway->link)), "version", HANDSFS_VERSION,
        "connections", (int)gateway->counts.connections, "executions",
        (int)gateway->counts.executions, "requests", (json_int_t)gateway->counts.requests);

    if (status != NULL && peer != NULL) {
        /* The hand's own words may be anything. */
        json_object_set_new(status, "hand", utf8_json(peer->version, strlen(peer->version)));
        json_object_set_new(status, "machine", utf8_json(peer->machine, strlen(peer->machine)));
        json_object_set_new(status, "in_process", json_boolean(peer->in_process));
    }
    if (status != NULL && gateway->host.status != NULL) {
        gateway->host.status(gateway->host.ctx, status);
    }
    return status;
}

/* ---- By name ---- */

static const struct method method_cancel = {.name = "exec.cancel", .run = run_cancel};
static const struct method method_status = {.name = "status", .run = run_status};
static const struct method method_provision = {.name = "provision", .run = run_provision};
static const struct method method_destroy = {.name = "destroy", .run = run_destroy};

static const struct method *const methods[] = {
    &method_shell_run,  &method_shell_restart,
    &method_exec,       &method_cancel,     &method_write,      &method_signal,
    &method_resize,     &method_wait,       &method_list,       &method_read_file,
    &method_write_file, &method_status,     &method_provision,  &method_destroy,
    &method_tools_list, &method_tools_call,
};

const struct method *method_find(const struct gateway *gateway, const char *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        const struct method *m = methods[i];

        if (strcmp(m->name, name) == 0) {
            bool missing = (m == &method_provision && gateway->host.provision == NULL) ||
                           (m == &method_destroy && gateway->host.destroy == NULL);
            return missing ? NULL : m;
        }
    }
    return NULL;
}

void methods_dispatch(struct connection *c, struct gateway *gateway, struct rpc_call *call,
                      size_t charged)
{
    static const struct method unknown = {.name = "?"};
    struct request *r = request_new(gateway, call->id, call->params, charged);
    struct error err;

    if (r == NULL) { /* not even the answer fits */
        gateway_discharge(gateway, charged);
        connection_hang_up(c);
        connection_request_ended(c);
        return;
    }
    json_incref(r->id);
    json_incref(r->params);
    r->connection = c;
    r->method = method_find(gateway, call->method);
    if (r->method == NULL) {
        r->method = &unknown;
        error_set(&err, ERROR_BAD_REQUEST, 0, "there is no method \"%.64s\"", call->method);
        request_refuse(r, RPC_METHOD_NOT_FOUND, &err);
        return;
    }
    /* Of the line only the parameters are needed from here on. */
    json_decref(call->message);
    *call = (struct rpc_call){NULL};
    r->method->run(r);
}
