/* Commands that outlive their clients. A job is a request of `exec` that was answered at once and runs on
 * without a connection; what it ends with is kept until somebody has had time to ask for it.
 *
 * exec.wait is answered when its job ends or its time is over, by a timer of its own either way, so that
 * nothing is answered from inside of what ended the job. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "exec/command.h"
#include "exec/utf8.h"
#include "sandbox/cleanup.h"

#define JOB_NAME_BYTES 40
#define JOB_COMMAND_BYTES 256 /* of a command's text in exec.list */

struct job {
    TAILQ_ENTRY(job) listed; /* in gateway->jobs, in the order of their starts */
    struct gateway *gateway;
    struct request *request; /* NULL: over */
    char name[JOB_NAME_BYTES];
    json_t *command;         /* the beginning of its text */
    uint64_t started_ms, ended_ms; /* on the loop's clock */
    json_t *result, *error;  /* one of them once it is over */
    size_t charged;          /* for them */
};

struct waiter {
    LIST_ENTRY(waiter) listed; /* in gateway->waiters */
    struct gateway *gateway;
    struct request *request;
    struct job *job; /* stays as long as it is waited for */
    uv_timer_t timer;
};

/* ---- Its life ---- */

static void job_free(struct job *job)
{
    struct gateway *gateway = job->gateway;

    TAILQ_REMOVE(&gateway->jobs, job, listed);
    gateway->job_count--;
    gateway_discharge(gateway, job->charged);
    json_decref(job->command);
    json_decref(job->result);
    json_decref(job->error);
    free(job);
}

static bool is_awaited(const struct job *job)
{
    const struct waiter *w;

    LIST_FOREACH(w, &job->gateway->waiters, listed)
    {
        if (w->job == job) {
            return true;
        }
    }
    return false;
}

/* Forgets jobs that ended long ago, and with `make_room` the one that ended first. */
static void forget(struct gateway *gateway, bool make_room)
{
    uint64_t now = uv_now(gateway->loop);
    struct job *first = NULL;
    struct job *next;

    for (struct job *job = TAILQ_FIRST(&gateway->jobs); job != NULL; job = next) {
        next = TAILQ_NEXT(job, listed);
        if (job->request != NULL || is_awaited(job)) {
            continue;
        }
        if (now - job->ended_ms >= JOB_KEPT_MS) {
            job_free(job);
        } else if (first == NULL || job->ended_ms < first->ended_ms) {
            first = job;
        }
    }
    if (make_room && first != NULL) {
        job_free(first);
    }
}

void jobs_free(struct gateway *gateway)
{
    struct job *job;

    while ((job = TAILQ_FIRST(&gateway->jobs)) != NULL) {
        job_free(job);
    }
}

/* A name that no other daemon's job has, so that an old one is not taken for a new one. */
static void name_job(struct job *job)
{
    struct gateway *gateway = job->gateway;

    if (gateway->job_serial == 0 &&
        getrandom(&gateway->job_prefix, sizeof gateway->job_prefix, 0) < 0) {
        gateway->job_prefix = (uint32_t)uv_hrtime();
    }
    snprintf(job->name, sizeof job->name, "%08" PRIx32 ".%" PRIu64, gateway->job_prefix,
             ++gateway->job_serial);
}

static struct job *job_new(struct request *r, const struct execution_request *run)
{
    struct gateway *gateway = r->gateway;
    struct job *job = calloc(1, sizeof *job);
    size_t length = run->command_length;

    if (job == NULL) {
        return NULL;
    }
    if (length > JOB_COMMAND_BYTES) {
        length = utf8_whole((const uint8_t *)run->command, JOB_COMMAND_BYTES);
    }
    *job = (struct job){.gateway = gateway, .request = r, .started_ms = uv_now(gateway->loop)};
    job->command = utf8_json(run->command, length);
    name_job(job);
    TAILQ_INSERT_TAIL(&gateway->jobs, job, listed);
    gateway->job_count++;
    return job;
}

bool jobs_have_room(struct gateway *gateway)
{
    if (gateway->job_count >= GATEWAY_MAX_JOBS) {
        forget(gateway, true);
    }
    return gateway->job_count < GATEWAY_MAX_JOBS;
}

int job_begin(struct request *r, const struct execution_request *run)
{
    struct job *job = job_new(r, run);

    if (job == NULL) {
        return -1;
    }
    r->job = job;
    request_answer_early(r, json_pack("{s:s}", "job", job->name));
    return 0;
}

/* What is kept of it counts as the gateway's memory. */
static bool charge(struct job *job)
{
    static const char *const names[] = {"stdout", "stderr", "stdout_base64", "stderr_base64"};
    size_t bytes = sizeof *job + JOB_COMMAND_BYTES;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        bytes += json_string_length(json_object_get(job->result, names[i]));
    }
    if (!gateway_charge(job->gateway, bytes, true)) {
        return false;
    }
    job->charged = bytes;
    return true;
}

static void wait_over(uv_timer_t *timer);

void job_end(struct job *job, json_t *result, json_t *error)
{
    struct gateway *gateway = job->gateway;
    struct waiter *w;
    struct error err;

    job->request = NULL;
    job->ended_ms = uv_now(gateway->loop);
    job->result = result;
    job->error = error;
    if (!charge(job)) {
        error_set(&err, ERROR_NO_MEMORY, 0, "there was no room to keep the result");
        json_decref(job->result);
        json_decref(job->error);
        job->result = NULL;
        job->error = rpc_error(RPC_SANDBOX_ERROR, &err);
    }
    LIST_FOREACH(w, &gateway->waiters, listed)
    {
        if (w->job == job) {
            uv_timer_start(&w->timer, wait_over, 0, 0);
        }
    }
    forget(gateway, false);
}

struct command *job_command(const struct request *r, const char *name)
{
    struct job *job;

    TAILQ_FOREACH(job, &r->gateway->jobs, listed)
    {
        if (job->request != NULL && strcmp(job->name, name) == 0) {
            struct command *c = job->request->command;

            return c != NULL && !c->over ? c : NULL;
        }
    }
    return NULL;
}

/* ---- exec.wait ---- */

static json_t *state_of(const struct job *job)
{
    json_t *state = json_pack("{s:s, s:b}", "job", job->name, "running", job->request != NULL);

    if (state != NULL && job->result != NULL) {
        json_object_set(state, "result", job->result);
    }
    return state;
}

static void answer(struct request *r, const struct job *job)
{
    if (job->error != NULL) {
        request_answer_error(r, json_incref(job->error));
    } else {
        request_answer(r, state_of(job));
    }
}

static void waiter_closed(uv_handle_t *handle)
{
    struct waiter *w = handle->data;
    struct gateway *gateway = w->gateway;

    free(w);
    gateway->handles--;
    gateway_ended(gateway);
}

static void wait_over(uv_timer_t *timer)
{
    struct waiter *w = timer->data;

    answer(w->request, w->job);
    LIST_REMOVE(w, listed);
    uv_close((uv_handle_t *)timer, waiter_closed);
}

static struct job *job_named(const struct request *r, struct error *err)
{
    struct job *job;
    const char *name;
    size_t length;

    if (params_text(r->params, "job", &name, &length, err) < 0) {
        return NULL;
    }
    if (name == NULL) {
        error_set(err, ERROR_BAD_REQUEST, 0, "\"job\" is missing");
        return NULL;
    }
    TAILQ_FOREACH(job, &r->gateway->jobs, listed)
    {
        if (strcmp(job->name, name) == 0) {
            return job;
        }
    }
    error_set(err, ERROR_BAD_REQUEST, 0, "there is no job \"%.64s\"", name);
    return NULL;
}

static struct waiter *waiter_new(struct request *r, struct job *job)
{
    struct waiter *w = calloc(1, sizeof *w);

    if (w == NULL) {
        return NULL;
    }
    *w = (struct waiter){.gateway = r->gateway, .request = r, .job = job};
    uv_timer_init(r->gateway->loop, &w->timer);
    w->timer.data = w;
    r->gateway->handles++;
    LIST_INSERT_HEAD(&r->gateway->waiters, w, listed);
    return w;
}

static void run_wait(struct request *r)
{
    static const char *const known[] = {"job", "timeout_ms", NULL};
    bool bounded = json_is_integer(json_object_get(r->params, "timeout_ms"));
    struct waiter *w;
    struct job *job = NULL;
    uint64_t timeout_ms = 0;
    struct error err;

    if (params_check(r->params, known, &err) < 0 ||
        params_number(r->params, "timeout_ms", EXEC_MAX_TIMEOUT_MS, &timeout_ms, &err) < 0 ||
        (job = job_named(r, &err)) == NULL) {
        request_refuse(r, RPC_INVALID_PARAMS, &err);
        return;
    }
    if (job->request == NULL || (bounded && timeout_ms == 0)) {
        answer(r, job);
        return;
    }
    w = waiter_new(r, job);
    if (w == NULL) {
        request_answer(r, NULL);
        return;
    }
    uv_update_time(r->gateway->loop);
    uv_timer_start(&w->timer, wait_over, bounded ? timeout_ms : EXEC_MAX_TIMEOUT_MS, 0);
}

static bool cancel_wait(struct request *r)
{
    struct waiter *w;

    LIST_FOREACH(w, &r->gateway->waiters, listed)
    {
        if (w->request == r) {
            uv_timer_start(&w->timer, wait_over, 0, 0);
            return true;
        }
    }
    return false;
}

const struct method method_wait = {
    .name = "exec.wait",
    .run = run_wait,
    .cancel = cancel_wait,
    .by_client = true,
};

/* ---- exec.list ---- */

static json_t *entry_of(const struct job *job)
{
    bool running = job->request != NULL;
    uint64_t until = running ? uv_now(job->gateway->loop) : job->ended_ms;

    return json_pack("{s:s, s:O, s:b, s:I}", "job", job->name, "command", job->command, "running",
                     running, "duration_ms", (json_int_t)(until - job->started_ms));
}

static void run_list(struct request *r)
{
    static const char *const none[] = {NULL};
    json_t *jobs = json_array();
    struct job *job;
    struct error err;

    if (params_check(r->params, none, &err) < 0) {
        json_decref(jobs);
        request_refuse(r, RPC_INVALID_PARAMS, &err);
        return;
    }
    forget(r->gateway, false);
    TAILQ_FOREACH(job, &r->gateway->jobs, listed)
    {
        json_array_append_new(jobs, entry_of(job));
    }
    request_answer(r, json_pack("{s:o}", "jobs", jobs));
}

const struct method method_list = {.name = "exec.list", .run = run_list};
