/* The end of a mount, step by step, each from the loop:
 *
 *  1. What programs wrote through shared memory goes inside, as before a command.
 *  2. The kernel's side is unmounted by a thread while requests are still served, since it writes back
 *     what it holds. That may take FS_CLOSE_GRACE_MS; where nobody used it, it is over here.
 *  3. Everything in flight is cancelled and answered, and what still comes is refused.
 *  4. With nothing in flight the notifier ends.
 *  5. The session ends, and with it whoever still has a file open gets ENOTCONN. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "fs/barrier.h"
#include "fs/control.h"
#include "fs/request.h"
#include "fs/unmount.h"
#include "sandbox/log.h"

static void refuse(struct fs *fs)
{
    struct request *r = TAILQ_FIRST(&fs->requests);

    fs->refusing = true;
    barrier_stop_checks(fs);
    while (r != NULL) {
        struct request *next = TAILQ_NEXT(r, all);

        request_stop(r); /* may answer it at once */
        r = next;
    }
}

static void grace_over(struct deadline *deadline)
{
    struct fs *fs = table_entry(deadline, struct fs, close_step);

    refuse(fs);
    close_check(fs);
}

static void unmounted(void *arg)
{
    struct fs *fs = arg;

    fs->unmounter = NULL;
    refuse(fs);
    close_check(fs);
}

static void unmount(void *arg)
{
    struct fs *fs = arg;
    struct error err;

    fs->flushing = false;
    if (fs->ended) {
        refuse(fs);
    } else if (unmount_start(&fs->unmounter, fs->loop, fs->mountpoint, fs->dev, unmounted, fs,
                             &err) < 0) {
        log_warning("%s: %s", fs->mountpoint, err.message);
        refuse(fs);
    } else {
        deadline_set(&fs->deadlines, &fs->close_step, FS_CLOSE_GRACE_MS, grace_over);
    }
    close_check(fs);
}

void fs_close(struct fs *fs, void (*closed)(void *arg), void *arg)
{
    struct exec_barrier barrier = fs_barrier(fs);

    if (fs->closing) {
        return;
    }
    fs->closed = closed;
    fs->closed_arg = arg;
    fs->flushing = true;
    barrier.before(barrier.ctx, unmount, fs);
    fs->closing = true; /* from here on there are no barriers */
    if (!fs->flushing) { /* there was nothing to wait for */
        close_check(fs);
    }
}

static void notifier_gone(void *arg)
{
    struct fs *fs = arg;

    fs->notifier = NULL;
    close_loop(fs);
}

static void nothing_left(struct deadline *deadline)
{
    struct fs *fs = table_entry(deadline, struct fs, close_step);

    if (!TAILQ_EMPTY(&fs->requests) || !TAILQ_EMPTY(&fs->checks)) {
        return; /* more came; its answer brings us here again */
    }
    fs->stopping = true;
    notifier_stop(fs->notifier, notifier_gone, fs);
}

/* Goes on in a turn of its own: this is called from inside of libfuse. */
void close_check(struct fs *fs)
{
    if (fs->closing && fs->refusing && !fs->flushing && fs->unmounter == NULL && !fs->stopping &&
        TAILQ_EMPTY(&fs->requests) && TAILQ_EMPTY(&fs->checks)) {
        deadline_set(&fs->deadlines, &fs->close_step, 0, nothing_left);
    }
}

/* ---- Taking it apart ---------------------------------------------------------------------------- */

static void close_handles(struct fs *fs)
{
    kept_clear(fs);
    for (size_t i = 0; i < fs->handles.size; i++) {
        while (fs->handles.buckets[i] != NULL) {
            struct opened *handle = table_entry(fs->handles.buckets[i], struct opened, by_id);

            if (handle->control != NULL) {
                control_release(fs, handle);
            }
            opened_close(fs, handle);
        }
    }
}

void close_free(struct fs *fs)
{
    if (fs->session != NULL) {
        fuse_session_destroy(fs->session);
    }
    nodes_release(&fs->nodes);
    table_release(&fs->handles);
    free(fs->incoming.mem);
    free(fs->mountpoint);
    free(fs->workdir);
    free(fs);
}

static void handle_closed(uv_handle_t *handle)
{
    struct fs *fs = handle->data;
    void (*closed)(void *arg) = fs->closed;
    void *arg = fs->closed_arg;

    if (--fs->loop_handles > 0) {
        return;
    }
    close_free(fs);
    if (closed != NULL) {
        closed(arg);
    }
}

/* Ends the connection to the kernel. fuse_session_unmount() would unmount whatever is at the mountpoint by
 * now, unless the descriptor that it polls is at its end: a pipe without a reader is. */
static void sever(struct fs *fs)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0) {
        return;
    }
    close(ends[0]);
    dup2(ends[1], fuse_session_fd(fs->session));
    close(ends[1]);
}

void close_loop(struct fs *fs)
{
    close_handles(fs);
    if (fs->loop_handles > 1) {
        uv_poll_stop(&fs->poll);
    }
    if (fs->closing) {
        sever(fs);
    }
    fuse_session_unmount(fs->session);
    fs->deadlines.timer.data = fs;
    if (fs->loop_handles > 1) {
        uv_close((uv_handle_t *)&fs->poll, handle_closed);
    }
    uv_close((uv_handle_t *)&fs->deadlines.timer, handle_closed);
}
