/* What the docker client knows of a registry's accounts: config.json in $DOCKER_CONFIG, else
 * ~/.docker, with the credential helpers that it names. Read only, and what is read is given to
 * the engine alone. */
#ifndef HANDSFS_BACKENDS_DOCKER_AUTH_H
#define HANDSFS_BACKENDS_DOCKER_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "sandbox/error.h"

#define DOCKER_AUTH_NOTE 256         /* bytes */
#define DOCKER_MAX_CONFIG (1u << 20) /* bytes of config.json */

/* The line "X-Registry-Auth: ..." for this registry ("docker.io", "localhost:5000"), to be given
 * to docker_auth_free(); *ret NULL (and the return 0) where the client has no account there.
 * What kept us from looking, such as a helper that is not installed, is no error, since most
 * images need no account: `note` (DOCKER_AUTH_NOTE bytes, printable) says it, and is "" else.
 * ERROR_NO_MEMORY. */
int docker_auth_header(const char *registry, char **ret, char *note, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void docker_auth_free(char *header); /* wipes it; accepts NULL */

/* Tells the programs that the configuration names as credential helpers, and whether each is to
 * be found; or, with `program` NULL, why the configuration cannot be read. */
void docker_auth_helpers(void (*tell)(void *arg, const char *program, bool found, const char *why),
                         void *arg) __attribute__((nonnull(1)));

#endif
