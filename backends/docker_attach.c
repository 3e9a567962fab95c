/* Containers that somebody else made.
 *
 * The hand is put in through the engine and started by an exec, as the container's own user,
 * once a session; each has a socket with a random name, so hands of several sessions and of
 * former times do not meet. Whether it still runs is asked of the engine by its exec, which
 * nothing inside can forge. When it has nobody to serve for a while it ends by itself; the
 * session's record stays, and the next one who needs the session starts a hand again.
 *
 * The session's sandbox is container, start and hand: where one of them is another one, a handle
 * of before is gone. */
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "backends/docker_record.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define LEAVE_MS "60000" /* without a host and without a process of its own */
#define LOOK_MS 20
#define MAX_CONTAINER 256 /* letters of a container's name */
#define SOCKET_BYTES sizeof DOCKER_RUN_DIR + DOCKER_HAND_ID

/* ---- The container ---- */

static int check_name(const char *name, struct error *err)
{
    size_t length = strlen(name);
    bool good = length < MAX_CONTAINER && isalnum((unsigned char)name[0]);

    for (size_t i = 0; good && i < length; i++) {
        good = isalnum((unsigned char)name[i]) || strchr("_.-", name[i]) != NULL;
    }
    return good ? 0
                : error_set(err, ERROR_BAD_REQUEST, 0, "\"%.80s\" is not a container's name or id",
                            name);
}

/* Whether handsfs made it: by label and name. */
static bool is_ours(const struct docker_inspect *inspect)
{
    const char *session = docker_inspect_label(inspect, DOCKER_LABEL_SESSION);
    size_t prefix = strlen(DOCKER_NAME_PREFIX);

    return session != NULL && strncmp(inspect->name, DOCKER_NAME_PREFIX, prefix) == 0 &&
           strcmp(inspect->name + prefix, session) == 0;
}

static int check_running(const struct docker_inspect *inspect, enum error_code code,
                         struct error *err)
{
    switch (inspect->condition) {
    case DOCKER_RUNNING:
        return 0;
    case DOCKER_PAUSED:
        return error_set(err, ERROR_NO_ANSWER, 0, "container %.100s is paused", inspect->name);
    case DOCKER_CREATED:
    case DOCKER_STOPPED:
    case DOCKER_REMOVING:
        break;
    }
    return error_set(err, code, 0, "container %.100s is not running", inspect->name);
}

static int find_container(struct docker_engine *engine, const char *name, uint64_t deadline_ms,
                          struct docker_inspect *ret, struct error *err)
{
    struct error why = {0};

    if (check_name(name, err) < 0) {
        return -1;
    }
    if (docker_inspect(engine, name, deadline_ms, ret, &why) < 0) {
        if (why.code == ERROR_SANDBOX_GONE) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "there is no container %.100s at %.200s",
                             name, docker_engine_host(engine));
        }
        *err = why;
        return -1;
    }
    if (is_ours(ret)) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "container %.100s is the sandbox of session %.63s: mount that session, "
                         "without --attach",
                         ret->name, docker_inspect_label(ret, DOCKER_LABEL_SESSION));
    }
    return check_running(ret, ERROR_BAD_REQUEST, err);
}

/* A session is either made or attached. */
static int check_not_made(struct docker_engine *engine, const char *session, uint64_t deadline_ms,
                          struct error *err)
{
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
    char name[sizeof DOCKER_NAME_PREFIX + MAX_SESSION_NAME];
    struct error why = {0};

    snprintf(name, sizeof name, DOCKER_NAME_PREFIX "%s", session);
    if (docker_inspect(engine, name, deadline_ms, &inspect, &why) == 0) {
        return error_set(err, ERROR_SPEC_MISMATCH, 0,
                         "session %s has a container of its own, %s; give this one another name",
                         session, name);
    }
    if (why.code != ERROR_SANDBOX_GONE) {
        *err = why;
        return -1;
    }
    return 0;
}

/* What was asked for, else the container's own; "/" is the root of everything and no workspace. */
static int find_workdir(struct docker_engine *engine, const struct sandbox_spec *spec,
                        const struct docker_inspect *inspect, uint64_t deadline_ms,
                        const char **ret, struct error *err)
{
    const char *workdir = spec->workdir != NULL ? spec->workdir : inspect->workdir;
    struct sandbox_spec probe = {
        .session = spec->session, .attach = spec->attach, .workdir = (char *)workdir};
    enum docker_path_kind kind = DOCKER_PATH_NONE;

    if (workdir[0] == '\0' || strcmp(workdir, "/") == 0) {
        return error_set(
            err, ERROR_BAD_REQUEST, 0,
            "container %.100s has no working directory of its own: say which one with --workdir",
            inspect->name);
    }
    if (sandbox_spec_check(&probe, err) < 0 ||
        docker_archive_kind(engine, inspect->id, workdir, deadline_ms, &kind, err) < 0) {
        return -1;
    }
    if (kind != DOCKER_PATH_DIRECTORY) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "container %.100s has no directory %.200s",
                         inspect->name, workdir);
    }
    *ret = workdir;
    return 0;
}

/* ---- The hand ---- */

/* Whether the exec of the hand still runs. An engine forgets execs of former starts. */
static int hand_runs(struct docker_engine *engine, const char *exec, uint64_t deadline_ms,
                     bool *ret, struct error *err)
{
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;
    char path[DOCKER_ID_BYTES + 16];
    const struct docker_request request = {
        .method = "GET", .path = path, .deadline_ms = deadline_ms};

    snprintf(path, sizeof path, "/exec/%s/json", exec);
    if (docker_call(engine, &request, &reply, err) < 0) {
        return -1;
    }
    if (reply.status != 200 && reply.status != 404) {
        return docker_refused(&reply, err, "look for the hand");
    }
    *ret = reply.status == 200 && json_is_true(docker_json_at(reply.json, "Running", NULL));
    return 0;
}

static json_t *exec_body(const struct docker_record *record, const char *socket)
{
    return json_pack("{s:[s,s,s,s,s,s,s,s], s:s, s:O}", "Cmd", DOCKER_HAND_PATH, "serve", "--workdir",
                     record->workdir, "--socket", socket, "--leave-ms", LEAVE_MS, "WorkingDir", "/",
                     "Env", record->env);
}

static int make_exec(struct docker_engine *engine, const struct docker_record *record,
                     const char *socket, uint64_t deadline_ms, char ret[DOCKER_ID_BYTES],
                     struct error *err)
{
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;
    char path[DOCKER_ID_BYTES + 32];
    json_auto_t *body = exec_body(record, socket);
    const struct docker_request request = {
        .method = "POST", .path = path, .json = body, .deadline_ms = deadline_ms};
    const char *id;

    if (body == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    snprintf(path, sizeof path, "/containers/%s/exec", record->container);
    if (docker_call(engine, &request, &reply, err) < 0) {
        return -1;
    }
    id = json_string_value(docker_json_at(reply.json, "Id", NULL));
    if (reply.status >= 300) {
        return docker_refused(&reply, err, "start the hand");
    }
    if (id == NULL || id[0] == '\0' || strlen(id) >= DOCKER_ID_BYTES ||
        id[strspn(id, "0123456789abcdef")] != '\0') {
        return error_set(err, ERROR_NO_ANSWER, 0, "what the engine says of an exec makes no sense");
    }
    memcpy(ret, id, strlen(id) + 1);
    return 0;
}

static int start_exec(struct docker_engine *engine, const char *exec, uint64_t deadline_ms,
                      struct error *err)
{
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;
    char path[DOCKER_ID_BYTES + 16];
    json_auto_t *body = json_pack("{s:b, s:b}", "Detach", 1, "Tty", 0);
    const struct docker_request request = {
        .method = "POST", .path = path, .json = body, .deadline_ms = deadline_ms};

    snprintf(path, sizeof path, "/exec/%s/start", exec);
    if (docker_call(engine, &request, &reply, err) < 0) {
        return -1;
    }
    return reply.status >= 300 ? docker_refused(&reply, err, "start the hand") : 0;
}

/* Until its socket is there, or it has ended. */
static int await_hand(struct docker_engine *engine, const struct docker_record *record,
                      const char *socket, uint64_t deadline_ms, struct error *err)
{
    for (;;) {
        enum docker_path_kind kind = DOCKER_PATH_NONE;
        bool runs = false;

        if (hand_runs(engine, record->exec, deadline_ms, &runs, err) < 0 ||
            docker_archive_kind(engine, record->container, socket, deadline_ms, &kind, err) < 0) {
            return -1;
        }
        if (!runs) {
            return error_set(err, ERROR_IO, 0,
                             "the hand ends as it starts (is it the program for this machine, "
                             "and may its user run it there?)");
        }
        if (kind == DOCKER_PATH_OTHER) {
            return 0;
        }
        if (clock_now_ms() + LOOK_MS > deadline_ms) {
            return error_set(err, ERROR_NO_ANSWER, 0, "the hand does not listen in time");
        }
        poll(NULL, 0, LOOK_MS);
    }
}

static int new_hand_id(char ret[DOCKER_HAND_ID], struct error *err)
{
    uint64_t bits;

    if (getrandom(&bits, sizeof bits, 0) != (ssize_t)sizeof bits) {
        return error_set_errno(err, errno, "getrandom");
    }
    snprintf(ret, DOCKER_HAND_ID, "%016llx", (unsigned long long)bits);
    return 0;
}

static void socket_path(char path[SOCKET_BYTES], const struct docker_record *record)
{
    snprintf(path, SOCKET_BYTES, DOCKER_RUN_DIR "/%s", record->hand);
}

/* Puts a hand in and starts it; the record learns which. */
static int start_hand(struct docker_engine *engine, const struct docker_inspect *inspect,
                      struct docker_record *record, uint64_t deadline_ms, struct error *err)
{
    char socket[SOCKET_BYTES];
    uint32_t uid, gid;

    if (json_is_true(docker_json_at(inspect->json, "HostConfig", "ReadonlyRootfs", NULL))) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "the root of container %.100s is read-only, so the hand cannot be put in",
                         inspect->name);
    }
    if (new_hand_id(record->hand, err) < 0 ||
        docker_user_resolve(engine, inspect->id, inspect->user, deadline_ms, &uid, &gid, err) < 0 ||
        docker_put_hand(engine, inspect->id, DOCKER_HAND_DIR, uid, gid, false, NULL, 0, deadline_ms,
                        err) < 0) {
        return -1;
    }
    socket_path(socket, record);
    if (make_exec(engine, record, socket, deadline_ms, record->exec, err) < 0 ||
        start_exec(engine, record->exec, deadline_ms, err) < 0 ||
        await_hand(engine, record, socket, deadline_ms, err) < 0) {
        return error_prefix(err, "container %.100s", inspect->name);
    }
    return 0;
}

/* ---- The handle ---- */

/* Takes the engine over. */
static int make_handle(struct docker_engine *engine, const char *session,
                       const struct docker_inspect *inspect, const struct docker_record *record,
                       bool created, struct sandbox *ret, struct error *err)
{
    char socket[SOCKET_BYTES];
    const struct docker_handle handle = {
        .session = session,
        .workdir = record->workdir,
        .inspect = inspect,
        .socket_path = socket,
        .attached = true,
        .created = created,
    };
    struct docker_state *state;
    char *id = NULL;

    socket_path(socket, record);
    if (docker_handle_make(engine, &handle, ret, err) < 0) {
        return -1;
    }
    if (asprintf(&id, "%s/%s", ret->id, record->hand) < 0) {
        sandbox_release(ret);
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    free(ret->id);
    ret->id = id;
    state = ret->state;
    memcpy(state->hand_exec, record->exec, sizeof state->hand_exec);
    return 0;
}

/* ---- Provision ---- */

static int new_record(struct docker_engine *engine, const struct docker_inspect *inspect,
                      const struct sandbox_spec *spec, const char *workdir,
                      struct docker_record *ret, struct error *err)
{
    docker_record_release(ret);
    ret->env = json_array();
    for (size_t i = 0; i < spec->env.count; i++) {
        if (json_array_append_new(ret->env, json_string(spec->env.entries[i])) < 0) {
            return error_set(err, ERROR_BAD_REQUEST, 0,
                             "a variable's value is not UTF-8, which the engine does not take");
        }
    }
    ret->host = strdup(docker_engine_host(engine));
    ret->name = strdup(inspect->name);
    ret->workdir = strdup(workdir);
    memcpy(ret->container, inspect->id, sizeof ret->container);
    return ret->host == NULL || ret->name == NULL || ret->workdir == NULL || ret->env == NULL
               ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory")
               : 0;
}

/* Somebody has attached the session before. *ret_runs: and its hand is there; then it must be to
 * the same place. */
static int look_at_former(struct docker_engine *engine, const struct sandbox_spec *spec,
                          const char *container, const char *workdir,
                          const struct docker_record *former, uint64_t deadline_ms, bool *ret_runs,
                          struct error *err)
{
    if (strcmp(former->host, docker_engine_host(engine)) != 0) {
        return error_set(
            err, ERROR_SPEC_MISMATCH, 0,
            "session %s is attached to container %.100s at %.150s; give this one another name",
            spec->session, former->name, former->host);
    }
    if (hand_runs(engine, former->exec, deadline_ms, ret_runs, err) < 0) {
        return -1;
    }
    if (*ret_runs && strcmp(former->container, container) != 0) {
        return error_set(err, ERROR_SPEC_MISMATCH, 0,
                         "session %s is attached to container %.100s; give this one another name",
                         spec->session, former->name);
    }
    if (*ret_runs && strcmp(former->workdir, workdir) != 0) {
        return error_set(err, ERROR_SPEC_MISMATCH, 0,
                         "session %s is attached with workdir \"%.150s\", not \"%.150s\"",
                         spec->session, former->workdir, workdir);
    }
    return 0;
}

int docker_attach_provision(struct docker_engine *given, const struct sandbox_spec *spec,
                            uint64_t deadline_ms, struct sandbox *ret, struct error *err)
{
    cleanup_engine struct docker_engine *engine = given;
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
    cleanup_docker_record struct docker_record record = DOCKER_RECORD_INIT;
    cleanup_fd int dir = -1;
    const char *workdir = NULL;
    struct error why = {0};
    bool runs = false;

    if (find_container(engine, spec->attach, deadline_ms, &inspect, err) < 0 ||
        check_not_made(engine, spec->session, deadline_ms, err) < 0 ||
        find_workdir(engine, spec, &inspect, deadline_ms, &workdir, err) < 0 ||
        docker_records_lock(deadline_ms, &dir, err) < 0) {
        return -1;
    }
    if (docker_record_read(dir, spec->session, &record, &why) == 0 &&
        look_at_former(engine, spec, inspect.id, workdir, &record, deadline_ms, &runs, err) < 0) {
        return -1;
    }
    if (!runs) {
        if (spec->progress != NULL) {
            spec->progress->say(spec->progress, "starting the hand");
        }
        if (new_record(engine, &inspect, spec, workdir, &record, err) < 0 ||
            start_hand(engine, &inspect, &record, deadline_ms, err) < 0 ||
            docker_record_write(dir, spec->session, &record, err) < 0) {
            return -1;
        }
    }
    return make_handle(take_ptr(engine), spec->session, &inspect, &record, !runs, ret, err);
}

/* ---- Found again ---- */

/* The record's container, which may be gone: then the record goes, too. */
static int inspect_recorded(struct docker_engine *engine, int dir, const char *session,
                            const struct docker_record *record, uint64_t deadline_ms,
                            struct docker_inspect *ret, struct error *err)
{
    if (strcmp(record->host, docker_engine_host(engine)) != 0) {
        return error_set(err, ERROR_SANDBOX_GONE, 0,
                         "session %s is attached to a container at %.150s, not at %.150s", session,
                         record->host, docker_engine_host(engine));
    }
    if (docker_inspect(engine, record->container, deadline_ms, ret, err) < 0) {
        if (err->code == ERROR_SANDBOX_GONE) {
            docker_record_remove(dir, session);
        }
        return error_prefix(err, "session %s was attached to container %.100s", session,
                            record->name);
    }
    return 0;
}

int docker_attach_find(struct docker_engine *given, const char *session, uint64_t deadline_ms,
                       struct sandbox *ret, struct error *err)
{
    cleanup_engine struct docker_engine *engine = given;
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
    cleanup_docker_record struct docker_record record = DOCKER_RECORD_INIT;
    cleanup_fd int dir = -1;
    bool runs = false;

    if (docker_records_lock(deadline_ms, &dir, err) < 0 ||
        docker_record_read(dir, session, &record, err) < 0 ||
        inspect_recorded(engine, dir, session, &record, deadline_ms, &inspect, err) < 0 ||
        hand_runs(engine, record.exec, deadline_ms, &runs, err) < 0) {
        return -1;
    }
    if (!runs && (check_running(&inspect, ERROR_SANDBOX_GONE, err) < 0 ||
                  start_hand(engine, &inspect, &record, deadline_ms, err) < 0 ||
                  docker_record_write(dir, session, &record, err) < 0)) {
        return -1;
    }
    return make_handle(take_ptr(engine), session, &inspect, &record, false, ret, err);
}

int docker_attach_known(const char *session, char **ret_container, struct error *err)
{
    cleanup_docker_record struct docker_record record = DOCKER_RECORD_INIT;
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
    cleanup_engine struct docker_engine *engine = NULL;
    cleanup_fd int dir = -1;
    uint64_t deadline_ms = clock_now_ms() + DOCKER_CALL_MS;
    struct error why = {0};

    *ret_container = NULL;
    if (docker_records_lock(deadline_ms, &dir, err) < 0) {
        return -1;
    }
    if (docker_record_read(dir, session, &record, &why) < 0) {
        if (why.code == ERROR_IO) { /* one that makes no sense is nobody's */
            docker_record_remove(dir, session);
        }
        return 0;
    }
    if (docker_engine_open(&engine, deadline_ms, err) < 0) {
        return -1;
    }
    if (strcmp(record.host, docker_engine_host(engine)) == 0 &&
        docker_inspect(engine, record.container, deadline_ms, &inspect, &why) < 0 &&
        why.code == ERROR_SANDBOX_GONE) {
        docker_record_remove(dir, session);
        return 0;
    }
    *ret_container = take_ptr(record.name);
    return 0;
}

int docker_attach_connect(struct docker_state *state, uint64_t deadline_ms, int *ret_fd,
                          struct error *err)
{
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
    bool runs = false;

    if (docker_state_check(state, deadline_ms, &inspect, err) < 0 ||
        hand_runs(state->engine, state->hand_exec, deadline_ms, &runs, err) < 0) {
        return -1;
    }
    if (!runs) {
        return error_set(
            err, ERROR_SANDBOX_GONE, 0,
            "the hand in container %.12s has ended; provisioning the session starts it again",
            state->id);
    }
    return docker_relay(state, deadline_ms, ret_fd, err);
}
