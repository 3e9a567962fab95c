/* From nothing to a Pod whose hand answers.
 *
 * That a Pod is to be made may be said twice, and the answer may be lost: libcurl says it again on a
 * new connection where a kept one turns out to be dead, and a server may end in between. A second one
 * cannot come of it, since the name is taken; and a random number in it tells who made the first.
 *
 * The API server decides who makes a session's Pod: of all that create one of this name, one
 * succeeds, and the others find it there. They wait with the one who made it and put the hand in
 * themselves if that one does not. What is over is deleted, under its uid, and made anew. What
 * has never come to run and never will is deleted by whoever finds out, and is an error: no one
 * has anything in it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "backends/k8s_internal.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "sandbox/log.h"

#define ADOPT_MS 5000     /* for the one who made the Pod to put the hand in */
#define CLEAN_UP_MS 30000 /* for removing what did not start */
#define UID_BYTES 64
#define SAY_BYTES 160
#define UPLOAD_FAILURES 3
#define UPLOAD_PAUSE_MS 2000 /* between two */
#define TOLD_MS 15000        /* for the API to tell that a container has ended: nodes may be busy */
#define UNANSWERED 3       /* requests to make a Pod, until that is an error */
#define MAKER_BYTES 20
#define PAUSE_NS 100000000

struct start {
    struct k8s_target *target;
    const struct sandbox_spec *spec;
    const struct k8s_settings *settings;
    uint64_t deadline_ms;
    char name[K8S_NAME_BYTES];
    char uid[UID_BYTES];
    char maker[MAKER_BYTES];   /* K8S_MAKER of a Pod that this call has made */
    unsigned unanswered;       /* requests to make one */
    bool created;              /* by this call, this very Pod */
    json_t *pod;               /* as it was seen last; owned */
    struct k8s_view view;      /* of it */
    json_t *description;       /* of the Pod to be made; owned */
    bool has_owner;            /* in the description */
    uint64_t unschedulable_ms; /* since then; 0: it is not */
    uint64_t waits_ms;         /* likewise, for the hand */
    bool uploaded;
    unsigned failures;  /* of uploads */
    uint64_t failed_ms; /* the first of them */
    uint64_t again_ms;  /* when the next one is due */
};

static void start_release(struct start *start)
{
    json_decref(start->pod);
    json_decref(start->description);
}

/* ---- What is to be made ---- */

/* The Pod, with a random number that is this call's. */
static int describe(struct start *start, const struct k8s_owner *owner, struct error *err)
{
    json_auto_t *description = NULL;
    uint64_t number;

    if (start->maker[0] == '\0') {
        if (getrandom(&number, sizeof number, 0) != sizeof number) {
            return error_set_errno(err, errno, "getrandom");
        }
        snprintf(start->maker, sizeof start->maker, "%016llx", (unsigned long long)number);
    }
    if (k8s_pod_make(start->spec, start->settings, owner, &description, err) < 0) {
        return -1;
    }
    if (json_object_set_new(k8s_at(description, "metadata", "annotations", NULL), K8S_MAKER,
                            json_string(start->maker)) < 0) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    json_decref(start->description);
    start->description = take_ptr(description);
    start->has_owner = owner != NULL;
    return 0;
}

/* ---- Telling ---- */

static void say(const struct start *start)
{
    struct sandbox_progress *progress = start->spec->progress;
    const struct k8s_view *view = &start->view;
    char text[SAY_BYTES];

    if (progress == NULL) {
        return;
    }
    if (view->stage == K8S_UNSCHEDULABLE || (view->stage == K8S_PENDING && view->node[0] == '\0')) {
        snprintf(text, sizeof text, "Waiting for a node for Pod %.60s", start->name);
    } else if (view->stage == K8S_PENDING &&
               k8s_container(start->pod, "initContainerStatuses", K8S_HAND_CONTAINER) != NULL &&
               start->uploaded) {
        snprintf(text, sizeof text, "Starting the sandbox on node %.60s", view->node);
    } else if (view->stage == K8S_PENDING) {
        snprintf(text, sizeof text, "Starting %.80s on node %.60s", start->spec->image, view->node);
    } else if (view->stage == K8S_WAITS) {
        snprintf(text, sizeof text, "Putting the hand into Pod %.60s", start->name);
    } else {
        return;
    }
    progress->say(progress, text);
}

/* ---- Waiting ---- */

/* Takes the Pod as it is now; NULL: it is gone. `pod` is borrowed. */
static int look(struct start *start, json_t *pod, struct error *err)
{
    struct k8s_view view = {.stage = K8S_ENDING, .name = "", .uid = "", .version = "", .node = ""};

    if (pod != NULL && k8s_view(pod, NULL, &view, err) < 0) {
        return -1;
    }
    json_incref(pod);
    json_decref(start->pod);
    start->pod = pod;
    start->view = view;
    if (strcmp(view.uid, start->uid) != 0) {
        start->view.stage = K8S_ENDING; /* the one that we mean is gone */
    }
    if (view.stage != K8S_UNSCHEDULABLE) {
        start->unschedulable_ms = 0;
    } else if (start->unschedulable_ms == 0) {
        start->unschedulable_ms = clock_now_ms();
    }
    if (view.stage == K8S_WAITS && start->waits_ms == 0) {
        start->waits_ms = clock_now_ms();
    }
    return 0;
}

static int seen(void *arg, json_t *pod, struct error *err)
{
    struct start *start = arg;
    enum k8s_stage before = start->view.stage;

    if (look(start, pod, err) < 0) {
        return -1;
    }
    say(start);
    return start->view.stage != before ? 1 : 0;
}

/* Until the stage changes, or until `until_ms`, when the Pod is looked at anew. */
static int wait_for_change(struct start *start, uint64_t until_ms, struct error *err)
{
    cleanup_free char *version = strdup(start->view.version);
    json_auto_t *pod = NULL;
    struct error why = {0};

    if (version == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (k8s_watch_pod(start->target->client, start->target->namespace_, start->name, version,
                      until_ms < start->deadline_ms ? until_ms : start->deadline_ms, seen, start,
                      &why) >= 0) {
        return 0;
    }
    if (why.code != ERROR_NO_ANSWER || clock_now_ms() < until_ms ||
        clock_now_ms() >= start->deadline_ms) {
        *err = why;
        if (why.code == ERROR_NO_ANSWER && clock_now_ms() >= start->deadline_ms) {
            return error_set(err, ERROR_NO_ANSWER, 0, "Pod %s did not start in time%s%.300s",
                             start->name, start->view.why[0] != '\0' ? ": " : "", start->view.why);
        }
        return -1;
    }
    return k8s_pod_get(start->target, start->name, start->deadline_ms, &pod, err) < 0
               ? -1
               : look(start, pod, err);
}

/* ---- The stages ---- */

static int give_up(const struct start *start, struct error *err)
{
    const char *why = start->view.why;

    if (start->view.stage == K8S_UNSCHEDULABLE) {
        return error_set(err, ERROR_NO_ANSWER, 0, "Pod %s: %.400s", start->name, why);
    }
    if (strstr(why, "/bin/sh") != NULL && start->settings->init_image == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "image %.100s has no shell, in which the Pod waits for the hand: name one "
                         "that has with "
                         "--set init_image=IMAGE (%.200s)",
                         start->spec->image, why);
    }
    return error_set(err, start->view.stage == K8S_STUCK ? ERROR_BAD_REQUEST : ERROR_IO, 0,
                     "Pod %s: %.400s", start->name, why);
}

/* The hand's turn. Others may be at it, too: who is late finds the container gone on, which is
 * all that was wanted; or finds that it ended under the upload, in any way that a program can end.
 * The API tells of that end some time after it, so nothing is believed before it had this time,
 * unless it is a stream that failed, in which the container took part to the end. */
static int put_hand(struct start *start, struct error *err)
{
    json_auto_t *pod = NULL;
    struct error why = {0};
    uint64_t now;

    if (k8s_upload(start->target, start->name, K8S_HAND_CONTAINER, K8S_HAND_DIR, start->deadline_ms,
                   &why) == 0) {
        start->uploaded = true;
        return 0;
    }
    if (k8s_pod_get(start->target, start->name, start->deadline_ms, &pod, err) < 0 ||
        look(start, pod, err) < 0) {
        return -1;
    }
    log_trace("Pod %s: %s", start->name, why.message);
    now = clock_now_ms();
    start->failed_ms = start->failures++ == 0 ? now : start->failed_ms;
    if (start->view.stage == K8S_WAITS && start->failures >= UPLOAD_FAILURES &&
        (why.code == ERROR_NO_ANSWER || now - start->failed_ms >= TOLD_MS)) {
        *err = why;
        return -1;
    }
    start->again_ms = now + UPLOAD_PAUSE_MS;
    return 0;
}

/* Who made the Pod begins at once. */
static uint64_t upload_due_ms(const struct start *start)
{
    uint64_t first = start->created ? 0 : start->waits_ms + ADOPT_MS;

    if (start->uploaded) {
        return start->deadline_ms;
    }
    return start->again_ms > first ? start->again_ms : first;
}

/* Whether it ended because the image's user cannot make the workdir, and who that is (hand/server.c). */
static bool lacks_workdir(const struct start *start, struct k8s_owner *ret)
{
    const char *said = strstr(start->view.why, ": Permission denied (as user ");
    unsigned uid, gid;

    if (start->has_owner || start->settings->volume != K8S_VOLUME_AUTO ||
        strstr(start->view.why, "hand: mkdir ") == NULL || said == NULL ||
        sscanf(said, ": Permission denied (as user %10u:%10u)", &uid, &gid) != 2) {
        return false;
    }
    *ret = (struct k8s_owner){uid, gid};
    return true;
}

/* It is made anew, with the workdir in its volume. 0, as where it is gone. */
static int begin_with_volume(struct start *start, const struct k8s_owner *owner, struct error *err)
{
    return k8s_pod_delete(start->target, start->name, start->uid, start->deadline_ms, err) < 0
               ? -1
               : describe(start, owner, err);
}

/* 1 when it runs, 0 where it is gone, -1 where it will not run. */
static int come_to_run(struct start *start, struct error *err)
{
    struct k8s_owner owner;
    int r = 0;

    while (r == 0) {
        uint64_t now = clock_now_ms();
        uint64_t until = start->deadline_ms;

        switch (start->view.stage) {
        case K8S_RUNNING:
            return 1;
        case K8S_ENDING:
            return 0;
        case K8S_STUCK:
        case K8S_ENDED:
            return lacks_workdir(start, &owner) ? begin_with_volume(start, &owner, err)
                                                : give_up(start, err);
        case K8S_UNSCHEDULABLE:
            until = start->unschedulable_ms + start->settings->schedule_ms;
            if (now >= until) {
                return give_up(start, err);
            }
            break;
        case K8S_WAITS:
            until = upload_due_ms(start);
            if (now >= until && !start->uploaded) {
                r = put_hand(start, err);
                continue;
            }
            break;
        case K8S_PENDING:
            break;
        }
        r = wait_for_change(start, until, err);
    }
    return r;
}

/* ---- From the beginning ---- */

/* What was true of another Pod of this name. */
static void forget_last(struct start *start)
{
    start->created = start->uploaded = false;
    start->unschedulable_ms = start->waits_ms = start->again_ms = 0;
    start->failures = 0;
}

/* Creates the Pod; 1 where one of this name is there. */
static int create(struct start *start, struct error *err)
{
    cleanup_k8s_reply struct k8s_reply reply = {.status = 0};
    cleanup_free char *path = k8s_pod_path(start->target, NULL);

    k8s_reply_init(&reply);
    if (path == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (k8s_call(start->target->client, "POST", path, start->description, start->deadline_ms, &reply,
                 err) < 0) {
        if (err->code != ERROR_NO_ANSWER || ++start->unanswered >= UNANSWERED) {
            return -1;
        }
        nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
        return 1; /* there may be one now, and there may be none */
    }
    if (reply.status == 409) { /* it is there; or a quota was being counted just then */
        if (strcmp(reply.reason, "AlreadyExists") != 0) {
            nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
        }
        return 1;
    }
    if (reply.status >= 300) {
        k8s_refused(&reply, err, "create Pod %s", start->name);
        if (reply.status == 403 && strstr(reply.message, "NET_ADMIN") != NULL) {
            error_prefix(err,
                         "namespace %.60s does not admit what --network none takes; --set "
                         "network_none=policy "
                         "or --network full may do",
                         start->target->namespace_);
        }
        return -1;
    }
    snprintf(start->uid, sizeof start->uid, "%s", k8s_text(reply.json, "metadata", "uid", NULL));
    forget_last(start);
    start->created = true;
    return look(start, reply.json, err);
}

/* The existing one: 0 where it may be what we want, 1 where it was over and is gone. */
static int adopt(struct start *start, json_t *pod, struct error *err)
{
    struct k8s_view view;

    if (k8s_view(pod, NULL, &view, err) < 0) {
        return -1;
    }
    if (!view.ours) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "Pod %s was not made by handsfs: it is left alone", start->name);
    }
    if (strcmp(view.session, start->spec->session) != 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "Pod %s is another session's", start->name);
    }
    if (view.stage == K8S_ENDING || view.stage == K8S_ENDED) {
        if (start->spec->progress != NULL) {
            start->spec->progress->say(start->spec->progress,
                                       "Removing what is left of the last sandbox");
        }
        return k8s_pod_delete(start->target, start->name, view.uid, start->deadline_ms, err) < 0
                   ? -1
                   : 1;
    }
    if (k8s_pod_compare(pod, start->spec, err) < 0) {
        return -1;
    }
    if (strcmp(start->uid, view.uid) != 0) { /* else a look at our own, which is there still */
        forget_last(start);
        start->created = strcmp(k8s_text(pod, "metadata", "annotations", K8S_MAKER, NULL), start->maker) == 0;
    }
    snprintf(start->uid, sizeof start->uid, "%s", view.uid);
    return look(start, pod, err);
}

/* Stuck, with no container that runs: nodes take their time with such Pods, half a minute and more. */
static bool is_idle(const struct start *start)
{
    json_t *hand = k8s_container(start->pod, "initContainerStatuses", K8S_HAND_CONTAINER);
    json_t *sandbox = k8s_container(start->pod, "containerStatuses", K8S_CONTAINER);

    return start->view.stage == K8S_STUCK && k8s_at(hand, "state", "running", NULL) == NULL &&
           k8s_at(sandbox, "state", "running", NULL) == NULL;
}

/* Removes a Pod that did not come to run: this call's own, or one that never will. */
static void clean_up(const struct start *start)
{
    uint64_t deadline_ms = clock_now_ms() + CLEAN_UP_MS;
    struct error ignored = {0};

    if (start->uid[0] == '\0') {
        return;
    }
    if (is_idle(start)) {
        (void)!k8s_pod_delete_idle(start->target, start->name, start->uid, deadline_ms, &ignored);
    } else if (start->created || start->view.stage == K8S_STUCK ||
               start->view.stage == K8S_ENDED) {
        (void)!k8s_pod_delete(start->target, start->name, start->uid, deadline_ms, &ignored);
    }
}

/* Finds or makes the Pod. 0; 1 to begin anew. */
static int find_or_create(struct start *start, struct error *err)
{
    json_auto_t *pod = NULL;

    if (clock_now_ms() >= start->deadline_ms) {
        return error_set(err, ERROR_NO_ANSWER, 0, "Pod %s did not start in time", start->name);
    }
    if (k8s_pod_get(start->target, start->name, start->deadline_ms, &pod, err) < 0) {
        return -1;
    }
    return pod == NULL ? create(start, err) : adopt(start, pod, err);
}

/* Its process runs; now the hand is to listen. 0 where the Pod has gone in the meantime. */
static int meet(struct start *start, struct error *err)
{
    const struct k8s_handle handle = {.pod = start->name, .container = K8S_CONTAINER};
    json_auto_t *pod = NULL;
    struct error why = {0};

    if (k8s_await_hand(start->target, &handle, true, start->deadline_ms, &why) == 0) {
        return 1;
    }
    if (k8s_pod_get(start->target, start->name, start->deadline_ms, &pod, err) < 0 ||
        look(start, pod, err) < 0) {
        return -1;
    }
    if (start->view.stage == K8S_ENDING) {
        return 0;
    }
    if (start->view.stage == K8S_ENDED) {
        return give_up(start, err);
    }
    *err = why;
    return error_prefix(err, "the hand in Pod %s does not serve", start->name);
}

static int run(struct start *start, struct error *err)
{
    int r = 0;

    while (r == 0) {
        r = find_or_create(start, err);
        if (r == 0) {
            say(start);
            r = come_to_run(start, err);
        } else if (r > 0) {
            r = 0;
            continue;
        }
        if (r > 0) {
            r = meet(start, err);
        }
        if (r < 0) {
            clean_up(start);
        }
    }
    return r;
}

int k8s_start(struct k8s_target *target, const struct sandbox_spec *spec,
              const struct k8s_settings *settings, uint64_t deadline_ms, struct sandbox *ret,
              struct error *err)
{
    __attribute__((cleanup(start_release))) struct start start = {
        .target = target, .spec = spec, .settings = settings, .deadline_ms = deadline_ms};
    struct k8s_handle handle = {
        .session = spec->session, .workdir = spec->workdir, .container = K8S_CONTAINER};

    k8s_pod_name(spec->session, start.name);
    if (describe(&start, NULL, err) < 0) {
        return -1;
    }
    if (spec->network == NETWORK_NONE && settings->cut == K8S_CUT_POLICY &&
        k8s_policy_require(target, deadline_ms, err) < 0) {
        return -1;
    }
    if (run(&start, err) < 0) {
        return -1;
    }
    handle.pod = start.name;
    handle.uid = start.uid;
    handle.created = start.created;
    return k8s_handle_make(target, &handle, ret, err);
}
