#include "tests/unit/files_link.h"

#include <assert.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <unistd.h>

#include "hand/files.h"

struct call {
    TAILQ_ENTRY(call) entry;
    struct link *link;
    uv_work_t work;
    uv_timer_t timer; /* the deadline, or a turn of the loop */
    enum wire_op op;
    struct buffer request, reply;
    call_done done; /* NULL: answered */
    void *arg;
    bool in_pool, frozen, timed;
    struct error why;
};

struct link {
    uv_loop_t *loop;
    struct files *files;
    struct sandbox sandbox;
    struct link_peer peer;
    enum files_link_mode mode;
    void (*_Atomic before[WIRE_OPS])(void); /* files_link_before() */
    TAILQ_HEAD(, call) calls;
};

static void call_free(uv_handle_t *handle)
{
    struct call *call = handle->data;

    buffer_release(&call->request);
    buffer_release(&call->reply);
    free(call);
}

/* Frees it when both the answer was given and the pool has let go. */
static void let_go(struct call *call)
{
    if (call->done == NULL && !call->in_pool && !uv_is_closing((uv_handle_t *)&call->timer)) {
        TAILQ_REMOVE(&call->link->calls, call, entry);
        uv_close((uv_handle_t *)&call->timer, call_free);
    }
}

static void answer(struct call *call, const struct error *err, const struct wire_reply *reply)
{
    call_done done = call->done;

    call->done = NULL;
    uv_timer_stop(&call->timer);
    if (done != NULL) {
        done(call->arg, err, reply);
    }
    let_go(call);
}

static void fail_now(uv_timer_t *timer)
{
    struct call *call = timer->data;

    answer(call, &call->why, NULL);
}

/* From the loop's next turn, or in `ms`. */
static void fail_in(struct call *call, enum error_code code, const char *message, uint64_t ms)
{
    error_set(&call->why, code, 0, "%s", message);
    uv_timer_start(&call->timer, fail_now, ms, 0);
}

static void serve(uv_work_t *work)
{
    struct call *call = work->data;
    void (*before)(void) = atomic_load(&call->link->before[call->op]);

    if (before != NULL) {
        before();
    }
    if (files_serve(call->link->files, call->request.data, call->request.length, &call->reply) < 0) {
        buffer_clear(&call->reply);
    }
}

static void served(uv_work_t *work, int status __attribute__((unused)))
{
    struct call *call = work->data;
    struct wire_reply reply = {0};
    struct error err;

    call->in_pool = false;
    if (call->done == NULL) { /* cancelled: what it opened is closed again */
        if (wire_get_reply(call->reply.data, call->reply.length, call->op, &reply) == 0 &&
            reply.code == ERROR_NONE && reply.handle != 0) {
            struct wire_call release = {.op = WIRE_RELEASE, .ref = {.handle = reply.handle}};
            struct buffer bytes = BUFFER_INIT(WIRE_MAX_PAYLOAD);

            buffer_clear(&call->reply);
            assert(wire_put_call(&bytes, &release) == 0);
            assert(files_serve(call->link->files, bytes.data, bytes.length, &call->reply) == 0);
            buffer_release(&bytes);
        }
        let_go(call);
    } else if (wire_get_reply(call->reply.data, call->reply.length, call->op, &reply) < 0) {
        error_set(&err, ERROR_IO, 0, "not a reply");
        answer(call, &err, NULL);
    } else if (reply.code != ERROR_NONE) {
        error_set(&err, reply.code, (int)reply.os_errno, "%.*s", (int)reply.message.length,
                  reply.message.data);
        answer(call, &err, NULL);
    } else {
        answer(call, NULL, &reply);
    }
}

static void begin(struct call *call)
{
    call->frozen = false;
    if (call->link->mode == FILES_LINK_GONE) {
        fail_in(call, ERROR_SANDBOX_GONE, "the sandbox is gone", 0);
    } else if (call->link->mode == FILES_LINK_FROZEN) {
        call->frozen = true;
    } else {
        call->in_pool = true;
        call->work.data = call;
        uv_queue_work(call->link->loop, &call->work, serve, served);
    }
}

struct call *link_call(struct link *link, const struct wire_call *request, uint64_t timeout_ms,
                       call_done done, void *arg)
{
    struct call *call = calloc(1, sizeof *call);

    assert(call != NULL);
    call->link = link;
    call->op = request->op;
    call->done = done;
    call->arg = arg;
    buffer_init(&call->request, WIRE_MAX_PAYLOAD);
    buffer_init(&call->reply, WIRE_MAX_PAYLOAD);
    TAILQ_INSERT_TAIL(&link->calls, call, entry);
    uv_timer_init(link->loop, &call->timer);
    call->timer.data = call;
    if (wire_put_call(&call->request, request) < 0) {
        fail_in(call, ERROR_BAD_REQUEST, "not a call", 0);
        return call;
    }
    fail_in(call, ERROR_NO_ANSWER, "no answer",
            timeout_ms > 0 ? timeout_ms : LINK_DEFAULT_TIMEOUT_MS);
    begin(call);
    return call;
}

void call_cancel(struct call *call)
{
    fail_in(call, ERROR_CANCELLED, "cancelled", 0);
}

void files_link_set(struct link *link, enum files_link_mode mode)
{
    struct call *call;

    link->mode = mode;
    TAILQ_FOREACH(call, &link->calls, entry)
    {
        if (call->frozen && call->done != NULL) {
            begin(call);
        }
    }
}

void files_link_before(struct link *link, enum wire_op op, void (*what)(void))
{
    atomic_store(&link->before[op], what);
}

bool files_link_waits_for(const struct link *link, enum wire_op op)
{
    const struct call *call;

    TAILQ_FOREACH(call, &link->calls, entry)
    {
        if (call->op == op && call->frozen && call->done != NULL) {
            return true;
        }
    }
    return false;
}

enum link_state link_state(const struct link *link)
{
    return link->mode == FILES_LINK_GONE ? LINK_GONE : LINK_UP;
}

const struct sandbox *link_sandbox(const struct link *link)
{
    return &link->sandbox;
}

const struct link_peer *link_peer(const struct link *link)
{
    return link->mode == FILES_LINK_GONE ? NULL : &link->peer;
}

struct link *files_link_new(uv_loop_t *loop, const char *root, const char *inside)
{
    struct link *link = calloc(1, sizeof *link);
    int fd = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct error err;

    assert(link != NULL && fd >= 0);
    link->loop = loop;
    TAILQ_INIT(&link->calls);
    link->sandbox.workdir = strdup(inside);
    link->peer = (struct link_peer){.uid = geteuid(), .gid = getegid(), .in_process = true};
    assert(files_new(&link->files, fd, inside, &err) == 0);
    close(fd);
    return link;
}

void files_link_free(struct link *link)
{
    files_free(link->files);
    free(link->sandbox.workdir);
    free(link);
}
