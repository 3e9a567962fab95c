#include "backends/link_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "sandbox/log.h"

/* ---- One sandbox ------------------------------------------------------------------------------ */

struct target *target_new(struct link *link, struct sandbox *sandbox)
{
    struct target *target = calloc(1, sizeof *target);

    if (target == NULL || getrandom(target->client, sizeof target->client, 0) < 0) {
        free(target);
        sandbox_release(sandbox);
        return NULL;
    }
    target->refs = 1;
    target->link = link;
    target->tag = 1 + link->targets++ % ((UINT64_C(1) << (64 - LINK_HANDLE_BITS)) - 1);
    target->sandbox = *sandbox;
    *sandbox = (struct sandbox){0};
    return target;
}

struct target *target_ref(struct target *target)
{
    target->refs++;
    return target;
}

static void target_free(struct target *target)
{
    sandbox_release(&target->sandbox);
    free(target);
}

/* In the pool: unfinished WriteFiles are removed from the disk. */
static void free_files(uv_work_t *work)
{
    struct target *target = work->data;

    (void)!files_limit_thread(UINT64_MAX); /* what an earlier file call gave up */
    files_free(target->files);
}

static void files_freed(uv_work_t *work, int status)
{
    struct target *target = work->data;
    struct link *link = target->link;

    (void)status;
    target_free(target);
    link->works--;
    link_reap(link);
}

void target_unref(struct target *target)
{
    if (target == NULL || --target->refs > 0) {
        return;
    }
    if (target->files == NULL) {
        target_free(target);
        return;
    }
    target->work.data = target;
    target->link->works++;
    uv_queue_work(target->link->loop, &target->work, free_files, files_freed);
}

/* ---- State ------------------------------------------------------------------------------------ */

uint64_t link_now(struct link *link)
{
    uv_update_time(link->loop);
    return uv_now(link->loop);
}

uint64_t link_timeout_ms(const struct link *link)
{
    return link->options.timeout_ms;
}

enum link_state link_state(const struct link *link)
{
    if (link->phase == PHASE_GONE) {
        return LINK_GONE;
    }
    if (link->silent) {
        return LINK_SILENT;
    }
    return link->phase == PHASE_UP ? LINK_UP : LINK_CONNECTING;
}

const struct sandbox *link_sandbox(const struct link *link)
{
    return &link->target->sandbox;
}

const struct link_peer *link_peer(const struct link *link)
{
    enum link_state state = link_state(link);

    return link->target->placed && (state == LINK_UP || state == LINK_SILENT) ? &link->peer : NULL;
}

static void tell_state(struct link *link)
{
    enum link_state state = link_state(link);
    static const char *const names[] = {"connecting", "up", "silent", "gone"};

    if (state == link->told || link->closing) {
        return;
    }
    link->told = state;
    log_trace("link %s: %s%s%s", link->target->sandbox.session, names[state],
              state == LINK_UP ? "" : ": ", state == LINK_UP ? "" : link->why.message);
    if (link->options.state_changed != NULL) {
        link->options.state_changed(link->options.arg, state,
                                    state != LINK_UP && link->why.code != ERROR_NONE ? &link->why
                                                                                     : NULL);
    }
}

/* ---- Signs of life ---------------------------------------------------------------------------- */

void link_heard(struct link *link)
{
    link->heard++;
    link->heard_ms = uv_now(link->loop);
    link->pinged = false;
    if (link->silent) {
        link->silent = false;
        link_defer(link);
    }
}

void link_silent(struct link *link)
{
    if (link->silent || link->phase == PHASE_GONE) {
        return;
    }
    link->silent = true;
    error_set(&link->why, ERROR_NO_ANSWER, 0, "the sandbox does not answer");
    link_ping(link);
    link_pulse(link, LINK_PING_MS);
    link_want(link);
    link_defer(link);
}

void link_ping(struct link *link)
{
    struct buffer *out = link_out(link);

    if (out == NULL || (link->pinged && fifo_length(&link->stream->out) > 0)) {
        return;
    }
    if (wire_put_empty(out, WIRE_PING, 0) == 0) {
        link->pinged = true;
        link->pinged_ms = uv_now(link->loop);
    }
}

uint64_t link_execution_ping_ms(const struct link *link)
{
    uint64_t ms = link_timeout_ms(link) / 6;

    return ms > LINK_EXECUTION_PING_MS ? LINK_EXECUTION_PING_MS : ms < 100 ? 100 : ms;
}

static void beat(uv_timer_t *timer)
{
    struct link *link = timer->data;
    uint64_t now = uv_now(link->loop);
    uint64_t delay;

    link->pulse_ms = 0;
    if (link->phase == PHASE_GONE) {
        return;
    }
    if (executions_silent(link, now)) {
        link_silent(link);
    }
    if (link->silent || link->live > 0) {
        delay = LINK_PING_MS;
    } else if (link->running > 0) {
        delay = link_execution_ping_ms(link);
    } else {
        return;
    }
    if (link->silent || now - link->heard_ms >= delay - delay / 10) {
        link_ping(link);
    }
    link_pulse(link, delay);
}

void link_pulse(struct link *link, uint64_t delay_ms)
{
    uint64_t due = uv_now(link->loop) + delay_ms;

    if (link->closing || (link->pulse_ms != 0 && link->pulse_ms <= due)) {
        return;
    }
    link->pulse_ms = due;
    uv_timer_start(&link->pulse, beat, delay_ms, 0);
}

/* ---- Opening and closing ---------------------------------------------------------------------- */

void link_reap(struct link *link)
{
    void (*closed)(void *arg) = link->closed;
    void *arg = link->closed_arg;

    if (!link->closed_handles || link->handles > 0 || link->works > 0) {
        return;
    }
    for (unsigned i = 0; i < link->fresh; i++) {
        buffer_release(&link->slots[i].frame);
        buffer_release(&link->slots[i].reply);
    }
    free(link->slots);
    free(link);
    if (closed != NULL) {
        closed(arg);
    }
}

void link_handle_closed(uv_handle_t *handle)
{
    struct link *link = handle->data;

    link->handles--;
    link_reap(link);
}

/* Everything is answered: closes what is left on the loop. */
static void close_handles(struct link *link)
{
    uv_handle_t *handles[] = {(uv_handle_t *)&link->idle, (uv_handle_t *)&link->prepare,
                              (uv_handle_t *)&link->deadline, (uv_handle_t *)&link->pulse,
                              (uv_handle_t *)&link->dial};

    link->closed_handles = true;
    for (size_t i = 0; i < sizeof handles / sizeof handles[0]; i++) {
        uv_close(handles[i], link_handle_closed);
    }
    target_unref(link->target);
    link->target = NULL;
}

/* Tells what is due. Stops when there is no more, so that an idle link wakes nobody. */
static void turn(uv_idle_t *idle)
{
    struct link *link = idle->data;

    calls_answer(link);
    executions_answer(link);
    tell_state(link);
    if (!TAILQ_EMPTY(&link->answers) || !TAILQ_EMPTY(&link->execution_answers) ||
        (!link->closing && link->told != link_state(link))) {
        return;
    }
    uv_idle_stop(idle);
    if (link->closing && !link->closed_handles) {
        close_handles(link);
    }
}

void link_defer(struct link *link)
{
    if (!link->closed_handles) {
        uv_idle_start(&link->idle, turn);
    }
}

static void flush(uv_prepare_t *prepare)
{
    struct link *link = prepare->data;

    if (link->stream != NULL) {
        if (link->credit_due) {
            executions_credit(link);
        }
        stream_flush(link->stream);
    }
}

static void init_handles(struct link *link)
{
    uv_idle_init(link->loop, &link->idle);
    uv_prepare_init(link->loop, &link->prepare);
    uv_timer_init(link->loop, &link->deadline);
    uv_timer_init(link->loop, &link->pulse);
    uv_timer_init(link->loop, &link->dial);
    link->idle.data = link->prepare.data = link;
    link->deadline.data = link->pulse.data = link->dial.data = link;
    link->handles = 5;
    uv_prepare_start(&link->prepare, flush);
}

int link_open(struct link **ret, uv_loop_t *loop, struct sandbox *sandbox,
              const struct link_options *options, struct error *err)
{
    struct link *link = calloc(1, sizeof *link);
    struct call *slots = calloc(LINK_MAX_CALLS, sizeof *slots);
    struct target *target;

    if (link == NULL || slots == NULL) {
        sandbox_release(sandbox);
        goto fail;
    }
    target = target_new(link, sandbox);
    if (target == NULL) {
        goto fail;
    }
    link->slots = slots;
    link->loop = loop;
    link->options = *options;
    if (link->options.timeout_ms == 0) {
        link->options.timeout_ms = LINK_DEFAULT_TIMEOUT_MS;
    }
    link->target = target;
    link->told = LINK_CONNECTING;
    TAILQ_INIT(&link->free);
    TAILQ_INIT(&link->waiting);
    TAILQ_INIT(&link->ready);
    TAILQ_INIT(&link->answers);
    TAILQ_INIT(&link->timed);
    TAILQ_INIT(&link->executions);
    TAILQ_INIT(&link->execution_answers);
    init_handles(link);
    link_dial_now(link);
    *ret = link;
    return 0;
fail:
    free(slots);
    free(link);
    return error_set(err, ERROR_NO_MEMORY, 0, "out of memory for a link");
}

void link_close(struct link *link, void (*closed)(void *arg), void *arg)
{
    assert(!link->closing);
    link->closed = closed;
    link->closed_arg = arg;
    executions_close(link);
    link->closing = true;
    if (link->stream != NULL) {
        stream_flush(link->stream);
    }
    calls_fail_all(link, ERROR_CANCELLED, "the link is closed");
    if (link->stream != NULL) {
        stream_close(link->stream);
    }
    uv_timer_stop(&link->dial);
    uv_timer_stop(&link->pulse);
    uv_timer_stop(&link->deadline);
    link->attempt = NULL;
    link_defer(link);
}

void link_adopt(struct link *link, struct sandbox *sandbox)
{
    struct target *target;
    struct error err;

    if (link->closing || (link->phase != PHASE_GONE && sandbox->id != NULL &&
                          sandbox->backend == link->target->sandbox.backend &&
                          strcmp(sandbox->id, link->target->sandbox.id) == 0)) {
        sandbox_release(sandbox); /* nothing to do, or the very same */
        return;
    }
    error_set(&err, ERROR_SANDBOX_GONE, 0, "the session has another sandbox now");
    link_gone(link, &err);
    target = target_new(link, sandbox);
    if (target == NULL) {
        error_set(&link->why, ERROR_SANDBOX_GONE, 0, "out of memory for the session's next sandbox");
        return;
    }
    target_unref(link->target);
    link->target = target;
    link->backoff_ms = 0;
    link->idle_attempts = 0;
    link->silent = false;
    link_dial_now(link);
    link_defer(link);
}
