/* The Docker backend: one container per session, over the Engine API (Podman's compatible one too). See
 * handsfs-docker(7). */
#ifndef HANDSFS_BACKENDS_DOCKER_H
#define HANDSFS_BACKENDS_DOCKER_H

#include "sandbox/sandbox.h"

extern const struct backend backend_docker;

#endif
