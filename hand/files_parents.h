/* The directories above a file that is to be written, made where they are missing. Private to
 * hand/files*.c. */
#ifndef HANDSFS_HAND_FILES_PARENTS_H
#define HANDSFS_HAND_FILES_PARENTS_H

#include <stdbool.h>
#include <stddef.h>

#include "hand/files_server.h"

#define PARENTS_MAX_NEW 256 /* directories that one call makes; then ENAMETOOLONG */

struct parents {
    int anchor;       /* the deepest directory that was there, O_PATH; -1 where nothing was missing */
    const char *path; /* below it; the caller's, kept by the caller */
    unsigned count;   /* of the entries below, from the top */
    struct {
        size_t start, length; /* the name in `path` */
        bool made;            /* by us */
    } names[PARENTS_MAX_NEW];
};

/* Opens the directory `path`, O_PATH, and makes what is missing with mode 0755. Links are followed as the
 * base says. Returns the descriptor, or -1 with errno and nothing left that was made; *ret_refused tells
 * that a directory could not be made. */
int parents_open(struct parents *parents, const struct files *files, enum wire_base base,
                 const char *path, size_t length, bool *ret_refused)
    __attribute__((nonnull, warn_unused_result));

/* Removes what was made, as far as it is empty, and forgets it. */
void parents_remove(struct parents *parents, const struct files *files) __attribute__((nonnull));

/* Keeps what was made. */
void parents_release(struct parents *parents) __attribute__((nonnull));

#endif
