/* An argument vector as text for a shell. */
#ifndef HANDSFS_MOUNT_QUOTE_H
#define HANDSFS_MOUNT_QUOTE_H

#include <stddef.h>

#include "sandbox/buffer.h"
#include "sandbox/error.h"

/* Appends text that makes bash(1) run exactly these words: no expansion, no reserved word, no assignment.
 * The text is ASCII where a word is not valid UTF-8, so that it can always travel in JSON. */
int quote_words(struct buffer *out, char *const *words, size_t count, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Appends the command that a command line means: one word is the command's text itself, several are quoted. */
int quote_command(struct buffer *out, char *const *words, size_t count, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
