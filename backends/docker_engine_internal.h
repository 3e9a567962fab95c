/* What the source files of docker_engine share.
 *
 *     docker_engine.c  the daemon, its version, its requests
 *     docker_host.c    which daemon is meant
 *     docker_stream.c  exec streams */
#ifndef HANDSFS_BACKENDS_DOCKER_ENGINE_INTERNAL_H
#define HANDSFS_BACKENDS_DOCKER_ENGINE_INTERNAL_H

#include "backends/docker_engine.h"

struct docker_engine {
    struct http *http;
    char *host;
    char api[8];
    char version[64];
    bool podman, local;
};

/* Makes a reply of an answer, whose body it takes over. */
int docker_reply_take(struct docker_reply *ret, struct http_answer *answer, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* "/vAPI" and the path. */
int docker_put_path(const struct docker_engine *engine, struct buffer *ret, const char *path,
                    struct error *err) __attribute__((nonnull, warn_unused_result));

#endif
