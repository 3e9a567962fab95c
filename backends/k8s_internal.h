/* What the Kubernetes backend's own source files share.
 *
 *     k8s.c            the table of operations; finding, listing, removing, connecting
 *     k8s_name.c       a session's name as a Pod's
 *     k8s_settings.c   what `--set` says
 *     k8s_pod.c        the Pod that a spec asks for; whether an existing one is it
 *     k8s_view.c       what the API says of a Pod, decoded
 *     k8s_start.c      from nothing to a Pod whose hand answers
 *     k8s_upload.c     the hand put in
 *     k8s_policy.c     the network policy that stands for "no network", where that is asked for
 *     k8s_place.c      in which cluster and namespace a session is, and how this is remembered
 *     k8s_attach.c     Pods that somebody else made
 *     k8s_status.c, k8s_doctor.c
 *
 * A Pod of ours has two containers. The first to run, "hand", waits in a shell for the hand's
 * binary, which comes over an exec stream; the hand then prepares the Pod's volume and, for
 * `--network none`, takes the network down with a capability that only this container has. Then
 * "sandbox" starts, with the hand as its first process and the binary on a read-only mount. So
 * the sandbox's image needs no shell, and nothing in it runs before the hand does. */
#ifndef HANDSFS_BACKENDS_K8S_INTERNAL_H
#define HANDSFS_BACKENDS_K8S_INTERNAL_H

#include "backends/k8s.h"
#include "backends/k8s_client.h"

/* On a Pod of ours. Labels are for selecting; what is true in full stands in the annotations of
 * the same names. */
#define K8S_MANAGED_BY "app.kubernetes.io/managed-by"
#define K8S_SESSION "io.handsfs.session"
#define K8S_IMAGE "io.handsfs.image"
#define K8S_WORKDIR "io.handsfs.workdir"
#define K8S_NETWORK "io.handsfs.network" /* "none" or "full" */
#define K8S_VERSION "io.handsfs.version"
#define K8S_MAKER "io.handsfs.maker" /* a random number of the one call that made it */
#define K8S_NAME_PREFIX "handsfs-"

#define K8S_CONTAINER "sandbox"
#define K8S_HAND_CONTAINER "hand"

/* Inside: a directory, and where the hand and its socket are in it. */
#define K8S_HAND_DIR "/.handsfs" /* of a Pod of ours */
#define K8S_HAND_IN "/bin/hand"
#define K8S_SOCKET_IN "/run/socket"
#define K8S_HAND_PATH K8S_HAND_DIR K8S_HAND_IN
#define K8S_SOCKET_PATH K8S_HAND_DIR K8S_SOCKET_IN

/* Commands live on so long while no host comes through at all: API servers start slowly. The hand's own
 * time counts for a host that stays away while others come. */
#define K8S_APART_MS "120000"

/* What each script for a container begins with: an image's own PATH may lead to anything. */
#define K8S_PATH_FIRST "PATH=/usr/sbin:/usr/bin:/sbin:/bin:$PATH; "

#define K8S_NAME_BYTES 64      /* a DNS-1123 label with its NUL */
#define K8S_CALL_MS 20000      /* for one call of a verb that has no deadline of its own */
#define K8S_LONGEST_MS 3600000 /* no operation takes longer, whatever its deadline says */
#define K8S_SCHEDULE_MS                                                                            \
    5000 /* what a Pod that no node takes is given, where nothing else is said */

/* `deadline_ms`, but not further away than K8S_LONGEST_MS. */
uint64_t k8s_bounded(uint64_t deadline_ms);

/* ---- Names (k8s_name.c) ---- */

/* The session as a DNS-1123 label: itself where it is one that is short enough, else what is
 * left of it with a hash of the whole behind. */
void k8s_session_label(const char *session, char ret[K8S_NAME_BYTES]) __attribute__((nonnull));
/* The Pod's name: K8S_NAME_PREFIX and that label. */
void k8s_pod_name(const char *session, char ret[K8S_NAME_BYTES]) __attribute__((nonnull));
/* Whether `text` is one or more DNS-1123 labels with dots between them, such as names of objects
 * are. */
bool k8s_is_name(const char *text) __attribute__((nonnull));

/* ---- Settings (k8s_settings.c) ---- */

enum k8s_cut { K8S_CUT_INTERFACES, K8S_CUT_POLICY };
enum k8s_volume { K8S_VOLUME_AUTO, K8S_VOLUME_YES, K8S_VOLUME_NO };

struct k8s_settings {
    const char *context,
        *namespace_; /* point into the spec, as the next five; NULL where not given */
    const char *service_account, *runtime_class, *init_image, *pull_policy;
    json_t *node_selector, *tolerations, *pull_secrets; /* as a Pod has them; owned, or NULL */
    enum k8s_cut cut;                                   /* how `--network none` is enforced */
    enum k8s_volume volume;                             /* whether the workdir is a volume */
    uint64_t schedule_ms;
};
/* ERROR_BAD_REQUEST for an unknown setting (named, with the known ones) or value. */
int k8s_settings_read(const struct env_list *engine, struct k8s_settings *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void k8s_settings_release(struct k8s_settings *settings) __attribute__((nonnull));
#define cleanup_settings __attribute__((cleanup(k8s_settings_release)))

/* ---- The Pod (k8s_pod.c) ---- */

/* Who the sandbox's user is, where the image says so and it was found out. */
struct k8s_owner {
    uint32_t uid, gid;
};

/* The object to be created. With an owner (else NULL) the workdir is a part of the volume, and this
 * user's, unless the settings say otherwise. ERROR_BAD_REQUEST for what a Pod cannot be: no image, a
 * limit on processes, a text that is no UTF-8. */
int k8s_pod_make(const struct sandbox_spec *spec, const struct k8s_settings *settings,
                 const struct k8s_owner *owner, json_t **ret, struct error *err)
    __attribute__((nonnull(1, 2, 4, 5), warn_unused_result));

/* Whether the Pod, which is ours, is what the spec asks for: else ERROR_SPEC_MISMATCH, which
 * names both. */
int k8s_pod_compare(json_t *pod, const struct sandbox_spec *spec, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* ---- What the API says of a Pod (k8s_view.c) ---- */

enum k8s_stage {
    K8S_PENDING,       /* on its way; nothing to do but wait */
    K8S_UNSCHEDULABLE, /* no node takes it as things are */
    K8S_WAITS,         /* its first container waits for the hand */
    K8S_RUNNING,
    K8S_STUCK,  /* will not start without somebody's help: the image, the configuration */
    K8S_ENDING, /* is being deleted */
    K8S_ENDED,  /* has failed, was evicted, or is over */
};

struct k8s_view {
    enum k8s_stage stage;
    const char *name, *uid,
        *version; /* this and the rest point into the Pod's JSON; "" where it does not say */
    const char *node, *session, *workdir, *container_id;
    bool ours;
    char why[ERROR_MESSAGE_MAX]; /* reason and message of a stage that is no good; printable */
};
/* `container` NULL: K8S_CONTAINER, as a Pod of ours has it; else the one of a Pod that somebody
 * else made. ERROR_NO_ANSWER where the object makes no sense as a Pod. */
int k8s_view(json_t *pod, const char *container, struct k8s_view *ret, struct error *err)
    __attribute__((nonnull(1, 3, 4), warn_unused_result));

/* What stands at a path of objects ("status", "phase", NULL), or NULL. Borrowed. The text
 * likewise; "" for none. */
json_t *k8s_at(json_t *json, ...) __attribute__((sentinel));
const char *k8s_text(json_t *json, ...) __attribute__((sentinel));
/* The state of the container of this name ("containerStatuses" or "initContainerStatuses"), or
 * NULL. */
json_t *k8s_container(json_t *pod, const char *list, const char *name) __attribute__((nonnull));

/* ---- Where a session is (k8s_place.c) ---- */

/* What is kept on this host of a session that is not where one would look for it, or not ours. */
struct k8s_place {
    char *context;                              /* NULL: the current one */
    char *namespace_;                           /* NULL: the context's */
    char *pod, *uid, *container, *container_id; /* of a Pod that somebody else made, else NULL */
    char *workdir, *directory; /* with `pod`: where commands start; where the hand lies */
    char *socket;              /* and where it listens: another one each time it is started */
};
#define K8S_PLACE_INIT                                                                             \
    {                                                                                              \
        .context = NULL                                                                            \
    }
void k8s_place_release(struct k8s_place *place) __attribute__((nonnull));
#define cleanup_place __attribute__((cleanup(k8s_place_release)))

/* What is written down of the session, else what HANDSFS_K8S_CONTEXT and HANDSFS_K8S_NAMESPACE
 * say. */
int k8s_place_find(const char *session, struct k8s_place *ret, bool *ret_recorded,
                   struct error *err) __attribute__((nonnull, warn_unused_result));
/* What those variables say. */
int k8s_place_default(struct k8s_place *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));
int k8s_place_write(const char *session, const struct k8s_place *place, struct error *err)
    __attribute__((nonnull, warn_unused_result));
int k8s_place_forget(const char *session, struct error *err)
    __attribute__((nonnull, warn_unused_result));
/* Calls `found` for each session that something is written down of. */
int k8s_place_each(int (*found)(void *arg, const char *session, const struct k8s_place *place,
                                struct error *err),
                   void *arg, struct error *err) __attribute__((nonnull(1, 3), warn_unused_result));

/* ---- A cluster and a namespace in it (k8s.c) ---- */

struct k8s_target {
    struct k8s_client *client; /* owned */
    char *namespace_;          /* owned */
};
#define K8S_TARGET_INIT                                                                            \
    {                                                                                              \
        .client = NULL                                                                             \
    }
int k8s_target_open(const struct k8s_place *place, struct k8s_target *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void k8s_target_release(struct k8s_target *target) __attribute__((nonnull));
#define cleanup_target __attribute__((cleanup(k8s_target_release)))

/* The Pod, or *ret NULL where there is none. Owned by the caller. */
int k8s_pod_get(const struct k8s_target *target, const char *name, uint64_t deadline_ms,
                json_t **ret, struct error *err) __attribute__((nonnull, warn_unused_result));
/* Deletes the Pod of this uid and no other, and waits until it is gone. One that is gone already
 * is no error. */
int k8s_pod_delete(const struct k8s_target *target, const char *name, const char *uid,
                   uint64_t deadline_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));
/* The same of a Pod in which nothing runs: its node is not waited for. */
int k8s_pod_delete_idle(const struct k8s_target *target, const char *name, const char *uid,
                        uint64_t deadline_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));
/* "/api/v1/namespaces/NAMESPACE/pods[/NAME]", to be freed; NULL without memory. `name` may be
 * NULL. */
char *k8s_pod_path(const struct k8s_target *target, const char *name) __attribute__((nonnull(1)));

/* ---- A handle's own part: sandbox->state ---- */

struct k8s_state {
    struct k8s_target target;
    char *pod, *uid, *container;
    char *container_id; /* of an attached one: another container, another sandbox; else NULL */
    char *directory, *hand, *socket; /* inside */
};
/* Makes the handle `ret`; `target` is taken over (left empty) on success. `container_id` is NULL
 * for a Pod of ours, of which `directory` and `socket` are known. */
struct k8s_handle {
    const char *session, *workdir, *pod, *uid, *container, *container_id, *directory, *socket;
    bool created;
};
int k8s_handle_make(struct k8s_target *target, const struct k8s_handle *from, struct sandbox *ret,
                    struct error *err) __attribute__((nonnull, warn_unused_result));

/* ---- Getting one (k8s_start.c, k8s_upload.c, k8s_policy.c) ---- */

int k8s_start(struct k8s_target *target, const struct sandbox_spec *spec,
              const struct k8s_settings *settings, uint64_t deadline_ms, struct sandbox *ret,
              struct error *err) __attribute__((nonnull, warn_unused_result));

/* Puts the hand into a container that runs and has a shell, to DIRECTORY K8S_HAND_IN, and checks
 * every byte of it; tried again where the stream lost some. */
int k8s_upload(const struct k8s_target *target, const char *pod, const char *container,
               const char *directory, uint64_t deadline_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Runs a program in the container; -1 also where it fails, with its own words (ERROR_IO;
 * *ret_exit, which may be NULL, is then its exit code, else -1). */
struct k8s_run {
    const char *pod, *container;
    const char *const *argv;
    const void *input; /* may be NULL */
    size_t length;
    uint64_t deadline_ms;
};
int k8s_run(const struct k8s_target *target, const struct k8s_run *run, struct buffer *output,
            int *ret_exit, struct error *err)
    __attribute__((nonnull(1, 2, 3, 5), warn_unused_result));
/* Waits until the hand in `directory` listens at `socket`; without `patience`, whether it does
 * now. */
int k8s_await_hand(const struct k8s_target *target, const struct k8s_handle *handle, bool patience,
                   uint64_t deadline_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Sees to it that the namespace has the policy that cuts off Pods of ours without a network. */
int k8s_policy_require(const struct k8s_target *target, uint64_t deadline_ms, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* ---- Pods that somebody else made (k8s_attach.c) ---- */

int k8s_attach_provision(struct k8s_target *target, const struct sandbox_spec *spec,
                         const struct k8s_place *place, uint64_t deadline_ms, struct sandbox *ret,
                         struct error *err) __attribute__((nonnull, warn_unused_result));
int k8s_attach_find(struct k8s_target *target, const char *session, const struct k8s_place *place,
                    uint64_t deadline_ms, struct sandbox *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* ---- What people are told (k8s_status.c, k8s_doctor.c) ---- */

int k8s_status(struct sandbox *sandbox, void (*say)(void *arg, const char *key, const char *value),
               void *arg, struct error *err) __attribute__((nonnull(1, 2, 4), warn_unused_result));
void k8s_doctor(doctor_report report, void *arg);

#endif
