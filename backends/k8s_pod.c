/* The Pod that a spec asks for. handsfs-k8s(7) tells people what stands here. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backends/k8s_internal.h"
#include "sandbox/base64.h"
#include "sandbox/capability.h"
#include "sandbox/cleanup.h"

#define VOLUME "handsfs"
#define GRACE_SECONDS 2    /* the hand ends at once when it is told to */
#define QUANTITY_BYTES 32
#define STEP_BYTES 128

/* Waits for the hand, then becomes it. What `sleep` there is may know whole seconds only. */
#define WAIT_FOR_HAND                                                                              \
    K8S_PATH_FIRST                                                                                 \
    "until [ -x " K8S_HAND_PATH " ]; do sleep 0.1 2>/dev/null || sleep 1 || exit 125; done; "      \
    "exec " K8S_HAND_PATH " prepare \"$@\""

/* What is being made, and what was found out about it. */
struct plan {
    const struct sandbox_spec *spec;
    const struct k8s_settings *settings;
    char name[K8S_NAME_BYTES], label[K8S_NAME_BYTES];
    bool user;  /* was asked for */
    bool owner; /* of what is the user's is known: */
    uint32_t uid, gid;
    bool cut;       /* the first container takes the network down, as root */
    bool own_image; /* the first container is made from the sandbox's image */
    bool workdir_volume, tmp_volume;
};

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_NO_MEMORY, 0, "out of memory for the Pod's description");
}

/* ---- Reading the spec ---- */

static int make_plan(const struct sandbox_spec *spec, const struct k8s_settings *settings,
                     const struct k8s_owner *owner, struct plan *plan, struct error *err)
{
    const char *image = spec->image;

    *plan = (struct plan){.spec = spec, .settings = settings};
    if (image == NULL || image[0] == '\0') {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the k8s backend needs an image (--image)");
    }
    if (spec->pids != 0) {
        return error_set(
            err, ERROR_BAD_REQUEST, 0,
            "a Pod cannot be given a limit on processes (--pids): Kubernetes has one a node "
            "(the kubelet's podPidsLimit), none a Pod");
    }
    if (strchr(spec->workdir, ':') != NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "workdir \"%.200s\": no colon may be in a Pod's", spec->workdir);
    }
    if (strcmp(spec->workdir, K8S_HAND_DIR) == 0 ||
        strncmp(spec->workdir, K8S_HAND_DIR "/", sizeof K8S_HAND_DIR) == 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "workdir \"%.200s\" lies in " K8S_HAND_DIR,
                         spec->workdir);
    }
    plan->user = spec->user != NULL && spec->user[0] != '\0';
    if (plan->user && user_parse(spec->user, &plan->uid, &plan->gid, err) < 0) {
        return -1;
    }
    plan->owner = plan->user || owner != NULL;
    if (!plan->user && owner != NULL) {
        plan->uid = owner->uid;
        plan->gid = owner->gid;
    }
    k8s_session_label(spec->session, plan->label);
    k8s_pod_name(spec->session, plan->name);
    plan->cut = spec->network == NETWORK_NONE && settings->cut == K8S_CUT_INTERFACES;
    plan->own_image = settings->init_image == NULL;
    plan->tmp_volume = spec->read_only_root;
    plan->workdir_volume = settings->volume == K8S_VOLUME_YES ||
                           (settings->volume == K8S_VOLUME_AUTO &&
                            (spec->read_only_root || (plan->owner && plan->uid != 0)));
    return 0;
}

/* ---- Parts ---- */

/* Kubernetes puts variables in for $(NAME) in values and arguments; two dollars stand for one. */
static json_t *verbatim(const char *text)
{
    cleanup_buffer struct buffer b = BUFFER_INIT(2 * (size_t)MAX_ENV_VALUE + 2);

    for (; *text != '\0'; text++) {
        if (buffer_append(&b, "$$", *text == '$' ? 2 : 0) < 0 ||
            (*text != '$' && buffer_append(&b, text, 1) < 0)) {
            return NULL;
        }
    }
    return json_stringn(b.data != NULL ? (const char *)b.data : "", b.length);
}

static int append_text(json_t *array, const char *text)
{
    return json_array_append_new(array, verbatim(text));
}

/* The session's variables; one that is no UTF-8, which JSON has no way to say, goes to the hand
 * in base64. */
static int put_environment(const struct sandbox_spec *spec, json_t *env, json_t *command,
                           struct error *err)
{
    for (size_t i = 0; i < spec->env.count; i++) {
        const char *entry = spec->env.entries[i];
        const char *value = strchr(entry, '=') + 1;
        cleanup_buffer struct buffer text = BUFFER_INIT(2 * (size_t)MAX_ENV_VALUE);
        json_t *said = verbatim(value);

        if (said != NULL) {
            json_t *one =
                json_pack("{s:s%,s:o}", "name", entry, (size_t)(value - 1 - entry), "value", said);

            if (json_array_append_new(env, one) < 0) {
                return no_memory(err);
            }
            continue;
        }
        if (base64_encode(&text, (const uint8_t *)entry, strlen(entry)) < 0 ||
            buffer_text(&text) == NULL || append_text(command, "--env-base64") < 0 ||
            append_text(command, (const char *)text.data) < 0) {
            return no_memory(err);
        }
    }
    return 0;
}

/* The capabilities to be dropped, in the engine's words. */
static json_t *dropped(const struct sandbox_spec *spec, struct error *err)
{
    json_auto_t *list = json_array();
    bool raw = false;

    for (char **cap = spec->cap_drop; cap != NULL && *cap != NULL; cap++) {
        uint64_t bit = capability_bit(*cap);
        const char *found;

        if (strcasecmp(*cap, "ALL") == 0) {
            return json_pack("[s]", "ALL");
        }
        if (bit == 0) {
            error_set(err, ERROR_BAD_REQUEST, 0, "there is no capability \"%.60s\"", *cap);
            return NULL;
        }
        found = capability_name((unsigned)__builtin_ctzll(bit)) + 4; /* without "CAP_" */
        raw = raw || strcmp(found, "NET_RAW") == 0;
        json_array_append_new(list, json_string(found));
    }
    if (!raw && json_array_append_new(list, json_string("NET_RAW")) < 0) {
        no_memory(err);
        return NULL;
    }
    return json_incref(list);
}

/* Limits, which are requests too: what a node does not have it is not to promise. NULL for none. */
static json_t *resources(const struct sandbox_spec *spec)
{
    json_t *limits = json_object();
    char quantity[QUANTITY_BYTES];

    if (spec->memory_bytes != 0) {
        snprintf(quantity, sizeof quantity, "%llu", (unsigned long long)spec->memory_bytes);
        json_object_set_new(limits, "memory", json_string(quantity));
    }
    if (spec->cpu_millis != 0) {
        snprintf(quantity, sizeof quantity, "%llum", (unsigned long long)spec->cpu_millis);
        json_object_set_new(limits, "cpu", json_string(quantity));
    }
    if (json_object_size(limits) == 0) {
        json_decref(limits);
        return NULL;
    }
    return json_pack("{s:O,s:o}", "requests", limits, "limits", limits);
}

/* `mode` for the directory NAME of the volume, with the sandbox's user for its owner where that
 * is known; else `anybody_s`. */
static int add_directory(json_t *steps, const struct plan *plan, const char *name, unsigned mode,
                         unsigned anybody_s)
{
    char step[STEP_BYTES];
    bool known = plan->user || (!plan->cut && plan->own_image);

    if (plan->cut && plan->owner) {
        snprintf(step, sizeof step, "make=%04o:%u:%u:" K8S_HAND_DIR "/%s", mode, plan->uid,
                 plan->gid, name);
    } else {
        snprintf(step, sizeof step, "make=%04o:-:-:" K8S_HAND_DIR "/%s", known ? mode : anybody_s,
                 name);
    }
    return append_text(steps, step);
}

/* ---- The containers ---- */

/* The one that the hand comes into. */
static json_t *hand_container(const struct plan *plan, struct error *err)
{
    json_auto_t *command = json_pack("[s,s,s,s]", "/bin/sh", "-c", "", "sh");
    json_auto_t *security = json_pack("{s:{s:[s]}}", "capabilities", "drop", "ALL");
    json_t *limits = resources(plan->spec);
    json_t *container;
    int r = json_array_set_new(command, 2,
                               verbatim(WAIT_FOR_HAND)); /* "$@" is doubled, and halved again */

    r |= json_object_set_new(security, "allowPrivilegeEscalation", json_false());
    r |= json_object_set_new(security, "readOnlyRootFilesystem", json_true());
    r |= add_directory(command, plan, "run", 0700, 01777);
    r |= plan->workdir_volume ? add_directory(command, plan, "work", 0755, 0777) : 0;
    r |= plan->tmp_volume ? append_text(command, "make=1777:-:-:" K8S_HAND_DIR "/tmp") : 0;
    if (plan->cut) {
        json_t *add = json_pack("[s]", "NET_ADMIN");

        r |= plan->owner ? json_array_append_new(add, json_string("CHOWN")) : 0;
        r |= json_object_set_new(json_object_get(security, "capabilities"), "add", add);
        r |= json_object_set_new(security, "runAsUser", json_integer(0));
        r |= json_object_set_new(security, "runAsGroup", json_integer(0));
        r |= json_object_set_new(security, "runAsNonRoot", json_false());
        r |= append_text(command, "cut-network");
    }
    container = json_pack(
        "{s:s,s:s,s:s,s:O,s:s,s:O,s:s,s:o*,s:[{s:s,s:s}]}", "name", K8S_HAND_CONTAINER, "image",
        plan->own_image ? plan->spec->image : plan->settings->init_image, "imagePullPolicy",
        plan->settings->pull_policy, "command", command, "workingDir", "/", "securityContext",
        security, "terminationMessagePolicy", "FallbackToLogsOnError", "resources", limits,
        "volumeMounts", "name", VOLUME, "mountPath", K8S_HAND_DIR);
    if (r != 0 || container == NULL) {
        json_decref(container);
        error_set(err, ERROR_BAD_REQUEST, 0, "the image's name is no UTF-8, or memory has run out");
        return NULL;
    }
    return container;
}

static int add_mount(json_t *mounts, const char *directory, const char *at, bool read_only)
{
    return json_array_append_new(mounts,
                                 json_pack("{s:s,s:s,s:s,s:b}", "name", VOLUME, "subPath",
                                           directory, "mountPath", at, "readOnly", read_only));
}

static json_t *mounts_of(const struct plan *plan)
{
    json_auto_t *mounts = json_array();
    int r = add_mount(mounts, "bin", K8S_HAND_DIR "/bin", true);

    r |= add_mount(mounts, "run", K8S_HAND_DIR "/run", false);
    r |= plan->workdir_volume ? add_mount(mounts, "work", plan->spec->workdir, false) : 0;
    r |= plan->tmp_volume ? add_mount(mounts, "tmp", "/tmp", false) : 0;
    return r == 0 ? json_incref(mounts) : NULL;
}

/* What process 1 is. */
static json_t *serving_command(const struct plan *plan)
{
    return json_pack("[s,s,s,s,s,s,s,o]", K8S_HAND_PATH, "serve", "--socket", K8S_SOCKET_PATH,
                     "--apart-ms", K8S_APART_MS, "--workdir", verbatim(plan->spec->workdir));
}

/* The sandbox. */
static json_t *sandbox_container(const struct plan *plan, struct error *err)
{
    json_auto_t *command = serving_command(plan);
    json_auto_t *env = json_array();
    json_auto_t *drop = dropped(plan->spec, err);
    json_auto_t *mounts = mounts_of(plan);
    json_t *container;

    if (drop == NULL || put_environment(plan->spec, env, command, err) < 0) {
        return NULL;
    }
    container = json_pack("{s:s,s:s,s:s,s:O,s:s,s:O,s:s,s:o*,s:O,s:{s:b,s:b,s:{s:O}}}", "name",
                          K8S_CONTAINER, "image", plan->spec->image, "imagePullPolicy",
                          plan->settings->pull_policy, "command", command, "workingDir", "/", "env",
                          env, "terminationMessagePolicy", "FallbackToLogsOnError", "resources",
                          resources(plan->spec), "volumeMounts", mounts, "securityContext",
                          "allowPrivilegeEscalation", 0, "readOnlyRootFilesystem",
                          plan->spec->read_only_root, "capabilities", "drop", drop);
    if (container == NULL) {
        error_set(err, ERROR_BAD_REQUEST, 0,
                  "the workdir or the image's name is no UTF-8, or memory has run out");
    }
    return container;
}

/* ---- The whole ---- */

static json_t *metadata_of(const struct plan *plan)
{
    const struct sandbox_spec *spec = plan->spec;

    return json_pack("{s:s,s:{s:s,s:s,s:s},s:{s:s,s:s,s:s,s:s,s:s}}", "name", plan->name, "labels",
                     K8S_MANAGED_BY, "handsfs", K8S_SESSION, plan->label, K8S_NETWORK,
                     network_mode_name(spec->network), "annotations", K8S_SESSION, spec->session,
                     K8S_IMAGE, spec->image, K8S_WORKDIR, spec->workdir, K8S_NETWORK,
                     network_mode_name(spec->network), K8S_VERSION, HANDSFS_VERSION);
}

static json_t *security_of(const struct plan *plan)
{
    json_t *security = json_pack("{s:{s:s}}", "seccompProfile", "type", "RuntimeDefault");

    if (plan->user) {
        json_object_set_new(security, "runAsUser", json_integer(plan->uid));
        json_object_set_new(security, "runAsGroup", json_integer(plan->gid));
    }
    return security;
}

int k8s_pod_make(const struct sandbox_spec *spec, const struct k8s_settings *settings,
                 const struct k8s_owner *owner, json_t **ret, struct error *err)
{
    struct plan plan;
    json_auto_t *hand = NULL;
    json_auto_t *sandbox = NULL;

    if (make_plan(spec, settings, owner, &plan, err) < 0) {
        return -1;
    }
    hand = hand_container(&plan, err);
    sandbox = hand == NULL ? NULL : sandbox_container(&plan, err);
    if (sandbox == NULL) {
        return -1;
    }
    *ret = json_pack(
        "{s:s,s:s,s:o,s:{s:s,s:b,s:b,s:i,s:o,s:O*,s:O*,s:O*,s:s*,s:s*,s:[O],s:[O],s:[{s:s,s:{}}]}}",
        "apiVersion", "v1", "kind", "Pod", "metadata", metadata_of(&plan), "spec", "restartPolicy",
        "Never", "automountServiceAccountToken", 0, "enableServiceLinks", 0,
        "terminationGracePeriodSeconds", GRACE_SECONDS, "securityContext", security_of(&plan),
        "nodeSelector", settings->node_selector, "tolerations", settings->tolerations,
        "imagePullSecrets", settings->pull_secrets, "serviceAccountName", settings->service_account,
        "runtimeClassName", settings->runtime_class, "initContainers", hand, "containers", sandbox,
        "volumes", "name", VOLUME, "emptyDir");
    return *ret == NULL ? no_memory(err) : 0;
}

/* ---- An existing one ---- */

int k8s_pod_compare(json_t *pod, const struct sandbox_spec *spec, struct error *err)
{
    const char *image = k8s_text(pod, "metadata", "annotations", K8S_IMAGE, NULL);
    const char *workdir = k8s_text(pod, "metadata", "annotations", K8S_WORKDIR, NULL);
    const char *network = k8s_text(pod, "metadata", "annotations", K8S_NETWORK, NULL);

    if (spec->image == NULL || strcmp(image, spec->image) != 0) {
        return error_set(err, ERROR_SPEC_MISMATCH, 0,
                         "session %s exists with image \"%.150s\", not \"%.150s\"", spec->session,
                         image, spec->image != NULL ? spec->image : "");
    }
    if (strcmp(workdir, spec->workdir) != 0) {
        return error_set(err, ERROR_SPEC_MISMATCH, 0,
                         "session %s exists with workdir \"%.150s\", not \"%.150s\"", spec->session,
                         workdir, spec->workdir);
    }
    if (strcmp(network, network_mode_name(spec->network)) != 0) {
        return error_set(err, ERROR_SPEC_MISMATCH, 0,
                         "session %s exists with network %.20s, not %s", spec->session, network,
                         network_mode_name(spec->network));
    }
    return 0;
}
