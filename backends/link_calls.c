/* File calls: who waits for what, and the one answer that each gets.
 *
 * A call has a slot as long as somebody holds on to it. That may be longer than its caller: when the
 * deadline passes or the caller cancels, the call is over and answered, but the hand (or a thread of the
 * pool that hangs in the kernel) still owes something, and only when that comes is the slot free. So a late
 * reply finds its call, and a handle that it brings is released and not leaked; and a reply to
 * anything else is a breach of the rules. */
#include "backends/link_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEEP_FRAME_BYTES 4096  /* memory that a free slot keeps for the next call ... */
#define KEEP_REPLY_BYTES 65536 /* ... of its own; in-process directory listings come again and again */
#define SERIAL_SHIFT 12

_Static_assert(LINK_MAX_CALLS == 1u << SERIAL_SHIFT, "the low bits of an id are a slot");

/* ---- Slots ------------------------------------------------------------------------------------ */

static struct call *take_slot(struct link *link)
{
    struct call *call = TAILQ_FIRST(&link->free);

    if (call != NULL) {
        TAILQ_REMOVE(&link->free, call, queued);
    } else if (link->fresh < LINK_MAX_CALLS) {
        call = &link->slots[link->fresh++];
        buffer_init(&call->frame, WIRE_HEADER_BYTES + WIRE_MAX_PAYLOAD);
        buffer_init(&call->reply, WIRE_MAX_PAYLOAD);
        call->link = link;
    } else {
        return NULL;
    }
    call->id = ++link->serial << SERIAL_SHIFT | (uint64_t)(call - link->slots);
    return call;
}

/* A call that is only there to be refused. */
static struct call *take_overflow(struct link *link)
{
    struct call *call = calloc(1, sizeof *call);

    if (call == NULL) {
        abort(); /* not even room to say that there is none: no promise could be kept from here on */
    }
    call->link = link;
    call->overflow = true;
    return call;
}

static void trim(struct buffer *b, size_t keep)
{
    buffer_clear(b);
    if (b->capacity > keep) {
        buffer_release(b);
    }
}

static void put_slot(struct call *call)
{
    if (call->overflow) {
        free(call);
        return;
    }
    trim(&call->frame, KEEP_FRAME_BYTES);
    trim(&call->reply, KEEP_REPLY_BYTES);
    call->state = CALL_FREE;
    TAILQ_INSERT_HEAD(&call->link->free, call, queued);
}

/* ---- Deadlines -------------------------------------------------------------------------------- */

static void arm_deadline(struct link *link)
{
    const struct call *first = TAILQ_FIRST(&link->timed);
    uint64_t now = uv_now(link->loop);

    if (first == NULL || link->closing) {
        uv_timer_stop(&link->deadline);
        return;
    }
    uv_timer_start(&link->deadline, calls_timer, first->deadline_ms > now ? first->deadline_ms - now : 0,
                   0);
}

/* Most calls have the same patience, so that the place is found at once from the end. */
static void start_deadline(struct call *call, uint64_t timeout_ms)
{
    struct link *link = call->link;
    uint64_t now = link_now(link);
    struct call *before;

    call->deadline_ms = timeout_ms < UINT64_MAX - now ? now + timeout_ms : UINT64_MAX;
    before = TAILQ_LAST(&link->timed, call_list);
    while (before != NULL && before->deadline_ms > call->deadline_ms) {
        before = TAILQ_PREV(before, call_list, timed);
    }
    if (before != NULL) {
        TAILQ_INSERT_AFTER(&link->timed, before, call, timed);
    } else {
        TAILQ_INSERT_HEAD(&link->timed, call, timed);
        arm_deadline(link);
    }
}

static void stop_deadline(struct call *call)
{
    struct link *link = call->link;
    bool first = TAILQ_FIRST(&link->timed) == call;

    TAILQ_REMOVE(&link->timed, call, timed);
    if (first) {
        arm_deadline(link);
    }
}

void calls_timer(uv_timer_t *timer)
{
    struct link *link = timer->data;
    uint64_t now = uv_now(link->loop);
    struct call *call;

    while ((call = TAILQ_FIRST(&link->timed)) != NULL && call->deadline_ms <= now) {
        if (call->heard == link->heard) {
            link_silent(link);
        }
        call_fail(call, ERROR_NO_ANSWER, 0, "the sandbox did not answer in time");
    }
    arm_deadline(link);
}

/* ---- The end of a call ------------------------------------------------------------------------ */

/* The hand need not begin with it. */
static void send_cancel(struct call *call)
{
    struct buffer *out = link_out(call->link);

    if (out != NULL) {
        (void)!wire_put_empty(out, WIRE_CANCEL, call->id);
    }
}

/* Nobody waits for the call any more. */
static void leave(struct call *call)
{
    struct link *link = call->link;

    call->over = true;
    link->live--;
    stop_deadline(call);
    switch (call->state) {
    case CALL_WAITING:
        TAILQ_REMOVE(&link->waiting, call, queued);
        link->held -= call->frame.length;
        break;
    case CALL_READY:
        TAILQ_REMOVE(&link->ready, call, queued);
        link->held -= call->frame.length;
        break;
    default:
        break;
    }
}

static void push_answer(struct call *call, enum error_code code, int os_errno, const char *message)
{
    call->code = code;
    call->os_errno = os_errno;
    call->message = message;
    TAILQ_INSERT_TAIL(&call->link->answers, call, queued);
    link_defer(call->link);
}

void call_fail(struct call *call, enum error_code code, int os_errno, const char *message)
{
    assert(!call->over);
    leave(call);
    if (call->owed && call->state == CALL_SENT) {
        send_cancel(call);
    } else if (call->owed) {
        (void)uv_cancel((uv_req_t *)&call->work); /* comes back in any case */
    }
    push_answer(call, code, os_errno, message);
}

static void answer(struct call *call)
{
    struct error err;
    call_done done = call->done;
    void *arg = call->arg;

    error_set(&err, call->code, call->os_errno, "%s", call->message);
    call->done = NULL;
    if (!call->owed) {
        put_slot(call);
    }
    done(arg, &err, NULL);
}

void calls_answer(struct link *link)
{
    struct call_list due = TAILQ_HEAD_INITIALIZER(due);
    struct call *call;

    TAILQ_CONCAT(&due, &link->answers, queued); /* what callers start now has its turn later */
    while ((call = TAILQ_FIRST(&due)) != NULL) {
        TAILQ_REMOVE(&due, call, queued);
        answer(call);
    }
}

/* The codes that a hand may give. The rest is ours to find out: a sandbox is not gone because it says so. */
static enum error_code believable(enum error_code code)
{
    switch (code) {
    case ERROR_SANDBOX_GONE:
    case ERROR_NO_ANSWER:
    case ERROR_SPEC_MISMATCH:
    case ERROR_CANCELLED:
        return ERROR_IO;
    default:
        return code;
    }
}

/* A late one: nobody waits, but what it opened is open. */
static void finish_late(struct call *call, const struct wire_reply *reply, bool same_target)
{
    struct link *link = call->link;
    bool answered = call->done == NULL;

    if (reply->code == ERROR_NONE && reply->handle != 0 && same_target) {
        link_release_handle(link, reply->handle);
    }
    if (answered) {
        put_slot(call);
    }
}

void call_finish(struct call *call, struct wire_reply *reply)
{
    struct link *link = call->link;
    bool same_target = call->target == NULL || call->target == link->target;
    call_done done = call->done;
    struct error err;

    call->owed = false;
    if (reply->handle >> LINK_HANDLE_BITS != 0) {
        *reply = (struct wire_reply){.code = ERROR_IO, .message = {"an odd handle", 13}};
    } else if (reply->handle != 0 && same_target) {
        reply->handle |= link->target->tag << LINK_HANDLE_BITS;
    }
    if (call->over) {
        finish_late(call, reply, same_target);
        return;
    }
    leave(call);
    call->done = NULL;
    if (reply->code == ERROR_NONE) {
        done(call->arg, NULL, reply);
    } else {
        error_set(&err, believable(reply->code), (int)reply->os_errno, "%.*s",
                  (int)reply->message.length, reply->message.data);
        done(call->arg, &err, NULL);
    }
    put_slot(call);
}

void call_break(struct call *call, enum error_code code, int os_errno, const char *message)
{
    call->owed = false;
    if (!call->over) {
        call_fail(call, code, os_errno, message);
    } else if (call->done == NULL) {
        put_slot(call);
    }
}

/* ---- All of them ------------------------------------------------------------------------------ */

int calls_result(struct link *link, uint64_t id, const uint8_t *payload, size_t length)
{
    unsigned slot = (unsigned)(id & (LINK_MAX_CALLS - 1));
    struct call *call = &link->slots[slot];
    struct wire_reply reply;

    if (slot >= link->fresh || call->id != id || call->state != CALL_SENT || !call->owed ||
        wire_get_reply(payload, length, call->op, &reply) < 0) {
        return -1;
    }
    call_finish(call, &reply);
    return 0;
}

void calls_lost(struct link *link)
{
    for (unsigned i = 0; i < link->fresh; i++) {
        struct call *call = &link->slots[i];

        if (call->state != CALL_SENT || !call->owed) {
            continue;
        }
        call->owed = false;
        if (!call->over) {
            call->state = CALL_LOST;
        } else if (call->done == NULL) {
            put_slot(call);
        }
    }
}

void calls_give_up_lost(struct link *link)
{
    for (unsigned i = 0; i < link->fresh; i++) {
        struct call *call = &link->slots[i];

        if (call->state == CALL_LOST && !call->over) {
            call_fail(call, ERROR_IO, 0, "the stream to the sandbox broke");
        }
    }
}

void calls_fail_all(struct link *link, enum error_code code, const char *message)
{
    struct call *call;

    while ((call = TAILQ_FIRST(&link->timed)) != NULL) {
        call_fail(call, code, 0, message);
    }
}

/* ---- The start of a call ---------------------------------------------------------------------- */

/* From a handle as told to a handle of the hand's. False where it is another sandbox's. */
static bool untag(const struct link *link, uint64_t *handle)
{
    if (*handle == 0) {
        return true;
    }
    if (*handle >> LINK_HANDLE_BITS != link->target->tag) {
        return false;
    }
    *handle &= (UINT64_C(1) << LINK_HANDLE_BITS) - 1;
    return *handle != 0;
}

static int refuse(struct error *err, const struct wire_call *wire)
{
    static const char *const bad = "a name or path that no file can have";

    if (wire->ref.path.length > WIRE_MAX_PATH || wire->ref2.path.length > WIRE_MAX_PATH ||
        wire->name.length > WIRE_MAX_NAME || wire->name2.length > WIRE_MAX_NAME) {
        return error_set_errno(err, ENAMETOOLONG, "a name or path");
    }
    return error_set(err, ERROR_BAD_REQUEST, 0, "%s", bad);
}

/* Appends the frame, or nothing. What the hand would not take is found out here, by the same rules. */
static int encode(const struct call *call, const struct wire_call *wire, struct buffer *out,
                  struct error *err)
{
    struct wire_call with = *wire;
    struct wire_call checked;
    size_t frame = wire_begin_frame(out, WIRE_CALL, call->id);
    size_t payload = frame + WIRE_HEADER_BYTES;

    if (frame == SIZE_MAX) {
        return error_set(err, ERROR_NO_MEMORY, 0, "too much waits to be sent");
    }
    if (!untag(call->link, &with.ref.handle) || !untag(call->link, &with.ref2.handle)) {
        out->length = frame;
        return error_set_errno(err, ESTALE, "a handle of an earlier sandbox");
    }
    if (wire_put_call(out, &with) < 0) {
        out->length = frame;
        return error_set(err, ERROR_NO_MEMORY, 0, "too much waits to be sent");
    }
    if (wire_get_call(out->data + payload, out->length - payload, &checked) < 0) {
        out->length = frame;
        return refuse(err, wire);
    }
    wire_end_frame(out, frame);
    return 0;
}

/* The call waits in one of the two queues, encoded. */
static int hold(struct call *call, const struct wire_call *wire, enum call_state state,
                struct error *err)
{
    struct link *link = call->link;

    if (link->held > LINK_MAX_HELD) {
        return error_set(err, ERROR_NO_MEMORY, 0, "too many bytes wait for the sandbox");
    }
    if (encode(call, wire, &call->frame, err) < 0) {
        return -1;
    }
    link->held += call->frame.length;
    call->state = state;
    if (state == CALL_WAITING) {
        TAILQ_INSERT_TAIL(&link->waiting, call, queued);
    } else if (call->op == WIRE_RELEASE) { /* needs no sign of life, so it waits for none */
        TAILQ_INSERT_HEAD(&link->ready, call, queued);
    } else {
        TAILQ_INSERT_TAIL(&link->ready, call, queued);
    }
    return 0;
}

static int send_now(struct call *call, const struct wire_call *wire, struct error *err)
{
    if (encode(call, wire, link_out(call->link), err) < 0) {
        return -1;
    }
    call->state = CALL_SENT;
    call->owed = true;
    return 0;
}

static int start(struct call *call, const struct wire_call *wire, struct error *err)
{
    struct link *link = call->link;

    if (link->closing) {
        return error_set(err, ERROR_CANCELLED, 0, "the link is closed");
    }
    if (call->overflow) {
        return error_set(err, ERROR_NO_MEMORY, 0, "too many calls are in flight");
    }
    if (link->phase == PHASE_GONE) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "%s", link->gone.message);
    }
    if (link->silent && wire->op != WIRE_RELEASE) {
        return error_set(err, ERROR_NO_ANSWER, 0, "the sandbox does not answer");
    }
    if (link->target->placed && link->target->files != NULL) {
        return hold(call, wire, CALL_READY, err);
    }
    return link_out(link) != NULL ? send_now(call, wire, err) : hold(call, wire, CALL_WAITING, err);
}

/* Answers from the list need texts that stay. */
static const char *lasting_text(const struct link *link, const struct error *err)
{
    switch (err->code) {
    case ERROR_SANDBOX_GONE:
        return link->gone.message;
    case ERROR_CANCELLED:
        return "the link is closed";
    case ERROR_NO_ANSWER:
        return "the sandbox does not answer";
    case ERROR_NO_MEMORY:
        return "too many calls wait for the sandbox";
    case ERROR_ERRNO:
        return err->os_errno == ESTALE ? "a handle of an earlier sandbox"
                                       : "a name or path is too long";
    default:
        return "a name or path that no file can have, or too much data";
    }
}

struct call *link_call(struct link *link, const struct wire_call *wire, uint64_t timeout_ms,
                       call_done done, void *arg)
{
    struct call *call = take_slot(link);
    struct error err;

    assert(wire->op > 0 && wire->op < WIRE_OPS);
    assert(!link->closed_handles); /* who is there to answer? */
    if (call == NULL) {
        call = take_overflow(link);
    }
    call->state = CALL_REFUSED;
    call->over = call->owed = false;
    call->op = wire->op;
    call->heard = link->heard;
    call->done = done;
    call->arg = arg;
    call->target = NULL;
    if (start(call, wire, &err) < 0) {
        call->over = true;
        push_answer(call, err.code, err.os_errno, lasting_text(link, &err));
        return call;
    }
    link->live++;
    start_deadline(call, timeout_ms != 0 ? timeout_ms : link_timeout_ms(link));
    link_pulse(link, LINK_PING_MS);
    if (call->state == CALL_READY) {
        place_run(link);
    }
    if (call->state != CALL_SENT) {
        link_want(link);
    }
    return call;
}

void call_cancel(struct call *call)
{
    if (!call->over) {
        call_fail(call, ERROR_CANCELLED, 0, "cancelled");
    }
}

static void released(void *arg, const struct error *err, const struct wire_reply *reply)
{
    (void)arg;
    (void)err;
    (void)reply;
}

void link_release_handle(struct link *link, uint64_t handle)
{
    struct wire_call release = {.op = WIRE_RELEASE, .ref = {.handle = handle}};

    if (!link->closing && link->phase != PHASE_GONE) {
        link_call(link, &release, 0, released, NULL);
    }
}

/* ---- The link is up --------------------------------------------------------------------------- */

static void send_held(struct call *call)
{
    struct buffer *out = link_out(call->link);

    TAILQ_REMOVE(&call->link->waiting, call, queued);
    call->link->held -= call->frame.length;
    call->state = CALL_SENT;
    if (out == NULL || buffer_append(out, call->frame.data, call->frame.length) < 0) {
        call_fail(call, ERROR_NO_MEMORY, 0, "too much waits to be sent");
        return;
    }
    call->owed = true;
    trim(&call->frame, KEEP_FRAME_BYTES);
}

void calls_up(struct link *link)
{
    struct call *call;

    while ((call = TAILQ_FIRST(&link->waiting)) != NULL) {
        if (link->target->files == NULL) {
            send_held(call);
            continue;
        }
        TAILQ_REMOVE(&link->waiting, call, queued);
        call->state = CALL_READY;
        TAILQ_INSERT_TAIL(&link->ready, call, queued);
    }
    place_run(link);
}
