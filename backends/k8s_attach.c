/* Pods that somebody else made. The hand goes into a directory in which this container may write
 * and execute, and is started there by a shell, in the background. It is not the container's
 * first process, so it has less of a hold than in a Pod of ours: whoever is root inside may kill
 * it. Nothing else of the Pod is touched. When it has nobody to serve for a while it ends by
 * itself; who provisions the session anew starts another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "backends/k8s_internal.h"
#include "sandbox/base64.h"
#include "sandbox/cleanup.h"

#define OUTPUT_MAX 8192
#define MAX_WORDS (2 * MAX_ENV_VARIABLES + 32)
#define DEFAULT_CONTAINER "kubectl.kubernetes.io/default-container"

/* Finds a directory for the hand of the session $1 and says where commands start, each on a line
 * of its own. */
#define FIND_DIRECTORY                                                                             \
    K8S_PATH_FIRST                                                                                 \
    "umask 077; for d in /tmp /var/tmp \"${HOME:-/}\" /dev/shm /run /; do "                        \
    "d=${d%/}/.handsfs-$1; [ -d \"$d\" ] || mkdir \"$d\" 2>/dev/null || continue; "                \
    "[ -O \"$d\" ] || continue; "                                                                  \
    "if echo 'exit 0' >\"$d/try\" && chmod 700 \"$d/try\" && \"$d/try\"; then rm -f \"$d/try\"; "  \
    "echo \"$d\"; pwd; exit 0; fi; rm -rf \"$d\"; done 2>/dev/null; exit 3"
#define NOWHERE 3

/* Starts the hand in $1. What follows are its arguments. */
#define START                                                                                      \
    "d=$1; shift; \"$d" K8S_HAND_IN "\" prepare \"make=0700:-:-:$d/run\" || exit 1; "              \
    "\"$d" K8S_HAND_IN "\" serve \"$@\" </dev/null >/dev/null 2>&1 & exit 0"
#define LEAVE_MS "60000" /* without a host and without a process of its own */

/* ---- Which one ---- */

/* "POD[/CONTAINER]" */
static int parse_name(const char *text, char **ret_pod, char **ret_container, struct error *err)
{
    const char *slash = strchr(text, '/');
    cleanup_free char *pod = slash != NULL ? strndup(text, (size_t)(slash - text)) : strdup(text);
    cleanup_free char *container = slash != NULL ? strdup(slash + 1) : NULL;

    if (pod == NULL || (slash != NULL && container == NULL)) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (pod[0] == '\0' || !k8s_is_name(pod) ||
        (container != NULL && (container[0] == '\0' || !k8s_is_name(container)))) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "\"%.200s\" is not the name of a Pod, POD or POD/CONTAINER", text);
    }
    *ret_pod = take_ptr(pod);
    *ret_container = take_ptr(container);
    return 0;
}

/* The container that is meant where none is named: kubectl's choice. */
static const char *default_container(json_t *pod)
{
    const char *said = k8s_text(pod, "metadata", "annotations", DEFAULT_CONTAINER, NULL);

    return said[0] != '\0'
               ? said
               : k8s_text(json_array_get(k8s_at(pod, "spec", "containers", NULL), 0), "name", NULL);
}

/* What was asked for that somebody else's Pod cannot be given any more. */
static int check_spec(const struct sandbox_spec *spec, struct error *err)
{
    const char *what = spec->attach != NULL && spec->image != NULL ? "an image"
                       : spec->read_only_root                      ? "a read-only root"
                       : spec->user != NULL                        ? "a user"
                       : spec->cap_drop != NULL                    ? "capabilities to drop"
                       : spec->memory_bytes + spec->cpu_millis + spec->pids > 0 ? "limits"
                                                                                : NULL;

    return what == NULL ? 0
                        : error_set(err, ERROR_BAD_REQUEST, 0,
                                    "a Pod that somebody else made cannot be given %s", what);
}

/* ---- The hand in it ---- */

/* Fills in `place->directory`, and the workdir where none was asked for. */
static int find_directory(const struct k8s_target *target, const char *session,
                          struct k8s_place *place, uint64_t deadline_ms, struct error *err)
{
    cleanup_buffer struct buffer output = BUFFER_INIT(OUTPUT_MAX);
    char label[K8S_NAME_BYTES];
    struct k8s_run run = {
        .pod = place->pod, .container = place->container, .deadline_ms = deadline_ms};
    char *directory, *workdir, *end;
    int status;

    k8s_session_label(session, label);
    run.argv = (const char *const[]){"/bin/sh", "-c", FIND_DIRECTORY, "sh", label, NULL};
    if (k8s_run(target, &run, &output, &status, err) < 0) {
        return status == NOWHERE ? error_set(err, ERROR_BAD_REQUEST, 0,
                                             "there is no directory in Pod %s for the hand, one to "
                                             "write and execute in",
                                             place->pod)
                                 : -1;
    }
    directory = buffer_text(&output);
    workdir = directory == NULL ? NULL : strchr(directory, '\n');
    end = workdir == NULL ? NULL : strchr(workdir + 1, '\n');
    if (end == NULL || directory[0] != '/' || workdir[1] != '/') {
        return error_set(err, ERROR_IO, 0, "the shell of Pod %s does not say where the hand may be",
                         place->pod);
    }
    *workdir++ = *end = '\0';
    free(place->directory);
    place->directory = strdup(directory);
    if (place->workdir == NULL) {
        place->workdir = strdup(workdir);
    }
    return place->directory == NULL || place->workdir == NULL
               ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory")
               : 0;
}

/* The session's variables as the hand's arguments; the words are kept in `text`. */
static int put_variables(const struct env_list *env, const char **argv, size_t *n, json_t *texts,
                         struct error *err)
{
    for (size_t i = 0; i < env->count; i++) {
        cleanup_buffer struct buffer b = BUFFER_INIT(2 * (size_t)MAX_ENV_VALUE);
        const char *entry = env->entries[i];
        json_t *text;

        if (base64_encode(&b, (const uint8_t *)entry, strlen(entry)) < 0 ||
            (text = json_stringn((const char *)b.data, b.length)) == NULL ||
            json_array_append_new(texts, text) < 0) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
        argv[(*n)++] = "--env-base64";
        argv[(*n)++] = json_string_value(text);
    }
    return 0;
}

static int start_hand(const struct k8s_target *target, const struct sandbox_spec *spec,
                      const struct k8s_place *place, uint64_t deadline_ms, struct error *err)
{
    cleanup_buffer struct buffer output = BUFFER_INIT(OUTPUT_MAX);
    cleanup_free const char **argv = calloc(MAX_WORDS, sizeof *argv);
    json_auto_t *texts = json_array();
    const char *const words[] = {"/bin/sh",        "-c",         START,         "sh",
                                 place->directory, "--socket",   place->socket, "--workdir",
                                 place->workdir,   "--leave-ms", LEAVE_MS,      "--apart-ms",
                                 K8S_APART_MS};
    struct k8s_run run = {
        .pod = place->pod, .container = place->container, .argv = argv, .deadline_ms = deadline_ms};
    size_t n = sizeof words / sizeof words[0];

    if (argv == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    memcpy(argv, words, sizeof words);
    if (put_variables(&spec->env, argv, &n, texts, err) < 0) {
        return -1;
    }
    return k8s_run(target, &run, &output, NULL, err);
}

/* Puts it in and starts it, at a socket that no other hand has or had. */
static int bring_hand(const struct k8s_target *target, const struct sandbox_spec *spec,
                      struct k8s_place *place, uint64_t deadline_ms, struct error *err)
{
    struct k8s_handle handle = {.pod = place->pod, .container = place->container};
    uint64_t number;

    if (find_directory(target, spec->session, place, deadline_ms, err) < 0 ||
        k8s_upload(target, place->pod, place->container, place->directory, deadline_ms, err) < 0) {
        return -1;
    }
    if (getrandom(&number, sizeof number, 0) != sizeof number ||
        asprintf(&place->socket, "%s" K8S_SOCKET_IN "-%012llx", place->directory,
                 (unsigned long long)number & 0xffffffffffff) < 0) {
        place->socket = NULL;
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    handle.directory = place->directory;
    handle.socket = place->socket;
    if (start_hand(target, spec, place, deadline_ms, err) < 0) {
        return -1;
    }
    return k8s_await_hand(target, &handle, true, deadline_ms, err) < 0
               ? error_prefix(err, "the hand in Pod %s does not serve", place->pod)
               : 0;
}

/* ---- The operations ---- */

/* The Pod with the container as it is now; ERROR_SANDBOX_GONE where it does not run. */
static int find_running(const struct k8s_target *target, const char *name, char **container,
                        uint64_t deadline_ms, json_t **ret, struct k8s_view *view,
                        struct error *err)
{
    json_auto_t *pod = NULL;

    if (k8s_pod_get(target, name, deadline_ms, &pod, err) < 0) {
        return -1;
    }
    if (pod == NULL) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "there is no Pod %s in namespace %s", name,
                         target->namespace_);
    }
    if (*container == NULL && (*container = strdup(default_container(pod))) == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (k8s_view(pod, *container, view, err) < 0) {
        return -1;
    }
    if (view->stage != K8S_RUNNING) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "container %s of Pod %s does not run: %s",
                         *container, name, view->why[0] != '\0' ? view->why : "it has not started");
    }
    *ret = take_ptr(pod);
    return 0;
}

static int make_handle(struct k8s_target *target, const char *session,
                       const struct k8s_place *place, bool created, struct sandbox *ret,
                       struct error *err)
{
    return k8s_handle_make(target,
                           &(struct k8s_handle){.session = session,
                                                .workdir = place->workdir,
                                                .pod = place->pod,
                                                .uid = place->uid,
                                                .container = place->container,
                                                .container_id = place->container_id,
                                                .directory = place->directory,
                                                .socket = place->socket,
                                                .created = created},
                           ret, err);
}

int k8s_attach_find(struct k8s_target *target, const char *session, const struct k8s_place *place,
                    uint64_t deadline_ms, struct sandbox *ret, struct error *err)
{
    cleanup_free char *container = place->container != NULL ? strdup(place->container) : NULL;
    json_auto_t *pod = NULL;
    struct k8s_handle handle = {
        .pod = place->pod, .directory = place->directory, .socket = place->socket};
    struct k8s_view view;

    if (place->uid == NULL || place->container_id == NULL || place->directory == NULL ||
        place->workdir == NULL || place->socket == NULL) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "session %s was not brought into Pod %s",
                         session, place->pod);
    }
    if (find_running(target, place->pod, &container, deadline_ms, &pod, &view, err) < 0) {
        return -1;
    }
    if (strcmp(view.uid, place->uid) != 0 || strcmp(view.container_id, place->container_id) != 0) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "container %s of Pod %s was started anew",
                         container, place->pod);
    }
    handle.container = container;
    if (k8s_await_hand(target, &handle, false, deadline_ms, err) < 0) {
        err->code = err->code == ERROR_IO ? ERROR_SANDBOX_GONE : err->code;
        return error_prefix(err, "the hand in Pod %s is gone", place->pod);
    }
    return make_handle(target, session, place, false, ret, err);
}

/* Which container is meant: the named one, which must be the one of before if the session was
 * somewhere; or that. */
static int choose(const struct sandbox_spec *spec, const struct k8s_place *place,
                  struct k8s_place *next, struct error *err)
{
    if (spec->attach == NULL) {
        if (spec->image != NULL && spec->image[0] != '\0') {
            return error_set(err, ERROR_SPEC_MISMATCH, 0,
                             "session %s is attached to Pod %s and has no image", spec->session,
                             place->pod);
        }
        next->pod = strdup(place->pod);
        next->container = strdup(place->container);
        next->workdir = strdup(place->workdir);
        return next->pod == NULL || next->container == NULL || next->workdir == NULL
                   ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory")
                   : 0;
    }
    if (parse_name(spec->attach, &next->pod, &next->container, err) < 0) {
        return -1;
    }
    if (spec->workdir != NULL && (next->workdir = strdup(spec->workdir)) == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (place->pod == NULL) {
        return 0;
    }
    if (strcmp(place->pod, next->pod) != 0 ||
        (next->container != NULL && strcmp(place->container, next->container) != 0)) {
        return error_set(err, ERROR_SPEC_MISMATCH, 0, "session %s is in Pod %s/%s, not %s",
                         spec->session, place->pod, place->container, spec->attach);
    }
    if (spec->workdir != NULL && place->workdir != NULL &&
        strcmp(spec->workdir, place->workdir) != 0) {
        return error_set(err, ERROR_SPEC_MISMATCH, 0,
                         "session %s exists with workdir \"%.150s\", not \"%.150s\"", spec->session,
                         place->workdir, spec->workdir);
    }
    return 0;
}

int k8s_attach_provision(struct k8s_target *target, const struct sandbox_spec *spec,
                         const struct k8s_place *place, uint64_t deadline_ms, struct sandbox *ret,
                         struct error *err)
{
    cleanup_place struct k8s_place next = K8S_PLACE_INIT;
    json_auto_t *pod = NULL;
    struct k8s_view view;
    struct error why = {0};

    if (place->pod != NULL && (place->container == NULL || place->workdir == NULL)) {
        return error_set(err, ERROR_IO, 0, "what is kept of session %s is damaged", spec->session);
    }
    if (check_spec(spec, err) < 0 || choose(spec, place, &next, err) < 0) {
        return -1;
    }
    if (place->pod != NULL &&
        k8s_attach_find(target, spec->session, place, deadline_ms, ret, &why) == 0) {
        return 0;
    }
    if (place->pod != NULL && why.code != ERROR_SANDBOX_GONE) {
        *err = why;
        return -1;
    }
    if (find_running(target, next.pod, &next.container, deadline_ms, &pod, &view, err) < 0) {
        return -1;
    }
    if (view.ours) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "Pod %s is session %.63s of handsfs: use that",
                         next.pod, view.session);
    }
    next.uid = strdup(view.uid);
    next.container_id = strdup(view.container_id);
    next.namespace_ = strdup(target->namespace_);
    next.context = place->context != NULL ? strdup(place->context) : NULL;
    if (next.uid == NULL || next.container_id == NULL || next.namespace_ == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (bring_hand(target, spec, &next, deadline_ms, err) < 0 ||
        k8s_place_write(spec->session, &next, err) < 0) {
        return -1;
    }
    return make_handle(target, spec->session, &next, true, ret, err);
}
