/* Which Docker daemon the environment means: DOCKER_HOST; else DOCKER_CONTEXT; else the current context of
 * the docker client's config.json; else the standard socket. See docker(1). */
#ifndef HANDSFS_BACKENDS_DOCKER_HOST_H
#define HANDSFS_BACKENDS_DOCKER_HOST_H

#include "backends/http.h"

/* Fills `server` (as after http_server_init()) and *ret_host, which the caller frees: the endpoint as the
 * docker client writes it, such as "unix:///run/docker.sock". ERROR_BAD_REQUEST for settings that make no sense. */
int docker_host_find(struct http_server *server, char **ret_host, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
