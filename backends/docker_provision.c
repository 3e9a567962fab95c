/* From nothing, or from a stopped container, to a running one.
 *
 * Any number of processes, also on several machines, may do this for one session at once; the engine's names are the
 * only lock there is. So nothing here is decided once: the container of the session's name is looked at, what its state calls for is
 * done, and where somebody else was faster (a name taken, a container gone between two calls) it is looked at again. Who has created a container puts the
 * hand in and starts it; the others wait for that, and take over where it takes too long (its maker may have died). */
#include "backends/docker_internal.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "backends/hand_program.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "sandbox/log.h"

#define MAX_TURNS 400          /* looks at one session's container; each but the first few waits */
#define WAIT_MS 50             /* for somebody else */
#define MAKER_MS 10000         /* who created a container has this long to start it */
#define MAX_CPU_MILLIS 1000000
#define MAX_QUERY 1024

/* One provision under way. */
struct work {
    struct docker_engine *engine;
    const struct sandbox_spec *spec;
    struct docker_settings settings;
    uint64_t deadline_ms;
    char name[sizeof DOCKER_NAME_PREFIX + MAX_SESSION_NAME];
    char unstarted[DOCKER_ID_BYTES]; /* a container of somebody else's that is not started yet, */
    uint64_t unstarted_ms;           /* and since when that is known */
};

/* What a turn ends with, beside -1 for an error. */
enum turn { TURN_DONE, TURN_AGAIN };

static void tell(const struct work *w, const char *text)
{
    if (w->spec->progress != NULL) {
        w->spec->progress->say(w->spec->progress, text);
    }
}

/* ---- The spec ---- */

/* Texts travel as JSON, which is UTF-8. */
static int check_text(const char *text, const char *what, struct error *err)
{
    json_t *string = text != NULL ? json_string(text) : NULL;

    if (text != NULL && string == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "%s is not UTF-8, which an engine would need", what);
    }
    json_decref(string);
    return 0;
}

static int check_spec(const struct sandbox_spec *spec, struct error *err)
{
    if (spec->memory_bytes > INT64_MAX || spec->pids > INT64_MAX || spec->cpu_millis > MAX_CPU_MILLIS) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "a limit is larger than any engine takes");
    }
    if (check_text(spec->image, "the image's name", err) < 0 || check_text(spec->workdir, "the workdir", err) < 0) {
        return -1;
    }
    for (char *const *name = spec->cap_drop; name != NULL && *name != NULL; name++) {
        if (check_text(*name, "a capability's name", err) < 0) {
            return -1;
        }
    }
    return 0;
}

int docker_check_ours(const struct docker_inspect *inspect, const char *session, struct error *err)
{
    const char *label = docker_inspect_label(inspect, DOCKER_LABEL_SESSION);

    if (label == NULL || strcmp(label, session) != 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "there is a container %.80s that handsfs did not make (it lacks the label %s=%.63s)",
                         inspect->name, DOCKER_LABEL_SESSION, session);
    }
    return 0;
}

static int mismatch(struct error *err, const struct work *w, const char *what, const char *has, const char *wanted)
{
    return error_set(err, ERROR_SPEC_MISMATCH, 0, "session %s exists with %s \"%.150s\", not \"%.150s\"",
                     w->spec->session, what, has != NULL ? has : "", wanted);
}

/* Without an image in the spec, whatever it was made from will do. */
static int compare(const struct work *w, const struct docker_inspect *inspect, struct error *err)
{
    const char *image = docker_inspect_label(inspect, DOCKER_LABEL_IMAGE);
    const char *workdir = docker_inspect_label(inspect, DOCKER_LABEL_WORKDIR);
    const char *network = docker_inspect_label(inspect, DOCKER_LABEL_NETWORK);
    const char *wanted_network = network_mode_name(w->spec->network);

    if (w->spec->image != NULL && w->spec->image[0] != '\0' &&
        (image == NULL || strcmp(image, w->spec->image) != 0)) {
        return mismatch(err, w, "image", image, w->spec->image);
    }
    if (workdir == NULL || strcmp(workdir, w->spec->workdir) != 0) {
        return mismatch(err, w, "workdir", workdir, w->spec->workdir);
    }
    if (network == NULL || strcmp(network, wanted_network) != 0) {
        return mismatch(err, w, "network", network, wanted_network);
    }
    return 0;
}

/* ---- Steps ---- */

/* Why it came to nothing. While somebody removes a container, its parts are gone before it is, and any call may fail for
 * that: TURN_AGAIN, whatever the error. */
static int failed(const struct work *w, const char *id, const struct error *why, struct error *err)
{
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
    uint64_t deadline_ms = clock_now_ms() + DOCKER_CALL_MS;
    struct error ignored = {0};
    char words[256];

    if (w->engine == NULL || why->code == ERROR_NO_MEMORY) {
        *err = *why;
        return -1;
    }
    if (docker_inspect(w->engine, id, deadline_ms, &inspect, &ignored) < 0) {
        if (ignored.code == ERROR_SANDBOX_GONE) {
            return TURN_AGAIN;
        }
        *err = *why;
        return -1;
    }
    if (inspect.condition == DOCKER_REMOVING) {
        return TURN_AGAIN;
    }
    if (why->code != ERROR_SANDBOX_GONE) {
        *err = *why;
        return -1;
    }
    docker_last_words(w->engine, id, deadline_ms, words, sizeof words);
    return error_set(err, ERROR_IO, 0, "the sandbox ends as it starts: %s%s%s", why->message,
                     words[0] != '\0' ? ": " : "", words);
}

static int make_handle(struct work *w, const struct docker_inspect *inspect, bool created, struct sandbox *ret,
                       struct error *err)
{
    struct docker_handle handle = {
        .session = w->spec->session,
        .workdir = w->spec->workdir,
        .inspect = inspect,
        .created = created,
    };

    return docker_handle_make(take_ptr(w->engine), &handle, ret, err);
}

/* Starts what has all it needs, and waits for its hand. */
static int start(struct work *w, const char *id, struct sandbox *ret, struct error *err)
{
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
    struct docker_state state;

    if (docker_start(w->engine, id, w->deadline_ms, err) < 0 ||
        docker_inspect(w->engine, id, w->deadline_ms, &inspect, err) < 0) {
        return -1;
    }
    docker_state_of(w->engine, &inspect, &state);
    return docker_wait_ready(&state, w->deadline_ms, err) < 0 ? -1 : make_handle(w, &inspect, true, ret, err);
}

/* Starts a container that exists and does not run. What is in it is kept; the hand is put in anew, since what ran
 * in there may have touched it. */
static int start_again(struct work *w, const struct docker_inspect *inspect, struct sandbox *ret, struct error *err)
{
    bool read_only = json_is_true(docker_json_at(inspect->json, "HostConfig", "ReadonlyRootfs", NULL));
    struct error why = {0};

    tell(w, "starting the container");
    if (docker_prepare(w->engine, inspect->id, inspect->user, w->spec->workdir, read_only, w->deadline_ms, &why) < 0 ||
        start(w, inspect->id, ret, &why) < 0) {
        return failed(w, inspect->id, &why, err);
    }
    return TURN_DONE;
}

/* ---- Somebody has created it ---- */

/* Created and not started: its maker is at it, for a while. */
static int await_maker(struct work *w, const struct docker_inspect *inspect, struct sandbox *ret, struct error *err)
{
    uint64_t now = clock_now_ms();

    if (strcmp(w->unstarted, inspect->id) != 0) {
        memcpy(w->unstarted, inspect->id, sizeof w->unstarted);
        w->unstarted_ms = now;
    }
    return now - w->unstarted_ms < MAKER_MS ? TURN_AGAIN : start_again(w, inspect, ret, err);
}

static int adopt(struct work *w, const struct docker_inspect *inspect, struct sandbox *ret, struct error *err)
{
    if (docker_check_ours(inspect, w->spec->session, err) < 0 || compare(w, inspect, err) < 0) {
        return -1;
    }
    switch (inspect->condition) {
    case DOCKER_RUNNING:
    case DOCKER_PAUSED:
        return make_handle(w, inspect, false, ret, err) < 0 ? -1 : TURN_DONE;
    case DOCKER_CREATED:
        return await_maker(w, inspect, ret, err);
    case DOCKER_STOPPED:
        return start_again(w, inspect, ret, err);
    case DOCKER_REMOVING:
        break;
    }
    return TURN_AGAIN;
}

/* ---- Nobody has ---- */

static int find_image(struct work *w, struct docker_image *ret, struct error *err)
{
    const char *ours = hand_program_architecture();

    if (w->spec->image == NULL || w->spec->image[0] == '\0') {
        return error_set(err, ERROR_BAD_REQUEST, 0, "session %s does not exist; say with --image what to make it from (such as debian:12)",
                         w->spec->session);
    }
    if (docker_image_ensure(w->engine, w->spec->image, &w->settings, &w->deadline_ms, w->spec->progress, ret, err) < 0) {
        return -1;
    }
    if (ours != NULL && ret->architecture != NULL && ret->architecture[0] != '\0' &&
        strcmp(ours, ret->architecture) != 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "image %.150s is for %.40s, and this hand for %s", w->spec->image,
                         ret->architecture, ours);
    }
    return 0;
}

static bool is_there(const struct work *w)
{
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
    struct error ignored = {0};

    return docker_inspect(w->engine, w->name, w->deadline_ms, &inspect, &ignored) == 0;
}

/* Asks the engine for the container: its id, or TURN_AGAIN where the name is taken. */
static int ask(struct work *w, char id[DOCKER_ID_BYTES], struct error *err)
{
    cleanup_buffer struct buffer path = BUFFER_INIT(MAX_QUERY);
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;
    json_t *body = docker_create_body(w->spec, &w->settings);
    struct docker_request request = {.method = "POST", .json = body, .deadline_ms = w->deadline_ms};
    const char *text;
    int r = -1;

    if (body == NULL || buffer_append_string(&path, "/containers/create") < 0 ||
        http_put_query(&path, "name", w->name) < 0 ||
        (w->settings.platform != NULL && http_put_query(&path, "platform", w->settings.platform) < 0) ||
        (request.path = buffer_text(&path)) == NULL) {
        error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    } else {
        r = docker_call(w->engine, &request, &reply, err);
    }
    json_decref(body);
    if (r < 0) {
        return -1;
    }
    if (reply.status == 409 || (reply.status >= 500 && is_there(w))) { /* what Podman says of a taken name */
        return TURN_AGAIN;
    }
    if (reply.status >= 300) {
        return docker_refused(&reply, err, "create a container from image %.150s", w->spec->image);
    }
    text = json_string_value(json_object_get(reply.json, "Id"));
    if (text == NULL || strlen(text) != DOCKER_ID_BYTES - 1 || text[strspn(text, "0123456789abcdef")] != '\0') {
        return error_set(err, ERROR_NO_ANSWER, 0, "what the engine says of a new container makes no sense");
    }
    memcpy(id, text, DOCKER_ID_BYTES);
    return TURN_DONE;
}

/* Fills the new container and starts it. */
static int bring_up(struct work *w, const char *id, struct sandbox *ret, struct error *err)
{
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;

    if (docker_inspect(w->engine, id, w->deadline_ms, &inspect, err) < 0 ||
        docker_create_check(w->spec, &inspect, err) < 0 ||
        docker_prepare(w->engine, id, inspect.user, w->spec->workdir, w->spec->read_only_root, w->deadline_ms,
                       err) < 0) {
        return -1;
    }
    return start(w, id, ret, err);
}

static int create(struct work *w, struct sandbox *ret, struct error *err)
{
    cleanup_image struct docker_image image = DOCKER_IMAGE_INIT;
    char id[DOCKER_ID_BYTES];
    struct error why = {0};
    struct error ignored = {0};
    int r;

    if (w->settings.runtime != NULL && docker_engine_is_podman(w->engine)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "Podman takes no runtime over its API (\"%.80s\" was asked for)",
                         w->settings.runtime);
    }
    if (find_image(w, &image, err) < 0) {
        return -1;
    }
    tell(w, "starting the container");
    r = ask(w, id, err);
    if (r != TURN_DONE) {
        return r;
    }
    if (bring_up(w, id, ret, &why) == 0) {
        return TURN_DONE;
    }
    r = failed(w, id, &why, err);
    if (w->engine != NULL && docker_remove(w->engine, id, clock_now_ms() + DOCKER_CALL_MS, &ignored) < 0) {
        log_trace("container %.12s could not be started, nor removed: %s", id, ignored.message);
    }
    return r;
}

/* ---- The whole ---- */

static int turn(struct work *w, struct sandbox *ret, struct error *err)
{
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
    struct error why = {0};

    if (docker_inspect(w->engine, w->name, w->deadline_ms, &inspect, &why) == 0) {
        return adopt(w, &inspect, ret, err);
    }
    if (why.code != ERROR_SANDBOX_GONE) {
        *err = why;
        return -1;
    }
    return create(w, ret, err);
}

static int provision(struct work *w, struct sandbox *ret, struct error *err)
{
    for (unsigned i = 0; i < MAX_TURNS; i++) {
        int r = turn(w, ret, err);

        if (r != TURN_AGAIN) {
            return r;
        }
        if (clock_now_ms() + WAIT_MS > w->deadline_ms) {
            break;
        }
        poll(NULL, 0, WAIT_MS);
    }
    return error_set(err, ERROR_NO_ANSWER, 0,
                     "container %s does not come to run in time (is it being removed, or made by others?)", w->name);
}

/* The session is known to work in a container of somebody else's. */
static int provision_attached(struct work *w, const char *container, struct sandbox *ret, struct error *err)
{
    if (w->spec->image != NULL && w->spec->image[0] != '\0') {
        error_set(err, ERROR_SPEC_MISMATCH, 0, "session %s is attached to container %.100s and has no image; leave --image out",
                  w->spec->session, container);
        docker_engine_close(w->engine);
        return -1;
    }
    return docker_attach_find(w->engine, w->spec->session, w->deadline_ms, ret, err);
}

int docker_provision(const struct sandbox_spec *spec, uint64_t deadline_ms, struct sandbox *ret, struct error *err)
{
    struct work w = {.spec = spec, .deadline_ms = deadline_ms};
    cleanup_free char *container = NULL;
    int r;

    if (docker_settings_read(&spec->engine, &w.settings, err) < 0 || check_spec(spec, err) < 0 ||
        docker_attach_known(spec->session, &container, err) < 0 ||
        docker_engine_open(&w.engine, deadline_ms, err) < 0) {
        return -1;
    }
    if (spec->attach != NULL) {
        return docker_attach_provision(w.engine, spec, deadline_ms, ret, err);
    }
    if (container != NULL) {
        return provision_attached(&w, container, ret, err);
    }
    snprintf(w.name, sizeof w.name, DOCKER_NAME_PREFIX "%s", spec->session);
    r = provision(&w, ret, err);
    docker_engine_close(w.engine);
    return r;
}
