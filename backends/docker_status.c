/* What the engine says of a session's container, for people. */
#include "backends/docker_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "backends/docker_process.h"
#include "backends/printable.h"
#include "sandbox/clock.h"

#define MILLIS_IN_NANOS 1000000
#define TEXT_BYTES 512

struct sayer {
    void (*say)(void *arg, const char *key, const char *value);
    void *arg;
};

/* Nothing is said of a text that is not there. */
static void say_text(const struct sayer *s, const char *key, const char *text)
{
    char clean[TEXT_BYTES];

    if (text != NULL && copy_printable(clean, sizeof clean, text, strlen(text)) > 0) {
        s->say(s->arg, key, clean);
    }
}

static void say_number(const struct sayer *s, const char *key, json_int_t number)
{
    char text[32];

    if (number > 0) {
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT, number);
        s->say(s->arg, key, text);
    }
}

static const char *condition_name(const struct docker_inspect *inspect)
{
    static const char *const names[] = {
        [DOCKER_CREATED] = "created", [DOCKER_RUNNING] = "running",   [DOCKER_PAUSED] = "paused",
        [DOCKER_STOPPED] = "stopped", [DOCKER_REMOVING] = "removing",
    };

    return names[inspect->condition];
}

/* "2026-01-31T12:00:00.123456789Z", or with the engine's zone (+01:00). -1 where it is no time. */
static time_t parse_time(const char *text)
{
    struct tm tm = {.tm_isdst = 0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int hours = 0, minutes = 0;
    char sign = '+';

    if (rest == NULL || tm.tm_year < 100) {
        return -1;
    }
    rest += rest[0] == '.' ? 1 + strspn(rest + 1, "0123456789") : 0;
    if (strcmp(rest, "Z") != 0 &&
        (sscanf(rest, "%c%2d:%2d", &sign, &hours, &minutes) != 3 || strchr("+-", sign) == NULL)) {
        return -1;
    }
    return timegm(&tm) - (sign == '-' ? -60 : 60) * (hours * 60 + minutes);
}

static void say_state(const struct sayer *s, const struct docker_inspect *inspect)
{
    time_t started = parse_time(inspect->started_at);
    time_t now = time(NULL);
    char text[32];

    s->say(s->arg, "state", condition_name(inspect));
    say_text(s, "container", inspect->name);
    say_text(s, "image", inspect->image);
    say_text(s, "image_id", inspect->image_id);
    say_text(s, "started", inspect->started_at);
    if (started != -1 && started <= now) {
        snprintf(text, sizeof text, "%lld", (long long)(now - started));
        s->say(s->arg, "uptime_seconds", text);
    }
    say_number(s, "pid", inspect->pid);
}

/* What holds it: as the engine has it, whoever asked for it. */
static void say_bounds(const struct sayer *s, const struct docker_inspect *inspect)
{
    json_t *host = docker_json_at(inspect->json, "HostConfig", NULL);
    json_int_t nanos = json_integer_value(docker_json_at(host, "NanoCpus", NULL));
    json_int_t quota = json_integer_value(docker_json_at(host, "CpuQuota", NULL));
    json_int_t period = json_integer_value(docker_json_at(host, "CpuPeriod", NULL));

    say_text(s, "user", inspect->user[0] != '\0' ? inspect->user : "0");
    say_text(s, "network", docker_inspect_label(inspect, DOCKER_LABEL_NETWORK));
    say_text(s, "network_mode", json_string_value(docker_json_at(host, "NetworkMode", NULL)));
    s->say(s->arg, "read_only_root",
           json_is_true(docker_json_at(host, "ReadonlyRootfs", NULL)) ? "yes" : "no");
    say_number(s, "memory_bytes", json_integer_value(docker_json_at(host, "Memory", NULL)));
    if (nanos <= 0 && quota > 0) { /* Podman says it as a quota */
        nanos = quota * 1000 * MILLIS_IN_NANOS / (period > 0 ? period : 100000);
    }
    say_number(s, "cpu_millis", nanos / MILLIS_IN_NANOS);
    say_number(s, "pids", json_integer_value(docker_json_at(host, "PidsLimit", NULL)));
}

static void say_way(const struct sayer *s, const struct docker_state *state,
                    const struct docker_inspect *inspect)
{
    char engine[TEXT_BYTES];
    bool direct = !state->attached && state->process_start != 0 && docker_fast_lane(state->engine);

    s->say(s->arg, "way", direct ? "direct" : "relay");
    say_text(s, "hand",
             state->attached ? "put into a container of others"
                             : docker_inspect_label(inspect, DOCKER_LABEL_VERSION));
    snprintf(engine, sizeof engine, "%s %s (API %s)",
             docker_engine_is_podman(state->engine) ? "Podman" : "Docker",
             docker_engine_version(state->engine), docker_engine_api(state->engine));
    say_text(s, "daemon", engine);
    say_text(s, "daemon_host", docker_engine_host(state->engine));
}

int docker_status(struct sandbox *sandbox,
                  void (*say)(void *arg, const char *key, const char *value), void *arg,
                  struct error *err)
{
    const struct docker_state *state = sandbox->state;
    const struct sayer sayer = {say, arg};
    cleanup_inspect struct docker_inspect inspect = DOCKER_INSPECT_INIT;
    struct error why = {0};

    if (docker_state_check(state, clock_now_ms() + DOCKER_CALL_MS, &inspect, &why) < 0 &&
        inspect.json == NULL) {
        *err = why;
        return -1;
    }
    say_state(&sayer, &inspect);
    say_bounds(&sayer, &inspect);
    say_way(&sayer, state, &inspect);
    return 0;
}
