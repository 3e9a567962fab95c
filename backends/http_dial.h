/* Programs whose standard input and output are a connection to a server, such as ssh. */
#ifndef HANDSFS_BACKENDS_HTTP_DIAL_H
#define HANDSFS_BACKENDS_HTTP_DIAL_H

#include <stddef.h>

#include "sandbox/error.h"

#define HTTP_LAST_WORDS 256 /* bytes of what such a program said on its standard error */

struct http_child;

/* Starts the program in a session of its own. *ret_fd, close-on-exec, is the child's: http_child_end()
 * closes it. ERROR_BAD_REQUEST where the program cannot be run. */
int http_child_start(struct http_child **ret, char *const *argv, int *ret_fd, struct error *err)
    __attribute__((nonnull, warn_unused_result));

int http_child_fd(const struct http_child *child) __attribute__((nonnull));

/* Closes the connection, which is the sign for the program to end; one that does not is killed. `words`
 * (HTTP_LAST_WORDS bytes) becomes what it had said on its standard error, printable. */
void http_child_end(struct http_child *child, char *words) __attribute__((nonnull));

#endif
