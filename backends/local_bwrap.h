/* Bubblewrap's arguments for one sandbox: what is mounted where, what is its own. */
#ifndef HANDSFS_BACKENDS_LOCAL_BWRAP_H
#define HANDSFS_BACKENDS_LOCAL_BWRAP_H

#include "backends/local_identity.h"
#include "backends/local_record.h"
#include "sandbox/buffer.h"

#define LOCAL_MAX_FDS 24
#define LOCAL_HAND_INSIDE "/run/handsfs/hand"
#define LOCAL_HOME_INSIDE "/home/sandbox"

/* Arguments and the descriptors that they name. */
struct local_arguments {
    struct buffer text;      /* NUL-terminated arguments, as bwrap --args reads them */
    int fds[LOCAL_MAX_FDS]; /* which bubblewrap inherits; owned */
    size_t fd_count;
    bool failed; /* out of memory on the way */
};

#define cleanup_arguments __attribute__((cleanup(local_arguments_release)))

void local_arguments_init(struct local_arguments *arguments) __attribute__((nonnull));
void local_arguments_release(struct local_arguments *arguments) __attribute__((nonnull));

/* What is asked of the machine by any sandbox: the namespaces and an empty root with /usr, /proc, /dev. For
 * `handsfs doctor`, too. `userns_fd`: a user namespace that is to be joined, or -1 for a new one. */
void local_arguments_base(struct local_arguments *arguments, const struct local_identity *identity,
                          int userns_fd) __attribute__((nonnull));

/* All of it. `directory` is the session's, absolute; `hand` the program's path. */
int local_arguments_build(struct local_arguments *arguments, const struct local_record *record,
                          const struct local_identity *identity, int userns_fd, const char *directory,
                          const char *hand, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* A descriptor from which bwrap --args reads them; among the inherited ones, not to be closed by itself. */
int local_arguments_seal(struct local_arguments *arguments, int *ret_fd, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* 0 where a sandbox can have this workdir, else ERROR_BAD_REQUEST. */
int local_workdir_check(const char *workdir, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
