#include "fs/request.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fs/control.h"
#include "fs/reply.h"

#define KEPT_BYTES_MAX (1u << 20)

static struct request *refuse(fuse_req_t fuse, struct fs *fs, int os_errno)
{
    fs->counts.requests++;
    fs->counts.errors++;
    fuse_reply_err(fuse, os_errno);
    return NULL;
}

struct request *request_begin(fuse_req_t fuse, fuse_ino_t ino)
{
    struct fs *fs = fuse_req_userdata(fuse);
    struct node *node = NULL;
    struct request *r;

    if (fs->refusing) {
        return refuse(fuse, fs, ENODEV);
    }
    if (control_owns(ino)) {
        return refuse(fuse, fs, EPERM);
    }
    if (ino != 0 && (node = nodes_find(&fs->nodes, ino)) == NULL) {
        return refuse(fuse, fs, ESTALE);
    }
    r = calloc(1, sizeof *r);
    if (r == NULL) {
        return refuse(fuse, fs, ENOMEM);
    }
    r->fs = fs;
    r->fuse = fuse;
    r->generation = fs->generation;
    r->node = node;
    if (node != NULL) {
        node_pin(node);
    }
    buffer_init(&r->path, WIRE_MAX_PATH);
    buffer_init(&r->path2, WIRE_MAX_PATH);
    buffer_init(&r->kept, KEPT_BYTES_MAX);
    TAILQ_INSERT_TAIL(&fs->requests, r, all);
    return r;
}

/* Copies a name that stands in `dir`. */
static bool take_name(struct request *r, const struct node *dir, const char *name, char **ret)
{
    if (strlen(name) > WIRE_MAX_NAME) {
        answer_errno(r, ENAMETOOLONG);
        return false;
    }
    if (control_reserves(r->fs, dir->id, name)) {
        answer_errno(r, EPERM);
        return false;
    }
    *ret = strdup(name);
    if (*ret == NULL) {
        answer_errno(r, ENOMEM);
        return false;
    }
    return true;
}

struct request *request_begin_name(fuse_req_t fuse, fuse_ino_t ino, const char *name)
{
    struct request *r = request_begin(fuse, ino);

    return r != NULL && take_name(r, r->node, name, &r->name) ? r : NULL;
}

bool request_second(struct request *r, fuse_ino_t ino, const char *name)
{
    struct node *node = control_owns(ino) ? NULL : nodes_find(&r->fs->nodes, ino);

    if (node == NULL) {
        answer_errno(r, control_owns(ino) ? EPERM : ESTALE);
        return false;
    }
    r->node2 = node;
    node_pin(node);
    return take_name(r, node, name, &r->name2);
}

bool request_handle(struct request *r, uint64_t fh)
{
    struct opened *handle = opened_find(r->fs, fh);

    if (handle == NULL || handle->control != NULL) {
        answer_errno(r, EBADF);
        return false;
    }
    r->handle = opened_hold(handle);
    return true;
}

pid_t request_pid(const struct request *r)
{
    return fuse_req_ctx(r->fuse)->pid;
}

bool request_keep(struct request *r, const void *data, size_t length)
{
    if (buffer_append(&r->kept, data, length) < 0) {
        answer_errno(r, errno == ENOBUFS ? E2BIG : ENOMEM);
        return false;
    }
    return true;
}

void request_free(struct request *r)
{
    struct fs *fs = r->fs;

    assert(r->call == NULL);
    deadline_clear(&fs->deadlines, &r->deadline);
    TAILQ_REMOVE(&fs->requests, r, all);
    if (r->handle != NULL) {
        opened_drop(fs, r->handle);
    }
    if (r->handle2 != NULL) {
        opened_drop(fs, r->handle2);
    }
    if (r->node != NULL) {
        node_unpin(&fs->nodes, r->node);
    }
    if (r->node2 != NULL) {
        node_unpin(&fs->nodes, r->node2);
    }
    if (r->from != NULL) {
        node_unpin(&fs->nodes, r->from);
    }
    buffer_release(&r->path);
    buffer_release(&r->path2);
    buffer_release(&r->kept);
    free(r->name);
    free(r->name2);
    free(r);
    close_check(fs);
}

/* ---- The call --------------------------------------------------------------------------------- */

/* Any handle that the hand has of the node, or 0. */
static uint64_t any_handle(const struct node *node, pid_t pid)
{
    const struct opened *open = LIST_FIRST(&node->handles);

    return open != NULL ? open->wire : kept_handle(node, pid);
}

/* How the sandbox is to find the node: by `handle` where it is not 0. 0 or an errno. */
static int make_ref(const struct request *r, const struct node *node, uint64_t handle,
                    struct buffer *path, struct wire_ref *ref, uint64_t *ret_serial)
{
    uint64_t serial = 0;

    *ref = (struct wire_ref){.base = WIRE_BASE_WORKDIR};
    if (handle == 0 && node_path(node, path, &serial) < 0) {
        handle = errno == ESTALE ? any_handle(node, request_pid(r)) : 0;
        if (handle == 0) {
            return errno;
        }
    }
    *ret_serial = serial;
    if (handle != 0) {
        ref->handle = handle;
        return 0;
    }
    ref->dev = node->dev;
    ref->ino = node->ino;
    ref->path = (struct wire_text){(const char *)path->data, path->length};
    return 0;
}

static int make_call(struct request *r)
{
    const struct node *start = r->from != NULL ? r->from : r->node;
    uint64_t handle = r->handle != NULL ? r->handle->wire : 0;
    uint64_t handle2 = r->handle2 != NULL ? r->handle2->wire : 0;
    uint64_t serial;
    int e;

    if (r->by_kept && r->from == NULL) {
        handle = kept_handle(r->node, request_pid(r));
    }
    if (r->node != NULL || r->handle != NULL) {
        e = make_ref(r, start, handle, &r->path, &r->wire.ref, &r->serial);
        if (e != 0) {
            return e;
        }
    }
    if (r->node2 != NULL || r->handle2 != NULL) {
        e = make_ref(r, r->node2, handle2, &r->path2, &r->wire.ref2, &serial);
        if (e != 0) {
            return e;
        }
    }
    if (r->name != NULL) {
        r->wire.name = (struct wire_text){r->name, strlen(r->name)};
    }
    if (r->name2 != NULL) {
        r->wire.name2 = (struct wire_text){r->name2, strlen(r->name2)};
    }
    return 0;
}

static void start_call(struct request *r);

/* Whether the name that the call went by leads elsewhere now, or the handle that stood for it was closed. */
static bool was_stale(const struct request *r, const struct error *err)
{
    int os_errno = error_errno(err);

    if (r->handle != NULL || r->from != NULL) {
        return false;
    }
    if (r->serial == 0) {
        return os_errno == EBADF;
    }
    return os_errno == ESTALE ||
           (r->about_node && (os_errno == ENOENT || os_errno == ENOTDIR || os_errno == ELOOP));
}

/* By what the lookup kept, while the name stays, so that it is known where a link stands; else by another name
 * or an open handle. False where there is nothing left to try. */
static bool try_otherwise(struct request *r)
{
    if (!r->by_kept && kept_handle(r->node, request_pid(r)) != 0) {
        r->by_kept = true;
        return true;
    }
    if (!r->about_node || r->serial == 0) {
        return false;
    }
    node_drop_name(&r->fs->nodes, r->node, r->serial);
    if (r->retried) {
        return false;
    }
    r->retried = true;
    return true;
}

static void call_ended(void *arg, const struct error *err, const struct wire_reply *reply)
{
    struct request *r = arg;

    r->call = NULL;
    deadline_clear(&r->fs->deadlines, &r->deadline);
    if (err == NULL) {
        r->fs->logged = ERROR_NONE;
        r->done(r, reply);
    } else if (was_stale(r, err)) {
        if (try_otherwise(r)) {
            start_call(r);
        } else {
            answer_errno(r, ESTALE);
        }
    } else if (r->failed != NULL) {
        r->failed(r, err);
    } else {
        answer_failure(r, err);
    }
}

static void start_call(struct request *r)
{
    int e = make_call(r);

    if (e != 0) {
        answer_errno(r, e);
        return;
    }
    r->call = link_call(r->fs->link, &r->wire, r->fs->options.op_timeout_ms, call_ended, r);
    request_can_be_interrupted(r);
}

void request_send(struct request *r, request_done done)
{
    r->done = done;
    start_call(r);
}

/* ---- Interrupts ------------------------------------------------------------------------------- */

void request_stop(struct request *r)
{
    if (r->cancel != NULL) {
        r->cancel(r);
    } else if (r->call != NULL) {
        call_cancel(r->call); /* and then call_ended() */
    }
}

static void grace_over(struct deadline *deadline)
{
    request_stop(table_entry(deadline, struct request, deadline));
}

/* Runs inside of libfuse, which holds a lock of the request: nothing may be answered here. */
static void interrupted(fuse_req_t fuse __attribute__((unused)), void *data)
{
    struct request *r = data;

    if (!r->deadline.is_set) {
        deadline_set(&r->fs->deadlines, &r->deadline, REQUEST_GRACE_MS, grace_over);
    }
}

void request_can_be_interrupted(struct request *r)
{
    if (!r->interruptible) {
        r->interruptible = true;
        fuse_req_interrupt_func(r->fuse, interrupted, r);
    }
}
