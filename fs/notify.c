/* Shared between the loop and the thread, under the lock: the two queues and the flags. A job belongs to
 * the thread between the queues; its `done` and `arg` belong to the loop all the time. */
#include "fs/notify.h"

#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/stat.h>

#include "sandbox/log.h"

#define NOTIFY_INC_EPOCH 8 /* FUSE_NOTIFY_INC_EPOCH of Linux 6.16 */

struct item {
    enum notify_kind kind;
    uint64_t node;
    char *name;
};

struct notify_job {
    STAILQ_ENTRY(notify_job) entry;
    struct item *items;
    size_t count, room;
    void (*done)(void *arg);
    void *arg;
};

STAILQ_HEAD(job_list, notify_job);

struct notifier {
    struct fuse_session *session;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct job_list waiting;  /* protected by lock */
    struct job_list finished; /* protected by lock */
    bool stop;                /* protected by lock */
    bool ended;               /* protected by lock: the thread does nothing more */
    atomic_bool knows_names;
    uv_async_t wake;
    void (*stopped)(void *arg);
    void *stopped_arg;
};

struct notify_job *notify_job_new(void (*done)(void *arg), void *arg)
{
    struct notify_job *job = calloc(1, sizeof *job);

    if (job != NULL) {
        job->done = done;
        job->arg = arg;
    }
    return job;
}

int notify_job_add(struct notify_job *job, enum notify_kind kind, uint64_t node, const char *name)
{
    struct item item = {.kind = kind, .node = node};

    if (job->count == job->room) {
        size_t room = job->room > 0 ? job->room * 2 : 4;
        struct item *items = reallocarray(job->items, room, sizeof *items);

        if (items == NULL) {
            return -1;
        }
        job->items = items;
        job->room = room;
    }
    if (name != NULL && (item.name = strdup(name)) == NULL) {
        return -1;
    }
    job->items[job->count++] = item;
    return 0;
}

bool notify_job_is_empty(const struct notify_job *job)
{
    return job->count == 0;
}

void notify_job_free(struct notify_job *job)
{
    for (size_t i = 0; i < job->count; i++) {
        free(job->items[i].name);
    }
    free(job->items);
    free(job);
}

/* ---- The thread ------------------------------------------------------------------------------- */

/* libfuse 3.14 has no call for this one: a bare header. */
static int send_epoch(struct fuse_session *session)
{
    struct fuse_out_header out = {.len = sizeof out, .error = NOTIFY_INC_EPOCH};
    ssize_t n = write(fuse_session_fd(session), &out, sizeof out);

    return n < 0 ? -errno : 0;
}

static int ask_attr(const char *path)
{
    struct statx st;

    return statx(AT_FDCWD, path, AT_STATX_FORCE_SYNC | AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT,
                 STATX_SIZE, &st) < 0
               ? -errno
               : 0;
}

static void send_item(struct notifier *notifier, const struct item *item)
{
    struct fuse_session *session = notifier->session;
    int r = 0;

    switch (item->kind) {
    case NOTIFY_ATTR:
        r = fuse_lowlevel_notify_inval_inode(session, item->node, -1, 0);
        break;
    case NOTIFY_DATA:
        r = fuse_lowlevel_notify_inval_inode(session, item->node, 0, 0);
        break;
    case NOTIFY_NAMES:
        if (atomic_load(&notifier->knows_names)) {
            r = send_epoch(session);
            if (r == -EINVAL) {
                atomic_store(&notifier->knows_names, false);
            }
        }
        break;
    case NOTIFY_NAME:
        r = fuse_lowlevel_notify_expire_entry(session, item->node, item->name,
                                              strlen(item->name), FUSE_LL_EXPIRE_ONLY);
        if (r == -ENOSYS) {
            r = fuse_lowlevel_notify_inval_entry(session, item->node, item->name,
                                                 strlen(item->name));
        }
        break;
    case NOTIFY_STAT:
        r = ask_attr(item->name);
        break;
    }
    if (r < 0 && r != -ENOENT) {
        log_trace("notification %d of node %llu: %s", (int)item->kind,
                  (unsigned long long)item->node, strerror(-r));
    }
}

static bool must_stop(struct notifier *notifier)
{
    bool stop;

    pthread_mutex_lock(&notifier->lock);
    stop = notifier->stop;
    pthread_mutex_unlock(&notifier->lock);
    return stop;
}

static void *run(void *arg)
{
    struct notifier *notifier = arg;
    struct notify_job *job;

    pthread_mutex_lock(&notifier->lock);
    for (;;) {
        while (STAILQ_EMPTY(&notifier->waiting) && !notifier->stop) {
            pthread_cond_wait(&notifier->work, &notifier->lock);
        }
        job = STAILQ_FIRST(&notifier->waiting);
        if (job == NULL) {
            break;
        }
        STAILQ_REMOVE_HEAD(&notifier->waiting, entry);
        pthread_mutex_unlock(&notifier->lock);
        for (size_t i = 0; i < job->count && !must_stop(notifier); i++) {
            send_item(notifier, &job->items[i]);
        }
        pthread_mutex_lock(&notifier->lock);
        STAILQ_INSERT_TAIL(&notifier->finished, job, entry);
        uv_async_send(&notifier->wake);
    }
    notifier->ended = true;
    pthread_mutex_unlock(&notifier->lock);
    uv_async_send(&notifier->wake);
    return NULL;
}

/* ---- The loop --------------------------------------------------------------------------------- */

static void freed(uv_handle_t *handle)
{
    struct notifier *notifier = handle->data;
    void (*stopped)(void *arg) = notifier->stopped;
    void *arg = notifier->stopped_arg;

    pthread_cond_destroy(&notifier->work);
    pthread_mutex_destroy(&notifier->lock);
    free(notifier);
    stopped(arg);
}

static void woken(uv_async_t *wake)
{
    struct notifier *notifier = wake->data;
    struct job_list finished = STAILQ_HEAD_INITIALIZER(finished);
    struct notify_job *job;
    bool ended;

    pthread_mutex_lock(&notifier->lock);
    STAILQ_CONCAT(&finished, &notifier->finished);
    ended = notifier->ended;
    pthread_mutex_unlock(&notifier->lock);
    while ((job = STAILQ_FIRST(&finished)) != NULL) {
        STAILQ_REMOVE_HEAD(&finished, entry);
        job->done(job->arg);
        notify_job_free(job);
    }
    if (ended && !uv_is_closing((uv_handle_t *)wake)) {
        pthread_join(notifier->thread, NULL); /* at its end already */
        uv_close((uv_handle_t *)wake, freed);
    }
}

int notifier_start(struct notifier **ret, uv_loop_t *loop, struct fuse_session *session,
                   struct error *err)
{
    struct notifier *notifier = calloc(1, sizeof *notifier);
    int r;

    if (notifier == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    notifier->session = session;
    STAILQ_INIT(&notifier->waiting);
    STAILQ_INIT(&notifier->finished);
    atomic_init(&notifier->knows_names, true);
    r = -uv_async_init(loop, &notifier->wake, woken);
    if (r != 0) {
        free(notifier);
        return error_set_errno(err, r, "notifier");
    }
    notifier->wake.data = notifier;
    pthread_mutex_init(&notifier->lock, NULL);
    pthread_cond_init(&notifier->work, NULL);
    r = pthread_create(&notifier->thread, NULL, run, notifier);
    if (r != 0) {
        notifier->stopped = free; /* of nothing */
        uv_close((uv_handle_t *)&notifier->wake, freed);
        return error_set_errno(err, r, "notifier's thread");
    }
    *ret = notifier;
    return 0;
}

void notifier_stop(struct notifier *notifier, void (*stopped)(void *arg), void *arg)
{
    notifier->stopped = stopped;
    notifier->stopped_arg = arg;
    pthread_mutex_lock(&notifier->lock);
    notifier->stop = true;
    pthread_cond_signal(&notifier->work);
    pthread_mutex_unlock(&notifier->lock);
}

bool notifier_knows_names(const struct notifier *notifier)
{
    return atomic_load(&notifier->knows_names);
}

void notifier_submit(struct notifier *notifier, struct notify_job *job)
{
    pthread_mutex_lock(&notifier->lock);
    STAILQ_INSERT_TAIL(&notifier->waiting, job, entry);
    pthread_cond_signal(&notifier->work);
    pthread_mutex_unlock(&notifier->lock);
}

static void nobody(void *arg __attribute__((unused)))
{
}

void notify_job_abandon(struct notify_job *job)
{
    job->done = nobody;
}

void notifier_ask(struct notifier *notifier)
{
    struct notify_job *job = notify_job_new(nobody, NULL);

    if (job != NULL && notify_job_add(job, NOTIFY_NAMES, 0, NULL) == 0) {
        notifier_submit(notifier, job);
    } else if (job != NULL) {
        notify_job_free(job);
    }
}
