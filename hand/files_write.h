/* The contract's WriteFile on its way: a temporary file beside the target, which COMMIT renames. Private to
 * hand/files*.c. */
#ifndef HANDSFS_HAND_FILES_WRITE_H
#define HANDSFS_HAND_FILES_WRITE_H

#include <sys/types.h>

#include "hand/files_handles.h"
#include "hand/wire.h"

struct replacement;

/* Gives up what was not committed: removes the temporary file and the directories that were made for it,
 * where they are empty. Accepts NULL. */
void replacement_free(struct replacement *replacement);

/* WRITE on its handle. The bytes written, or -1 with errno: EFBIG past the declared size. */
ssize_t replacement_write(struct handle *handle, const struct wire_call *call)
    __attribute__((nonnull, warn_unused_result));

#endif
