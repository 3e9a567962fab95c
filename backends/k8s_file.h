/* Small files that are read whole. */
#ifndef HANDSFS_BACKENDS_K8S_FILE_H
#define HANDSFS_BACKENDS_K8S_FILE_H

#include <stdbool.h>

#include "sandbox/buffer.h"
#include "sandbox/error.h"

/* Appends a regular file's content. ERROR_NO_SUCH_FILE where it is not there; ERROR_BAD_REQUEST, naming
 * it, where it cannot be read, is no regular file or has more than the buffer's limit. */
int k8s_file_read(const char *path, struct buffer *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* A file's one line of text without the white space around it (tokens are files like that). As above,
 * and ERROR_BAD_REQUEST where it is empty, over `limit` bytes or has anything but printable ASCII in it:
 * it is put into a header. To be freed. */
int k8s_file_line(const char *path, size_t limit, char **ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* `path` as it is where absolute, else below the folder that the file `beside` is in. NULL: out of memory. */
char *k8s_file_beside(const char *path, const char *beside) __attribute__((nonnull));

/* Whether a header may carry it: printable ASCII. */
bool k8s_header_text(const char *text) __attribute__((nonnull));

#endif
