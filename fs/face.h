/* A mounted file system, private to fs/. All of it belongs to the loop's thread. */
#ifndef HANDSFS_FS_FACE_H
#define HANDSFS_FS_FACE_H

#include <stdbool.h>

#include <fuse_lowlevel.h>

#include "fs/attr.h"
#include "fs/deadline.h"
#include "fs/fs.h"
#include "fs/kept.h"
#include "fs/opened.h"
#include "fs/node.h"
#include "fs/notify.h"

#define FS_CLOSE_GRACE_MS 2000 /* for the kernel to write back what it holds while it unmounts */
#define FS_NOTIFY_WAIT_MS 1000 /* what waits for the notifier waits this long at most */
#define FS_TTL_SLACK_MS 50     /* the kernel's clock and ours */
#define FS_REQUESTS_A_TURN 64

struct request;
struct unmounter;

struct check;
TAILQ_HEAD(check_list, check);
TAILQ_HEAD(request_list, request);
TAILQ_HEAD(kept_list, kept);

struct fs {
    uv_loop_t *loop;
    struct link *link;
    struct fs_options options;
    struct fs_control control;
    bool has_control;
    uint64_t mounted_s; /* when, for the control files' times */
    char *mountpoint;   /* absolute, resolved */
    char *workdir;      /* the sandbox's */
    dev_t dev;          /* of the mount; 0 where it is not known */

    struct fuse_session *session;
    struct fuse_buf incoming;
    uint64_t init_unique; /* the INIT request that is being answered; 0 for none */
    bool initialized;     /* the kernel has asked INIT */
    bool tuned;
    uv_poll_t poll;

    struct nodes nodes;
    struct table handles;
    uint64_t next_handle;
    struct request_list requests; /* not answered */
    struct check_list checks;     /* of barriers, that run */
    struct kept_list kept;        /* the one kept longest first; kept_count of them */
    unsigned kept_count;
    uint64_t kept_ms;  /* KEPT_MS, or as a test wants it */
    uint64_t stale_ms; /* when the kernel was last told ESTALE; 0: never */
    struct deadlines deadlines;
    struct notifier *notifier;
    uint64_t generation; /* goes up whenever all that was given to the kernel is called back */
    struct attr_rules rules;
    struct fs_counts counts;
    unsigned controls; /* open control files */
    enum error_code logged; /* the operator's error that was logged and still lasts */

    void (*on_end)(void *arg);
    void *on_end_arg;
    bool ended;    /* the kernel's side is gone */
    bool closing;  /* fs_close() was called */
    bool flushing; /* and what is dirty goes inside first */
    bool refusing; /* and nothing is served any more */
    struct unmounter *unmounter; /* while its thread works */
    bool stopping; /* the notifier is */
    struct deadline close_step;
    unsigned loop_handles; /* timer and poll, as far as they are on the loop */
    void (*closed)(void *arg);
    void *closed_arg;
};

/* Seconds that the kernel may believe what a request of this generation is answered. */
double fs_ttl(const struct fs *fs, uint64_t generation);

/* The rules with the sandbox's user as far as it is known. */
const struct attr_rules *fs_rules(struct fs *fs);

/* Adds to a job that the kernel drops what it believes of an open file and asks anew. 0, or -1 out of
 * memory. */
int fs_refresh(const struct fs *fs, struct notify_job *job, enum notify_kind kind,
               const struct node *node);

/* fs/init.c */
void init_session(struct fs *fs);                            /* before the first request */
void init_capabilities(void *fs, struct fuse_conn_info *conn); /* the INIT operation */
void init_tune(struct fs *fs);                               /* after it was answered */

/* fs/close.c */
void close_check(struct fs *fs); /* after anything that closing may wait for */
void close_loop(struct fs *fs);  /* ends the session, takes all off the loop, and frees it */
void close_free(struct fs *fs);  /* frees what never was on the loop */

/* fs/ops.c */
extern const struct fuse_lowlevel_ops fs_operations;

#endif
