/* What the API says of a Pod, decoded: the one place that knows the words of Kubernetes for what
 * can become of one. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "backends/k8s_internal.h"
#include "backends/printable.h"

/* ---- JSON ---- */

static json_t *walk(json_t *json, va_list names)
{
    const char *name;

    while (json != NULL && (name = va_arg(names, const char *)) != NULL) {
        json = json_object_get(json, name);
    }
    return json;
}

json_t *k8s_at(json_t *json, ...)
{
    va_list names;

    va_start(names, json);
    json = walk(json, names);
    va_end(names);
    return json;
}

const char *k8s_text(json_t *json, ...)
{
    const char *text;
    va_list names;

    va_start(names, json);
    text = json_string_value(walk(json, names));
    va_end(names);
    return text != NULL ? text : "";
}

/* The member of a list of objects whose `key` is `value`. */
static json_t *find(json_t *list, const char *key, const char *value)
{
    size_t i;
    json_t *one;

    json_array_foreach(list, i, one)
    {
        if (strcmp(k8s_text(one, key, NULL), value) == 0) {
            return one;
        }
    }
    return NULL;
}

json_t *k8s_container(json_t *pod, const char *list, const char *name)
{
    return find(k8s_at(pod, "status", list, NULL), "name", name);
}

/* ---- Why ---- */

/* "WHAT: REASON: MESSAGE", what is empty left out. */
static void tell(struct k8s_view *view, const char *what, const char *reason, const char *message)
{
    char said[ERROR_MESSAGE_MAX];
    char cause[ERROR_MESSAGE_MAX / 8];

    copy_printable(cause, sizeof cause, reason, strlen(reason));
    copy_printable(said, sizeof said, message, strlen(message));
    snprintf(view->why, sizeof view->why, "%.100s%s%s%s%.320s", what, cause[0] != '\0' ? ": " : "",
             cause, said[0] != '\0' ? ": " : "", said);
}

/* A waiting container that nothing but somebody's help gets any further. Those are the kubelet's
 * words (pkg/kubelet/images, pkg/kubelet/container and kuberuntime of Kubernetes). */
static bool is_stuck(const char *reason)
{
    static const char *const reasons[] = {
        "ErrImagePull",      "ImagePullBackOff",           "InvalidImageName",
        "ErrImageNeverPull", "ImageInspectError",          "RegistryUnavailable",
        "CrashLoopBackOff",  "CreateContainerConfigError", "CreateContainerError",
        "RunContainerError", "PreCreateHookError",         "SignatureValidationFailed",
    };

    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (strcmp(reason, reasons[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* How a container's end is told. */
static void tell_end(struct k8s_view *view, const char *name, json_t *terminated)
{
    const char *reason = k8s_text(terminated, "reason", NULL);
    json_int_t status = json_integer_value(k8s_at(terminated, "exitCode", NULL));
    char what[128];

    if (strcmp(reason, "OOMKilled") == 0) {
        snprintf(what, sizeof what, "out of memory: container %.60s was killed", name);
    } else {
        snprintf(what, sizeof what, "container %.60s ended with status %lld", name,
                 (long long)status);
    }
    tell(view, what, strcmp(reason, "Error") == 0 || strcmp(reason, "Completed") == 0 ? "" : reason,
         k8s_text(terminated, "message", NULL));
}

/* ---- Stages ---- */

/* Whether a container of the list has ended badly or will not start; says why. `end` is what an
 * end without an error means. */
static bool look_for_trouble(struct k8s_view *view, json_t *list, bool may_end)
{
    size_t i;
    json_t *one;

    json_array_foreach(list, i, one)
    {
        json_t *waiting = k8s_at(one, "state", "waiting", NULL);
        json_t *terminated = k8s_at(one, "state", "terminated", NULL);
        const char *name = k8s_text(one, "name", NULL);

        if (is_stuck(k8s_text(waiting, "reason", NULL))) {
            view->stage = K8S_STUCK;
            tell(view, name, k8s_text(waiting, "reason", NULL), k8s_text(waiting, "message", NULL));
            return true;
        }
        if (terminated != NULL &&
            (!may_end || json_integer_value(k8s_at(terminated, "exitCode", NULL)) != 0)) {
            view->stage = K8S_ENDED;
            tell_end(view, name, terminated);
            return true;
        }
    }
    return false;
}

static void classify_scheduling(json_t *pod, struct k8s_view *view)
{
    json_t *scheduled = find(k8s_at(pod, "status", "conditions", NULL), "type", "PodScheduled");

    view->stage = K8S_PENDING;
    if (strcmp(k8s_text(scheduled, "status", NULL), "False") == 0) {
        view->stage = K8S_UNSCHEDULABLE;
        tell(view, "no node takes the Pod", k8s_text(scheduled, "reason", NULL),
             k8s_text(scheduled, "message", NULL));
    }
}

/* One of ours: the first container, then the second. */
static void classify(json_t *pod, struct k8s_view *view)
{
    json_t *hand = k8s_container(pod, "initContainerStatuses", K8S_HAND_CONTAINER);
    json_t *sandbox = k8s_container(pod, "containerStatuses", K8S_CONTAINER);

    if (look_for_trouble(view, k8s_at(pod, "status", "initContainerStatuses", NULL), true) ||
        look_for_trouble(view, k8s_at(pod, "status", "containerStatuses", NULL), false)) {
        return;
    }
    if (k8s_at(sandbox, "state", "running", NULL) != NULL) {
        view->stage = K8S_RUNNING;
    } else if (k8s_at(hand, "state", "running", NULL) != NULL) {
        view->stage = K8S_WAITS;
    } else {
        classify_scheduling(pod, view);
    }
}

/* Somebody else's: only the one container counts, and it is never begun. */
static void classify_foreign(json_t *pod, const char *container, struct k8s_view *view)
{
    json_t *one = k8s_container(pod, "containerStatuses", container);
    json_t *terminated = k8s_at(one, "state", "terminated", NULL);
    const char *waits = k8s_text(one, "state", "waiting", "reason", NULL);

    if (k8s_at(one, "state", "running", NULL) != NULL) {
        view->stage = K8S_RUNNING;
    } else if (terminated != NULL) {
        view->stage = K8S_ENDED;
        tell_end(view, container, terminated);
    } else {
        view->stage = is_stuck(waits) ? K8S_STUCK : K8S_PENDING;
        tell(view, container, waits, k8s_text(one, "state", "waiting", "message", NULL));
    }
}

int k8s_view(json_t *pod, const char *container, struct k8s_view *ret, struct error *err)
{
    struct k8s_view view = {.stage = K8S_PENDING};
    const char *phase = k8s_text(pod, "status", "phase", NULL);
    json_t *one =
        k8s_container(pod, "containerStatuses", container != NULL ? container : K8S_CONTAINER);

    view.name = k8s_text(pod, "metadata", "name", NULL);
    view.uid = k8s_text(pod, "metadata", "uid", NULL);
    view.version = k8s_text(pod, "metadata", "resourceVersion", NULL);
    view.node = k8s_text(pod, "spec", "nodeName", NULL);
    view.session = k8s_text(pod, "metadata", "annotations", K8S_SESSION, NULL);
    view.workdir = k8s_text(pod, "metadata", "annotations", K8S_WORKDIR, NULL);
    view.container_id = k8s_text(one, "containerID", NULL);
    view.ours = strcmp(k8s_text(pod, "metadata", "labels", K8S_MANAGED_BY, NULL), "handsfs") == 0 &&
                view.session[0] != '\0' && view.workdir[0] == '/';
    if (view.name[0] == '\0' || view.uid[0] == '\0') {
        return error_set(err, ERROR_NO_ANSWER, 0,
                         "what the cluster calls a Pod has no name or no uid");
    }
    if (k8s_at(pod, "metadata", "deletionTimestamp", NULL) != NULL) {
        view.stage = K8S_ENDING;
        tell(&view, "the Pod is being deleted", "", "");
    } else if (container != NULL) {
        classify_foreign(pod, container, &view);
    } else {
        classify(pod, &view);
    }
    if (view.stage != K8S_ENDING && view.stage != K8S_ENDED &&
        (strcmp(phase, "Failed") == 0 || strcmp(phase, "Succeeded") == 0)) {
        view.stage = K8S_ENDED;
        view.why[0] = '\0';
    }
    if (view.stage == K8S_ENDED &&
        k8s_text(pod, "status", "reason", NULL)[0] != '\0') { /* Evicted, NodeLost... */
        tell(&view, "the Pod has failed", k8s_text(pod, "status", "reason", NULL),
             k8s_text(pod, "status", "message", NULL));
    } else if (view.stage == K8S_ENDED && view.why[0] == '\0') {
        tell(&view, "the Pod is over", phase, k8s_text(pod, "status", "message", NULL));
    }
    *ret = view;
    return 0;
}
