/* What the Docker backend's own source files share.
 *
 *     docker.c            the table of operations; finding, listing, removing
 *     docker_inspect.c    what the engine says of a container, decoded
 *     docker_provision.c  from nothing (or a stopped container) to a running one: who does it, and when again
 *     docker_start.c      the single steps of that, and back
 *     docker_create.c     what a container of ours is made from
 *     docker_archive.c    files put in and looked at without running anything inside
 *     docker_user.c       a USER of an image, as numbers
 *     docker_connect.c    the way to the hand: the fast lane (docker_process.h) and the relay
 *     docker_image.c      images: inspected, pulled (docker_pull.c, docker_auth.c)
 *     docker_attach.c     containers that somebody else made
 *     docker_status.c, docker_doctor.c
 *
 * Everything that an engine says is hostile in form (bounded, typed, checked); what it says of a container of
 * ours is believed, since it could do anything with it anyway. What is read from inside one is not. */
#ifndef HANDSFS_BACKENDS_DOCKER_INTERNAL_H
#define HANDSFS_BACKENDS_DOCKER_INTERNAL_H

#include "backends/docker.h"
#include "backends/docker_engine.h"

/* A container of ours has all of these; by the first one it is known. */
#define DOCKER_LABEL_SESSION "io.handsfs.session"
#define DOCKER_LABEL_IMAGE "io.handsfs.image"     /* as it was asked for */
#define DOCKER_LABEL_WORKDIR "io.handsfs.workdir"
#define DOCKER_LABEL_NETWORK "io.handsfs.network" /* "none" or "full" */
#define DOCKER_LABEL_VERSION "io.handsfs.version"
#define DOCKER_NAME_PREFIX "handsfs-"

/* Inside. */
#define DOCKER_HAND_DIR "/.handsfs"
#define DOCKER_HAND_PATH DOCKER_HAND_DIR "/hand"
#define DOCKER_RUN_DIR DOCKER_HAND_DIR "/run" /* of the container's user, mode 0700 */
#define DOCKER_SOCKET_PATH DOCKER_RUN_DIR "/socket"

#define DOCKER_ID_BYTES 65     /* a container's id with its NUL */
#define DOCKER_STARTED_BYTES 64
#define DOCKER_CALL_MS 20000   /* for one call of a verb that has no deadline of its own */
#define DOCKER_DEFAULT_PIDS 4096

/* ---- One container, as the engine tells of it (docker_inspect.c) ---- */

enum docker_condition {
    DOCKER_CREATED,  /* never started */
    DOCKER_RUNNING,
    DOCKER_PAUSED,
    DOCKER_STOPPED,  /* exited, or dead but still there */
    DOCKER_REMOVING,
};

struct docker_inspect {
    json_t *json; /* all of it, an object; owned */
    char id[DOCKER_ID_BYTES];                /* 64 hexadecimal digits */
    char started_at[DOCKER_STARTED_BYTES];   /* the engine's own text, compared as such */
    enum docker_condition condition;
    int exit_code;
    bool oom_killed;
    pid_t pid;                               /* on the engine's host; 0 where it does not run */
    const char *name;                        /* without the slash. This and the rest point into `json`: */
    const char *error;                       /* why the last start failed, or "" */
    const char *image, *image_id;            /* Config.Image as it was given; "sha256:..." */
    const char *user, *workdir;              /* Config.User, Config.WorkingDir; "" where there is none */
};
#define DOCKER_INSPECT_INIT {.json = NULL}
void docker_inspect_release(struct docker_inspect *inspect) __attribute__((nonnull));
#define cleanup_inspect __attribute__((cleanup(docker_inspect_release)))

/* Decodes what GET /containers/ID/json gave. `json` is borrowed. ERROR_NO_ANSWER where it makes no sense. */
int docker_inspect_parse(json_t *json, struct docker_inspect *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* By name or id. ERROR_SANDBOX_GONE where the engine knows none (status 404); else docker_refused(). */
int docker_inspect(struct docker_engine *engine, const char *name, uint64_t deadline_ms,
                   struct docker_inspect *ret, struct error *err) __attribute__((nonnull, warn_unused_result));

/* A label's value, or NULL. */
const char *docker_inspect_label(const struct docker_inspect *inspect, const char *label)
    __attribute__((nonnull));

/* Makes `path` (cleared first) "BEFORE" "NAME, percent-encoded" "AFTER"; buffer_text() of it cannot fail then. */
int docker_path(struct buffer *path, const char *before, const char *name, const char *after, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* What stands at a path of the inspected object ("State", "Status", NULL), or NULL, as for a `json` that is NULL. Borrowed. */
json_t *docker_json_at(json_t *json, ...) __attribute__((sentinel));

/* ---- A handle's own part: sandbox->state ---- */

struct docker_state {
    struct docker_engine *engine;            /* owned */
    char id[DOCKER_ID_BYTES];
    char started_at[DOCKER_STARTED_BYTES];   /* another one: another hand, so another sandbox */
    pid_t pid;                               /* of the container's process 1, on the engine's host */
    unsigned long long process_start;        /* of that process, where this host's kernel shows it; else 0 */
    bool attached;                           /* somebody else made it; then: */
    char hand_exec[DOCKER_ID_BYTES];         /* the exec that the hand runs in */
    char *hand_path, *socket_path;           /* inside; owned */
    char *user;                              /* "UID:GID" that the hand runs as, for the relay's exec; owned, or NULL
                                                for the container's own */
};

/* Makes the handle `ret` of a running container; `engine` is taken over in any case. Its id is
 * "CONTAINER@STARTED" (half of the container's). Paths NULL stand for DOCKER_HAND_PATH and DOCKER_SOCKET_PATH. */
struct docker_handle {
    const char *session, *workdir;
    const struct docker_inspect *inspect;
    const char *hand_path, *socket_path, *user;
    bool attached, created;
};
int docker_handle_make(struct docker_engine *engine, const struct docker_handle *from, struct sandbox *ret,
                       struct error *err) __attribute__((nonnull, warn_unused_result));

/* The state of a container of ours, for as long as `engine` is there: nothing in it is owned. */
void docker_state_of(struct docker_engine *engine, const struct docker_inspect *inspect, struct docker_state *ret)
    __attribute__((nonnull));

/* The container that the handle means, inspected now. Says what happened to it: removed, stopped, dead or started
 * anew: ERROR_SANDBOX_GONE; paused: ERROR_NO_ANSWER. *ret may be filled also where the return is -1. */
int docker_state_check(const struct docker_state *state, uint64_t deadline_ms, struct docker_inspect *ret,
                       struct error *err) __attribute__((nonnull, warn_unused_result));

/* ---- From nothing to a running container (docker_provision.c, docker_start.c) ---- */

/* ops->provision. */
int docker_provision(const struct sandbox_spec *spec, uint64_t deadline_ms, struct sandbox *ret,
                     struct error *err) __attribute__((nonnull, warn_unused_result));

/* Whether a container that has a session's name is that session's: ERROR_BAD_REQUEST where it lacks our label. */
int docker_check_ours(const struct docker_inspect *inspect, const char *session, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Puts into a container that does not run what it needs to be started: the hand, and the workdir where it is missing,
 * with the owner that `user` (as Config.User) stands for. */
int docker_prepare(struct docker_engine *engine, const char *id, const char *user, const char *workdir,
                   bool read_only_root, uint64_t deadline_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Starts it. Running already is no error. ERROR_SANDBOX_GONE for a container that is no more. */
int docker_start(struct docker_engine *engine, const char *id, uint64_t deadline_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Removes it with its anonymous volumes, running or not, and waits until it is gone. One that is no more is no error. */
int docker_remove(struct docker_engine *engine, const char *id, uint64_t deadline_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* The last line that it has written, made printable; "" where there is none. */
void docker_last_words(struct docker_engine *engine, const char *id, uint64_t deadline_ms, char *ret, size_t size)
    __attribute__((nonnull));

/* ---- Settings of the engine: spec->engine (docker_create.c) ---- */

enum docker_pull { DOCKER_PULL_MISSING, DOCKER_PULL_ALWAYS, DOCKER_PULL_NEVER };

/* pull=missing|always|never, platform=OS/ARCH, runtime=NAME. The strings point into the spec. */
struct docker_settings {
    enum docker_pull pull;
    const char *platform, *runtime; /* NULL where none was given */
};
/* ERROR_BAD_REQUEST for an unknown setting (named, with the known ones) or value. */
int docker_settings_read(const struct env_list *engine, struct docker_settings *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* The body of POST /containers/create. NULL where memory runs out. */
json_t *docker_create_body(const struct sandbox_spec *spec, const struct docker_settings *settings)
    __attribute__((nonnull));

/* Whether the container has the limits and guards that were asked for: engines drop what their kernel cannot do, and
 * warn. ERROR_BAD_REQUEST that names the first one that is missing. */
int docker_create_check(const struct sandbox_spec *spec, const struct docker_inspect *inspect, struct error *err)
    __attribute__((nonnull, warn_unused_result));


/* ---- Images (docker_image.c) ---- */

struct docker_image {
    char *id;           /* "sha256:..." */
    char *user;         /* Config.User, "" where there is none */
    char *workdir;      /* Config.WorkingDir, "" likewise */
    char *architecture; /* "amd64", "" where the engine does not say */
    char *os;
};
#define DOCKER_IMAGE_INIT {.id = NULL}
void docker_image_release(struct docker_image *image) __attribute__((nonnull));
#define cleanup_image __attribute__((cleanup(docker_image_release)))

/* Inspects the image, pulls it where the settings say so, and tells `progress` (may be NULL) of that. A pull has bounds
 * of its own (docker_pull.h), and *deadline_ms is moved on by the time that it took.
 * ERROR_BAD_REQUEST where there is no such image and none is to be had, with the engine's sentence that says why; also
 * for a text that names no image. ERROR_NO_ANSWER, ERROR_ERRNO (ENOSPC) as docker_refused(). */
int docker_image_ensure(struct docker_engine *engine, const char *image, const struct docker_settings *settings,
                        uint64_t *deadline_ms, struct sandbox_progress *progress, struct docker_image *ret,
                        struct error *err) __attribute__((nonnull(1, 2, 3, 4, 6, 7), warn_unused_result));

/* ---- Files without a program inside (docker_archive.c) ---- */

/* One file or directory to be put in. */
struct docker_entry {
    const char *path;  /* below the base */
    bool directory;
    uint32_t mode, uid, gid;
    const void *data;  /* of a file */
    size_t length;
};

/* Puts them in below the existing directory `base`, in this order, with the rights of the engine's root. Existing files
 * are replaced, existing directories take the owner and mode. ERROR_SANDBOX_GONE for a container that is no more,
 * ERROR_NO_SUCH_FILE where there is no such base. */
int docker_archive_put(struct docker_engine *engine, const char *id, const char *base,
                       const struct docker_entry *entries, size_t count, uint64_t deadline_ms,
                       struct error *err) __attribute__((nonnull, warn_unused_result));

/* A regular file's content, at most `limit` bytes (more is ERROR_TOO_LARGE), links within the container followed by the
 * engine. ERROR_NO_SUCH_FILE, ERROR_NOT_REGULAR. */
int docker_archive_get(struct docker_engine *engine, const char *id, const char *path, size_t limit,
                       uint64_t deadline_ms, struct buffer *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* What a path of the container is: a directory (also behind a link), something else, or nothing. */
enum docker_path_kind { DOCKER_PATH_NONE, DOCKER_PATH_DIRECTORY, DOCKER_PATH_OTHER };
int docker_archive_kind(struct docker_engine *engine, const char *id, const char *path, uint64_t deadline_ms,
                        enum docker_path_kind *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Puts in the hand's binary and a run directory of this owner: DIR/hand, DIR/run. DIR ("/" and one name of at most 32
 * bytes) is made, or is a volume. Where it is none, `more` (paths below "/"; may be NULL) goes along: each archive that
 * is put in costs an engine a process of its own. */
int docker_put_hand(struct docker_engine *engine, const char *id, const char *dir, uint32_t uid, uint32_t gid,
                    bool is_volume, const struct docker_entry *more, size_t more_count, uint64_t deadline_ms,
                    struct error *err) __attribute__((nonnull(1, 2, 3, 10), warn_unused_result));

/* ---- Users (docker_user.c) ---- */

/* A USER text ("", "UID", "NAME", "NAME:GROUP"...) of a container as numbers, by the container's own /etc/passwd and
 * /etc/group. ERROR_BAD_REQUEST for a name that they do not have. */
int docker_user_resolve(struct docker_engine *engine, const char *id, const char *user, uint64_t deadline_ms,
                        uint32_t *ret_uid, uint32_t *ret_gid, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* The same by the texts of these files, which may be anything. */
struct docker_text {
    const char *data;
    size_t length;
};
int docker_user_lookup(const char *user, const struct docker_text *passwd, const struct docker_text *group,
                       uint32_t *ret_uid, uint32_t *ret_gid, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* ---- The way to the hand (docker_connect.c) ---- */

/* ops->connect and ops->open_root. */
int docker_connect(struct sandbox *sandbox, uint64_t deadline_ms, int *ret_fd, struct error *err)
    __attribute__((nonnull, warn_unused_result));
int docker_open_root(struct sandbox *sandbox, int *ret_fd, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Waits until the hand of a container that was just started listens. Says what happened where it ends instead. */
int docker_wait_ready(const struct docker_state *state, uint64_t deadline_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Through an exec of `hand connect` in the container, as the state's user; what failed is told as docker_state_check()
 * does where that finds a reason. */
int docker_relay(const struct docker_state *state, uint64_t deadline_ms, int *ret_fd, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* ---- Containers that somebody else made (docker_attach.c) ---- */

/* spec->attach is set: puts the hand into that running container and starts it there by exec (once; idempotent),
 * keeps a record of the session in the host's state directory (docker_record.h), and makes the handle. `engine` is taken
 * over. */
int docker_attach_provision(struct docker_engine *engine, const struct sandbox_spec *spec, uint64_t deadline_ms,
                            struct sandbox *ret, struct error *err) __attribute__((nonnull, warn_unused_result));
/* By the session's record; a hand that has ended is started again, since the container is there. `engine` is taken over.
 * ERROR_SANDBOX_GONE where there is no record, or where its container runs no more. */
int docker_attach_find(struct docker_engine *engine, const char *session, uint64_t deadline_ms,
                       struct sandbox *ret, struct error *err) __attribute__((nonnull, warn_unused_result));
/* Whether there is such a record, and its container still there (else it is forgotten): the container's name goes to ret
 * (to be freed), or NULL. */
int docker_attach_known(const char *session, char **ret_container, struct error *err)
    __attribute__((nonnull, warn_unused_result));
/* A stream to the hand of an attached container. ERROR_SANDBOX_GONE where that very hand runs no more. */
int docker_attach_connect(struct docker_state *state, uint64_t deadline_ms, int *ret_fd, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* ---- What people are told (docker_status.c, docker_doctor.c) ---- */

int docker_status(struct sandbox *sandbox, void (*say)(void *arg, const char *key, const char *value), void *arg,
                  struct error *err) __attribute__((nonnull(1, 2, 4), warn_unused_result));
void docker_doctor(doctor_report report, void *arg);

#endif
