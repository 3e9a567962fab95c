/* What surrounds a command: before it, what programs wrote through shared memory goes inside (all other
 * writes are there already); after it, the kernel forgets what it was given. Calling back is done by
 * time: only what was given within the kernel's time of belief is worth a notification. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "fs/face.h"
#include "sandbox/clock.h"
#include "sandbox/log.h"

struct barrier {
    struct fs *fs;
    struct notify_job *job;
    struct deadline deadline;
    void (*then)(void *arg);
    void *arg;
};

static void pass(struct barrier *b)
{
    void (*then)(void *arg) = b->then;
    void *arg = b->arg;

    deadline_clear(&b->fs->deadlines, &b->deadline);
    free(b);
    then(arg);
}

static void told(void *arg)
{
    pass(arg);
}

static void waited(struct deadline *deadline)
{
    struct barrier *b = table_entry(deadline, struct barrier, deadline);

    log_trace("%s: the kernel takes long to forget", b->fs->mountpoint);
    notify_job_abandon(b->job);
    pass(b);
}

/* Adds each open file that is wanted, with its pages. */
static int for_open_files(struct fs *fs, struct notify_job *job,
                          bool (*wanted)(const struct opened *handle))
{
    for (size_t i = 0; i < fs->handles.size; i++) {
        for (struct table_link *link = fs->handles.buckets[i]; link != NULL; link = link->next) {
            const struct opened *handle = table_entry(link, struct opened, by_id);

            if (handle->node != NULL && S_ISREG(handle->node->type) && wanted(handle) &&
                notify_job_add(job, NOTIFY_DATA, handle->node->id, NULL) < 0) {
                return -1;
            }
        }
    }
    return 0;
}

/* Shared memory that is written to needs a file that was opened for both. */
static bool may_be_dirty(const struct opened *handle)
{
    return (handle->flags & O_ACCMODE) == O_RDWR;
}

/* One is enough for a file. */
static bool is_first(const struct opened *handle)
{
    return LIST_FIRST(&handle->node->handles) == handle;
}

/* The names of a node one by one, for kernels that cannot forget all at once. */
static int add_names(struct notify_job *job, const struct node *node)
{
    const struct node_name *name;

    TAILQ_FOREACH(name, &node->names, of_node)
    {
        if (notify_job_add(job, NOTIFY_NAME, name->parent->id, name->text) < 0) {
            return -1;
        }
    }
    return 0;
}

/* All that the kernel may believe. */
static int add_beliefs(struct fs *fs, struct notify_job *job)
{
    uint64_t now = clock_now_ms();
    uint64_t ttl = fs->options.cache_ms + FS_TTL_SLACK_MS;
    bool by_name = !notifier_knows_names(fs->notifier);
    struct node *node;

    if (!by_name && !TAILQ_EMPTY(&fs->nodes.recent) &&
        notify_job_add(job, NOTIFY_NAMES, 0, NULL) < 0) {
        return -1;
    }
    while ((node = TAILQ_FIRST(&fs->nodes.recent)) != NULL) {
        node_not_recent(&fs->nodes, node);
        if (node->given_ms != 0 && now > node->given_ms + ttl) {
            continue;
        }
        if ((by_name && add_names(job, node) < 0) ||
            notify_job_add(job, NOTIFY_ATTR, node->id, NULL) < 0) {
            return -1;
        }
    }
    return for_open_files(fs, job, is_first);
}

/* Sends what `fill` finds and goes on afterwards. */
static void around(struct fs *fs, int (*fill)(struct fs *fs, struct notify_job *job),
                   void (*then)(void *arg), void *arg)
{
    struct barrier *b = fs->closing || fs->ended ? NULL : calloc(1, sizeof *b);

    if (b == NULL) {
        then(arg);
        return;
    }
    *b = (struct barrier){.fs = fs, .then = then, .arg = arg, .job = notify_job_new(told, b)};
    if (b->job == NULL || fill(fs, b->job) < 0) {
        log_warning("%s: out of memory for the barrier around a command", fs->mountpoint);
    }
    if (b->job == NULL || notify_job_is_empty(b->job)) {
        if (b->job != NULL) {
            notify_job_free(b->job);
        }
        pass(b);
        return;
    }
    deadline_set(&fs->deadlines, &b->deadline, FS_NOTIFY_WAIT_MS - FS_TTL_SLACK_MS, waited);
    notifier_submit(fs->notifier, b->job);
}

static int add_dirty(struct fs *fs, struct notify_job *job)
{
    return for_open_files(fs, job, may_be_dirty);
}

static void before(void *ctx, void (*then)(void *arg), void *arg)
{
    around(ctx, add_dirty, then, arg);
}

static void after(void *ctx, void (*then)(void *arg), void *arg)
{
    struct fs *fs = ctx;

    fs->generation++;
    around(fs, add_beliefs, then, arg);
}

struct exec_barrier fs_barrier(struct fs *fs)
{
    return (struct exec_barrier){.before = before, .after = after, .ctx = fs};
}

static void nobody(void *arg __attribute__((unused)))
{
}

void fs_sandbox_changed(struct fs *fs)
{
    const struct sandbox *sandbox = link_sandbox(fs->link);
    char *workdir = sandbox->workdir != NULL ? strdup(sandbox->workdir) : NULL;

    if (workdir != NULL) {
        free(fs->workdir);
        fs->workdir = workdir;
    }
    fs->generation++;
    around(fs, add_beliefs, nobody, NULL);
    nodes_detach_all(&fs->nodes);
}
