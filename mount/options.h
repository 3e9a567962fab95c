/* Options: one table, four places where they are said. What is said later wins, so they are read in this
 * order: the system's file, the user's file, the environment, the command line (with -o). What may be
 * said several times (env, cap-drop) adds up. Names are the same everywhere; "-" and "_" are the same
 * letter in them, and in the environment they are in capitals behind "HANDSFS_". */
#ifndef HANDSFS_MOUNT_OPTIONS_H
#define HANDSFS_MOUNT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "fs/fs.h"
#include "sandbox/sandbox.h"

#define OPTIONS_MAX_FILE (64u << 10) /* bytes of a configuration file */
#define OPTIONS_MAX_NAME 32          /* letters of an option's name */
#define OPTIONS_MAX_CAPS 64          /* names that cap-drop may hold */
#define OPTIONS_WAIT_FOR_EVER UINT64_MAX

/* Groups of options; a verb names those that it takes. */
enum option_group {
    OPTIONS_COMMON = 1 << 0, /* --verbose, --help */
    OPTIONS_BACKEND = 1 << 1,
    OPTIONS_SPEC = 1 << 2,  /* what a sandbox is made from */
    OPTIONS_MOUNT = 1 << 3, /* how it is mounted, and -o */
    OPTIONS_EXEC = 1 << 4,
    OPTIONS_JSON = 1 << 5,
    OPTIONS_UMOUNT = 1 << 6,
    OPTIONS_SHELL = 1 << 7,
    OPTIONS_WAIT = 1 << 8,
};

struct options {
    struct sandbox_spec spec; /* the session is left out; `network` stands below */
    uint64_t said;            /* rows of the table, by their bit, that are this call's: said on its command line */
    int network;              /* enum network_mode */
    char *backend;            /* NULL: whatever the registry thinks best */
    char *socket;
    uint64_t op_timeout_ms;
    uint64_t max_file_size;
    int idmap, symlinks, special; /* the enums of fs/fs.h */
    bool allow_other;
    bool read_only;
    bool no_exec;
    struct env_list exec_env; /* --env on the command line of exec and shell */
    uint64_t timeout_ms;
    char *cwd;
    char *shell; /* the persistent shell that the command is of */
    bool no_stdin;
    bool tty;
    bool detach;
    bool kill;        /* the job that is waited for */
    uint64_t wait_ms; /* for it, or OPTIONS_WAIT_FOR_EVER */
    bool json;
    bool foreground;
    bool lazy;
    bool verbose;
    bool help;
};

void options_init(struct options *options) __attribute__((nonnull));
void options_release(struct options *options) __attribute__((nonnull));
#define cleanup_options __attribute__((cleanup(options_release)))

/* Who says it. */
enum option_source {
    OPTION_FROM_FILE,
    OPTION_FROM_ENVIRONMENT,
    OPTION_FROM_LIST,
    OPTION_FROM_ARGUMENTS
};

/* Sets one. `groups` are those that may be set here; `value` may be NULL for those that need none. All
 * errors are ERROR_BAD_REQUEST, or ERROR_NO_MEMORY. */
int options_set(struct options *options, const char *name, const char *value, unsigned groups,
                enum option_source source, struct error *err)
    __attribute__((nonnull(1, 2, 6), warn_unused_result));

/* Reads a list as -o has it: "key=value,flag"; "\," and "\\" stand for the second character. What mount(8)
 * says to every file system and what changes nothing here is passed over. */
int options_read_list(struct options *options, const char *list, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Reads a configuration file's text; `name` is told in errors, with the line's number. */
int options_read_config(struct options *options, const char *text, size_t length, const char *name,
                        struct error *err) __attribute__((nonnull, warn_unused_result));

/* Reads the variables of `environment` (NULL-terminated NAME=VALUE) that are called like an option. Others
 * are none of ours, HANDSFS_... included; an empty one counts as not there. */
int options_read_environment(struct options *options, char *const *environment, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Both files and this process's environment, in their order. Files that are not there are no error. */
int options_read_defaults(struct options *options, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* What is left of a command line when the options are taken out. The strings are the vector's own. */
struct arguments {
    char **words; /* at most `max`; to be freed with free() */
    size_t count;
    char **
        command; /* what follows "--" (or, with `command_max`, the last word); NULL where nothing does */
    size_t command_count;
};

/* Reads the words behind the verb. With `takes_command` the words behind the first `max_words` are the
 * command, and so is everything behind "--". */
int options_read_arguments(struct options *options, int count, char **words, unsigned groups,
                           size_t max_words, bool takes_command, struct arguments *ret,
                           struct error *err) __attribute__((nonnull, warn_unused_result));

/* The session's name where none was given: with --attach it is the container's (12 digits of a full id).
 * ERROR_BAD_REQUEST where that is no session's name. */
int options_session_of_attach(const struct options *options, char ret[MAX_SESSION_NAME + 1],
                              struct error *err) __attribute__((nonnull, warn_unused_result));

/* Makes the specification complete for `session` and checks it. With --attach the backend is docker where
 * nobody said another than local; what a container is made from is refused where this call says it, and
 * forgotten where it is a default. */
int options_spec(struct options *options, const char *session, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Whether this call says what the sandbox is to be like, beyond files and environment. */
bool options_say_spec(const struct options *options) __attribute__((nonnull));

/* What the file system is told; owner is the calling user. */
void options_fs(const struct options *options, struct fs_options *ret) __attribute__((nonnull));

/* Prints the options of these groups, one or more lines each. */
void options_print_help(FILE *out, unsigned groups) __attribute__((nonnull));

#endif
