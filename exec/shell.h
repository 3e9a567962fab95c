/* Persistent shells: the commands of one shell run one after the other, and each sees what the one before
 * has left; handsfs-shell(7) says what is carried. What a shell is made of, and whose turn it is, is kept
 * inside the sandbox by the hand (hand/shell.h), so that every gateway of the session, now or later, has the
 * same shells. A command is put into one by execution_request.shell alone; here is what goes around that.
 *
 * shell.run is `exec` with a shell (command.c); shell.restart is that with `shell_reset` and no command. */
#ifndef HANDSFS_EXEC_SHELL_H
#define HANDSFS_EXEC_SHELL_H

#include <stdbool.h>

#include <jansson.h>

#include "backends/execution.h"

#define SHELL_DEFAULT "main" /* where no name is given */

/* 1 to WIRE_MAX_SHELL_NAME of A-Z a-z 0-9 . _ - */
bool shell_name_is_good(const char *name) __attribute__((nonnull));

/* The parameter `shell`, borrowed from `params`, or SHELL_DEFAULT. ERROR_BAD_REQUEST for no name of one. */
int shell_name_param(const json_t *params, const char **ret, struct error *err)
    __attribute__((nonnull(2, 3), warn_unused_result));

/* Why the changes that a command made to its shell are not kept, as results say it: "timed_out",
 * "ended_early" (its bash was killed, replaced by exec, or ended in an EXIT trap of its own), "too_large".
 * NULL where they are kept. */
const char *shell_state_reason(const struct execution_result *result) __attribute__((nonnull));

/* The result of shell.run in `name`: an ExecResult and what became of the state. New reference, NULL out of
 * memory. */
json_t *shell_result_json(const char *name, const struct execution_result *result)
    __attribute__((nonnull));

#endif
