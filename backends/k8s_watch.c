/* A watch is an answer that does not end: one JSON object a line, each with a type and an object. It comes
 * in pieces of any size. The server ends it when it likes to; where it was then is the resourceVersion of
 * the last object, a bookmark's too. */
#include "backends/k8s_client_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/k8s_watch.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "sandbox/log.h"

#define ROUND_S 60        /* asked of the server; its own default is half an hour */
#define ROUND_SLACK_MS 10000

void k8s_watch_lines_init(struct k8s_watch_lines *lines)
{
    buffer_init(&lines->line, K8S_WATCH_MAX_LINE);
}

void k8s_watch_lines_release(struct k8s_watch_lines *lines)
{
    buffer_release(&lines->line);
}

static int whole_line(struct k8s_watch_lines *lines, k8s_watch_event event, void *arg,
                      struct error *err)
{
    json_t *json = json_loadb((const char *)lines->line.data, lines->line.length, 0, NULL);
    const char *type = json_string_value(json_object_get(json, "type"));
    json_t *object = json_object_get(json, "object");
    int r;

    if (type == NULL || !json_is_object(object)) {
        r = error_set(err, ERROR_NO_ANSWER, 0, "the API server's watch sends no events");
    } else {
        r = event(arg, type, object, err);
    }
    json_decref(json);
    buffer_clear(&lines->line);
    return r;
}

int k8s_watch_lines_feed(struct k8s_watch_lines *lines, const void *data, size_t length,
                         k8s_watch_event event, void *arg, struct error *err)
{
    const char *at = data;

    while (length > 0) {
        const char *newline = memchr(at, '\n', length);
        size_t piece = newline != NULL ? (size_t)(newline - at) : length;

        if (buffer_append(&lines->line, at, piece) < 0) {
            return errno == ENOBUFS
                       ? error_set(err, ERROR_TOO_LARGE, 0, "an event of the API server is over %u bytes",
                                   K8S_WATCH_MAX_LINE)
                       : error_set(err, ERROR_NO_MEMORY, 0, "out of memory for an event");
        }
        if (newline == NULL) {
            return 0;
        }
        at = newline + 1;
        length -= piece + 1;
        if (lines->line.length > 0) {
            int r = whole_line(lines, event, arg, err);

            if (r != 0) {
                return r;
            }
        }
    }
    return 0;
}

/* ---- One Pod ---------------------------------------------------------------------------------- */

struct watch {
    struct k8s_client *client;
    const char *namespace_, *name;
    uint64_t deadline_ms;
    k8s_seen seen;
    void *arg;
    char version[128];      /* where to go on; "": from a fresh GET */
    int verdict;            /* of `seen`; 0: none yet */
    struct error why;       /* with a verdict of -1 */
    unsigned long gone_on;  /* events since the round began */
    struct k8s_watch_lines lines;
};

static int judge(struct watch *watch, json_t *pod)
{
    watch->verdict = watch->seen(watch->arg, pod, &watch->why);
    return watch->verdict;
}

/* The resourceVersion is the server's own word, to be given back as it is. */
static void remember(struct watch *watch, json_t *object)
{
    json_t *metadata = json_object_get(object, "metadata");
    const char *version = json_string_value(json_object_get(metadata, "resourceVersion"));

    if (version == NULL || strlen(version) >= sizeof watch->version) {
        watch->version[0] = '\0';
        return;
    }
    memcpy(watch->version, version, strlen(version) + 1);
}

static bool is_this_pod(const struct watch *watch, json_t *object)
{
    const char *name =
        json_string_value(json_object_get(json_object_get(object, "metadata"), "name"));

    return name != NULL && strcmp(name, watch->name) == 0;
}

/* 1: the exchange is to end. */
static int event(void *arg, const char *type, json_t *object, struct error *err)
{
    struct watch *watch = arg;

    watch->gone_on++;
    if (strcmp(type, "ERROR") == 0) {
        struct k8s_reply words;

        (void)err;
        /* Too old (410), or in trouble: a fresh GET shows whether there is more to it. */
        k8s_reply_init(&words);
        k8s_reply_words(&words, object);
        log_trace("kubernetes: the watch on Pod %s: %s (%s)", watch->name, words.message, words.reason);
        watch->version[0] = '\0';
        return 1;
    }
    remember(watch, object);
    if (strcmp(type, "BOOKMARK") == 0 || !is_this_pod(watch, object)) {
        return 0;
    }
    return judge(watch, strcmp(type, "DELETED") == 0 ? NULL : object) != 0;
}

static int sink(void *arg, const void *data, size_t length, struct error *err)
{
    struct watch *watch = arg;
    int r = k8s_watch_lines_feed(&watch->lines, data, length, event, watch, err);

    /* The only way to end an exchange; the one who asked knows that it is no failure. */
    return r == 1 ? error_set(err, ERROR_CANCELLED, 0, "the watch is over") : r;
}

/* The Pod as it is now. */
static int start_afresh(struct watch *watch, struct error *err)
{
    cleanup_k8s_reply struct k8s_reply reply = {0};
    cleanup_buffer struct buffer path = BUFFER_INIT(4096);

    if (k8s_put_pod_path(&path, watch->namespace_, watch->name) < 0 || buffer_text(&path) == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "a Pod's name is too long");
    }
    if (k8s_call(watch->client, "GET", (const char *)path.data, NULL, watch->deadline_ms, &reply, err) < 0) {
        return -1;
    }
    if (reply.status == 404) {
        judge(watch, NULL);
        return 0;
    }
    if (reply.status >= 300) {
        return k8s_refused(&reply, err, "cannot look at Pod %s", watch->name);
    }
    remember(watch, reply.json);
    judge(watch, reply.json);
    return 0;
}

static int put_watch_path(struct buffer *path, const struct watch *watch, uint64_t seconds)
{
    char selector[300];
    char text[24];

    snprintf(selector, sizeof selector, "metadata.name=%s", watch->name);
    snprintf(text, sizeof text, "%llu", (unsigned long long)seconds);
    return k8s_put_pod_path(path, watch->namespace_, NULL) < 0 ||
                   http_put_query(path, "watch", "true") < 0 ||
                   http_put_query(path, "allowWatchBookmarks", "true") < 0 ||
                   http_put_query(path, "fieldSelector", selector) < 0 ||
                   http_put_query(path, "resourceVersion", watch->version) < 0 ||
                   http_put_query(path, "timeoutSeconds", text) < 0 || buffer_text(path) == NULL
               ? -1
               : 0;
}

/* One exchange, to its end whatever that is. *ret_again_ms: what the server asks for before the next. */
static int round_of(struct watch *watch, bool *renewed, uint64_t *ret_again_ms, struct error *err)
{
    uint64_t left = watch->deadline_ms - clock_now_ms();
    uint64_t seconds = left / 1000 < ROUND_S ? left / 1000 + 1 : ROUND_S;
    uint64_t latest = clock_now_ms() + seconds * 1000 + ROUND_SLACK_MS;
    cleanup_buffer struct buffer path = BUFFER_INIT(4096);
    cleanup_http_answer struct http_answer answer = {0};
    cleanup_k8s_reply struct k8s_reply reply = {0};
    struct k8s_access access;
    struct error why = {0};
    int r;

    http_answer_init(&answer);
    if (put_watch_path(&path, watch, seconds) < 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "a Pod's name is too long");
    }
    if (k8s_access_take(watch->client, watch->deadline_ms, &access, err) < 0) {
        return -1;
    }
    buffer_clear(&watch->lines.line);
    r = http_perform(access.transport->http,
                     &(struct http_request){.method = "GET",
                                            .path = (const char *)path.data,
                                            .headers = (const char *const *)access.ticket.headers,
                                            .deadline_ms = latest < watch->deadline_ms
                                                               ? latest
                                                               : watch->deadline_ms,
                                            .sink = sink,
                                            .arg = watch},
                     &answer, &why);
    if (r == 0 && answer.status == 401 && !*renewed &&
        k8s_credentials_refused(&watch->client->credentials, access.ticket.generation)) {
        *renewed = true;
        answer.status = 503; /* as one that passes */
    }
    k8s_access_put(watch->client, &access);
    if (r < 0 && why.code != ERROR_NO_ANSWER && why.code != ERROR_CANCELLED) {
        *err = why;
        return -1;
    }
    if (r < 0 || answer.status < 300) {
        return 0;
    }
    *ret_again_ms = answer.retry_after_ms;
    if (answer.status == 410) {
        watch->version[0] = '\0';
        return 0;
    }
    if (k8s_status_passes(answer.status, true)) {
        return 0;
    }
    return k8s_reply_fill(&reply, &answer, err) < 0
               ? -1
               : k8s_refused(&reply, err, "cannot watch Pod %s", watch->name);
}

static int late(const struct watch *watch, struct error *err)
{
    return error_set(err, ERROR_NO_ANSWER, 0, "Pod %s: what was waited for did not happen in time",
                     watch->name);
}

static int follow(struct watch *watch, struct error *err)
{
    uint64_t pause = 0;
    bool renewed = false;

    for (;;) {
        uint64_t began = clock_now_ms();
        uint64_t again_ms = 0;

        if (began >= watch->deadline_ms) {
            return late(watch, err);
        }
        if (watch->version[0] == '\0' && start_afresh(watch, err) < 0) {
            return -1;
        }
        if (watch->verdict == 0 && watch->version[0] != '\0') {
            watch->gone_on = 0;
            if (clock_now_ms() >= watch->deadline_ms) {
                return late(watch, err);
            }
            if (round_of(watch, &renewed, &again_ms, err) < 0) {
                return -1;
            }
        }
        if (watch->verdict != 0) {
            if (watch->verdict == -1) {
                *err = watch->why;
            }
            return watch->verdict;
        }
        if (watch->gone_on > 0 || clock_now_ms() - began > 1000) {
            pause = 0;
        }
        log_trace("kubernetes: the watch on Pod %s ended and goes on", watch->name);
        if (!k8s_back_off(&pause, again_ms, watch->deadline_ms)) {
            return late(watch, err);
        }
    }
}

int k8s_watch_pod(struct k8s_client *client, const char *namespace_, const char *name,
                  const char *resource_version, uint64_t deadline_ms, k8s_seen seen, void *arg,
                  struct error *err)
{
    struct watch watch = {
        .client = client,
        .namespace_ = namespace_,
        .name = name,
        .deadline_ms = deadline_ms,
        .seen = seen,
        .arg = arg,
    };
    int r;

    if (resource_version != NULL && strlen(resource_version) < sizeof watch.version) {
        memcpy(watch.version, resource_version, strlen(resource_version) + 1);
    }
    k8s_watch_lines_init(&watch.lines);
    r = follow(&watch, err);
    k8s_watch_lines_release(&watch.lines);
    return r;
}
