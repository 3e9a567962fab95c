#include "backends/k8s_client_internal.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "backends/printable.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "sandbox/log.h"

#define TRIES_OF_500 4 /* a broken server, or one that is electing: seldom worth the whole deadline */

void k8s_reply_init(struct k8s_reply *reply)
{
    *reply = (struct k8s_reply){.status = 0};
}

void k8s_reply_release(struct k8s_reply *reply)
{
    json_decref(reply->json);
    k8s_reply_init(reply);
}

/* ---- Answers ---------------------------------------------------------------------------------- */

static void copy_member(char *to, size_t size, const json_t *object, const char *key)
{
    const json_t *text = json_object_get(object, key);

    copy_printable(to, size, json_is_string(text) ? json_string_value(text) : "",
                   json_string_length(text));
}

void k8s_reply_words(struct k8s_reply *reply, const json_t *status)
{
    copy_member(reply->reason, sizeof reply->reason, status, "reason");
    copy_member(reply->message, sizeof reply->message, status, "message");
}

int k8s_put_pod_path(struct buffer *path, const char *namespace_, const char *name)
{
    if (buffer_append_string(path, "/api/v1/namespaces/") < 0 ||
        http_put_segment(path, namespace_) < 0 || buffer_append_string(path, "/pods") < 0) {
        return -1;
    }
    return name == NULL ? 0
                        : (buffer_append_string(path, "/") < 0 || http_put_segment(path, name) < 0 ? -1 : 0);
}

int k8s_reply_fill(struct k8s_reply *ret, const struct http_answer *answer, struct error *err)
{
    const char *text = answer->body.data != NULL ? (const char *)answer->body.data : "";

    k8s_reply_release(ret);
    ret->status = answer->status;
    ret->json = json_loadb(text, answer->body.length, 0, NULL);
    if (ret->json != NULL && !json_is_object(ret->json)) {
        json_decref(ret->json);
        ret->json = NULL;
    }
    if (ret->status < 400) {
        return ret->json != NULL
                   ? 0
                   : error_set(err, ERROR_NO_ANSWER, 0, "the API server's answer is no JSON object");
    }
    k8s_reply_words(ret, ret->json);
    if (ret->message[0] == '\0' && ret->json == NULL) {
        copy_printable(ret->message, 200, text, answer->body.length); /* a proxy's, perhaps */
    }
    return 0;
}

static enum error_code code_of(const struct k8s_reply *reply)
{
    const json_t *details = json_object_get(reply->json, "details");
    const char *kind = json_string_value(json_object_get(details, "kind"));

    switch (reply->status) {
    case 404:
        return kind != NULL && strcmp(kind, "pods") == 0 ? ERROR_SANDBOX_GONE : ERROR_BAD_REQUEST;
    case 413:
        return ERROR_TOO_LARGE;
    case 408:
    case 429:
    case 502:
    case 503:
    case 504:
        return ERROR_NO_ANSWER;
    default:
        return reply->status < 500 && reply->status != 409 ? ERROR_BAD_REQUEST : ERROR_IO;
    }
}

int k8s_refused(const struct k8s_reply *reply, struct error *err, const char *format, ...)
{
    char what[ERROR_MESSAGE_MAX / 2];
    char status[32] = "";
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (reply->message[0] == '\0' || reply->reason[0] == '\0') {
        snprintf(status, sizeof status, "status %ld", reply->status);
    }
    return error_set(err, code_of(reply), 0, "%s: %s%s%s%s%s", what, reply->message,
                     reply->message[0] != '\0' ? " (" : "",
                     reply->reason[0] != '\0' ? reply->reason : status,
                     reply->message[0] != '\0' ? ")" : "",
                     reply->message[0] == '\0' && reply->reason[0] != '\0' ? status : "");
}

/* ---- Again ------------------------------------------------------------------------------------ */

bool k8s_status_passes(long status, bool again)
{
    return status == 429 || (again && status >= 500);
}

bool k8s_back_off(uint64_t *pause_ms, uint64_t at_least_ms, uint64_t deadline_ms)
{
    uint64_t now = clock_now_ms();
    uint32_t random = 0;
    uint64_t wait;

    *pause_ms = *pause_ms == 0                        ? K8S_BACKOFF_MIN_MS
                : *pause_ms * 2 < K8S_BACKOFF_MAX_MS ? *pause_ms * 2
                                                      : K8S_BACKOFF_MAX_MS;
    /* From half of it to all: clients that were cut off together do not come back together. */
    (void)!getrandom(&random, sizeof random, GRND_NONBLOCK);
    wait = *pause_ms / 2 + random % (*pause_ms / 2 + 1);
    wait = wait > at_least_ms ? wait : at_least_ms;
    if (now >= deadline_ms || wait >= deadline_ms - now) {
        return false;
    }
    for (uint64_t until = now + wait; now < until; now = clock_now_ms()) {
        poll(NULL, 0, (int)(until - now));
    }
    return true;
}

struct call {
    struct k8s_client *client;
    struct http_request request;
    uint64_t deadline_ms;
    bool again;         /* doing it twice is doing it once */
    bool renewed;       /* the credentials, after a 401 */
    unsigned tries_500;
};

/* One exchange. 1: try again at once; else 0 or -1 as http_perform(). */
static int attempt(struct call *call, struct http_answer *answer, struct error *err)
{
    uint64_t latest = clock_now_ms() + K8S_SILENCE_MS;
    struct k8s_access access;
    int r;

    if (k8s_access_take(call->client, call->deadline_ms, &access, err) < 0) {
        return -1;
    }
    call->request.headers = (const char *const *)access.ticket.headers;
    call->request.deadline_ms =
        call->again && latest < call->deadline_ms ? latest : call->deadline_ms;
    r = http_perform(access.transport->http, &call->request, answer, err);
    if (r == 0 && answer->status == 401 && !call->renewed &&
        k8s_credentials_refused(&call->client->credentials, access.ticket.generation)) {
        call->renewed = true;
        r = 1;
    }
    k8s_access_put(call->client, &access);
    return r;
}

/* Whether what came of an attempt may be better the next time. */
static bool passes(struct call *call, int r, const struct http_answer *answer, const struct error *err)
{
    if (r < 0) {
        /* http.h: with an errno, there was no connection. */
        return err->code == ERROR_NO_ANSWER && (call->again || err->os_errno != 0);
    }
    if (answer->status == 500 && ++call->tries_500 >= TRIES_OF_500) {
        return false;
    }
    return k8s_status_passes(answer->status, call->again);
}

int k8s_call(struct k8s_client *client, const char *method, const char *path, json_t *json,
             uint64_t deadline_ms, struct k8s_reply *ret, struct error *err)
{
    cleanup_free char *body = json != NULL ? json_dumps(json, JSON_COMPACT) : NULL;
    bool patch = strcmp(method, "PATCH") == 0;
    struct call call = {
        .client = client,
        .deadline_ms = deadline_ms,
        .again = !patch && strcmp(method, "POST") != 0,
        .request = {.method = method,
                    .path = path,
                    .body = body,
                    .body_length = body != NULL ? strlen(body) : 0,
                    .content_type = patch ? "application/merge-patch+json" : NULL,
                    .limit = K8S_MAX_ANSWER},
    };
    uint64_t pause = 0;

    assert(path[0] == '/');
    if (json != NULL && body == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory for a request");
    }
    for (;;) {
        cleanup_http_answer struct http_answer answer = {0};
        struct error why;
        int r;

        http_answer_init(&answer);
        r = attempt(&call, &answer, &why);
        if (r == 1) {
            continue;
        }
        if (passes(&call, r, &answer, &why) &&
            k8s_back_off(&pause, r == 0 ? answer.retry_after_ms : 0, deadline_ms)) {
            log_trace("kubernetes: %s %s again: %s", method, path,
                      r < 0 ? why.message : "the server is busy");
            continue;
        }
        if (r < 0) {
            *err = why;
            return -1;
        }
        return k8s_reply_fill(ret, &answer, err);
    }
}
