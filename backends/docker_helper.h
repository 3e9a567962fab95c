/* Credential helpers of the docker client: programs docker-credential-NAME, asked for an account
 * by the protocol of docker(1)'s credential stores: the server's name on standard input, an
 * object in JSON on standard output. */
#ifndef HANDSFS_BACKENDS_DOCKER_HELPER_H
#define HANDSFS_BACKENDS_DOCKER_HELPER_H

#include <jansson.h>
#include <stdbool.h>

#include "sandbox/error.h"

#define DOCKER_HELPER_PROGRAM 128        /* bytes of a program's name with its NUL */
#define DOCKER_HELPER_MS 30000           /* for its answer: it may have to ask its user */
#define DOCKER_HELPER_OUTPUT (64u << 10) /* bytes of the answer */

/* "docker-credential-NAME"; false where NAME cannot be part of a program's name. */
bool docker_helper_program(const char *name, char program[DOCKER_HELPER_PROGRAM])
    __attribute__((nonnull));

/* Whether the program is to be found in PATH. */
bool docker_helper_found(const char *program) __attribute__((nonnull));

/* Asks it for the account at `server`. *ret (owned) is NULL where it has none. ERROR_IO where it
 * cannot be run, takes too long, or says something else than an account; the message names it. */
int docker_helper_get(const char *name, const char *server, json_t **ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
