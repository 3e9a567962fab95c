/* What a sandbox is: the contract's constants, the specification of one, and what a backend does.
 *
 * A backend knows how to get a sandbox, how to reach its hand (a byte stream), and how to remove it.
 * It never reads a file of the sandbox and never runs a command in it: the hand does (hand/wire.h).
 * Everybody else calls the functions below, which check before and after; nobody else touches `ops`. */
#ifndef HANDSFS_SANDBOX_SANDBOX_H
#define HANDSFS_SANDBOX_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sandbox/error.h"

/* The contract's constants. */
#define DEFAULT_WORKDIR "/workspace"
#define MAX_FILE_BYTES (UINT64_C(4) << 20)   /* ReadFile's cap, inclusive */
#define MAX_OUTPUT_BYTES (UINT64_C(1) << 20) /* what Exec keeps of each of stdout and stderr */
#define MAX_COMMAND_BYTES (UINT64_C(8) << 20)
#define MAX_SESSION_NAME 63
#define MAX_ENV_VARIABLES 1024
#define MAX_ENV_VALUE (128 * 1024 - 1) /* NAME=VALUE with its NUL: MAX_ARG_STRLEN of execve(2) */

enum network_mode { NETWORK_NONE, NETWORK_FULL };

/* NAME=VALUE strings; values are never looked into. */
struct env_list {
    char **entries; /* NULL-terminated once there is one; owned */
    size_t count;
};

/* Adds or replaces NAME=VALUE. ERROR_BAD_REQUEST where NAME is not [A-Za-z_][A-Za-z0-9_]*, where the
 * entry is over the kernel's limit, or past MAX_ENV_VARIABLES. */
int env_list_set(struct env_list *list, const char *assignment, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void env_list_release(struct env_list *list) __attribute__((nonnull));

/* What a session's sandbox is made from. Strings are owned by the spec (sandbox_spec_release()). */
struct sandbox_spec {
    char *session; /* [A-Za-z0-9][A-Za-z0-9_.-]*, at most MAX_SESSION_NAME bytes */
    char *image;   /* NULL where the backend has none */
    char *workdir; /* absolute and clean; DEFAULT_WORKDIR where none was given, but NULL with `attach`: then
                      it is the container's own */
    enum network_mode network;
    struct env_list env;   /* bound at creation, never compared */
    bool read_only_root;   /* all but the workdir and /tmp */
    char *user;            /* numeric "UID" or "UID:GID", NULL for the backend's default */
    char **cap_drop;       /* NULL-terminated names without "CAP_", or NULL; "ALL" stands for all */
    uint64_t memory_bytes; /* limits: 0 for none; one that the backend cannot give is refused */
    uint64_t cpu_millis;
    uint64_t pids;
    char *attach;                /* work in this container, which somebody else made; or NULL */
    struct env_list engine;      /* NAME=VALUE settings that one backend knows; others are refused */
    struct sandbox_progress *progress; /* told of long work; may be NULL. Not owned, never copied */
};

/* Who wants to hear of long work (an image pull, a slow start). `text` is one short line in the present
 * tense without control characters; it replaces the last one. Called from the thread that works. */
struct sandbox_progress {
    void (*say)(struct sandbox_progress *progress, const char *text);
};

void sandbox_spec_init(struct sandbox_spec *spec) __attribute__((nonnull));
void sandbox_spec_release(struct sandbox_spec *spec) __attribute__((nonnull));

/* Fills in what was left out (the workdir) and refuses with ERROR_BAD_REQUEST what no backend takes: a
 * session name or workdir out of its grammar ("/" and anything above /tmp, /proc, /dev, /sys included), or
 * the name of no capability.
 * Every comparison and every backend works on a checked spec. */
int sandbox_spec_check(struct sandbox_spec *spec, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Reads "UID" or "UID:GID" in decimal; the group is the user's number where none is given. ERROR_BAD_REQUEST for
 * anything else. */
int user_parse(const char *user, uint32_t *ret_uid, uint32_t *ret_gid, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* "none" or "full". A static string. */
const char *network_mode_name(enum network_mode network);

/* 0 for a name in the session grammar above, else ERROR_BAD_REQUEST. */
int session_name_check(const char *session, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Whose rights file calls have that run in this process, over the descriptor of open_root. */
#define SANDBOX_MAX_GROUPS 64
struct sandbox_rights {
    bool known;            /* else: this process's user's, with the capabilities that the hand says it has */
    uint32_t uid, gid;     /* as this process numbers them */
    uint32_t groups[SANDBOX_MAX_GROUPS];
    size_t group_count;
    uint64_t capabilities; /* bits in the numbering of capabilities(7) */
};

/* A session's sandbox as a backend found or made it. */
struct sandbox {
    const struct backend *backend;
    char *session;
    char *id;      /* the backend's own, never reused: a new sandbox of the session has another */
    char *workdir; /* where it was created with */
    bool created;  /* by this very call of provision */
    void *state;   /* the backend's own */
    struct sandbox_rights rights; /* open_root's to say */
};

/* A line of `handsfs doctor`: something that is there, is missing, or is missing and only some need it.
 * `fix` is what to do about it, or NULL. */
enum doctor_finding { DOCTOR_MISSING, DOCTOR_OK, DOCTOR_OPTIONAL };
typedef void (*doctor_report)(void *arg, enum doctor_finding finding, const char *what, const char *fix);

/* What a backend does. All functions block, each for a bounded time, and may be called from any thread
 * but for one sandbox from one thread at a time; `deadline_ms` is on the clock of sandbox/clock.h. */
struct backend_ops {
    /* Is expected to return the session's running sandbox and to create one only if there is none;
     * idempotent, also against other processes at the same time. An existing one made from another
     * image, workdir or network is ERROR_SPEC_MISMATCH and is left alone. */
    int (*provision)(const struct sandbox_spec *spec, uint64_t deadline_ms, struct sandbox *ret,
                     struct error *err);
    /* Is expected to find and never to create or start: ERROR_SANDBOX_GONE. */
    int (*attach)(const char *session, uint64_t deadline_ms, struct sandbox *ret, struct error *err);
    /* Is expected to call `found` with the name of each session whose sandbox is ours, running or not. */
    int (*list)(void (*found)(void *arg, const char *session), void *arg, struct error *err);
    /* Is expected to remove the session's sandbox and all that belonged to it, and to return when it is
     * gone. Idempotent: an unknown session is no error. */
    int (*destroy)(const char *session, uint64_t deadline_ms, struct error *err);
    /* Is expected to open a new byte stream to the hand: a non-blocking, close-on-exec descriptor that
     * the caller owns. ERROR_SANDBOX_GONE where the sandbox is no longer there; must find that out even
     * if a new sandbox of the same session is (its id differs). */
    int (*connect)(struct sandbox *sandbox, uint64_t deadline_ms, int *ret_fd, struct error *err);
    /* May be NULL. Is expected to open the sandbox's root as an O_PATH directory descriptor where this
     * host's kernel can see it, checked to be this very sandbox's; *ret_fd is -1 (and the return 0) where
     * it cannot. May fill in sandbox->rights. */
    int (*open_root)(struct sandbox *sandbox, int *ret_fd, struct error *err);
    /* Is expected to say what the engine knows, as "key", "value" pairs (state, pid, image, uptime...). */
    int (*status)(struct sandbox *sandbox, void (*say)(void *arg, const char *key, const char *value),
                  void *arg, struct error *err);
    /* Is expected to report what this machine has and lacks. */
    void (*doctor)(doctor_report report, void *arg);
    /* Frees `state`. */
    void (*release)(struct sandbox *sandbox);
};

struct backend {
    const char *name;
    const struct backend_ops *ops;
};

/* The checked front door. Same contracts as the operations above; the results are checked (an id, an
 * absolute workdir) and every call is traced. */
int sandbox_provision(const struct backend *backend, const struct sandbox_spec *spec,
                      uint64_t deadline_ms, struct sandbox *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));
int sandbox_attach(const struct backend *backend, const char *session, uint64_t deadline_ms,
                   struct sandbox *ret, struct error *err) __attribute__((nonnull, warn_unused_result));
int sandbox_list(const struct backend *backend, void (*found)(void *arg, const char *session), void *arg,
                 struct error *err) __attribute__((nonnull(1, 2, 4), warn_unused_result));
int sandbox_destroy(const struct backend *backend, const char *session, uint64_t deadline_ms,
                    struct error *err) __attribute__((nonnull, warn_unused_result));
int sandbox_connect(struct sandbox *sandbox, uint64_t deadline_ms, int *ret_fd, struct error *err)
    __attribute__((nonnull, warn_unused_result));
int sandbox_open_root(struct sandbox *sandbox, int *ret_fd, struct error *err)
    __attribute__((nonnull, warn_unused_result));
int sandbox_status(struct sandbox *sandbox, void (*say)(void *arg, const char *key, const char *value),
                   void *arg, struct error *err) __attribute__((nonnull(1, 2, 4), warn_unused_result));
void sandbox_doctor(const struct backend *backend, doctor_report report, void *arg)
    __attribute__((nonnull(1, 2)));

/* Frees what the handle owns; the sandbox itself lives on. Accepts a zeroed handle. */
void sandbox_release(struct sandbox *sandbox) __attribute__((nonnull));

#define cleanup_sandbox __attribute__((cleanup(sandbox_release)))
#define cleanup_spec __attribute__((cleanup(sandbox_spec_release)))

#endif
