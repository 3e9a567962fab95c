/* Notifications to the kernel: what it holds of names, attributes and pages is not true any more.
 *
 * A notification waits for locks that the kernel holds during requests of its own, so it is never sent
 * from the loop that answers those: one thread sends them, in order. A thread that is stuck is no
 * catastrophe; whoever waits for it has a deadline of his own.
 *
 * The kernel drops an answer to GETATTR that crosses a notification of the same inode, and a read that
 * waited for it goes by the size known before. So where an open file changed, the thread has the kernel ask
 * for its attributes (NOTIFY_STAT) before the next notification goes out: then no wrong size is left. */
#ifndef HANDSFS_FS_NOTIFY_H
#define HANDSFS_FS_NOTIFY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "sandbox/error.h"

struct fuse_session;
struct notifier;
struct notify_job;

enum notify_kind {
    NOTIFY_ATTR,  /* the attributes of `node` */
    NOTIFY_DATA,  /* its pages too; dirty ones are written back first */
    NOTIFY_NAMES, /* every name, where the kernel can do that (notifier_knows_names) */
    NOTIFY_NAME,  /* one name: `node` is the directory */
    NOTIFY_STAT,  /* none: the kernel is made to ask for the attributes of the path `name` */
};

int notifier_start(struct notifier **ret, uv_loop_t *loop, struct fuse_session *session,
                   struct error *err) __attribute__((nonnull, warn_unused_result));

/* Ends the thread; jobs that wait are done without a notification. `stopped` is called from the loop
 * when nothing of the notifier is left there. */
void notifier_stop(struct notifier *notifier, void (*stopped)(void *arg), void *arg)
    __attribute__((nonnull(1, 2)));

/* Finds out whether NOTIFY_NAMES works; to be called when the kernel has been answered INIT. */
void notifier_ask(struct notifier *notifier) __attribute__((nonnull));
/* Whether it does; true until the kernel said no. */
bool notifier_knows_names(const struct notifier *notifier) __attribute__((nonnull));

/* A list of notifications; `done` is called from the loop when all were sent. NULL out of memory. */
struct notify_job *notify_job_new(void (*done)(void *arg), void *arg) __attribute__((nonnull(1)));
/* 0, or -1 out of memory. `name` is copied; NULL but for NOTIFY_NAME and NOTIFY_STAT. */
int notify_job_add(struct notify_job *job, enum notify_kind kind, uint64_t node, const char *name)
    __attribute__((nonnull(1), warn_unused_result));
bool notify_job_is_empty(const struct notify_job *job) __attribute__((nonnull));
void notify_job_free(struct notify_job *job) __attribute__((nonnull)); /* one that was not submitted */

/* Takes the job over. */
void notifier_submit(struct notifier *notifier, struct notify_job *job) __attribute__((nonnull));

/* From now on nobody waits for the job, which goes on. On the loop, before `done` was called. */
void notify_job_abandon(struct notify_job *job) __attribute__((nonnull));

#endif
