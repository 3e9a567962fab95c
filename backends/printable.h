/* Text of an engine or of a server, which may hold anything, made fit for a message. */
#ifndef HANDSFS_BACKENDS_PRINTABLE_H
#define HANDSFS_BACKENDS_PRINTABLE_H

#include <stddef.h>

/* Copies as much as fits, NUL-terminated: printable ASCII and whole characters of UTF-8 as they are, each
 * run of white space as one space, none at the ends, anything else as '?'. Gives the length. */
size_t copy_printable(char *to, size_t size, const void *from, size_t length)
    __attribute__((nonnull(1)));

/* A new string made as by printf(3), to be freed; NULL out of memory. */
char *printed(const char *format, ...) __attribute__((format(printf, 1, 2), warn_unused_result));

#endif
