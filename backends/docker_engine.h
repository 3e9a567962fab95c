/* One Docker daemon (or Podman's compatible service), spoken to over the Engine API.
 *
 * Which one: DOCKER_HOST; else DOCKER_CONTEXT or the docker client's current context; else the standard
 * socket. unix://, tcp:// (with TLS as DOCKER_TLS_VERIFY, DOCKER_CERT_PATH or the context say), ssh://.
 * See the Docker Engine API reference, and docker(1) for the variables. */
#ifndef HANDSFS_BACKENDS_DOCKER_ENGINE_H
#define HANDSFS_BACKENDS_DOCKER_ENGINE_H

#include <jansson.h>

#include "backends/http.h"

#define DOCKER_OLDEST_API "1.40"
#define DOCKER_NEWEST_API "1.44" /* the newest that we know; the lower of both sides' is spoken */

struct docker_engine;

/* The daemon that the environment names; its version is asked for. ERROR_NO_ANSWER where it cannot be reached
 * (the message names it and says what to do), ERROR_BAD_REQUEST for a setting that makes no sense. */
int docker_engine_open(struct docker_engine **ret, uint64_t deadline_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void docker_engine_close(struct docker_engine *engine); /* accepts NULL */
#define cleanup_engine __attribute__((cleanup(docker_engine_closep)))
void docker_engine_closep(struct docker_engine **engine);

const char *docker_engine_host(const struct docker_engine *engine);    /* "unix:///run/docker.sock" */
const char *docker_engine_api(const struct docker_engine *engine);     /* "1.41" */
const char *docker_engine_version(const struct docker_engine *engine); /* "20.10.24" */
bool docker_engine_is_podman(const struct docker_engine *engine);
bool docker_engine_is_local(const struct docker_engine *engine); /* by a Unix socket that is no forward */

/* A request below the version's prefix. `path` begins with a slash ("/containers/json?all=1"). */
struct docker_request {
    const char *method;
    const char *path;
    json_t *json;               /* the body, borrowed; or NULL */
    const void *body;           /* or bytes of `content_type` */
    size_t body_length;
    const char *content_type;
    const char *const *headers; /* more of them, or NULL */
    uint64_t deadline_ms;
    size_t limit;               /* as in http_request */
    int (*sink)(void *arg, const void *data, size_t length, struct error *err);
    bool (*cancelled)(void *arg); /* as in http_request, sink too */
    void *arg;
    const char *const *want_headers; /* as in http_request */
};

struct docker_reply {
    long status;
    json_t *json;      /* the body where it is JSON (an object or array), else NULL */
    struct buffer body; /* the raw body */
    struct buffer wanted; /* as in http_answer */
    char message[ERROR_MESSAGE_MAX]; /* the engine's own sentence of a status from 400 on, made printable; or "" */
};
#define DOCKER_REPLY_INIT {.body = BUFFER_INIT(HTTP_DEFAULT_LIMIT), .wanted = BUFFER_INIT(HTTP_MAX_HEADERS)}
void docker_reply_init(struct docker_reply *reply) __attribute__((nonnull));
void docker_reply_release(struct docker_reply *reply) __attribute__((nonnull));
#define cleanup_reply __attribute__((cleanup(docker_reply_release)))

/* Every status is a reply. Errors as http_perform(); an answer below 400 that says JSON and is none: ERROR_NO_ANSWER. */
int docker_call(struct docker_engine *engine, const struct docker_request *request,
                struct docker_reply *ret, struct error *err) __attribute__((nonnull, warn_unused_result));

/* The error that a refused reply stands for, where the caller knows nothing better: 4xx ERROR_BAD_REQUEST, 5xx
 * ERROR_NO_ANSWER unless its message tells of a full disk (ERROR_ERRNO, ENOSPC). "FORMAT: the engine's
 * sentence". Returns -1. */
int docker_refused(const struct docker_reply *reply, struct error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4), nonnull(1, 2, 3)));

/* Starts the exec instance `exec_id` (created by the caller with AttachStdin, AttachStdout, AttachStderr and
 * no Tty) and gives its stdin and stdout as one descriptor (backends/pump.h), its stderr to the log.
 * `refused` is filled, *ret_fd -1 and the return 0 where the engine answers another status. */
int docker_exec_stream(struct docker_engine *engine, const char *exec_id, uint64_t deadline_ms,
                       int *ret_fd, struct docker_reply *refused, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
