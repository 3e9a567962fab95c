/* Who the sandbox's programs are: user, group and capabilities inside. */
#ifndef HANDSFS_BACKENDS_LOCAL_IDENTITY_H
#define HANDSFS_BACKENDS_LOCAL_IDENTITY_H

#include "sandbox/sandbox.h"

struct local_identity {
    uint32_t uid, gid; /* inside */
    /* The sandbox of a root: it gets a range of ids, so that files may change hands inside. Otherwise it
     * has one user and one group, which stand for the caller's outside. */
    bool range;
    uint64_t capabilities; /* bits in the numbering of capabilities(7) */
};

/* By the spec and the caller. ERROR_BAD_REQUEST for a user that is not "UID" or "UID:GID" and for the name
 * of an unknown capability. */
int local_identity_of(const struct sandbox_spec *spec, struct local_identity *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
