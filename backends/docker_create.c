/* What a container of ours is made from. Hardened where it costs nothing: no new privileges (which also lets
 * the hand put its own filter before all that it starts), a bound on processes, no raw sockets, no init of the
 * engine's before the hand, no health check of the image's, whose shell nobody has asked for. */
#include "backends/docker_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "sandbox/base64.h"

#define MAX_SETTING 128 /* bytes of a setting's value */

/* ---- Settings ---- */

static int set_pull(struct docker_settings *settings, const char *value)
{
    static const char *const words[] = {
        [DOCKER_PULL_MISSING] = "missing",
        [DOCKER_PULL_ALWAYS] = "always",
        [DOCKER_PULL_NEVER] = "never",
    };

    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcmp(words[i], value) == 0) {
            settings->pull = (enum docker_pull)i;
            return 0;
        }
    }
    return -1;
}

/* Letters of names that engines give to platforms and runtimes. */
static bool is_plain(const char *value)
{
    return value[0] != '\0' && strlen(value) <= MAX_SETTING &&
           value[strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-")] == '\0';
}

static int set_platform(struct docker_settings *settings, const char *value)
{
    settings->platform = value;
    return is_plain(value) ? 0 : -1;
}

static int set_runtime(struct docker_settings *settings, const char *value)
{
    settings->runtime = value;
    return is_plain(value) ? 0 : -1;
}

static const struct {
    const char *name;
    int (*set)(struct docker_settings *settings, const char *value);
    const char *values;
} known[] = {
    {"pull", set_pull, "missing, always or never"},
    {"platform", set_platform, "OS/ARCHITECTURE"},
    {"runtime", set_runtime, "the name of a runtime of the engine"},
};

static int set_one(struct docker_settings *settings, const char *setting, struct error *err)
{
    const char *equals = strchr(setting, '=');
    size_t length = equals != NULL ? (size_t)(equals - setting) : strlen(setting);

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strlen(known[i].name) != length || strncasecmp(known[i].name, setting, length) != 0) {
            continue;
        }
        if (equals == NULL || known[i].set(settings, equals + 1) < 0) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "\"%.100s\": %s is %s", setting, known[i].name,
                             known[i].values);
        }
        return 0;
    }
    return error_set(err, ERROR_BAD_REQUEST, 0,
                     "the docker backend has no engine setting \"%.*s\"; the known ones: pull, platform, runtime",
                     length < 60 ? (int)length : 60, setting);
}

int docker_settings_read(const struct env_list *engine, struct docker_settings *ret, struct error *err)
{
    struct docker_settings settings = {.pull = DOCKER_PULL_MISSING};

    for (size_t i = 0; i < engine->count; i++) {
        if (set_one(&settings, engine->entries[i], err) < 0) {
            return -1;
        }
    }
    *ret = settings;
    return 0;
}

/* ---- The body ---- */

/* A setting of the body. The value is taken over and may be NULL: no memory. */
static bool put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static json_t *strings(const char *first, ...)
{
    json_t *array = json_array();
    va_list more;

    va_start(more, first);
    for (const char *s = first; array != NULL && s != NULL; s = va_arg(more, const char *)) {
        if (json_array_append_new(array, json_string(s)) < 0) {
            json_decref(array);
            array = NULL;
        }
    }
    va_end(more);
    return array;
}

/* Whether JSON, which is UTF-8, can say it. */
static bool is_utf8(const char *text)
{
    json_t *string = json_string(text);
    bool r = string != NULL;

    json_decref(string);
    return r;
}

/* The session's variables, which the engine adds to the image's; those that cannot be said here go to the hand. */
static json_t *environment(const struct sandbox_spec *spec)
{
    json_t *array = json_array();

    for (size_t i = 0; array != NULL && i < spec->env.count; i++) {
        if (is_utf8(spec->env.entries[i]) &&
            json_array_append_new(array, json_string(spec->env.entries[i])) < 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *entrypoint(const struct sandbox_spec *spec)
{
    json_t *array = strings(DOCKER_HAND_PATH, "serve", "--workdir", spec->workdir, "--socket", DOCKER_SOCKET_PATH,
                            NULL);

    for (size_t i = 0; array != NULL && i < spec->env.count; i++) {
        const char *entry = spec->env.entries[i];
        cleanup_buffer struct buffer text = BUFFER_INIT(2 * (MAX_ENV_VALUE + 1));

        if (is_utf8(entry)) {
            continue;
        }
        if (base64_encode(&text, (const uint8_t *)entry, strlen(entry)) < 0 || buffer_text(&text) == NULL ||
            json_array_append_new(array, json_string("--env-base64")) < 0 ||
            json_array_append_new(array, json_string(buffer_text(&text))) < 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *labels(const struct sandbox_spec *spec)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s}", DOCKER_LABEL_SESSION, spec->session, DOCKER_LABEL_IMAGE,
                     spec->image, DOCKER_LABEL_WORKDIR, spec->workdir, DOCKER_LABEL_NETWORK,
                     network_mode_name(spec->network), DOCKER_LABEL_VERSION, HANDSFS_VERSION);
}

static json_t *dropped_capabilities(const struct sandbox_spec *spec)
{
    json_t *array = strings("NET_RAW", NULL);

    for (char *const *name = spec->cap_drop; array != NULL && name != NULL && *name != NULL; name++) {
        if (json_array_append_new(array, json_string(*name)) < 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *volume(const char *target)
{
    return json_pack("{s:s, s:s}", "Type", "volume", "Target", target);
}

/* What can be written to although the root cannot: volumes without a name, which go with the container. Into a volume the
 * engine takes files before the start, and an owner and mode for its top, which of a tmpfs the image decides. */
static bool put_read_only(json_t *host, const struct sandbox_spec *spec)
{
    json_t *mounts = json_array();

    return put(host, "ReadonlyRootfs", json_true()) &&
           json_array_append_new(mounts, volume(DOCKER_HAND_DIR)) == 0 &&
           json_array_append_new(mounts, volume(spec->workdir)) == 0 &&
           (strcmp(spec->workdir, "/tmp") == 0 || json_array_append_new(mounts, volume("/tmp")) == 0) &&
           put(host, "Mounts", mounts);
}

static bool put_limits(json_t *host, const struct sandbox_spec *spec)
{
    uint64_t pids = spec->pids != 0 ? spec->pids : DOCKER_DEFAULT_PIDS;

    /* What is 0 is left out: engines have their own idea of none. */
    return put(host, "PidsLimit", json_integer((json_int_t)pids)) &&
           (spec->memory_bytes == 0 ||
            (put(host, "Memory", json_integer((json_int_t)spec->memory_bytes)) &&
             put(host, "MemorySwap", json_integer((json_int_t)spec->memory_bytes)))) &&
           (spec->cpu_millis == 0 ||
            put(host, "NanoCpus", json_integer((json_int_t)spec->cpu_millis * 1000000)));
}

static json_t *host_config(const struct sandbox_spec *spec, const struct docker_settings *settings)
{
    json_t *host = json_object();

    if (host == NULL || !put(host, "Init", json_false()) ||
        !put(host, "NetworkMode", json_string(spec->network == NETWORK_FULL ? "default" : "none")) ||
        !put(host, "SecurityOpt", strings("no-new-privileges", NULL)) ||
        !put(host, "CapDrop", dropped_capabilities(spec)) || !put_limits(host, spec) ||
        (spec->read_only_root && !put_read_only(host, spec)) ||
        (settings->runtime != NULL && !put(host, "Runtime", json_string(settings->runtime)))) {
        json_decref(host);
        return NULL;
    }
    return host;
}

/* The working directory is "/" and not the workdir: the engine would make that before anybody could say whose it
 * is. */
json_t *docker_create_body(const struct sandbox_spec *spec, const struct docker_settings *settings)
{
    json_t *body = json_object();

    if (body == NULL || !put(body, "Image", json_string(spec->image)) ||
        !put(body, "Entrypoint", entrypoint(spec)) || !put(body, "Cmd", json_array()) ||
        !put(body, "WorkingDir", json_string("/")) ||
        !put(body, "StopSignal", json_string("SIGTERM")) || !put(body, "Labels", labels(spec)) ||
        !put(body, "Healthcheck", json_pack("{s:[s]}", "Test", "NONE")) ||
        !put(body, "HostConfig", host_config(spec, settings)) ||
        (spec->env.count > 0 && !put(body, "Env", environment(spec))) ||
        (spec->user != NULL && spec->user[0] != '\0' && !put(body, "User", json_string(spec->user)))) {
        json_decref(body);
        return NULL;
    }
    return body;
}

/* ---- What became of it ---- */

static uint64_t number_at(const struct docker_inspect *inspect, const char *key)
{
    json_int_t v = json_integer_value(docker_json_at(inspect->json, "HostConfig", key, NULL));

    return v > 0 ? (uint64_t)v : 0;
}

/* Podman tells NanoCpus as quota and period. */
static uint64_t nano_cpus(const struct docker_inspect *inspect)
{
    uint64_t quota = number_at(inspect, "CpuQuota");
    uint64_t period = number_at(inspect, "CpuPeriod");
    uint64_t nano = number_at(inspect, "NanoCpus");

    return nano != 0 || period == 0 ? nano : quota * 1000000 / period * 1000;
}

static int missing(struct error *err, const char *what, uint64_t wanted)
{
    return error_set(err, ERROR_BAD_REQUEST, 0, "the engine cannot limit %s (%" PRIu64
                     " was asked for): its kernel lacks the control group for it", what, wanted);
}

int docker_create_check(const struct sandbox_spec *spec, const struct docker_inspect *inspect, struct error *err)
{
    if (spec->memory_bytes != 0 && number_at(inspect, "Memory") != spec->memory_bytes) {
        return missing(err, "memory", spec->memory_bytes);
    }
    if (spec->memory_bytes != 0 && number_at(inspect, "MemorySwap") != spec->memory_bytes) {
        return missing(err, "swap beside memory", spec->memory_bytes);
    }
    if (spec->cpu_millis != 0 && nano_cpus(inspect) != spec->cpu_millis * 1000000) {
        return missing(err, "cpu time", spec->cpu_millis);
    }
    if (spec->pids != 0 && number_at(inspect, "PidsLimit") != spec->pids) {
        return missing(err, "processes", spec->pids);
    }
    if (spec->read_only_root &&
        !json_is_true(docker_json_at(inspect->json, "HostConfig", "ReadonlyRootfs", NULL))) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the engine does not make the root read-only");
    }
    return 0;
}
