/* One request of the kernel on its way: it is about nodes and handles, becomes one call to the sandbox,
 * and is answered exactly once (fs/reply.h), which frees it.
 *
 * A call says which file it means by path, with the inode that is expected there, or by an open handle.
 * Where a name turns out to lead elsewhere the call is made once more by the handle that the lookup kept
 * (fs/kept.h). Without one the name is dropped and the call made by another name or by any open handle of the
 * node; after that the kernel gets ESTALE and walks its path anew by itself.
 *
 * An interrupted request gets REQUEST_GRACE_MS to end by itself, because many programs get signals that
 * do not kill them and no file operation of theirs should fail for it. Then the call is cancelled. */
#ifndef HANDSFS_FS_REQUEST_H
#define HANDSFS_FS_REQUEST_H

#include "fs/face.h"

#define REQUEST_GRACE_MS 200

typedef void (*request_done)(struct request *r, const struct wire_reply *reply);
typedef void (*request_failed)(struct request *r, const struct error *err);

struct request {
    TAILQ_ENTRY(request) all;
    struct fs *fs;
    fuse_req_t fuse;
    struct node *node, *node2; /* what it is about, pinned; the second directory */
    struct node *from; /* where the call starts instead of at `node`, or NULL; pinned */
    struct opened *handle, *handle2; /* held */
    char *name, *name2;
    struct wire_call wire; /* the call; texts point into this struct's memory */
    bool about_node; /* the call is about `node` itself, by whatever name */
    bool by_kept; /* the call goes by what was kept of the node */
    bool retried;
    uint64_t serial; /* of the name that the call went by; 0 for a handle */
    uint64_t generation;
    struct call *call; /* while it runs */
    request_done done;
    request_failed failed;             /* NULL: answer_failure() */
    void (*cancel)(struct request *r); /* NULL: cancel the call */
    struct deadline deadline;
    bool interruptible; /* libfuse was told */
    struct buffer path, path2, kept;
    /* the operation's own */
    int flags;
    size_t size;
    struct notify_job *job; /* that it waits for */
    struct control_file *control;
    struct opened *opened;
};

/* A request about the node `ino` (0: about none). NULL where it has been answered already: the node is
 * not known, it is a control file's, memory is out, or the file system is going away. */
struct request *request_begin(fuse_req_t fuse, fuse_ino_t ino);

/* The same, about `name` in the directory `ino`; names of ours are refused. */
struct request *request_begin_name(fuse_req_t fuse, fuse_ino_t ino, const char *name);

/* The second directory and name. False where the request has been answered. */
bool request_second(struct request *r, fuse_ino_t ino, const char *name);

/* The open file. False where the request has been answered: EBADF. */
bool request_handle(struct request *r, uint64_t fh);

/* The thread that makes it; 0 where it is another pid name space's. */
pid_t request_pid(const struct request *r);

/* Keeps `data` for the call's sake. False where the request has been answered. */
bool request_keep(struct request *r, const void *data, size_t length);

/* Makes the call; `ref`, `ref2` and the names are filled in here. */
void request_send(struct request *r, request_done done);

/* Tells libfuse that the request can be interrupted. */
void request_can_be_interrupted(struct request *r);

/* Ends it without an answer: only for fs/reply.c. */
void request_free(struct request *r);

/* Ends what runs of it, as after an interrupt. */
void request_stop(struct request *r);

#endif
