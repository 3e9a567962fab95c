/* What the command line's verbs share. Each is one `struct verb` at the end of a file of its own; main.c
 * reads the options, checks the number of words, and runs it. */
#ifndef HANDSFS_MOUNT_VERBS_H
#define HANDSFS_MOUNT_VERBS_H

#include <stdbool.h>
#include <stddef.h>

#include "mount/mounts.h"
#include "mount/options.h"
#include "sandbox/sandbox.h"

/* Exit codes. `exec` gives the command's own. */
enum {
    EXIT_DONE = 0,
    EXIT_FAILED = 1,
    EXIT_USAGE = 2,
    EXIT_TIMED_OUT = 124,   /* exec: as timeout(1) */
    EXIT_EXEC_FAILED = 125, /* exec: handsfs itself failed, as timeout(1) and docker run */
    EXIT_SIGNALLED = 128,   /* exec: and the signal's number */
};

/* How long verbs wait, in milliseconds. */
#define PROVISION_TIMEOUT_MS (5 * 60 * 1000) /* an image's pull has bounds of its own */
#define ATTACH_TIMEOUT_MS (30 * 1000)
#define DESTROY_TIMEOUT_MS (60 * 1000)
#define SOCKET_TIMEOUT_MS (5 * 1000) /* to connect to a mount's daemon on this very machine */
#define REPLY_TIMEOUT_MS (60 * 1000) /* until it has answered a method that is not exec */

/* A verb's call. */
struct invocation {
    const struct verb *verb;
    struct options options;
    struct arguments arguments;
    char session[MAX_SESSION_NAME + 1]; /* where it has the container's name (--attach) */
};

struct verb {
    const char *name;
    const char *summary;  /* one line in `handsfs --help` */
    const char *synopsis; /* what follows the verb */
    const char *text;     /* `handsfs VERB --help`: what it does, ending in a newline */
    const char *examples; /* lines, each starting with two blanks */
    unsigned groups;      /* enum option_group */
    size_t min_words, max_words; /* with --attach the first one, the session, may be left out */
    bool takes_command;
    int failure; /* the exit code when handsfs itself fails */
    /* Is expected to return the exit code, or -1 with `err` set: main.c says why and exits `failure`. */
    int (*run)(struct invocation *invocation, struct error *err);
};

extern const struct verb verb_mount, verb_umount, verb_exec, verb_shell, verb_jobs, verb_wait,
    verb_provision, verb_ls, verb_status, verb_read, verb_write, verb_destroy, verb_mcp, verb_doctor;

/* All of them, in the order of the help; NULL-terminated. */
extern const struct verb *const verbs[];

/* help.c */
void help_all(FILE *out) __attribute__((nonnull));
void help_verb(FILE *out, const struct verb *verb) __attribute__((nonnull));

/* The daemon of a live mount of `session` that the options allow for, connected. 0 with *ret NULL where
 * there is none. The entry is filled in where there is one. */
struct client;
int verb_client(const struct options *options, const char *session, struct client **ret,
                struct mount_entry *ret_entry, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Runs a command for a verb, mounted or not (exec_verb.c): the exit code, or -1. With --json its result is
 * printed. Does not return where a signal ended it that ends this process, too. */
struct run_plan;
int verb_run(const struct options *options, const char *session, const struct run_plan *plan,
             struct error *err) __attribute__((nonnull, warn_unused_result));

/* Provisions the session's sandbox from the options and tells the live mounts of the session, so that those
 * of a lost sandbox work again. */
int verb_provision_session(struct options *options, const char *session, struct sandbox *ret,
                           struct error *err) __attribute__((nonnull, warn_unused_result));

/* Asks each live mount of the session, but the one at `except` (may be NULL), to look for its sandbox anew.
 * One that does not answer is passed over. */
void tell_mounts(const char *session, const char *backend, const char *except)
    __attribute__((nonnull(1, 2)));

/* Reads standard input whole. ERROR_TOO_LARGE over the buffer's limit. */
int read_standard_input(struct buffer *out, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Writes to standard output or standard error, all of it. -1 with errno. */
int write_out(int fd, const void *data, size_t length) __attribute__((warn_unused_result));

/* Prints JSON on one line on standard output; steals it. NULL is ERROR_NO_MEMORY. */
struct json_t;
int print_json(struct json_t *value, struct error *err) __attribute__((warn_unused_result));

#endif
