#include "mount/run_command.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "exec/params.h"
#include "mount/run_internal.h"
#include "mount/terminal.h"
#include "sandbox/clock.h"

static const char *const stream_names[2] = {"stdout", "stderr"};

/* ---- What is asked for ---------------------------------------------------------------------- */

int run_notify(struct run *run, const char *method, const char *name, json_t *value,
               struct error *err)
{
    json_t *params = json_pack("{s:I}", "id", run->id);
    int r = name != NULL ? json_object_set_new(params, name, value) : 0;

    r = params == NULL || r < 0 ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory")
                                : client_notify(run->client, method, params, err);
    json_decref(params);
    return r;
}

int run_cancel(struct run *run, int signal, const struct error *why, struct error *err)
{
    if (run->cancelled) {
        run->give_up_ms = clock_now_ms(); /* who asks again does not want to wait */
        return 0;
    }
    run->cancelled = true;
    run->ended_by = signal;
    if (run->failed) {
        return 0; /* nothing is left to cancel, only output to be written */
    }
    if (signal == 0) {
        run->error = *why;
    } else {
        error_set(&run->error, ERROR_CANCELLED, 0, "cancelled");
    }
    run->give_up_ms = clock_now_ms() + RUN_CANCEL_MS;
    return run_notify(run, "exec.cancel", NULL, NULL, err);
}

static json_t *pty_json(void)
{
    const char *term = getenv("TERM");
    json_t *pty = json_object();
    uint16_t rows, columns;

    terminal_size(STDIN_FILENO, &rows, &columns);
    if (rows > 0 && columns > 0) {
        json_object_set_new(pty, "rows", json_integer(rows));
        json_object_set_new(pty, "cols", json_integer(columns));
    }
    if (term != NULL && term[0] != '\0') {
        json_object_set_new(pty, "term", json_string(term));
    }
    return pty;
}

static int begin(struct run *run, struct error *err)
{
    json_t *params = json_copy(run->plan->params);
    int r = params != NULL ? 0 : -1;
    const char *method;

    if (run->plan->stream) {
        r |= json_object_set_new(params, "stream", json_true());
    }
    if (run->plan->input) {
        r |= json_object_set_new(params, "input", json_true());
        run->input_open = true;
    }
    if (run->plan->terminal) {
        r |= json_object_set_new(params, "pty", pty_json());
    }
    method = json_object_get(params, "shell") != NULL ? "shell.run" : "exec";
    r = r < 0 ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory")
              : client_send(run->client, method, params, &run->id, err);
    json_decref(params);
    return r;
}

/* ---- What comes ----------------------------------------------------------------------------- */

/* A message exec.output. */
static int take_output(struct run *run, const json_t *params, struct error *err)
{
    const char *name = json_string_value(json_object_get(params, "stream"));
    unsigned stream = name != NULL && strcmp(name, stream_names[1]) == 0 ? 1 : 0;
    struct params_bytes bytes;
    int r = params_bytes(params, "data", &bytes, err);

    /* What nobody waits for any more is not held for a reader that may never read. */
    if (r == 0 && !run->cancelled && output_put(&run->out[stream], bytes.data, bytes.length) < 0) {
        r = error_set_errno(err, errno, "the command's output");
    }
    buffer_release(&bytes.decoded);
    return r;
}

static int take_message(struct run *run, const json_t *message, struct error *err)
{
    json_int_t id = client_id(message);
    json_t *result = NULL;
    struct error why;

    if (id == 0) {
        return run->plan->stream ? take_output(run, json_object_get(message, "params"), err) : 0;
    }
    if (id == run->id || id == -1) {
        run->over = true;
        run->failed = !run->cancelled && client_result(message, &run->result, &run->error) < 0;
        return 0; /* what it was cancelled for is what is told, not that it was */
    }
    run_input_heard(run, client_result(message, &result, &why) == 0 &&
                             json_is_true(json_object_get(result, "written")));
    json_decref(result);
    return 0;
}

/* Whether a message more would only lie here. */
static bool is_full(const struct run *run)
{
    return !run->cancelled && (output_held(&run->out[0]) >= OUTPUT_FULL ||
                               output_held(&run->out[1]) >= OUTPUT_FULL);
}

static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Writes what can be written. A reader that went away ends us as it ends any writer to a pipe. */
static int write_output(struct run *run, struct error *err)
{
    for (int i = 0; i < 2 && run->plan->stream && !run->cancelled; i++) {
        struct error why;

        if (output_flush(&run->out[i]) < 0) {
            int number = errno == EPIPE && !is_ignored(SIGPIPE) ? SIGPIPE : 0;

            error_set_errno(&why, errno, "cannot write %s", stream_names[i]);
            if (run_cancel(run, number, &why, err) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

static int take_messages(struct run *run, struct error *err)
{
    while (!run->over && !is_full(run)) {
        json_t *message;
        struct error why;
        int r = client_receive(run->client, &message, &why);

        if (r == 0) {
            return 0;
        }
        if (r < 0) { /* what came before that is written all the same */
            run->over = true;
            if (!run->cancelled) {
                run->failed = true;
                run->error = why;
            }
            return 0;
        }
        r = take_message(run, message, err);
        json_decref(message);
        if (r < 0 || write_output(run, err) < 0) {
            return -1;
        }
    }
    return 0;
}

/* ---- The loop ------------------------------------------------------------------------------- */

static int timeout_of(const struct run *run)
{
    uint64_t now = clock_now_ms();

    if (!run->cancelled) {
        return -1;
    }
    return run->give_up_ms > now ? (int)(run->give_up_ms - now) : 0;
}

static struct pollfd output_poll(const struct output *output)
{
    /* A file is never waited for. */
    return (struct pollfd){.fd = output_held(output) > 0 ? output->fd : -1, .events = POLLOUT};
}

/* 1: standard input can be read. */
static int wait_for_more(struct run *run, struct error *err)
{
    short in = run->over || is_full(run) ? 0 : POLLIN;
    short out = client_has_unsent(run->client) ? POLLOUT : 0;
    struct pollfd fds[] = {
        {.fd = run->signals, .events = POLLIN},
        {.fd = (in | out) != 0 ? client_fd(run->client) : -1, .events = (short)(in | out)},
        {.fd = run_input_wanted(run) ? STDIN_FILENO : -1, .events = POLLIN},
        output_poll(&run->out[0]),
        output_poll(&run->out[1]),
    };

    if (poll(fds, sizeof fds / sizeof fds[0], timeout_of(run)) < 0) {
        return errno == EINTR ? 0 : error_set_errno(err, errno, "poll");
    }
    return fds[2].revents != 0 ? 1 : 0;
}

static bool is_done(const struct run *run)
{
    if (run->cancelled) {
        return run->over || clock_now_ms() >= run->give_up_ms;
    }
    return run->over && output_held(&run->out[0]) == 0 && output_held(&run->out[1]) == 0;
}

static int run_loop(struct run *run, struct error *err)
{
    for (;;) {
        int r;

        if (run_signals_take(run, err) < 0 || client_flush(run->client, err) < 0 ||
            take_messages(run, err) < 0 || write_output(run, err) < 0) {
            return -1;
        }
        if (is_done(run)) {
            return 0;
        }
        r = wait_for_more(run, err);
        if (r < 0 || (r == 1 && run_input_read(run, err) < 0)) {
            return -1;
        }
    }
}

static int run_all(struct run *run, struct error *err)
{
    if (run->plan->terminal && isatty(STDIN_FILENO)) {
        if (terminal_make_raw(STDIN_FILENO, err) < 0) {
            return -1;
        }
        run->raw = true;
    }
    return begin(run, err) < 0 ? -1 : run_loop(run, err);
}

int run_command(struct client *client, const struct run_plan *plan, struct run_outcome *ret,
                struct error *err)
{
    struct run run = {.client = client, .plan = plan};
    struct error why = {0};
    sigset_t before;
    int r;

    *ret = (struct run_outcome){NULL, 0};
    if (run_signals_begin(&run, &before, err) < 0) {
        return -1;
    }
    output_open(&run.out[0], STDOUT_FILENO);
    output_open(&run.out[1], STDERR_FILENO);
    r = run_all(&run, &why);
    terminal_restore();
    output_close(&run.out[0]);
    output_close(&run.out[1]);
    run_signals_end(&run, &before);
    if (run.cancelled || run.failed || r < 0) {
        *err = run.cancelled || run.failed ? run.error : why;
        ret->signal = run.ended_by;
        json_decref(run.result);
        return -1;
    }
    ret->result = run.result;
    return 0;
}
