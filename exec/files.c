/* read_file and write_file: whole files, through the hand, in step with the mount. */
#include <inttypes.h>

#include "exec/result.h"
#include "exec/server.h"
#include "sandbox/cleanup.h"

/* ---- Turns ---- */

/* Answers a request that nobody waits for any more. */
static bool give_up(struct request *r)
{
    struct error err;

    if (!r->cancelled) {
        return false;
    }
    error_set(&err, ERROR_CANCELLED, 0, "cancelled");
    request_fail(r, &err);
    return true;
}

/* A file call that runs is short and runs to its end; one that waits need not begin. */
static bool file_cancel(struct request *r)
{
    (void)r;
    return true;
}

/* Starts what waits while fewer than FILE_CALLS_AT_ONCE run: each may hold a whole file. */
static void start_waiting(struct gateway *gateway)
{
    struct request *r;

    while (gateway->file_calls < FILE_CALLS_AT_ONCE && (r = TAILQ_FIRST(&gateway->waiting)) != NULL) {
        TAILQ_REMOVE(&gateway->waiting, r, turn);
        if (!give_up(r)) {
            gateway->file_calls++;
            r->next(r);
        }
    }
}

/* A request that gives up may be the gateway's last, so that is found out before the queue is touched. */
static void wait_for_turn(struct request *r, void (*next)(struct request *))
{
    if (!give_up(r)) {
        r->next = next;
        TAILQ_INSERT_TAIL(&r->gateway->waiting, r, turn);
        start_waiting(r->gateway);
    }
}

/* To be called before the answer is given, which may be the gateway's last. */
static void end_turn(struct request *r)
{
    r->gateway->file_calls--;
    start_waiting(r->gateway);
}

/* The `path` of either; refuses the request where there is none. */
static const char *path_of(struct request *r, const char *const *known, struct error *err)
{
    const char *path = NULL;
    size_t length;

    if (params_check(r->params, known, err) < 0 ||
        params_text(r->params, "path", &path, &length, err) < 0) {
        return NULL;
    }
    if (path == NULL || length == 0) {
        error_set(err, ERROR_BAD_REQUEST, 0, "\"path\" is missing");
        return NULL;
    }
    return path;
}

/* ---- read_file ---- */

static void read_done(void *arg, const struct error *err, const uint8_t *data, size_t length)
{
    struct request *r = arg;
    json_t *result;

    end_turn(r);
    if (err != NULL) {
        request_fail(r, err);
        return;
    }
    result = json_pack("{s:I}", "size", (json_int_t)length);
    if (result != NULL && result_put_bytes(result, "content", data, length) < 0) {
        json_decref(result);
        result = NULL;
    }
    request_answer(r, result);
}

static void read_now(struct request *r)
{
    const char *path = json_string_value(json_object_get(r->params, "path"));

    link_read_file(r->gateway->link, path, MAX_FILE_BYTES, 0, read_done, r);
}

static void read_in_turn(struct request *r)
{
    wait_for_turn(r, read_now);
}

static void read_run(struct request *r)
{
    static const char *const known[] = {"path", NULL};
    struct error err;

    if (path_of(r, known, &err) == NULL) {
        request_refuse(r, RPC_INVALID_PARAMS, &err);
        return;
    }
    request_step(r, r->gateway->host.barrier.before, read_in_turn);
}

const struct method method_read_file = {
    .name = "read_file",
    .run = read_run,
    .cancel = file_cancel,
};

/* ---- write_file ---- */

static void write_end(struct request *r)
{
    if (r->failed) {
        request_fail(r, &r->error);
    } else {
        request_answer(r, take_ptr(r->result));
    }
}

static void write_done(void *arg, const struct error *err)
{
    struct request *r = arg;

    end_turn(r);
    r->failed = err != NULL;
    if (err != NULL) {
        r->error = *err;
    }
    request_step(r, r->gateway->host.barrier.after, write_end);
}

static void write_now(struct request *r)
{
    struct params_bytes content;
    const char *path = json_string_value(json_object_get(r->params, "path"));
    struct error err;

    if (params_bytes(r->params, "content", &content, &err) == 0) {
        r->result = json_pack("{s:I}", "size", (json_int_t)content.length);
        link_write_file(r->gateway->link, path, content.data, content.length, 0, write_done, r);
    } else { /* they were looked at before: memory ran out */
        write_done(r, &err);
    }
    buffer_release(&content.decoded);
}

static void write_in_turn(struct request *r)
{
    wait_for_turn(r, write_now);
}

static int write_check(struct request *r, struct error *err)
{
    static const char *const known[] = {"path", "content", "content_base64", NULL};
    struct params_bytes content;
    bool fits = false;

    if (path_of(r, known, err) == NULL) {
        return -1;
    }
    if (params_bytes(r->params, "content", &content, err) == 0) {
        if (!content.given) {
            error_set(err, ERROR_BAD_REQUEST, 0, "\"content\" is missing");
        } else if (content.length > MAX_FILE_BYTES) {
            error_set(err, ERROR_TOO_LARGE, 0, "%zu bytes; a file has at most %" PRIu64,
                      content.length, MAX_FILE_BYTES);
        } else {
            fits = true;
        }
    }
    buffer_release(&content.decoded);
    return fits ? 0 : -1;
}

static void write_run(struct request *r)
{
    struct error err;

    if (write_check(r, &err) < 0) {
        if (err.code == ERROR_BAD_REQUEST) {
            request_refuse(r, RPC_INVALID_PARAMS, &err);
        } else {
            request_fail(r, &err);
        }
        return;
    }
    /* What was written through the mount before must not come after it. */
    request_step(r, r->gateway->host.barrier.before, write_in_turn);
}

const struct method method_write_file = {
    .name = "write_file",
    .run = write_run,
    .cancel = file_cancel,
};
