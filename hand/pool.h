/* Worker threads for the file calls, which block as the file system does. They start when there is work
 * and none is idle. All functions are the loop's thread's. */
#ifndef HANDSFS_HAND_POOL_H
#define HANDSFS_HAND_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "hand/files.h"
#include "hand/list.h"
#include "sandbox/buffer.h"
#include "sandbox/error.h"

#define POOL_MAX_THREADS 8
#define POOL_STACK_BYTES (256u << 10)

struct pool;

/* One call on its way. Whoever submits it owns it again when pool_finished() gives it back. */
struct job {
    struct list node;
    struct files *files;
    void *client;
    uint64_t connection; /* who waits for the reply; 0: nobody */
    uint64_t id;
    struct buffer call;
    struct buffer reply; /* a whole RESULT frame; empty where memory ran out */
};

/* NULL where memory runs out. Copies the call. */
struct job *job_new(struct files *files, uint64_t id, const uint8_t *call, size_t length)
    __attribute__((nonnull));
void job_free(struct job *job);

int pool_new(struct pool **ret, struct error *err) __attribute__((nonnull, warn_unused_result));

/* Becomes readable when jobs are finished. */
int pool_fd(const struct pool *pool) __attribute__((nonnull));

/* A job that no thread can be found for is done in this one. */
void pool_submit(struct pool *pool, struct job *job) __attribute__((nonnull));

/* Takes the job out if nobody has begun it; NULL where it is begun or unknown. */
struct job *pool_withdraw(struct pool *pool, const void *client, uint64_t id)
    __attribute__((nonnull));

/* Moves all finished jobs to the list. */
void pool_finished(struct pool *pool, struct list *ret) __attribute__((nonnull));

#endif
