/* What this host remembers of sessions in containers of others: a file SESSION.json for each in
 * the directory "docker" of the state directory, mode 0600, replaced in one step. Whoever
 * changes something there, or starts a hand, holds the directory's lock. */
#ifndef HANDSFS_BACKENDS_DOCKER_RECORD_H
#define HANDSFS_BACKENDS_DOCKER_RECORD_H

#include "backends/docker_internal.h"

#define DOCKER_RECORD_BYTES (64u << 10) /* of a file, variables included */
#define DOCKER_HAND_ID 17               /* 64 random bits in hexadecimal, and the NUL */

struct docker_record {
    char *host; /* the engine, as docker_engine_host() calls it */
    char *name; /* the container, as it was called when it was attached to */
    char *workdir;
    json_t *env;                     /* an array of NAME=VALUE for the commands; owned */
    char container[DOCKER_ID_BYTES]; /* its id */
    char hand[DOCKER_HAND_ID];       /* of the hand that was started last: its socket's name */
    char exec[DOCKER_ID_BYTES];      /* and the exec that it runs in */
};
#define DOCKER_RECORD_INIT                                                                         \
    {                                                                                              \
        .host = NULL                                                                               \
    }
void docker_record_release(struct docker_record *record) __attribute__((nonnull));
#define cleanup_docker_record __attribute__((cleanup(docker_record_release)))

/* Opens the directory and takes its lock, for as long as *ret_dir is open. ERROR_NO_ANSWER. */
int docker_records_lock(uint64_t deadline_ms, int *ret_dir, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* ERROR_SANDBOX_GONE where there is none; ERROR_IO for one that makes no sense. */
int docker_record_read(int dir, const char *session, struct docker_record *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));
int docker_record_write(int dir, const char *session, const struct docker_record *record,
                        struct error *err) __attribute__((nonnull, warn_unused_result));
void docker_record_remove(int dir, const char *session) __attribute__((nonnull));

#endif
