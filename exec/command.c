/* One exec: behind the mount's barrier, run, behind the barrier again, answered. */
#include "exec/command.h"

#include <stdlib.h>
#include <string.h>

#include "exec/result.h"
#include "exec/shell.h"
#include "sandbox/cleanup.h"

/* ---- Its end ---- */

static void command_free(struct command *c)
{
    command_stream_close(c);
    exec_request_release(&c->exec);
    free(c);
}

static void exec_end(struct request *r)
{
    r->gateway->counts.executions--;
    command_free(r->command);
    r->command = NULL;
    if (r->failed) {
        request_fail(r, &r->error);
    } else {
        request_answer(r, take_ptr(r->result));
    }
}

static json_t *result_of(const struct request *r, const struct execution_result *result)
{
    const char *shell = r->command->shell;

    if (r->method == &method_shell_restart) {
        return json_pack("{s:s}", "shell", shell);
    }
    return shell[0] != '\0' ? shell_result_json(shell, result) : exec_result_json(result);
}

static void exec_done(void *arg, const struct error *err, struct execution_result *result)
{
    struct request *r = arg;
    struct command *c = r->command;

    c->execution = NULL;
    c->over = true;
    if (err != NULL && !r->failed) {
        r->failed = true;
        r->error = *err;
    } else if (err == NULL) {
        r->failed = false;
        r->result = result_of(r, result);
    }
    command_stream_flush(c);
    command_starve(c);
    /* Also a command that was killed, or that nobody waits for any more, may have changed files. */
    request_step(r, r->gateway->host.barrier.after, exec_end);
}

/* ---- Its start ---- */

static void exec_room(void *arg)
{
    struct request *r = arg;

    command_feed(r->command);
}

static void launch(struct request *r, struct command *c)
{
    const struct params_bytes *input = &c->exec.input;

    c->exec.run.output = c->streams ? command_output : NULL;
    c->exec.run.room = exec_room;
    c->execution = execution_start(r->gateway->link, &c->exec.run, exec_done, r);
    if (input->given && execution_write(c->execution, input->data, input->length, !c->has_input,
                                        &r->error) < 0) {
        r->failed = true;
        execution_cancel(c->execution);
    }
    for (int signal = 1; signal <= 64; signal++) {
        if ((c->early_signals >> (signal - 1) & 1) != 0) {
            execution_signal(c->execution, signal);
        }
    }
}

static void exec_launch(struct request *r)
{
    struct command *c = r->command;

    if (r->cancelled) {
        r->failed = true;
        error_set(&r->error, ERROR_CANCELLED, 0, "cancelled");
        c->over = true;
        command_starve(c);
        exec_end(r);
        return;
    }
    launch(r, c);
    exec_request_release(&c->exec);
    json_decref(r->params);
    r->params = NULL;
    command_feed(c);
}

static struct command *command_new(struct request *r)
{
    struct command *c = calloc(1, sizeof *c);

    if (c == NULL) {
        return NULL;
    }
    c->request = r;
    TAILQ_INIT(&c->writes);
    buffer_init(&c->exec.input.decoded, 0);
    return c;
}

/* NULL where `exec` cannot be run; then the request is answered. */
static struct command *admit(struct request *r)
{
    struct command *c = command_new(r);
    struct error err;

    if (c == NULL) {
        error_set(&err, ERROR_NO_MEMORY, 0, "out of memory");
        request_fail(r, &err);
        return NULL;
    }
    if (exec_request_parse(r->params, r->method != &method_exec, &c->exec, &err) < 0) {
        command_free(c);
        request_refuse(r, RPC_INVALID_PARAMS, &err);
        return NULL;
    }
    if (c->exec.has_input && !c->exec.detach && (r->connection == NULL || r->id == NULL)) {
        command_free(c);
        error_set(&err, ERROR_BAD_REQUEST, 0, "\"input\" needs a request with an id, on a socket");
        request_refuse(r, RPC_INVALID_PARAMS, &err);
        return NULL;
    }
    if (r->gateway->counts.executions >= GATEWAY_MAX_EXECUTIONS) {
        command_free(c);
        request_over_limit(r, "executions", GATEWAY_MAX_EXECUTIONS, "too many commands are running");
        return NULL;
    }
    if (c->exec.detach && !jobs_have_room(r->gateway)) {
        command_free(c);
        request_over_limit(r, "jobs", GATEWAY_MAX_JOBS, "too many jobs are running");
        return NULL;
    }
    return c;
}

static void exec_run(struct request *r)
{
    struct gateway *gateway = r->gateway;
    struct command *c = admit(r);

    if (c == NULL) {
        return;
    }
    c->has_input = c->exec.has_input;
    c->has_terminal = c->exec.run.terminal;
    if (c->exec.run.shell != NULL) {
        strncpy(c->shell, c->exec.run.shell, sizeof c->shell - 1);
    }
    if (c->exec.stream && r->connection != NULL && r->id != NULL) {
        command_stream_open(c);
    }
    if (c->exec.detach && job_begin(r, &c->exec.run) < 0) {
        command_free(c);
        request_answer(r, NULL);
        return;
    }
    r->command = c;
    gateway->counts.executions++;
    request_step(r, gateway->host.barrier.before, exec_launch);
}

static bool exec_cancel(struct request *r)
{
    if (r->command == NULL || r->command->over) {
        return false;
    }
    if (r->command->execution != NULL) {
        execution_cancel(r->command->execution);
    } /* else exec_launch() sees it */
    return true;
}

/* ---- By name ---- */

int command_named(const struct request *r, struct command **ret, struct error *err)
{
    const json_t *id = json_object_get(r->params, "id");
    bool has_id = id != NULL && !json_is_null(id);
    const char *job;
    size_t length;
    struct request *other;

    *ret = NULL;
    if (params_text(r->params, "job", &job, &length, err) < 0) {
        return -1;
    }
    if (job != NULL && !has_id) {
        *ret = job_command(r, job);
        return 0;
    }
    if (job != NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"id\" and \"job\" are both given");
    }
    if (!json_is_string(id) && !json_is_number(id)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"id\" is neither string nor number");
    }
    TAILQ_FOREACH(other, &r->gateway->requests, in_flight)
    {
        if (other->connection == r->connection && other->command != NULL && !other->command->over &&
            json_equal(other->id, id)) {
            *ret = other->command;
            return 0;
        }
    }
    return 0;
}

const struct method method_exec = {
    .name = "exec",
    .run = exec_run,
    .cancel = exec_cancel,
    .by_client = true,
};

const struct method method_shell_run = {
    .name = "shell.run",
    .run = exec_run,
    .cancel = exec_cancel,
    .by_client = true,
};
