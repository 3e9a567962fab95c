/* The gateway's socket in the file system. */
#ifndef HANDSFS_EXEC_LISTEN_H
#define HANDSFS_EXEC_LISTEN_H

#include <sys/types.h>

#include "sandbox/error.h"

struct socket_file {
    int fd;     /* listening, non-blocking */
    int folder; /* O_PATH */
    char *name; /* in there */
    dev_t dev;  /* which file is ours */
    ino_t ino;
};

/* Listens at `path`, which may be longer than a socket's address. The file is there at once with mode 0600
 * and listening, or not at all. A socket that nobody listens on any more is replaced; a live one, somebody
 * else's, and anything but a socket is ERROR_BAD_REQUEST and left alone. */
int socket_file_create(struct socket_file *ret, const char *path, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Stops listening, and removes the file if it is still this one. */
void socket_file_remove(struct socket_file *file) __attribute__((nonnull));

#endif
