/* What surrounds a command: before it, what programs wrote through shared memory goes inside (all other
 * writes are there already); after it, the kernel forgets what it was given.
 *
 * Names and the attributes of files that nobody has open are called back without a question, as far as
 * they were given within the time that the kernel believes in them. An open file is looked at inside: only
 * where it changed are its pages and attributes called back, since that disturbs who reads it just now
 * (fs/notify.h). */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "fs/barrier.h"
#include "sandbox/clock.h"
#include "sandbox/log.h"

#define BARRIER_WAIT_MS (FS_NOTIFY_WAIT_MS - 50)
#define MAX_CHECKS 512 /* open files that are looked at; of more the pages are called back unseen */

#define OUT_OF_MEMORY "%s: out of memory for the barrier around a command"

struct barrier {
    struct fs *fs;
    struct notify_job *job; /* what will have to be sent; NULL without memory */
    unsigned checks;        /* that run; the job is submitted after the last */
    struct deadline deadline;
    void (*then)(void *arg); /* NULL when it was called */
    void *arg;
};

/* One open file that is looked at. */
struct check {
    TAILQ_ENTRY(check) all;
    struct barrier *barrier;
    struct node *node;      /* pinned */
    struct opened *opened;  /* held */
    struct call *call;
};

static void pass(struct barrier *b)
{
    void (*then)(void *arg) = b->then;

    b->then = NULL;
    deadline_clear(&b->fs->deadlines, &b->deadline);
    if (then != NULL) {
        then(b->arg);
    }
}

static void told(void *arg)
{
    struct barrier *b = arg;

    pass(b);
    free(b);
}

static void waited(struct deadline *deadline)
{
    struct barrier *b = table_entry(deadline, struct barrier, deadline);

    log_trace("%s: the kernel or the sandbox takes long", b->fs->mountpoint);
    pass(b);
}

/* Once there is nothing more to look at. */
static void submit(struct barrier *b)
{
    if (b->job == NULL || notify_job_is_empty(b->job) || b->fs->stopping) {
        if (b->job != NULL) {
            notify_job_free(b->job);
        }
        told(b);
        return;
    }
    notifier_submit(b->fs->notifier, b->job);
}

static void add(struct barrier *b, enum notify_kind kind, uint64_t node, const char *name)
{
    if (b->job != NULL && notify_job_add(b->job, kind, node, name) < 0) {
        log_warning(OUT_OF_MEMORY, b->fs->mountpoint);
    }
}

/* ---- Looking at open files ---------------------------------------------------------------------- */

static void check_end(struct check *check)
{
    struct barrier *b = check->barrier;
    struct fs *fs = b->fs;

    TAILQ_REMOVE(&fs->checks, check, all);
    opened_drop(fs, check->opened);
    node_unpin(&fs->nodes, check->node);
    free(check);
    if (--b->checks == 0) {
        submit(b);
    }
    close_check(fs);
}

/* What the file is like now counts as known when the kernel has been told, and not here: until then another
 * barrier has to tell it, too. */
static void looked(void *arg, const struct error *err, const struct wire_reply *reply)
{
    struct check *check = arg;
    struct barrier *b = check->barrier;

    check->call = NULL;
    if ((err != NULL || node_changed(check->node, &reply->attr)) && b->job != NULL &&
        fs_refresh(b->fs, b->job, NOTIFY_DATA, check->node) < 0) {
        log_warning(OUT_OF_MEMORY, b->fs->mountpoint);
    }
    check_end(check);
}

static void look_at(struct barrier *b, struct opened *opened)
{
    struct fs *fs = b->fs;
    struct wire_call call = {.op = WIRE_GETATTR, .ref = {.handle = opened->wire}};
    struct check *check = b->checks < MAX_CHECKS ? calloc(1, sizeof *check) : NULL;

    if (check == NULL) {
        add(b, NOTIFY_DATA, opened->node->id, NULL);
        return;
    }
    check->barrier = b;
    check->opened = opened_hold(opened);
    check->node = opened->node;
    node_pin(check->node);
    TAILQ_INSERT_TAIL(&fs->checks, check, all);
    b->checks++;
    check->call = link_call(fs->link, &call, FS_NOTIFY_WAIT_MS, looked, check);
}

void barrier_stop_checks(struct fs *fs)
{
    struct check *check;

    TAILQ_FOREACH(check, &fs->checks, all)
    {
        call_cancel(check->call); /* which ends it in a later turn */
    }
}

/* ---- Before and after --------------------------------------------------------------------------- */

static void for_open_files(struct barrier *b, void (*visit)(struct barrier *b, struct opened *opened))
{
    const struct table *handles = &b->fs->handles;

    for (size_t i = 0; i < handles->size; i++) {
        for (struct table_link *link = handles->buckets[i]; link != NULL; link = link->next) {
            struct opened *opened = table_entry(link, struct opened, by_id);

            if (opened->node != NULL) {
                visit(b, opened);
            }
        }
    }
}

/* Shared memory that is written to needs a file that was opened for both. */
static void flush(struct barrier *b, struct opened *opened)
{
    if (S_ISREG(opened->node->type) && (opened->flags & O_ACCMODE) == O_RDWR) {
        add(b, NOTIFY_DATA, opened->node->id, NULL);
    }
}

static void refresh(struct barrier *b, struct opened *opened)
{
    if (S_ISREG(opened->node->type) && opened == LIST_FIRST(&opened->node->handles)) {
        look_at(b, opened);
    }
}

/* All that the kernel may believe of names, and of files that are not open. */
static void call_back(struct barrier *b)
{
    struct nodes *nodes = &b->fs->nodes;
    uint64_t now = clock_now_ms();
    uint64_t ttl = b->fs->options.cache_ms + FS_TTL_SLACK_MS;
    bool by_name = !notifier_knows_names(b->fs->notifier);
    const struct node_name *name;
    struct node *node;

    if (!by_name && !TAILQ_EMPTY(&nodes->recent)) {
        add(b, NOTIFY_NAMES, 0, NULL);
    }
    while ((node = TAILQ_FIRST(&nodes->recent)) != NULL) {
        node_not_recent(nodes, node);
        if (node->given_ms != 0 && now > node->given_ms + ttl) {
            continue;
        }
        TAILQ_FOREACH(name, &node->names, of_node)
        {
            if (by_name) {
                add(b, NOTIFY_NAME, name->parent->id, name->text);
            }
        }
        if (LIST_EMPTY(&node->handles) || !S_ISREG(node->type)) { /* else see refresh() */
            add(b, NOTIFY_ATTR, node->id, NULL);
        }
    }
}

static struct barrier *begin(struct fs *fs, void (*then)(void *arg), void *arg)
{
    struct barrier *b = fs->closing || fs->ended ? NULL : calloc(1, sizeof *b);

    if (b == NULL) {
        then(arg);
        return NULL;
    }
    *b = (struct barrier){.fs = fs, .then = then, .arg = arg, .checks = 1};
    b->job = notify_job_new(told, b);
    deadline_set(&fs->deadlines, &b->deadline, BARRIER_WAIT_MS, waited);
    return b;
}

/* Nothing more is to be added by the one that began it. */
static void end(struct barrier *b)
{
    if (--b->checks == 0) {
        submit(b);
    }
}

static void before(void *ctx, void (*then)(void *arg), void *arg)
{
    struct barrier *b = begin(ctx, then, arg);

    if (b != NULL) {
        for_open_files(b, flush);
        end(b);
    }
}

static void after(void *ctx, void (*then)(void *arg), void *arg)
{
    struct fs *fs = ctx;
    struct barrier *b;

    fs->generation++;
    kept_clear(fs);
    b = begin(fs, then, arg);
    if (b != NULL) {
        call_back(b);
        for_open_files(b, refresh);
        end(b);
    }
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
    after(fs, nobody, NULL);
    nodes_detach_all(&fs->nodes);
}
