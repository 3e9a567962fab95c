/* This process's terminal, while it is the terminal of a command inside: raw, so that every key goes there,
 * Ctrl-C and Ctrl-Z too. It is as it was before when this process ends, however it ends; only SIGKILL can
 * leave it raw. */
#ifndef HANDSFS_MOUNT_TERMINAL_H
#define HANDSFS_MOUNT_TERMINAL_H

#include <stdint.h>

#include "sandbox/error.h"

/* Makes the terminal `fd` raw. One at a time. */
int terminal_make_raw(int fd, struct error *err) __attribute__((nonnull, warn_unused_result));

/* As it was; nothing where it is. */
void terminal_restore(void);

/* The size of a terminal; both 0 where `fd` is none, or knows none. */
void terminal_size(int fd, uint16_t *ret_rows, uint16_t *ret_columns) __attribute__((nonnull));

#endif
