/* The parameters of the method exec that a command line means. */
#ifndef HANDSFS_MOUNT_EXEC_PARAMS_H
#define HANDSFS_MOUNT_EXEC_PARAMS_H

#include <jansson.h>

#include "mount/options.h"

/* The command, and of the options --timeout, --cwd, --env and --shell. New reference; NULL with `err` set where something
 * is no text that JSON can carry. */
json_t *exec_params(const struct options *options, const char *command, size_t length,
                    struct error *err) __attribute__((nonnull, warn_unused_result));

#endif
