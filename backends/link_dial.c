/* How a stream comes to be, and what happens when it goes.
 *
 * APART -> DIALING -> GREETING -> PLACING -> UP, and from each of them back to BACKOFF, from where it
 * starts again, for as long as somebody needs it; while nobody does, only LINK_IDLE_ATTEMPTS are made,
 * enough to learn whether the sandbox is gone. An attempt that was given up (another sandbox was adopted,
 * the link was closed) finds when it comes back that it is no more the link's. */
#include "backends/link_internal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/clock.h"
#include "sandbox/log.h"

/* One turn of the thread pool: to connect, or to open the root and start a file server over it. */
struct attempt {
    uv_work_t work;
    struct link *link;
    struct target *target;
    uint64_t deadline_ms;
    int result;
    int fd;
    struct files *files;
    struct error err;
};

static void dial(struct link *link);

static bool needed(const struct link *link)
{
    return !TAILQ_EMPTY(&link->waiting) || !TAILQ_EMPTY(&link->ready) || link->running > 0 ||
           link->silent;
}

static void redial(uv_timer_t *timer)
{
    dial(timer->data);
}

static void back_off(struct link *link, uint64_t delay_ms)
{
    link->phase = PHASE_BACKOFF;
    uv_timer_start(&link->dial, redial, delay_ms, 0);
}

/* It did not work out this time. */
static void retry(struct link *link, const struct error *err)
{
    link->why = *err;
    log_trace("link %s: %s", link->target->sandbox.session, err->message);
    link_defer(link);
    if (!needed(link) && ++link->idle_attempts > LINK_IDLE_ATTEMPTS) {
        link->phase = PHASE_APART;
        return;
    }
    back_off(link, link->backoff_ms); /* at once for the first time */
    link->backoff_ms = link->backoff_ms == 0 ? LINK_BACKOFF_MIN_MS : link->backoff_ms * 2;
    if (link->backoff_ms > LINK_BACKOFF_MAX_MS) {
        link->backoff_ms = LINK_BACKOFF_MAX_MS;
    }
}

/* ---- In the pool ------------------------------------------------------------------------------ */

static void queue(struct link *link, struct attempt *attempt, uv_work_cb work, uv_after_work_cb after)
{
    attempt->link = link;
    attempt->target = target_ref(link->target);
    attempt->target->in_pool = true;
    attempt->fd = -1;
    attempt->work.data = attempt;
    link->attempt = attempt;
    link->works++;
    uv_queue_work(link->loop, &attempt->work, work, after);
}

/* The attempt is back: true where the link still waits for it. The attempt is freed by the caller. */
static bool back(struct attempt *attempt)
{
    struct link *link = attempt->link;
    bool ours = link->attempt == attempt;

    attempt->target->in_pool = false;
    if (ours) {
        link->attempt = NULL;
    }
    return ours && !link->closing;
}

static void end_attempt(struct attempt *attempt)
{
    struct link *link = attempt->link;

    if (attempt->fd >= 0) {
        close(attempt->fd);
    }
    target_unref(attempt->target);
    free(attempt);
    link->works--;
    link_reap(link);
}

static void connect_work(uv_work_t *work)
{
    struct attempt *attempt = work->data;

    (void)!files_limit_thread(UINT64_MAX); /* what an earlier file call gave up */
    attempt->result =
        sandbox_connect(&attempt->target->sandbox, attempt->deadline_ms, &attempt->fd, &attempt->err);
    if (attempt->result < 0) {
        attempt->fd = -1;
    }
}

static void greeting_late(uv_timer_t *timer)
{
    struct error err;

    error_set(&err, ERROR_NO_ANSWER, 0, "the hand does not answer the greeting");
    link_lost(timer->data, &err);
}

/* Connected: says hello. */
static int greet(struct link *link, int fd, struct error *err)
{
    struct wire_hello hello;
    struct ucred creds;
    socklen_t length = sizeof creds;
    struct buffer *out;
    size_t frame;
    int domain = 0;

    if (stream_open(link, fd, err) < 0) {
        return -1;
    }
    link->has_peer_creds = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &creds, &length) == 0;
    length = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) < 0 || domain != AF_UNIX) {
        link->has_peer_creds = false;
    }
    link->peer_uid = link->has_peer_creds ? creds.uid : 0;
    link->peer_gid = link->has_peer_creds ? creds.gid : 0;
    memcpy(hello.client, link->target->client, sizeof hello.client);
    out = &link->stream->out.bytes;
    frame = wire_begin_frame(out, WIRE_HELLO, 0);
    if (frame == SIZE_MAX || wire_put_hello(out, &hello) < 0) {
        stream_close(link->stream);
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory for the greeting");
    }
    wire_end_frame(out, frame);
    link->phase = PHASE_GREETING;
    uv_timer_start(&link->dial, greeting_late, LINK_CONNECT_TIMEOUT_MS, 0);
    return 0;
}

static void connected(uv_work_t *work, int status)
{
    struct attempt *attempt = work->data;
    struct link *link = attempt->link;
    struct error err = attempt->err;
    int fd = attempt->fd;

    (void)status;
    if (back(attempt)) {
        attempt->fd = -1;
        if (attempt->result < 0 && err.code == ERROR_SANDBOX_GONE) {
            link_gone(link, &err);
        } else {
            calls_give_up_lost(link);
            if (attempt->result < 0 || greet(link, fd, &err) < 0) {
                retry(link, &err);
            }
        }
    }
    end_attempt(attempt);
}

static void dial(struct link *link)
{
    struct attempt *attempt;
    struct error err;

    if (link->target->in_pool) {
        back_off(link, LINK_BACKOFF_MIN_MS);
        return;
    }
    attempt = calloc(1, sizeof *attempt);
    if (attempt == NULL) {
        error_set(&err, ERROR_NO_MEMORY, 0, "out of memory to connect");
        retry(link, &err);
        return;
    }
    link->phase = PHASE_DIALING;
    attempt->deadline_ms = clock_now_ms() + LINK_CONNECT_TIMEOUT_MS;
    queue(link, attempt, connect_work, connected);
}

void link_dial_now(struct link *link)
{
    uv_timer_stop(&link->dial);
    dial(link);
}

void link_want(struct link *link)
{
    if (link->phase == PHASE_APART && !link->closing) {
        link_dial_now(link);
    }
}

/* ---- Greeting and placement ------------------------------------------------------------------- */

static void up(struct link *link)
{
    link->phase = PHASE_UP;
    link->up_ms = uv_now(link->loop);
    link->peer.in_process = link->target->files != NULL;
    if (link->peer.in_process && link->has_peer_creds) {
        link->peer.uid = link->peer_uid;
        link->peer.gid = link->peer_gid;
    }
    executions_up(link);
    calls_up(link);
    link_defer(link);
}

static void place_work(uv_work_t *work)
{
    struct attempt *attempt = work->data;
    struct sandbox *sandbox = &attempt->target->sandbox;

    (void)!files_limit_thread(UINT64_MAX);
    attempt->result = sandbox_open_root(sandbox, &attempt->fd, &attempt->err);
    if (attempt->result == 0 && attempt->fd >= 0) {
        attempt->result =
            files_new(&attempt->files, attempt->fd, sandbox->workdir, &attempt->err);
    }
}

static void placed(uv_work_t *work, int status)
{
    struct attempt *attempt = work->data;
    struct link *link = attempt->link;
    struct target *target = attempt->target;
    bool ours = back(attempt);

    (void)status;
    if (attempt->result < 0) {
        log_trace("link %s: file calls go over the stream: %s", target->sandbox.session,
                  attempt->err.message);
        attempt->files = NULL;
    }
    target->files = attempt->files; /* freed with the target, wanted or not */
    target->placed = true;
    if (ours && link->phase == PHASE_PLACING) {
        up(link);
    }
    end_attempt(attempt);
}

static void place(struct link *link)
{
    struct attempt *attempt = NULL;

    if (!link->target->placed && link->options.placement == LINK_PLACE_AUTO) {
        attempt = calloc(1, sizeof *attempt);
    }
    if (attempt == NULL) {
        link->target->placed = true;
        up(link);
        return;
    }
    link->phase = PHASE_PLACING;
    queue(link, attempt, place_work, placed);
}

/* Copies a short text that the hand gave, as far as it is printable. */
static void copy_text(char to[64], const struct wire_text *text)
{
    size_t length = text->length < 63 ? text->length : 63;

    for (size_t i = 0; i < length; i++) {
        to[i] = text->data[i] >= ' ' && text->data[i] <= '~' ? text->data[i] : '?';
    }
    to[length] = '\0';
}

void link_welcome(struct link *link, const uint8_t *payload, size_t length)
{
    struct target *target = link->target;
    struct wire_welcome w;
    struct error err;

    if (link->phase != PHASE_GREETING || wire_get_welcome(payload, length, &w) < 0) {
        error_set(&err, ERROR_IO, 0, "the hand's greeting makes no sense");
        link_lost(link, &err);
        return;
    }
    uv_timer_stop(&link->dial);
    if (target->met && memcmp(target->instance, w.instance, sizeof w.instance) != 0) {
        error_set(&err, ERROR_SANDBOX_GONE, 0, "the sandbox was replaced by another one");
        link_gone(link, &err);
        return;
    }
    memcpy(target->instance, w.instance, sizeof w.instance);
    target->met = true;
    target->capabilities = w.capabilities;
    link->peer = (struct link_peer){.uid = w.uid, .gid = w.gid};
    copy_text(link->peer.version, &w.version);
    copy_text(link->peer.machine, &w.machine);
    place(link);
}

void link_refuse(struct link *link, const uint8_t *payload, size_t length)
{
    struct wire_reader r = {payload, length, false};
    struct error err;
    size_t text_length;
    const uint8_t *text;

    (void)wire_get_u16(&r);
    text = wire_get_bytes(&r, ERROR_MESSAGE_MAX, &text_length);
    error_set(&err, ERROR_IO, 0, "the hand refuses to serve: %.*s", (int)text_length,
              (const char *)text);
    link_lost(link, &err);
}

/* ---- Loss ------------------------------------------------------------------------------------- */

static void drop_stream(struct link *link)
{
    uv_timer_stop(&link->dial);
    link->heard_before_ms = link->heard_ms;
    if (link->stream != NULL) {
        stream_close(link->stream);
    }
    calls_lost(link);
}

void link_lost(struct link *link, const struct error *err)
{
    bool stable = link->phase == PHASE_UP && uv_now(link->loop) - link->up_ms >= LINK_STABLE_MS;

    drop_stream(link);
    if (link->closing || link->phase == PHASE_GONE) {
        return;
    }
    link->attempt = NULL; /* a placement under way ends on its own */
    if (!stable) {
        retry(link, err);
        return;
    }
    link->why = *err;
    link->backoff_ms = 0;
    link->idle_attempts = 0;
    link_dial_now(link);
    link_defer(link);
}

void link_gone(struct link *link, const struct error *err)
{
    if (link->phase == PHASE_GONE) {
        return;
    }
    link->why = link->gone = *err;
    link->why.code = link->gone.code = ERROR_SANDBOX_GONE;
    link->attempt = NULL;
    link->phase = PHASE_GONE;
    executions_fail_all(link, ERROR_SANDBOX_GONE, link->gone.message);
    calls_fail_all(link, ERROR_SANDBOX_GONE, link->gone.message);
    drop_stream(link);
    uv_timer_stop(&link->pulse);
    link->pulse_ms = 0;
    link_defer(link);
}
