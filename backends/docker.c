/* The Docker backend's operations. What they stand on: one container as the engine tells of it (docker_inspect.c), how it
 * comes to be (docker_provision.c), how its hand is reached (docker_connect.c).
 *
 * A session's container has a name made from the session's, so that an engine keeps two of them from being; it is known by its
 * label. A handle means one run of it: container and time of start, so that whoever holds one learns that the sandbox was
 * replaced or started anew. */
#include "backends/docker.h"

#include <stdio.h>
#include <string.h>

#include "backends/docker_internal.h"
#include "backends/docker_process.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define MAX_LIST (64u << 20) /* bytes of the engine's list of containers */

/* ---- A handle ---- */

static void state_free(struct docker_state *state)
{
    if (state != NULL) {
        docker_engine_close(state->engine);
        free(state->hand_path);
        free(state->socket_path);
        free(state->user);
        free(state);
    }
}

static void state_cleanup(struct docker_state **state)
{
    state_free(*state);
}

static void docker_release(struct sandbox *sandbox)
{
    state_free(sandbox->state);
}

void docker_state_of(struct docker_engine *engine, const struct docker_inspect *inspect, struct docker_state *ret)
{
    static char hand_path[] = DOCKER_HAND_PATH;
    static char socket_path[] = DOCKER_SOCKET_PATH;
    cleanup_docker_process struct docker_process process = DOCKER_NO_PROCESS;

    *ret = (struct docker_state){
        .engine = engine, .pid = inspect->pid, .hand_path = hand_path, .socket_path = socket_path};
    memcpy(ret->id, inspect->id, sizeof ret->id);
    memcpy(ret->started_at, inspect->started_at, sizeof ret->started_at);
    if (docker_fast_lane(engine) && docker_process_open(inspect->pid, inspect->id, &process) == 0) {
        ret->process_start = process.start;
    }
}

static char *copy(const char *text)
{
    return text != NULL ? strdup(text) : NULL;
}

int docker_handle_make(struct docker_engine *engine, const struct docker_handle *from, struct sandbox *ret,
                       struct error *err)
{
    __attribute__((cleanup(state_cleanup))) struct docker_state *state = malloc(sizeof *state);
    cleanup_free char *session = strdup(from->session);
    cleanup_free char *workdir = strdup(from->workdir);
    cleanup_free char *id = NULL;

    if (state == NULL) {
        docker_engine_close(engine);
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    docker_state_of(engine, from->inspect, state);
    state->attached = from->attached;
    state->hand_path = copy(from->hand_path != NULL ? from->hand_path : DOCKER_HAND_PATH);
    state->socket_path = copy(from->socket_path != NULL ? from->socket_path : DOCKER_SOCKET_PATH);
    state->user = copy(from->user);
    if (session == NULL || workdir == NULL || state->hand_path == NULL || state->socket_path == NULL ||
        (from->user != NULL && state->user == NULL) || asprintf(&id, "%.32s@%s", state->id, state->started_at) < 0) {
        id = NULL;
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    *ret = (struct sandbox){.backend = &backend_docker,
                            .session = take_ptr(session),
                            .id = take_ptr(id),
                            .workdir = take_ptr(workdir),
                            .created = from->created,
                            .state = take_ptr(state)};
    return 0;
}

/* ---- Attach ---- */

/* The session's container by its name. 1 where there is none. */
static int find(struct docker_engine *engine, const char *session, uint64_t deadline_ms,
                struct docker_inspect *ret, struct error *err)
{
    char name[sizeof DOCKER_NAME_PREFIX + MAX_SESSION_NAME];
    struct error why = {0};

    snprintf(name, sizeof name, DOCKER_NAME_PREFIX "%s", session);
    if (docker_inspect(engine, name, deadline_ms, ret, &why) < 0) {
        if (why.code == ERROR_SANDBOX_GONE) {
            return 1;
        }
        *err = why;
        return -1;
    }
    return docker_check_ours(ret, session, err);
}

static int docker_attach(const char *session, uint64_t deadline_ms, struct sandbox *ret, struct error *err)
{
    cleanup_engine struct docker_engine *engine = NULL;
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
    struct docker_handle handle = {.session = session, .inspect = &inspect};
    int r;

    if (docker_engine_open(&engine, deadline_ms, err) < 0) {
        return -1;
    }
    r = find(engine, session, deadline_ms, &inspect, err);
    if (r != 0) {
        return r < 0 ? -1 : docker_attach_find(take_ptr(engine), session, deadline_ms, ret, err);
    }
    if (inspect.condition != DOCKER_RUNNING && inspect.condition != DOCKER_PAUSED) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "session %s: container %.12s is not running (exit code %d%s)",
                         session, inspect.id, inspect.exit_code, inspect.oom_killed ? ", out of memory" : "");
    }
    handle.workdir = docker_inspect_label(&inspect, DOCKER_LABEL_WORKDIR);
    if (handle.workdir == NULL || handle.workdir[0] != '/') {
        return error_set(err, ERROR_BAD_REQUEST, 0, "container %s lacks the label %s", inspect.name,
                         DOCKER_LABEL_WORKDIR);
    }
    return docker_handle_make(take_ptr(engine), &handle, ret, err);
}

/* ---- List ---- */

/* Whether one of the names that a listed container has is the one that its label makes it have. An image made from a
 * container of ours hands the labels on to containers that are not. */
static bool has_name(json_t *container, const char *session)
{
    json_t *names = json_object_get(container, "Names");
    json_t *name;
    size_t i;

    json_array_foreach (names, i, name) {
        const char *text = json_string_value(name);

        if (text != NULL && strncmp(text + (text[0] == '/'), DOCKER_NAME_PREFIX, strlen(DOCKER_NAME_PREFIX)) == 0 &&
            strcmp(text + (text[0] == '/') + strlen(DOCKER_NAME_PREFIX), session) == 0) {
            return true;
        }
    }
    return false;
}

static int list_ours(struct docker_engine *engine, void (*found)(void *arg, const char *session), void *arg,
                     struct error *err)
{
    cleanup_buffer struct buffer path = BUFFER_INIT(1024);
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;
    struct docker_request request = {
        .method = "GET", .deadline_ms = clock_now_ms() + DOCKER_CALL_MS, .limit = MAX_LIST};
    struct error ignored;
    json_t *container;
    size_t i;

    if (buffer_append_string(&path, "/containers/json?all=1") < 0 ||
        http_put_query(&path, "filters", "{\"label\":[\"" DOCKER_LABEL_SESSION "\"]}") < 0 ||
        (request.path = buffer_text(&path)) == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (docker_call(engine, &request, &reply, err) < 0) {
        return -1;
    }
    if (reply.status >= 300) {
        return docker_refused(&reply, err, "list containers");
    }
    json_array_foreach (reply.json, i, container) {
        const char *session =
            json_string_value(docker_json_at(container, "Labels", DOCKER_LABEL_SESSION, NULL));

        if (session != NULL && session_name_check(session, &ignored) == 0 && has_name(container, session)) {
            found(arg, session);
        }
    }
    return 0;
}

static int docker_list(void (*found)(void *arg, const char *session), void *arg, struct error *err)
{
    cleanup_engine struct docker_engine *engine = NULL;

    return docker_engine_open(&engine, clock_now_ms() + DOCKER_CALL_MS, err) < 0 ? -1
                                                                                : list_ours(engine, found, arg, err);
}

/* ---- Destroy ---- */

static int docker_destroy(const char *session, uint64_t deadline_ms, struct error *err)
{
    cleanup_engine struct docker_engine *engine = NULL;
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
    cleanup_free char *container = NULL;
    int r;

    if (docker_attach_known(session, &container, err) < 0) {
        return -1;
    }
    if (container != NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "session %s works in container %.100s, which handsfs did not make and does not remove",
                         session, container);
    }
    if (docker_engine_open(&engine, deadline_ms, err) < 0) {
        return -1;
    }
    r = find(engine, session, deadline_ms, &inspect, err);
    if (r != 0) {
        return r < 0 ? -1 : 0;
    }
    return docker_remove(engine, inspect.id, deadline_ms, err);
}

static const struct backend_ops docker_ops = {
    .provision = docker_provision,
    .attach = docker_attach,
    .list = docker_list,
    .destroy = docker_destroy,
    .connect = docker_connect,
    .open_root = docker_open_root,
    .status = docker_status,
    .doctor = docker_doctor,
    .release = docker_release,
};

const struct backend backend_docker = {.name = "docker", .ops = &docker_ops};
