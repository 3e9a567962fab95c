/* The Kubernetes backend's operations. Nothing but the API server is believed about what there
 * is, and a Pod is known by its uid: whoever has another one in hand than the one that was found
 * finds it gone, whatever its name. */
#include "backends/k8s.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/k8s_internal.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define PAGE_PODS 200 /* of a list, in one reply */
#define MAX_PAGES 500
#define SELECTOR K8S_MANAGED_BY "=handsfs"

uint64_t k8s_bounded(uint64_t deadline_ms)
{
    uint64_t longest = clock_now_ms() + K8S_LONGEST_MS;

    return deadline_ms < longest ? deadline_ms : longest;
}

/* ---- Clusters ---- */

void k8s_target_release(struct k8s_target *target)
{
    k8s_client_close(target->client);
    free(target->namespace_);
    *target = (struct k8s_target)K8S_TARGET_INIT;
}

int k8s_target_open(const struct k8s_place *place, struct k8s_target *ret, struct error *err)
{
    cleanup_target struct k8s_target target = K8S_TARGET_INIT;

    if (k8s_client_open(&target.client, place->context, err) < 0) {
        return -1;
    }
    target.namespace_ =
        strdup(place->namespace_ != NULL ? place->namespace_ : k8s_client_namespace(target.client));
    if (target.namespace_ == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (!k8s_is_name(target.namespace_)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"%.100s\" is no namespace",
                         target.namespace_);
    }
    *ret = target;
    target = (struct k8s_target)K8S_TARGET_INIT;
    return 0;
}

char *k8s_pod_path(const struct k8s_target *target, const char *name)
{
    char *path;
    int r = asprintf(&path, "/api/v1/namespaces/%s/pods%s%s", target->namespace_,
                     name != NULL ? "/" : "", name != NULL ? name : "");

    return r < 0 ? NULL : path;
}

/* ---- One Pod ---- */

int k8s_pod_get(const struct k8s_target *target, const char *name, uint64_t deadline_ms,
                json_t **ret, struct error *err)
{
    cleanup_k8s_reply struct k8s_reply reply = {.status = 0};
    cleanup_free char *path = k8s_pod_path(target, name);

    k8s_reply_init(&reply);
    if (path == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (k8s_call(target->client, "GET", path, NULL, deadline_ms, &reply, err) < 0) {
        return -1;
    }
    if (reply.status == 404) {
        *ret = NULL;
        return 0;
    }
    if (reply.status != 200) {
        return k8s_refused(&reply, err, "look at Pod %s", name);
    }
    *ret = take_ptr(reply.json);
    return *ret == NULL
               ? error_set(err, ERROR_NO_ANSWER, 0, "the API server says nothing of Pod %s", name)
               : 0;
}

/* What a watch on a Pod that is being deleted comes to. */
enum { DELETE_GONE = 1, DELETE_ENDED };

/* `arg` is the Pod's uid. */
static int deleted(void *arg, json_t *pod, struct error *err)
{
    const char *phase = k8s_text(pod, "status", "phase", NULL);

    (void)err;
    if (pod == NULL || strcmp(k8s_text(pod, "metadata", "uid", NULL), arg) != 0) {
        return DELETE_GONE;
    }
    return strcmp(phase, "Failed") == 0 || strcmp(phase, "Succeeded") == 0 ? DELETE_ENDED : 0;
}

/* One request to delete. 1 where the Pod of this uid is gone. */
static int request_delete(const struct k8s_target *target, const char *name, const char *uid,
                          bool at_once, uint64_t deadline_ms, struct error *err)
{
    cleanup_k8s_reply struct k8s_reply reply = {.status = 0};
    cleanup_free char *path = k8s_pod_path(target, name);
    json_auto_t *body = json_pack("{s:s,s:s,s:{s:s}}", "apiVersion", "v1", "kind", "DeleteOptions",
                                  "preconditions", "uid", uid);

    k8s_reply_init(&reply);
    if (path == NULL || body == NULL ||
        (at_once && json_object_set_new(body, "gracePeriodSeconds", json_integer(0)) < 0)) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (k8s_call(target->client, "DELETE", path, body, deadline_ms, &reply, err) < 0) {
        return -1;
    }
    if (reply.status == 404 || reply.status == 409) { /* or another one has the name now */
        return 1;
    }
    return reply.status >= 300 ? k8s_refused(&reply, err, "delete Pod %s", name) : 0;
}

/* The node is asked to end the containers. When it says that they have ended nothing of the Pod
 * runs any more: then its object goes at once, and is not kept until the node has put its
 * volumes away. */
int k8s_pod_delete(const struct k8s_target *target, const char *name, const char *uid,
                   uint64_t deadline_ms, struct error *err)
{
    cleanup_free char *copy = strdup(uid);
    int r = copy == NULL ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory") : 0;

    if (r == 0) {
        r = request_delete(target, name, uid, false, deadline_ms, err);
    }
    if (r == 0) {
        r = k8s_watch_pod(target->client, target->namespace_, name, NULL, deadline_ms, deleted,
                          copy, err);
        if (r == DELETE_ENDED) {
            r = request_delete(target, name, uid, true, deadline_ms, err);
        }
        if (r < 0) {
            return error_prefix(err, "Pod %s is being deleted and is not gone yet", name);
        }
    }
    return r < 0 ? -1 : 0;
}

int k8s_pod_delete_idle(const struct k8s_target *target, const char *name, const char *uid,
                        uint64_t deadline_ms, struct error *err)
{
    return request_delete(target, name, uid, true, deadline_ms, err) < 0 ? -1 : 0;
}

/* ---- Handles ---- */

static void state_free(struct k8s_state *state)
{
    if (state != NULL) {
        k8s_target_release(&state->target);
        free(state->pod);
        free(state->uid);
        free(state->container);
        free(state->container_id);
        free(state->directory);
        free(state->hand);
        free(state->socket);
        free(state);
    }
}

static void k8s_release(struct sandbox *sandbox)
{
    state_free(sandbox->state);
}

/* "UID", or "UID/CONTAINER/HAND" where another container in the same Pod or another hand would
 * be another sandbox. */
static char *make_id(const struct k8s_handle *from)
{
    const char *container = from->container_id;
    const char *scheme = container != NULL ? strstr(container, "://") : NULL;
    const char *hand = from->socket != NULL ? strrchr(from->socket, '-') : NULL;
    char *id;
    int r;

    if (container == NULL) {
        return strdup(from->uid);
    }
    r = asprintf(&id, "%s/%.12s/%.12s", from->uid, scheme != NULL ? scheme + 3 : container,
                 hand != NULL ? hand + 1 : "");
    return r < 0 ? NULL : id;
}

int k8s_handle_make(struct k8s_target *target, const struct k8s_handle *from, struct sandbox *ret,
                    struct error *err)
{
    const char *directory = from->directory != NULL ? from->directory : K8S_HAND_DIR;
    struct k8s_state *state = calloc(1, sizeof *state);
    cleanup_free char *session = strdup(from->session);
    cleanup_free char *workdir = strdup(from->workdir);
    cleanup_free char *id = make_id(from);
    bool ok = state != NULL && session != NULL && workdir != NULL && id != NULL;

    if (ok) {
        state->pod = strdup(from->pod);
        state->uid = strdup(from->uid);
        state->container = strdup(from->container);
        state->container_id = from->container_id != NULL ? strdup(from->container_id) : NULL;
        state->directory = strdup(directory);
        ok = state->directory != NULL && asprintf(&state->hand, "%s" K8S_HAND_IN, directory) >= 0 &&
             (state->socket = strdup(from->socket != NULL ? from->socket : K8S_SOCKET_PATH)) !=
                 NULL &&
             state->pod != NULL && state->uid != NULL && state->container != NULL &&
             (from->container_id == NULL || state->container_id != NULL);
    }
    if (!ok) {
        state_free(state);
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    state->target = *target;
    *target = (struct k8s_target)K8S_TARGET_INIT;
    *ret = (struct sandbox){.backend = &backend_k8s,
                            .session = take_ptr(session),
                            .id = take_ptr(id),
                            .workdir = take_ptr(workdir),
                            .created = from->created,
                            .state = state};
    return 0;
}

/* ---- Provision ---- */

/* Where the spec wants the session to be, which must be where it is if it is anywhere. */
static int settle_place(const struct sandbox_spec *spec, const struct k8s_settings *settings,
                        struct k8s_place *place, bool recorded, struct error *err)
{
    struct {
        const char *what, *wanted;
        char **is;
    } rows[] = {{"context", settings->context, &place->context},
                {"namespace", settings->namespace_, &place->namespace_}};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *copy;

        if (rows[i].wanted == NULL ||
            (*rows[i].is != NULL && strcmp(rows[i].wanted, *rows[i].is) == 0)) {
            continue;
        }
        if (recorded) {
            return error_set(err, ERROR_SPEC_MISMATCH, 0, "session %s is in %s %.100s, not %.100s",
                             spec->session, rows[i].what,
                             *rows[i].is != NULL ? *rows[i].is : "(the current one)",
                             rows[i].wanted);
        }
        copy = strdup(rows[i].wanted);
        if (copy == NULL) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
        free(*rows[i].is);
        *rows[i].is = copy;
    }
    return 0;
}

static int k8s_provision(const struct sandbox_spec *spec, uint64_t deadline_ms, struct sandbox *ret,
                         struct error *err)
{
    cleanup_settings struct k8s_settings settings = {.context = NULL};
    cleanup_place struct k8s_place place = K8S_PLACE_INIT;
    cleanup_target struct k8s_target target = K8S_TARGET_INIT;
    struct error ignored = {0};
    bool recorded = false;
    bool remember;

    if (k8s_settings_read(&spec->engine, &settings, err) < 0 ||
        k8s_place_find(spec->session, &place, &recorded, err) < 0 ||
        settle_place(spec, &settings, &place, recorded, err) < 0 ||
        k8s_target_open(&place, &target, err) < 0) {
        return -1;
    }
    deadline_ms = k8s_bounded(deadline_ms);
    if (spec->attach != NULL || place.pod != NULL) {
        return k8s_attach_provision(&target, spec, &place, deadline_ms, ret, err);
    }
    remember = !recorded && (settings.context != NULL || settings.namespace_ != NULL);
    if (remember && k8s_place_write(spec->session, &place, err) < 0) {
        return -1;
    }
    if (k8s_start(&target, spec, &settings, deadline_ms, ret, err) < 0) {
        if (remember) {
            (void)!k8s_place_forget(spec->session, &ignored);
        }
        return -1;
    }
    return 0;
}

/* ---- Attach, list, destroy ---- */

static int not_ours(const char *name, struct error *err)
{
    return error_set(err, ERROR_BAD_REQUEST, 0, "Pod %s was not made by handsfs: it is left alone",
                     name);
}

/* The session's Pod, which must be ours; *ret NULL where there is none. */
static int find_pod(const struct k8s_target *target, const char *session, uint64_t deadline_ms,
                    json_t **ret, struct k8s_view *view, struct error *err)
{
    json_auto_t *pod = NULL;
    char name[K8S_NAME_BYTES];

    k8s_pod_name(session, name);
    if (k8s_pod_get(target, name, deadline_ms, &pod, err) < 0) {
        return -1;
    }
    if (pod != NULL && k8s_view(pod, NULL, view, err) < 0) {
        return -1;
    }
    if (pod != NULL && !view->ours) {
        return not_ours(name, err);
    }
    if (pod != NULL && strcmp(view->session, session) != 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "Pod %s is another session's", name);
    }
    *ret = take_ptr(pod);
    return 0;
}

static int k8s_attach(const char *session, uint64_t deadline_ms, struct sandbox *ret,
                      struct error *err)
{
    cleanup_place struct k8s_place place = K8S_PLACE_INIT;
    cleanup_target struct k8s_target target = K8S_TARGET_INIT;
    json_auto_t *pod = NULL;
    struct k8s_view view = {.stage = K8S_PENDING};
    bool recorded = false;

    deadline_ms = k8s_bounded(deadline_ms);
    if (k8s_place_find(session, &place, &recorded, err) < 0 ||
        k8s_target_open(&place, &target, err) < 0) {
        return -1;
    }
    if (place.pod != NULL) {
        return k8s_attach_find(&target, session, &place, deadline_ms, ret, err);
    }
    if (find_pod(&target, session, deadline_ms, &pod, &view, err) < 0) {
        return -1;
    }
    if (pod == NULL) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "session %s has no Pod in namespace %s of %s",
                         session, target.namespace_, k8s_client_server(target.client));
    }
    if (view.stage != K8S_RUNNING) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "session %s does not run: %s", session,
                         view.why[0] != '\0' ? view.why : "its Pod has not started");
    }
    return k8s_handle_make(&target,
                           &(struct k8s_handle){.session = session,
                                                .workdir = view.workdir,
                                                .pod = view.name,
                                                .uid = view.uid,
                                                .container = K8S_CONTAINER},
                           ret, err);
}

/* Whom to tell what is found, and where somebody looked already. */
struct listing {
    void (*found)(void *arg, const char *session);
    void *arg;
    json_t *seen; /* an object: "SERVER NAMESPACE" of each place */
};

/* One reply of a list; *next becomes what the next one is asked for with, NULL behind the last. */
static int list_page(const struct k8s_target *target, json_t **next, const struct listing *listing,
                     struct error *err)
{
    cleanup_k8s_reply struct k8s_reply reply = {.status = 0};
    cleanup_free char *path = k8s_pod_path(target, NULL);
    cleanup_buffer struct buffer query = BUFFER_INIT(65536);
    const char *text;
    size_t i;
    json_t *pod;

    k8s_reply_init(&reply);
    if (path == NULL || buffer_append_string(&query, path) < 0 ||
        http_put_query(&query, "labelSelector", SELECTOR) < 0 ||
        buffer_printf(&query, "&limit=%d", PAGE_PODS) < 0 ||
        (*next != NULL && http_put_query(&query, "continue", json_string_value(*next)) < 0) ||
        (text = buffer_text(&query)) == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (k8s_call(target->client, "GET", text, NULL, clock_now_ms() + K8S_CALL_MS, &reply, err) <
        0) {
        return -1;
    }
    if (reply.status != 200) {
        return k8s_refused(&reply, err, "list the Pods in namespace %s", target->namespace_);
    }
    json_array_foreach(k8s_at(reply.json, "items", NULL), i, pod)
    {
        const char *session = k8s_text(pod, "metadata", "annotations", K8S_SESSION, NULL);
        struct error ignored = {0};

        if (session_name_check(session, &ignored) == 0) {
            listing->found(listing->arg, session);
        }
    }
    text = k8s_text(reply.json, "metadata", "continue", NULL);
    json_decref(*next);
    *next = text[0] != '\0' ? json_string(text) : NULL;
    return 0;
}

static int list_place(struct listing *listing, const struct k8s_place *place, struct error *err)
{
    cleanup_target struct k8s_target target = K8S_TARGET_INIT;
    cleanup_free char *key = NULL;
    json_auto_t *next = NULL;
    unsigned pages = 0;

    if (k8s_target_open(place, &target, err) < 0) {
        return -1;
    }
    if (asprintf(&key, "%s %s", k8s_client_server(target.client), target.namespace_) < 0) {
        key = NULL;
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (json_object_get(listing->seen, key) != NULL) {
        return 0;
    }
    json_object_set_new(listing->seen, key, json_true());
    do {
        if (list_page(&target, &next, listing, err) < 0) {
            return -1;
        }
    } while (next != NULL && ++pages < MAX_PAGES);
    return 0;
}

static int list_recorded(void *arg, const char *session, const struct k8s_place *place,
                         struct error *err)
{
    struct listing *listing = arg;

    if (place->pod != NULL) {
        listing->found(listing->arg, session);
        return 0;
    }
    return list_place(listing, place, err);
}

static int k8s_list(void (*found)(void *arg, const char *session), void *arg, struct error *err)
{
    json_auto_t *seen = json_object();
    struct listing listing = {found, arg, seen};
    cleanup_place struct k8s_place place = K8S_PLACE_INIT;

    if (k8s_place_default(&place, err) < 0 || list_place(&listing, &place, err) < 0) {
        return -1;
    }
    return k8s_place_each(list_recorded, &listing, err);
}

/* Somebody else's Pod is theirs to delete. When they have, the session may be forgotten. */
static int destroy_foreign(const struct k8s_target *target, const char *session,
                           const struct k8s_place *place, uint64_t deadline_ms, struct error *err)
{
    json_auto_t *pod = NULL;

    if (k8s_pod_get(target, place->pod, deadline_ms, &pod, err) < 0) {
        return -1;
    }
    if (pod != NULL && strcmp(k8s_text(pod, "metadata", "uid", NULL), place->uid) == 0) {
        return error_set(
            err, ERROR_BAD_REQUEST, 0,
            "session %s is Pod %s, which somebody else made: handsfs does not delete it", session,
            place->pod);
    }
    return k8s_place_forget(session, err);
}

static int k8s_destroy(const char *session, uint64_t deadline_ms, struct error *err)
{
    cleanup_place struct k8s_place place = K8S_PLACE_INIT;
    cleanup_target struct k8s_target target = K8S_TARGET_INIT;
    json_auto_t *pod = NULL;
    struct k8s_view view = {.stage = K8S_PENDING};
    bool recorded = false;

    deadline_ms = k8s_bounded(deadline_ms);
    if (k8s_place_find(session, &place, &recorded, err) < 0) {
        return -1;
    }
    if (k8s_target_open(&place, &target, err) < 0) {
        return -1;
    }
    if (place.pod != NULL) {
        return destroy_foreign(&target, session, &place, deadline_ms, err);
    }
    if (find_pod(&target, session, deadline_ms, &pod, &view, err) < 0) {
        return -1;
    }
    if (pod != NULL && k8s_pod_delete(&target, view.name, view.uid, deadline_ms, err) < 0) {
        return view.node[0] != '\0' && err->code == ERROR_NO_ANSWER
                   ? error_prefix(err, "node %.60s may not answer", view.node)
                   : -1;
    }
    return recorded ? k8s_place_forget(session, err) : 0;
}

/* ---- A handle ---- */

/* Whether the handle's container still runs: ERROR_SANDBOX_GONE where it does not. */
static int check_running(const struct k8s_state *state, uint64_t deadline_ms, struct error *err)
{
    json_auto_t *pod = NULL;
    struct k8s_view view;

    if (k8s_pod_get(&state->target, state->pod, deadline_ms, &pod, err) < 0) {
        return -1;
    }
    if (pod == NULL) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "Pod %s is gone", state->pod);
    }
    if (k8s_view(pod, state->container_id != NULL ? state->container : NULL, &view, err) < 0) {
        return -1;
    }
    if (strcmp(view.uid, state->uid) != 0) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "Pod %s was replaced by another one",
                         state->pod);
    }
    if (view.stage != K8S_RUNNING) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "Pod %s does not run: %s", state->pod,
                         view.why[0] != '\0' ? view.why : "it is starting");
    }
    if (state->container_id != NULL && strcmp(view.container_id, state->container_id) != 0) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "container %s of Pod %s was started anew",
                         state->container, state->pod);
    }
    return 0;
}

/* Somebody else's Pod lives on without its hand. */
static int check_hand(const struct k8s_state *state, uint64_t deadline_ms, struct error *err)
{
    const struct k8s_handle handle = {.pod = state->pod,
                                      .container = state->container,
                                      .directory = state->directory,
                                      .socket = state->socket};

    if (state->container_id == NULL ||
        k8s_await_hand(&state->target, &handle, false, deadline_ms, err) == 0) {
        return 0;
    }
    err->code = err->code == ERROR_IO ? ERROR_SANDBOX_GONE : err->code;
    return error_prefix(
        err, "the hand in Pod %s has ended; provisioning the session starts it again", state->pod);
}

static int k8s_connect(struct sandbox *sandbox, uint64_t deadline_ms, int *ret_fd,
                       struct error *err)
{
    const struct k8s_state *state = sandbox->state;
    cleanup_k8s_reply struct k8s_reply refused = {.status = 0};
    const char *const of_ours[] = {state->hand,  "connect", "--socket", state->socket,
                                   "--peer-pid", "1",       NULL};
    const char *const of_others[] = {state->hand, "connect", "--socket", state->socket, NULL};
    struct k8s_exec exec = {.namespace_ = state->target.namespace_,
                            .pod = state->pod,
                            .container = state->container,
                            .argv = state->container_id != NULL ? of_others : of_ours,
                            .deadline_ms = k8s_bounded(deadline_ms)};

    k8s_reply_init(&refused);
    if (check_running(state, exec.deadline_ms, err) < 0 ||
        check_hand(state, exec.deadline_ms, err) < 0 ||
        k8s_exec_stream(state->target.client, &exec, ret_fd, &refused, err) < 0) {
        return -1;
    }
    if (*ret_fd >= 0) {
        return 0;
    }
    if (refused.status == 404 && check_running(state, exec.deadline_ms, err) < 0) {
        return -1;
    }
    return k8s_refused(&refused, err, "connect to Pod %s", state->pod);
}

static const struct backend_ops k8s_ops = {
    .provision = k8s_provision,
    .attach = k8s_attach,
    .list = k8s_list,
    .destroy = k8s_destroy,
    .connect = k8s_connect,
    .status = k8s_status,
    .doctor = k8s_doctor,
    .release = k8s_release,
};

const struct backend backend_k8s = {
    .name = "k8s",
    .ops = &k8s_ops,
};
