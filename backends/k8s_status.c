/* What the cluster knows of a sandbox. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backends/k8s_internal.h"
#include "backends/printable.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define VALUE_BYTES 256

/* Who is told, and how. */
struct teller {
    void (*say)(void *arg, const char *key, const char *value);
    void *arg;
};

/* Says it, made printable, unless it is empty. */
static void tell(const struct teller *t, const char *key, const char *value)
{
    char text[VALUE_BYTES];

    if (copy_printable(text, sizeof text, value, strlen(value)) > 0) {
        t->say(t->arg, key, text);
    }
}

static const char *stage_name(enum k8s_stage stage)
{
    switch (stage) {
    case K8S_RUNNING:
        return "running";
    case K8S_UNSCHEDULABLE:
        return "unschedulable";
    case K8S_STUCK:
        return "stuck";
    case K8S_ENDING:
        return "being deleted";
    case K8S_ENDED:
        return "ended";
    default:
        return "starting";
    }
}

/* How long ago that was, by this host's clock; nothing where it is no time (RFC 3339, in UTC). */
static void tell_age(const struct teller *t, const char *created)
{
    struct tm tm = {0};
    const char *end = strptime(created, "%Y-%m-%dT%H:%M:%SZ", &tm);
    char text[VALUE_BYTES];
    time_t age;

    if (end == NULL || *end != '\0') {
        return;
    }
    age = time(NULL) - timegm(&tm);
    snprintf(text, sizeof text, "%lld", (long long)(age > 0 ? age : 0));
    tell(t, "age_s", text);
}

static void tell_container(const struct teller *t, json_t *pod, const char *name)
{
    json_t *status = k8s_container(pod, "containerStatuses", name);
    char text[VALUE_BYTES];
    size_t i;
    json_t *one;

    tell(t, "container", name);
    tell(t, "image_id", k8s_text(status, "imageID", NULL));
    snprintf(text, sizeof text, "%lld",
             (long long)json_integer_value(k8s_at(status, "restartCount", NULL)));
    tell(t, "restarts", text);
    json_array_foreach(k8s_at(pod, "spec", "containers", NULL), i, one)
    {
        if (strcmp(k8s_text(one, "name", NULL), name) == 0) {
            tell(t, "image", k8s_text(one, "image", NULL));
            tell(t, "memory_limit", k8s_text(one, "resources", "limits", "memory", NULL));
            tell(t, "cpu_limit", k8s_text(one, "resources", "limits", "cpu", NULL));
        }
    }
}

int k8s_status(struct sandbox *sandbox, void (*say)(void *arg, const char *key, const char *value),
               void *arg, struct error *err)
{
    const struct k8s_state *state = sandbox->state;
    const struct teller t = {say, arg};
    json_auto_t *pod = NULL;
    struct k8s_view view;

    if (k8s_pod_get(&state->target, state->pod, clock_now_ms() + K8S_CALL_MS, &pod, err) < 0) {
        return -1;
    }
    if (pod == NULL || strcmp(k8s_text(pod, "metadata", "uid", NULL), state->uid) != 0) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "Pod %s is gone", state->pod);
    }
    if (k8s_view(pod, state->container_id != NULL ? state->container : NULL, &view, err) < 0) {
        return -1;
    }
    tell(&t, "state", stage_name(view.stage));
    tell(&t, "why", view.why);
    tell(&t, "pod", state->pod);
    tell(&t, "namespace", state->target.namespace_);
    tell(&t, "server", k8s_client_server(state->target.client));
    tell(&t, "phase", k8s_text(pod, "status", "phase", NULL));
    tell(&t, "node", view.node);
    tell(&t, "pod_ip", k8s_text(pod, "status", "podIP", NULL));
    tell(&t, "qos", k8s_text(pod, "status", "qosClass", NULL));
    tell(&t, "network", k8s_text(pod, "metadata", "annotations", K8S_NETWORK, NULL));
    tell(&t, "hand_version", k8s_text(pod, "metadata", "annotations", K8S_VERSION, NULL));
    tell_age(&t, k8s_text(pod, "metadata", "creationTimestamp", NULL));
    tell_container(&t, pod, state->container);
    return 0;
}
