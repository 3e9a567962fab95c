/* How the parts come and go.
 *
 * Start: the link connects; once the sandbox has answered, the gateway listens, the file system is mounted,
 * the registry is told, and then whoever waits for us. What fails on the way is taken back.
 *
 * End, in the order of who needs whom: the file system first (it commits through the link, and its control
 * files use the gateway), then the gateway (its barriers use the file system only while there is one), then
 * the link, then our own handles, and the loop is empty. Whatever hangs on the way is cut short by a timer.
 *
 * A part is never closed from inside one of its own calls back: a step is put off to the next turn of the
 * loop. */
#include "mount/serve.h"

#include <assert.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <uv.h>

#include "backends/link.h"
#include "exec/gateway.h"
#include "fs/fs.h"
#include "hand/files.h"
#include "mount/mountinfo.h"
#include "mount/mounts.h"
#include "mount/verbs.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "sandbox/log.h"

enum serve_phase { SERVE_STARTING, SERVE_RUNNING, SERVE_ENDING };

#define SIGNALS 3
static const int ending_signals[SIGNALS] = {SIGTERM, SIGINT, SIGHUP};

struct server {
    const struct mount_plan *plan;
    enum serve_phase phase;
    serve_ready ready;
    void *ready_arg;
    int exit_code;

    uv_loop_t loop;
    uv_signal_t signals[SIGNALS];
    uv_timer_t limit; /* of the start, then of the end */
    uv_timer_t turn;  /* puts `next` off to the loop's next turn */
    void (*next)(struct server *server);
    struct error why; /* with fail(): what `ready` is told */

    struct link *link;
    struct fs *fs;
    struct gateway *gateway;
    unsigned works; /* of ours in the thread pool */
};

/* ---- The end -------------------------------------------------------------------------------- */

static void forget_handle(uv_handle_t *handle)
{
    (void)handle; /* it lies in the server */
}

static void close_handles(struct server *server)
{
    for (size_t i = 0; i < SIGNALS; i++) {
        uv_close((uv_handle_t *)&server->signals[i], forget_handle);
    }
    uv_close((uv_handle_t *)&server->limit, forget_handle);
    uv_close((uv_handle_t *)&server->turn, forget_handle);
}

static void end_step(void *arg)
{
    struct server *server = arg;

    if (server->fs != NULL) {
        fs_close(take_ptr(server->fs), end_step, server);
    } else if (server->works > 0) {
        log_trace("waiting for %u calls of the backend", server->works); /* each comes back here */
    } else if (server->gateway != NULL) {
        gateway_close(take_ptr(server->gateway), end_step, server);
    } else if (server->link != NULL) {
        link_close(take_ptr(server->link), end_step, server);
    } else {
        close_handles(server);
    }
}

/* Something hangs: leaves nothing behind that can be taken away without it. */
static void end_by_force(uv_timer_t *timer)
{
    const struct server *server = timer->data;
    struct error err = {0};

    log_error("%s: not everything ended within %d s; leaving", server->plan->mountpoint,
              SERVE_END_MS / 1000);
    if (unmount_stale(server->plan->mountpoint, true, &err) < 0) {
        log_error("%s", err.message);
    }
    unlink(server->plan->socket);
    mounts_withdraw(server->plan->mountpoint, server->plan->claim);
    _exit(EXIT_FAILURE);
}

static void begin_end(struct server *server, int exit_code)
{
    if (server->phase == SERVE_ENDING) {
        return;
    }
    server->phase = SERVE_ENDING;
    server->exit_code = exit_code;
    uv_timer_stop(&server->turn);
    uv_timer_start(&server->limit, end_by_force, SERVE_END_MS, 0);
    end_step(server);
}

static void end_well(struct server *server)
{
    begin_end(server, EXIT_DONE);
}

static void run_next(uv_timer_t *timer)
{
    struct server *server = timer->data;

    server->next(server);
}

/* Runs `next` in the loop's next turn. What is put off later replaces what was before: only the start and
 * the end use it, and the end comes last. */
static void put_off(struct server *server, void (*next)(struct server *server))
{
    if (server->phase != SERVE_ENDING) {
        server->next = next;
        uv_timer_start(&server->turn, run_next, 0, 0);
    }
}

static void unmounted(void *arg)
{
    struct server *server = arg;

    log_info("%s was unmounted", server->plan->mountpoint);
    put_off(server, end_well);
}

static void fail(struct server *server)
{
    server->ready(server->ready_arg, &server->why);
    begin_end(server, EXIT_FAILED);
}

static void got_signal(uv_signal_t *handle, int number)
{
    struct server *server = handle->data;

    log_info("%s: signal %d, ending", server->plan->mountpoint, number);
    if (server->phase == SERVE_STARTING) {
        error_set(&server->why, ERROR_CANCELLED, 0, "ended by signal %d", number);
        fail(server);
    } else {
        begin_end(server, EXIT_DONE);
    }
}

/* ---- Between the parts ---------------------------------------------------------------------- */

static void barrier_before(void *ctx, void (*then)(void *arg), void *arg)
{
    struct server *server = ctx;
    struct exec_barrier barrier = {0};

    if (server->fs != NULL) {
        barrier = fs_barrier(server->fs);
    }
    if (barrier.before != NULL) {
        barrier.before(barrier.ctx, then, arg);
    } else {
        then(arg);
    }
}

static void barrier_after(void *ctx, void (*then)(void *arg), void *arg)
{
    struct server *server = ctx;
    struct exec_barrier barrier = {0};

    if (server->fs != NULL) {
        barrier = fs_barrier(server->fs);
    }
    if (barrier.after != NULL) {
        barrier.after(barrier.ctx, then, arg);
    } else {
        then(arg);
    }
}

static void *control_exec(void *ctx, const char *request, size_t length,
                          void (*done)(void *arg, const char *text, size_t length), void *arg)
{
    struct server *server = ctx;

    return gateway_exec_start(server->gateway, request, length, done, arg);
}

static void control_cancel(void *ctx, void *token)
{
    (void)ctx;
    gateway_exec_cancel(token);
}

static int control_status(void *ctx, struct buffer *out)
{
    struct server *server = ctx;
    json_t *status = gateway_status(server->gateway);
    cleanup_free char *text = status == NULL ? NULL : json_dumps(status, 0);

    json_decref(status);
    return text == NULL || buffer_append_string(out, text) < 0 ||
                   buffer_append_string(out, "\n") < 0
               ? -1
               : 0;
}

/* ---- What the gateway asks of us ------------------------------------------------------------ */

/* What the gateway cannot know. */
static void put_status(void *ctx, json_t *into)
{
    struct server *server = ctx;
    struct fs_counts counts = {0};
    json_t *fields;

    if (server->fs != NULL) {
        counts = fs_counts(server->fs);
    }
    fields = json_pack("{s:s, s:s, s:i, s:{s:I, s:I, s:I, s:I}}", "mountpoint",
                       server->plan->mountpoint, "socket", server->plan->socket, "pid",
                       (int)getpid(), "files", "requests", (json_int_t)counts.requests, "errors",
                       (json_int_t)counts.errors, "nodes", (json_int_t)counts.nodes, "open",
                       (json_int_t)counts.open_files);
    if (fields != NULL) {
        json_object_update(into, fields);
        json_decref(fields);
    }
}

/* A call of the backend's that blocks, in the thread pool. */
struct backend_work {
    uv_work_t work;
    struct server *server;
    gateway_reply reply;
    void *reply_arg;
    int r;
    struct sandbox sandbox; /* provision's */
    struct error err;
};

/* Takes up the session's running sandbox, and makes one only where there is none. */
static void provision_work(uv_work_t *handle)
{
    struct backend_work *work = (struct backend_work *)handle;
    const struct mount_plan *plan = work->server->plan;

    (void)!files_limit_thread(UINT64_MAX); /* what a file call on this thread gave up */
    work->r = sandbox_attach(plan->backend, plan->session, clock_now_ms() + ATTACH_TIMEOUT_MS,
                             &work->sandbox, &work->err);
    if (work->r == 0 || work->err.code != ERROR_SANDBOX_GONE) {
        return;
    }
    work->r = sandbox_provision(plan->backend, &plan->options->spec,
                                clock_now_ms() + PROVISION_TIMEOUT_MS, &work->sandbox, &work->err);
    if (work->r == 0 && work->sandbox.created) {
        tell_mounts(plan->session, plan->backend->name, plan->mountpoint);
    }
}

static void destroy_work(uv_work_t *handle)
{
    struct backend_work *work = (struct backend_work *)handle;
    const struct mount_plan *plan = work->server->plan;

    (void)!files_limit_thread(UINT64_MAX);
    work->r = sandbox_destroy(plan->backend, plan->session, clock_now_ms() + DESTROY_TIMEOUT_MS,
                              &work->err);
}

static void end_work(struct backend_work *work, json_t *result)
{
    struct server *server = work->server;

    if (work->r < 0) {
        json_decref(result);
        work->reply(work->reply_arg, &work->err, NULL);
    } else {
        work->reply(work->reply_arg, NULL, result);
    }
    sandbox_release(&work->sandbox);
    free(work);
    if (--server->works == 0 && server->phase == SERVE_ENDING) {
        end_step(server);
    }
}

static void provision_done(uv_work_t *handle, int status)
{
    struct backend_work *work = (struct backend_work *)handle;
    struct server *server = work->server;
    json_t *result = NULL;

    (void)status; /* never cancelled */
    if (work->r == 0) {
        const struct sandbox *now = link_sandbox(server->link);

        result = json_pack("{s:s, s:s, s:s, s:b}", "session", work->sandbox.session, "id",
                           work->sandbox.id, "backend", work->sandbox.backend->name, "created",
                           (int)work->sandbox.created);
        if (now->id == NULL || strcmp(now->id, work->sandbox.id) != 0) {
            log_info("%s: goes on with sandbox %s", server->plan->mountpoint, work->sandbox.id);
            link_adopt(server->link, &work->sandbox);
            if (server->fs != NULL) {
                fs_sandbox_changed(server->fs);
            }
        }
    }
    end_work(work, result);
}

static void destroy_done(uv_work_t *handle, int status)
{
    struct backend_work *work = (struct backend_work *)handle;

    (void)status;
    end_work(work, json_pack("{s:s, s:b}", "session", work->server->plan->session, "destroyed", 1));
}

static void start_work(struct server *server, uv_work_cb run, uv_after_work_cb done,
                       gateway_reply reply, void *arg)
{
    struct backend_work *work = calloc(1, sizeof *work);
    struct error err = {0};

    if (work == NULL || server->phase == SERVE_ENDING) {
        free(work);
        error_set(&err, ERROR_CANCELLED, 0, "the mount is ending");
        reply(arg, &err, NULL);
        return;
    }
    *work = (struct backend_work){.server = server, .reply = reply, .reply_arg = arg};
    server->works++;
    uv_queue_work(&server->loop, &work->work, run, done);
}

static void host_provision(void *ctx, gateway_reply reply, void *arg)
{
    start_work(ctx, provision_work, provision_done, reply, arg);
}

static void host_destroy(void *ctx, gateway_reply reply, void *arg)
{
    start_work(ctx, destroy_work, destroy_done, reply, arg);
}

/* ---- The start ------------------------------------------------------------------------------ */

static int open_gateway(struct server *server, struct error *err)
{
    const struct gateway_host host = {
        .status = put_status,
        .provision = host_provision,
        .destroy = host_destroy,
        .barrier = {.before = barrier_before, .after = barrier_after, .ctx = server},
        .ctx = server,
    };

    return gateway_open(&server->gateway, &server->loop, server->link, server->plan->socket, &host,
                        err);
}

static int open_fs(struct server *server, struct error *err)
{
    const struct fs_control control = {
        .exec = control_exec,
        .exec_cancel = control_cancel,
        .status = control_status,
        .ctx = server,
    };
    struct fs_options options;

    options_fs(server->plan->options, &options);
    return fs_open(&server->fs, &server->loop, server->link, server->plan->mountpoint,
                   server->plan->session, &options, &control, unmounted, server, err);
}

static int publish(const struct server *server, struct error *err)
{
    const struct mount_entry entry = {
        .session = (char *)server->plan->session,
        .backend = (char *)server->plan->backend->name,
        .mountpoint = (char *)server->plan->mountpoint,
        .socket = (char *)server->plan->socket,
    };

    return mounts_publish(&entry, err);
}

/* The sandbox has answered: lets people in. */
static void begin_serving(struct server *server)
{
    if (open_gateway(server, &server->why) < 0 || open_fs(server, &server->why) < 0 ||
        publish(server, &server->why) < 0) {
        fail(server);
        return;
    }
    server->phase = SERVE_RUNNING;
    uv_timer_stop(&server->limit);
    malloc_trim(0);
    if (server->ready(server->ready_arg, NULL) < 0) {
        begin_end(server, EXIT_FAILED);
    }
}

static const char *link_state_name(enum link_state state)
{
    static const char *const names[] = {[LINK_CONNECTING] = "connecting",
                                        [LINK_UP] = "up",
                                        [LINK_SILENT] = "silent",
                                        [LINK_GONE] = "gone"};

    return names[state];
}

static void link_changed(void *arg, enum link_state state, const struct error *why)
{
    struct server *server = arg;
    const char *reason = why != NULL ? why->message : "";

    if (server->phase == SERVE_STARTING && state == LINK_UP) {
        put_off(server, begin_serving);
    } else if (server->phase == SERVE_STARTING && state == LINK_GONE) {
        error_set(&server->why, ERROR_SANDBOX_GONE, 0, "the sandbox of %s is gone%s%s",
                  server->plan->session, reason[0] != '\0' ? ": " : "", reason);
        put_off(server, fail);
    } else if (server->phase == SERVE_RUNNING && state == LINK_GONE) {
        log_warning("%s: the sandbox of %s is gone: %s", server->plan->mountpoint,
                    server->plan->session, reason);
    } else if (server->phase == SERVE_RUNNING) {
        log_info("%s: the sandbox of %s is %s", server->plan->mountpoint, server->plan->session,
                 link_state_name(state));
    }
}

static void start_too_long(uv_timer_t *timer)
{
    struct server *server = timer->data;

    error_set(&server->why, ERROR_NO_ANSWER, 0, "the sandbox of %s did not answer within %d s",
              server->plan->session, SERVE_START_MS / 1000);
    fail(server);
}

static void init_handles(struct server *server)
{
    for (size_t i = 0; i < SIGNALS; i++) {
        uv_signal_init(&server->loop, &server->signals[i]);
        server->signals[i].data = server;
        uv_signal_start(&server->signals[i], got_signal, ending_signals[i]);
    }
    uv_timer_init(&server->loop, &server->limit);
    server->limit.data = server;
    uv_timer_init(&server->loop, &server->turn);
    server->turn.data = server;
}

int serve(const struct mount_plan *plan, serve_ready ready, void *arg)
{
    struct server server = {
        .plan = plan, .ready = ready, .ready_arg = arg, .exit_code = EXIT_FAILED};
    const struct link_options link_options = {
        .placement = LINK_PLACE_AUTO,
        .timeout_ms = plan->options->op_timeout_ms,
        .state_changed = link_changed,
        .arg = &server,
    };
    int r = uv_loop_init(&server.loop);

    if (r < 0) {
        error_set_errno(&server.why, -r, "cannot make an event loop");
        ready(arg, &server.why);
        mounts_withdraw(plan->mountpoint, plan->claim);
        return EXIT_FAILED;
    }
    init_handles(&server);
    uv_timer_start(&server.limit, start_too_long, SERVE_START_MS, 0);
    if (link_open(&server.link, &server.loop, plan->sandbox, &link_options, &server.why) < 0) {
        fail(&server);
    }
    uv_run(&server.loop, UV_RUN_DEFAULT);
    r = uv_loop_close(&server.loop);
    assert(r == 0); /* every part took its handles along */
    (void)r;
    mounts_withdraw(plan->mountpoint, plan->claim);
    return server.exit_code;
}
