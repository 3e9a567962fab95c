/* Programs whose standard input and output are a connection to a server, such as ssh. */
#ifndef HANDSFS_BACKENDS_HTTP_DIAL_H
#define HANDSFS_BACKENDS_HTTP_DIAL_H

#include <stddef.h>

#include "sandbox/error.h"

#define HTTP_LAST_WORDS 256 /* bytes of what such a program said on its standard error */

struct http_child;

/* Starts the program in a session of its own, with the descriptor (the caller's) as its standard input and output.
 * ERROR_BAD_REQUEST where the program cannot be run. */
int http_child_start(struct http_child **ret, char *const *argv, int fd, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Call it when the connection was closed, which is the sign for the program to end; one that does not is killed.
 * `words` (HTTP_LAST_WORDS bytes) becomes what it had said on its standard error, printable. */
void http_child_end(struct http_child *child, char *words) __attribute__((nonnull));

#endif
