/* What the source files of the client share.
 *
 *     k8s_client.c   opening one; requests with credentials
 *     k8s_call.c     calls and when they are tried again
 *     k8s_watch.c    watches
 *     k8s_exec.c     programs run to their end; k8s_exec_stream.c as a stream */
#ifndef HANDSFS_BACKENDS_K8S_CLIENT_INTERNAL_H
#define HANDSFS_BACKENDS_K8S_CLIENT_INTERNAL_H

#include "backends/k8s_client.h"
#include "backends/k8s_config.h"
#include "backends/k8s_credentials.h"

#define K8S_MAX_ANSWER (32u << 20)  /* bytes of a reply: a list of many Pods */
#define K8S_SILENCE_MS 30000        /* one attempt of a call that may be made again */
#define K8S_BACKOFF_MIN_MS 100
#define K8S_BACKOFF_MAX_MS 5000

/* A connection pool with one client certificate. Those that still use it keep it alive when a plugin gives another. */
struct k8s_transport {
    struct http *http;
    unsigned users; /* the client's lock protects it; the client itself is one */
};

struct k8s_client {
    struct k8s_config config;
    struct k8s_credentials credentials;
    pthread_mutex_t lock; /* protects those below; never held while waiting */
    struct k8s_transport *transport;
    unsigned certificates; /* that `transport` is made with */
};

/* As k8s_client_open(), reading no environment. */
int k8s_client_open_from(struct k8s_client **ret, const struct k8s_config_source *source,
                         const char *context, struct error *err)
    __attribute__((nonnull(1, 2, 4), warn_unused_result));

/* What one exchange needs: a transport and the headers with the credentials. */
struct k8s_access {
    struct k8s_transport *transport;
    struct k8s_ticket ticket;
};
int k8s_access_take(struct k8s_client *client, uint64_t deadline_ms, struct k8s_access *ret,
                    struct error *err) __attribute__((nonnull, warn_unused_result));
void k8s_access_put(struct k8s_client *client, struct k8s_access *access) __attribute__((nonnull));

/* Waits before the next attempt: twice as long each time, with jitter, at least `at_least_ms`. False where
 * that would be past the deadline (it did not wait then). *pause_ms begins as 0. */
bool k8s_back_off(uint64_t *pause_ms, uint64_t at_least_ms, uint64_t deadline_ms)
    __attribute__((nonnull, warn_unused_result));

/* Fills a reply from an answer. ERROR_NO_ANSWER where a good answer is no JSON object. */
int k8s_reply_fill(struct k8s_reply *ret, const struct http_answer *answer, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* `reason` and `message` of a Status object. */
void k8s_reply_words(struct k8s_reply *reply, const json_t *status) __attribute__((nonnull(1)));

/* Appends "/api/v1/namespaces/NAMESPACE/pods[/NAME]". Fails as buffer_append(). */
int k8s_put_pod_path(struct buffer *path, const char *namespace_, const char *name)
    __attribute__((nonnull(1, 2), warn_unused_result));

/* Whether the server may do better later: 429, and where `again` (doing it twice is doing it once) 5xx. */
bool k8s_status_passes(long status, bool again);

#endif
