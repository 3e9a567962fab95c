/* The name of an image, taken apart: [REGISTRY[:PORT]/]PATH[:TAG][@DIGEST], by the grammar of
 * the reference that the OCI distribution specification and docker(1) share. */
#ifndef HANDSFS_BACKENDS_DOCKER_REFERENCE_H
#define HANDSFS_BACKENDS_DOCKER_REFERENCE_H

#include "sandbox/error.h"

#define DOCKER_MAX_REFERENCE 512 /* bytes of a name in all */
#define DOCKER_HUB "docker.io"   /* where names without a registry are from */

struct docker_reference {
    char *registry; /* "docker.io", "localhost:5000" */
    char *name;     /* registry and path, without tag and digest: "docker.io/library/debian" */
    char *version;  /* the digest where there is one, else the tag, else "latest" */
};
#define DOCKER_REFERENCE_INIT                                                                      \
    {                                                                                              \
        .registry = NULL                                                                           \
    }
void docker_reference_release(struct docker_reference *reference) __attribute__((nonnull));
#define cleanup_reference __attribute__((cleanup(docker_reference_release)))

/* ERROR_BAD_REQUEST with what is wrong about it. What it lets through is made of letters, digits
 * and ._-:/@ alone, so it needs no encoding in the path of a URL. */
int docker_reference_parse(const char *text, struct docker_reference *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
