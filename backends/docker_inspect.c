/* What the engine says of a container. Docker and Podman agree on the fields that are read here; where one of
 * them leaves something out, the rest decides. */
#include "backends/docker_internal.h"

#include <stdarg.h>
#include <string.h>
#include <time.h>

#define MAX_PATH_BYTES 1024 /* of a request that names a container */
#define MOMENT_MS 100
#define MAX_MOMENTS 20 /* that Podman has for a removal */

json_t *docker_json_at(json_t *json, ...)
{
    va_list keys;
    const char *key;

    va_start(keys, json);
    while (json != NULL && (key = va_arg(keys, const char *)) != NULL) {
        json = json_object_get(json, key); /* NULL also where it is no object */
    }
    va_end(keys);
    return json;
}

/* A text of the inspected object; "" where there is none. */
static const char *text_at(json_t *json, const char *outer, const char *inner)
{
    const char *text = json_string_value(docker_json_at(json, outer, inner, NULL));

    return text != NULL ? text : "";
}

static bool is_id(const char *text)
{
    return strlen(text) == DOCKER_ID_BYTES - 1 && text[strspn(text, "0123456789abcdef")] == '\0';
}

/* The status word decides; the flags beside it are older and do for engines that say no word we know. */
static enum docker_condition condition_of(json_t *state)
{
    static const struct {
        const char *word;
        enum docker_condition condition;
    } words[] = {
        {"created", DOCKER_CREATED},     {"initialized", DOCKER_CREATED}, {"configured", DOCKER_CREATED},
        {"running", DOCKER_RUNNING},     {"paused", DOCKER_PAUSED},       {"exited", DOCKER_STOPPED},
        {"stopped", DOCKER_STOPPED},     {"stopping", DOCKER_STOPPED},    {"restarting", DOCKER_STOPPED},
        {"dead", DOCKER_REMOVING},       {"removing", DOCKER_REMOVING},
    };
    const char *word = json_string_value(json_object_get(state, "Status"));

    for (size_t i = 0; word != NULL && i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i].word, word) == 0) {
            return words[i].condition;
        }
    }
    if (json_is_true(json_object_get(state, "Paused"))) {
        return DOCKER_PAUSED;
    }
    return json_is_true(json_object_get(state, "Running")) ? DOCKER_RUNNING : DOCKER_STOPPED;
}

void docker_inspect_release(struct docker_inspect *inspect)
{
    json_decref(inspect->json);
    *inspect = (struct docker_inspect)DOCKER_INSPECT_INIT;
}

int docker_inspect_parse(json_t *json, struct docker_inspect *ret, struct error *err)
{
    const char *id = json_string_value(json_object_get(json, "Id"));
    json_t *state = json_object_get(json, "State");
    const char *started = json_string_value(json_object_get(state, "StartedAt"));
    const char *name = json_string_value(json_object_get(json, "Name"));
    json_int_t pid = json_integer_value(json_object_get(state, "Pid"));

    if (id == NULL || !is_id(id) || !json_is_object(state) || started == NULL ||
        strlen(started) >= DOCKER_STARTED_BYTES || pid < 0 || pid > INT32_MAX) {
        return error_set(err, ERROR_NO_ANSWER, 0, "what the engine says of a container makes no sense");
    }
    *ret = (struct docker_inspect){
        .json = json_incref(json),
        .condition = condition_of(state),
        .exit_code = (int)json_integer_value(json_object_get(state, "ExitCode")),
        .oom_killed = json_is_true(json_object_get(state, "OOMKilled")),
        .name = name == NULL ? "" : name + (name[0] == '/'),
        .error = text_at(json, "State", "Error"),
        .image = text_at(json, "Config", "Image"),
        .image_id = json_is_string(json_object_get(json, "Image"))
                        ? json_string_value(json_object_get(json, "Image"))
                        : "",
        .user = text_at(json, "Config", "User"),
        .workdir = text_at(json, "Config", "WorkingDir"),
    };
    memcpy(ret->id, id, DOCKER_ID_BYTES);
    memcpy(ret->started_at, started, strlen(started) + 1);
    if (ret->condition == DOCKER_RUNNING || ret->condition == DOCKER_PAUSED) {
        ret->pid = (pid_t)pid;
    }
    return 0;
}

const char *docker_inspect_label(const struct docker_inspect *inspect, const char *label)
{
    return json_string_value(docker_json_at(inspect->json, "Config", "Labels", label, NULL));
}

int docker_path(struct buffer *path, const char *before, const char *name, const char *after,
                struct error *err)
{
    buffer_clear(path);
    if (buffer_append_string(path, before) < 0 || http_put_segment(path, name) < 0 ||
        buffer_append_string(path, after) < 0 || buffer_text(path) == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "a container's name is too long: %.80s", name);
    }
    return 0;
}

/* Podman answers 500 while a container is on its way out; a moment later it is gone. */
static int ask(struct docker_engine *engine, const struct docker_request *request, struct docker_reply *ret,
               struct error *err)
{
    const struct timespec moment = {.tv_nsec = MOMENT_MS * 1000000L};
    int r = docker_call(engine, request, ret, err);

    for (unsigned i = 0; i < MAX_MOMENTS && r == 0 && ret->status >= 500 && docker_engine_is_podman(engine); i++) {
        nanosleep(&moment, NULL);
        r = docker_call(engine, request, ret, err);
    }
    return r;
}

int docker_inspect(struct docker_engine *engine, const char *name, uint64_t deadline_ms,
                   struct docker_inspect *ret, struct error *err)
{
    cleanup_buffer struct buffer path = BUFFER_INIT(MAX_PATH_BYTES);
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;
    struct docker_request request = {.method = "GET", .deadline_ms = deadline_ms};

    if (docker_path(&path, "/containers/", name, "/json", err) < 0) {
        return -1;
    }
    request.path = buffer_text(&path);
    if (ask(engine, &request, &reply, err) < 0) {
        return -1;
    }
    if (reply.status == 404) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "there is no container %.100s", name);
    }
    if (reply.status >= 300) {
        return docker_refused(&reply, err, "inspect container %.100s", name);
    }
    return docker_inspect_parse(reply.json, ret, err);
}
