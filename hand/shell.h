/* Persistent shells: an execution may belong to one by its name. Executions of one shell run one after the
 * other, and what one leaves (hand/shell_script.c) is what the next begins with. That text is kept here, in
 * the memory of the sandbox's first process: no file of the sandbox holds it, whatever host comes next finds
 * it, and it ends with the sandbox. To this process it is bytes, and bounded.
 *
 * What an execution leaves is taken when its command has ended by itself, and before the host is told so. A
 * host that finds that too late says KILL before it says FORGET: then what was there before is back. Until
 * FORGET no other execution of the shell begins, unless it is of the same host. */
#ifndef HANDSFS_HAND_SHELL_H
#define HANDSFS_HAND_SHELL_H

#include <stdbool.h>
#include <stddef.h>

#include "hand/list.h"
#include "hand/wire.h"
#include "sandbox/error.h"

#define SHELL_MAX_COUNT 64               /* shells that have something to keep or run */
#define SHELL_MAX_STATE (1u << 20)       /* bytes that one leaves */
#define SHELL_MAX_TOTAL (16u << 20)      /* ... and all together */
#define SHELL_MAX_WAITING 64             /* executions that wait for their turn, in all shells */
#define SHELL_MAX_WAITING_BYTES (16u << 20) /* of their requests */

struct execution;
struct shell_call;

struct shells {
    struct list all;
    unsigned count;
    size_t bytes; /* kept by all of them */
    unsigned waiting;
    size_t waiting_bytes;
};

void shells_init(struct shells *shells) __attribute__((nonnull));

/* Makes `e` one of its shell's. 1: it is its turn. 0: it waits; the request was copied, and
 * execution_begin() is called when its turn comes. -1: over a bound. */
int shell_enter(struct execution *e, const struct wire_exec *request, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Takes it out of its shell, whose next one begins. Nothing where it is out already. */
void shell_leave(struct execution *e) __attribute__((nonnull));

/* Whether it still waits for its turn. */
bool shell_waits(const struct execution *e) __attribute__((nonnull));

/* What its bash starts with: the text for -c (to be freed), a file for COMMAND_TEXT_FD and the writing end of
 * a pipe for COMMAND_STATE_FD, both of the caller's. -1 with errno. */
int shell_launch(struct execution *e, const struct wire_text *command, char **ret_text, int *ret_text_fd,
                 int *ret_state_fd) __attribute__((nonnull, warn_unused_result));

/* Whether a state will be restored: that brings its own exported variables. */
bool shell_has_state(const struct execution *e) __attribute__((nonnull));

/* Its command has ended (e->exit says how): takes what it left, and sets e->exit.state. */
void shell_settle(struct execution *e) __attribute__((nonnull));

/* The host does not want what it has left. */
void shell_revoke(struct execution *e) __attribute__((nonnull));

extern const char shell_boot[];
extern const char shell_prelude[];

#endif
