#include "backends/execution_internal.h"

_Static_assert(EXECUTION_MAX_NAMED == WIRE_MAX_LEFT, "one bound for the names");
_Static_assert(EXECUTION_NAME_BYTES == WIRE_MAX_LEFT_NAME + 1, "room for a name and a NUL");

#include <assert.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define NS_A_MS UINT64_C(1000000)
#define DEFAULT_ROWS 24
#define DEFAULT_COLUMNS 80
#define MAX_TIMEOUT_MS (UINT64_C(10) * 366 * 24 * 3600 * 1000) /* ten years; more is this */

static void timer_fired(uv_timer_t *timer);

/* ---- Life ------------------------------------------------------------------------------------- */

static void free_execution(struct execution *x)
{
    buffer_release(&x->frame);
    buffer_release(&x->in.bytes);
    buffer_release(&x->result.out[0]);
    buffer_release(&x->result.out[1]);
    free(x);
}

static void timer_closed(uv_handle_t *handle)
{
    struct execution *x = handle->data;
    struct link *link = x->link;

    free_execution(x);
    link->handles--;
    link_reap(link);
}

/* Answered, and nothing is owed: goes with its timer. */
static void maybe_close(struct execution *x)
{
    if (x->done == NULL && !x->in_list && !x->timer_closed) {
        x->timer_closed = true;
        uv_close((uv_handle_t *)&x->timer, timer_closed);
    }
}

void execution_settle(struct execution *x)
{
    struct link *link = x->link;

    assert(x->over && x->in_list);
    TAILQ_REMOVE(&link->executions, x, listed);
    link->execution_count--;
    x->in_list = false;
    maybe_close(x);
}

/* What was kept is of no use to anybody any more. */
static void drop_buffers(struct execution *x)
{
    buffer_release(&x->frame);
    buffer_release(&x->in.bytes);
    x->in.head = 0;
}

/* What came and is not kept; from now on nobody takes any of it. */
static void count_dropped(struct execution *x)
{
    for (unsigned i = 0; i < 2; i++) {
        x->result.dropped[i] += x->received[i] - x->result.out[i].length;
        x->taken[i] = x->received[i];
    }
    x->link->credit_due = true;
}

/* The answer is decided: it is told from the loop. */
static void decide(struct execution *x, enum error_code code, int os_errno, const char *message)
{
    struct link *link = x->link;

    assert(!x->over);
    x->over = true;
    x->code = code;
    x->os_errno = os_errno;
    strncpy(x->message, message, sizeof x->message - 1);
    x->result.duration_ms = (uv_hrtime() - x->started_ns) / NS_A_MS;
    count_dropped(x);
    if (x->in_list) {
        link->running--;
    }
    if (!x->timer_closed) {
        uv_timer_stop(&x->timer);
    }
    drop_buffers(x);
    TAILQ_INSERT_TAIL(&link->execution_answers, x, answering);
    link_defer(link);
}

static void answer(struct execution *x)
{
    execution_done done = x->done;
    struct error err;

    x->done = NULL;
    if (x->code == ERROR_NONE) {
        done(x->arg, NULL, &x->result);
    } else {
        error_set(&err, x->code, x->os_errno, "%s", x->message);
        done(x->arg, &err, NULL);
    }
    buffer_release(&x->result.out[0]);
    buffer_release(&x->result.out[1]);
    maybe_close(x);
}

/* From the start each time: whoever is told may change the list. */
static void tell_of_room(struct link *link)
{
    struct execution *x = TAILQ_FIRST(&link->executions);

    while (x != NULL) {
        if (!x->room_due) {
            x = TAILQ_NEXT(x, listed);
            continue;
        }
        x->room_due = false;
        if (!x->over && x->room != NULL) {
            x->room(x->arg);
        }
        x = TAILQ_FIRST(&link->executions);
    }
}

void executions_answer(struct link *link)
{
    struct execution_list due = TAILQ_HEAD_INITIALIZER(due);
    struct execution *x;

    tell_of_room(link);
    TAILQ_CONCAT(&due, &link->execution_answers, answering);
    while ((x = TAILQ_FIRST(&due)) != NULL) {
        TAILQ_REMOVE(&due, x, answering);
        answer(x);
    }
}

/* ---- Decisions -------------------------------------------------------------------------------- */

static bool deadline_passed(const struct execution *x)
{
    return x->timeout_ns != 0 && (x->started || !x->in_shell) && uv_hrtime() - x->started_ns >= x->timeout_ns;
}

static void decide_timeout(struct execution *x)
{
    x->result.timed_out = true;
    x->result.exit_code = -1;
    x->result.signal = SIGKILL;
    decide(x, ERROR_NONE, 0, "");
}

/* What else the hand says of it. */
static void note_exit(struct execution_result *result, const struct wire_exit *e)
{
    result->told = true;
    result->user_us = e->user_us;
    result->system_us = e->system_us;
    result->peak_kib = e->peak_kib;
    result->oom_known = e->oom != WIRE_OOM_UNKNOWN;
    result->oom_killed = e->oom == WIRE_OOM_YES;
    result->left = e->left;
    result->named = e->named;
    for (unsigned i = 0; i < e->named; i++) {
        const struct wire_text *name = &e->background[i].name;

        result->background[i].pid = e->background[i].pid;
        memcpy(result->background[i].name, name->data, name->length);
        result->background[i].name[name->length] = '\0';
    }
}

void execution_exited(struct execution *x, const struct wire_exit *e)
{
    for (unsigned i = 0; i < 2; i++) {
        x->result.dropped[i] = e->total[i] - e->sent[i];
    }
    x->result.exit_code = e->exit_code;
    x->result.signal = (int)e->signal;
    note_exit(&x->result, e);
    x->result.state = e->state;
    if (x->cancelled) {
        decide(x, ERROR_CANCELLED, 0, "the command was cancelled");
    } else if (x->late || deadline_passed(x)) {
        decide_timeout(x);
    } else {
        decide(x, ERROR_NONE, 0, "");
    }
}

void execution_fail(struct execution *x, enum error_code code, int os_errno, const char *message)
{
    if (x->cancelled) {
        decide(x, ERROR_CANCELLED, 0, "the command was cancelled");
    } else if (x->late && x->started && code != ERROR_CANCELLED) {
        decide_timeout(x);
    } else {
        decide(x, code, os_errno, message);
    }
}

/* The command has to end: KILL goes out, and its EXIT is waited for, but not for ever. */
static void kill_and_wait(struct execution *x)
{
    if (!x->sent) {
        execution_fail(x, ERROR_NO_ANSWER, 0, "the sandbox could not be reached in time");
        execution_settle(x);
        return;
    }
    execution_send_kill(x);
    uv_timer_start(&x->timer, timer_fired, EXECUTION_KILL_WAIT_MS, 0);
}

static void start_deadline(struct execution *x)
{
    uint64_t passed = uv_hrtime() - x->started_ns;
    uint64_t left = x->timeout_ns > passed ? x->timeout_ns - passed : 0;

    uv_update_time(x->link->loop);
    uv_timer_start(&x->timer, timer_fired, (left + NS_A_MS - 1) / NS_A_MS, 0);
}

void execution_turn(struct execution *x)
{
    if (x->over || x->cancelled) {
        return;
    }
    x->started_ns = uv_hrtime();
    if (x->timeout_ns != 0) {
        start_deadline(x);
    }
}

static void timer_fired(uv_timer_t *timer)
{
    struct execution *x = timer->data;

    if (x->over) {
        return;
    }
    if (x->cancelled || x->late) { /* nothing came after KILL */
        execution_fail(x, ERROR_NO_ANSWER, 0, "the sandbox does not answer");
        return;
    }
    if (!deadline_passed(x)) { /* the loop's clock counts whole milliseconds */
        start_deadline(x);
        return;
    }
    x->late = true;
    kill_and_wait(x);
}

bool executions_silent(struct link *link, uint64_t now_ms)
{
    struct execution *x;
    struct execution *next;
    bool any = false;

    for (x = TAILQ_FIRST(&link->executions); x != NULL; x = next) {
        uint64_t since = x->heard_ms > link->heard_ms ? x->heard_ms : link->heard_ms;

        next = TAILQ_NEXT(x, listed);
        if (x->over || (x->started && x->timeout_ns != 0) ||
            now_ms - since < link_timeout_ms(link)) {
            continue;
        }
        any = true;
        execution_send_kill(x); /* for when it wakes up */
        execution_fail(x, ERROR_NO_ANSWER, 0, "the sandbox does not answer");
        if (!x->sent) {
            execution_settle(x);
        }
    }
    return any;
}

void executions_fail_all(struct link *link, enum error_code code, const char *message)
{
    struct execution *x;

    while ((x = TAILQ_FIRST(&link->executions)) != NULL) {
        if (!x->over) {
            execution_fail(x, code, 0, message);
        }
        execution_settle(x);
    }
}

void executions_close(struct link *link)
{
    struct execution *x;

    TAILQ_FOREACH(x, &link->executions, listed) {
        if (x->sent) {
            execution_send_kill(x);
            execution_send_forget(x);
        }
    }
    executions_fail_all(link, ERROR_CANCELLED, "the link is closed");
}

void executions_up(struct link *link)
{
    struct execution *x;
    struct execution *next;

    for (x = TAILQ_FIRST(&link->executions); x != NULL; x = next) {
        next = TAILQ_NEXT(x, listed);
        execution_tell(x);
    }
}

/* ---- The public face -------------------------------------------------------------------------- */

static int admit(struct execution *x, const struct execution_request *request, struct error *err)
{
    const struct link *link = x->link;

    if (link->closing) {
        return error_set(err, ERROR_CANCELLED, 0, "the link is closed");
    }
    if (link->phase == PHASE_GONE) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "%s", link->gone.message);
    }
    if (link->silent) {
        return error_set(err, ERROR_NO_ANSWER, 0, "the sandbox does not answer");
    }
    if (link->execution_count >= LINK_MAX_EXECUTIONS) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "too many commands run at once (%u)",
                         LINK_MAX_EXECUTIONS);
    }
    return execution_encode(x, request, err);
}

static void init(struct execution *x, struct link *link, const struct execution_request *request)
{
    uint64_t timeout_ms = request->timeout_ms;

    if (timeout_ms > MAX_TIMEOUT_MS) {
        timeout_ms = MAX_TIMEOUT_MS;
    }
    x->link = link;
    x->id = ++link->execution_serial;
    x->started_ns = uv_hrtime();
    x->timeout_ns = timeout_ms * NS_A_MS;
    x->heard_ms = link_now(link);
    x->keep = request->keep != 0 ? request->keep : MAX_OUTPUT_BYTES;
    x->has_stdin = request->has_stdin;
    x->output = request->output;
    x->room = request->room;
    x->terminal = request->terminal;
    x->rows = request->rows != 0 ? request->rows : DEFAULT_ROWS;
    x->columns = request->columns != 0 ? request->columns : DEFAULT_COLUMNS;
    x->in_shell = request->shell != NULL;
    x->result.exit_code = -1;
    buffer_init(&x->frame, WIRE_HEADER_BYTES + WIRE_MAX_EXEC_PAYLOAD);
    buffer_init(&x->in.bytes, 2 * (EXECUTION_MAX_QUEUED + EXECUTION_MAX_WINDOW));
    buffer_init(&x->result.out[0], x->keep);
    buffer_init(&x->result.out[1], x->keep);
    uv_timer_init(link->loop, &x->timer);
    x->timer.data = x;
    link->handles++;
}

struct execution *execution_start(struct link *link, const struct execution_request *request,
                                  execution_done done, void *arg)
{
    struct execution *x = calloc(1, sizeof *x);
    struct error err;

    assert(!link->closed_handles); /* who is there to answer? */
    if (x == NULL) {
        abort(); /* not even room to say that there is none: no promise could be kept from here on */
    }
    init(x, link, request);
    x->done = done;
    x->arg = arg;
    if (admit(x, request, &err) < 0) {
        decide(x, err.code, err.os_errno, err.message);
        return x;
    }
    TAILQ_INSERT_TAIL(&link->executions, x, listed);
    x->in_list = true;
    link->execution_count++;
    link->running++;
    if (x->timeout_ns != 0 && !x->in_shell) {
        start_deadline(x);
    }
    execution_tell(x);
    link_pulse(link, link_execution_ping_ms(link));
    link_want(link);
    return x;
}

int execution_write(struct execution *x, const void *data, size_t length, bool eof, struct error *err)
{
    size_t waiting;

    if (x->over) {
        return 0; /* nobody reads it any more */
    }
    if (!x->has_stdin || x->eof) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the command's stdin is closed");
    }
    waiting = execution_unread(x);
    if (length > EXECUTION_MAX_QUEUED - waiting) {
        return error_set(err, ERROR_TOO_LARGE, 0, "more than %u bytes wait to be read by the command",
                         EXECUTION_MAX_QUEUED);
    }
    if (buffer_append(&x->in.bytes, data, length) < 0) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory for stdin");
    }
    x->eof = eof;
    execution_pump(x);
    return 0;
}

uint64_t execution_received(const struct execution *x)
{
    return x->received[0] + x->received[1];
}

size_t execution_unread(const struct execution *x)
{
    return fifo_length(&x->in) - (size_t)(x->in_sent - x->in_start);
}

void execution_want_room(struct execution *x)
{
    x->room_wanted = true;
}

void execution_take(struct execution *x, unsigned stream, size_t length)
{
    if (!x->over) {
        assert(length <= x->received[stream] - x->taken[stream]);
        x->taken[stream] += length;
        x->link->credit_due = true;
    }
}

void execution_resize(struct execution *x, uint16_t rows, uint16_t columns)
{
    if (x->over || !x->terminal || rows == 0 || columns == 0) {
        return;
    }
    x->rows = rows;
    x->columns = columns;
    x->resized = true;
    execution_send_size(x);
}

void execution_signal(struct execution *x, int signal)
{
    if (x->over || signal < 1 || signal > 64) {
        return;
    }
    x->signals |= UINT64_C(1) << (signal - 1);
    execution_send_signals(x);
}

void execution_cancel(struct execution *x)
{
    if (x->over || x->cancelled) {
        return;
    }
    x->cancelled = true;
    kill_and_wait(x);
}
