/* File calls that run in this process: encoded and decoded as for the stream, served by the same code
 * (hand/files.h), on a thread of the loop's pool, with no more rights than the sandbox's user has.
 *
 * The kernel would serve them though the sandbox is frozen or half destroyed. So that it never seems
 * to work then, a call is only started while the hand's last sign of life is fresh: the lease. It is renewed
 * ahead of time while calls go on, so that in a busy time none waits for it. */
#include "backends/link_internal.h"

#include <errno.h>

/* What the kernel says of the sandbox's user goes before what the hand says. */
static int take_rights(const struct target *target)
{
    return target->sandbox.rights.known ? files_act_as(&target->sandbox.rights)
                                        : files_limit_thread(target->capabilities);
}

static void serve(uv_work_t *work)
{
    struct call *call = work->data;
    const uint8_t *payload = call->frame.data + WIRE_HEADER_BYTES;

    call->work_errno = 0;
    if (take_rights(call->target) < 0) {
        call->work_errno = errno != 0 ? errno : EPERM;
    } else if (files_serve(call->target->files, payload, call->frame.length - WIRE_HEADER_BYTES,
                           &call->reply) < 0) {
        call->work_errno = ENOMEM;
    }
}

static void served(uv_work_t *work, int status)
{
    struct call *call = work->data;
    struct link *link = call->link;
    struct target *target = call->target;
    struct wire_reply reply;

    link->working--;
    link->works--;
    if (status < 0) { /* taken back before it began: decided already */
        call_break(call, ERROR_CANCELLED, 0, "cancelled");
    } else if (call->work_errno != 0) {
        call_break(call, ERROR_IO, call->work_errno, "the file call could not be run");
    } else if (wire_get_reply(call->reply.data, call->reply.length, call->op, &reply) < 0) {
        call_break(call, ERROR_IO, 0, "the file server's reply makes no sense");
    } else {
        call_finish(call, &reply);
    }
    target_unref(target);
    place_run(link);
    link_reap(link);
}

static void run(struct call *call)
{
    struct link *link = call->link;

    TAILQ_REMOVE(&link->ready, call, queued);
    link->held -= call->frame.length;
    call->state = CALL_WORKING;
    call->owed = true;
    call->target = target_ref(link->target);
    call->work.data = call;
    link->working++;
    link->works++;
    uv_queue_work(link->loop, &call->work, serve, served);
}

/* The lease. Where it is about to run out, a ping asks for the next one. */
static bool may_run(struct link *link, const struct call *call)
{
    uint64_t age;

    if (call->op == WIRE_RELEASE) {
        return true; /* only lets go */
    }
    if (link->phase != PHASE_UP) {
        return false;
    }
    age = link_now(link) - link->heard_ms;
    if (age > LINK_LEASE_MS / 2 && !link->pinged) {
        link_ping(link);
    }
    return age <= LINK_LEASE_MS;
}

void place_run(struct link *link)
{
    struct call *call;

    while (link->working < LINK_MAX_WORKS && (call = TAILQ_FIRST(&link->ready)) != NULL &&
           may_run(link, call)) {
        run(call);
    }
}
