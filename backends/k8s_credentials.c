#include "backends/k8s_credentials.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/k8s_file.h"
#include "sandbox/base64.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "sandbox/log.h"

int k8s_credentials_init(struct k8s_credentials *ret, const struct k8s_config *config,
                         struct error *err)
{
    pthread_condattr_t attributes;
    int r;

    *ret = (struct k8s_credentials){.config = config};
    k8s_credential_init(&ret->plugin);
    r = pthread_condattr_init(&attributes);
    if (r == 0) {
        r = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        r = r != 0 ? r : pthread_cond_init(&ret->changed, &attributes);
        pthread_condattr_destroy(&attributes);
    }
    r = r != 0 ? r : pthread_mutex_init(&ret->lock, NULL);
    return r == 0 ? 0 : error_set_errno(err, r, "no lock for credentials");
}

void k8s_credentials_release(struct k8s_credentials *credentials)
{
    pthread_mutex_destroy(&credentials->lock);
    pthread_cond_destroy(&credentials->changed);
    free(credentials->token);
    k8s_credential_release(&credentials->plugin);
}

/* A token or a password of the kubeconfig itself counts before the plugin, as with kubectl. */
static bool wants_plugin(const struct k8s_user *user)
{
    return user->plugin != NULL && user->token == NULL && user->token_file == NULL &&
           user->username == NULL;
}

/* With the lock. */
static bool usable(const struct k8s_credentials *credentials)
{
    const struct k8s_user *user = &credentials->config->user;

    if (user->token_file == NULL && !wants_plugin(user)) {
        return true;
    }
    if (!credentials->have || credentials->stale) {
        return false;
    }
    if (user->token_file != NULL) {
        return clock_now_ms() - credentials->fetched_ms < K8S_TOKEN_AGE_MS;
    }
    return credentials->plugin.expires == 0 ||
           time(NULL) + K8S_EXPIRY_MARGIN_S < credentials->plugin.expires;
}

/* ---- Fetching: without the lock, one thread at a time ----------------------------------------- */

struct fetched {
    char *token;
    struct k8s_credential plugin;
};

static int fetch(const struct k8s_config *config, const char *last, uint64_t deadline_ms,
                 struct fetched *ret, struct error *err)
{
    const struct k8s_user *user = &config->user;
    const char *otherwise = last != NULL ? last : user->token;
    struct error why;

    if (user->token_file == NULL) {
        return k8s_plugin_run(user->plugin, &config->server, deadline_ms, &ret->plugin, err);
    }
    if (k8s_file_line(user->token_file, K8S_MAX_TOKEN, &ret->token, &why) == 0) {
        return 0;
    }
    if (otherwise == NULL) {
        return error_set(err, ERROR_BAD_REQUEST, why.os_errno, "no token: %s", why.message);
    }
    log_trace("kubernetes: the last token stays: %s", why.message); /* it is being replaced, perhaps */
    ret->token = strdup(otherwise);
    return ret->token != NULL ? 0 : error_set(err, ERROR_NO_MEMORY, 0, "out of memory for a token");
}

static bool same_bytes(const struct buffer *a, const struct buffer *b)
{
    return a->length == b->length && (a->length == 0 || memcmp(a->data, b->data, a->length) == 0);
}

/* With the lock. */
static void keep(struct k8s_credentials *credentials, struct fetched *fetched)
{
    if (credentials->config->user.token_file != NULL) {
        free(credentials->token);
        credentials->token = fetched->token;
    } else {
        if (fetched->plugin.cert.length > 0 &&
            (!same_bytes(&fetched->plugin.cert, &credentials->plugin.cert) ||
             !same_bytes(&fetched->plugin.key, &credentials->plugin.key))) {
            credentials->certificates++;
        }
        k8s_credential_release(&credentials->plugin);
        credentials->plugin = fetched->plugin;
    }
    credentials->have = true;
    credentials->stale = false;
    credentials->fetched_ms = clock_now_ms();
    credentials->generation++;
}

static struct timespec at_ms(uint64_t ms)
{
    return (struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
}

/* With the lock, which is let go meanwhile. */
static int make_usable(struct k8s_credentials *credentials, uint64_t deadline_ms, struct error *err)
{
    struct timespec until = at_ms(deadline_ms);
    struct fetched fetched = {0};
    int r;

    while (!usable(credentials)) {
        if (credentials->fetching) {
            if (pthread_cond_timedwait(&credentials->changed, &credentials->lock, &until) == ETIMEDOUT) {
                return error_set(err, ERROR_NO_ANSWER, 0, "the credentials did not come in time");
            }
            continue;
        }
        credentials->fetching = true;
        pthread_mutex_unlock(&credentials->lock);
        /* Only the one who fetches changes `token`. */
        r = fetch(credentials->config, credentials->token, deadline_ms, &fetched, err);
        pthread_mutex_lock(&credentials->lock);
        credentials->fetching = false;
        if (r == 0) {
            keep(credentials, &fetched);
        }
        pthread_cond_broadcast(&credentials->changed);
        return r; /* what came is used even where it has run out already: the server decides */
    }
    return 0;
}

/* ---- Headers ---------------------------------------------------------------------------------- */

static int add(char ***list, size_t *count, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int add(char ***list, size_t *count, const char *format, ...)
{
    char **longer = realloc(*list, (*count + 2) * sizeof **list);
    va_list args;
    int r;

    if (longer == NULL) {
        return -1;
    }
    *list = longer;
    longer[*count] = NULL;
    va_start(args, format);
    r = vasprintf(&longer[*count], format, args);
    va_end(args);
    if (r < 0) {
        longer[*count] = NULL;
        return -1;
    }
    longer[++*count] = NULL;
    return 0;
}

static int add_basic(const struct k8s_user *user, char ***list, size_t *count)
{
    cleanup_buffer struct buffer plain = BUFFER_INIT(K8S_YAML_MAX_BYTES);
    cleanup_buffer struct buffer text = BUFFER_INIT(2 * K8S_YAML_MAX_BYTES);

    if (buffer_printf(&plain, "%s:%s", user->username, user->password != NULL ? user->password : "") < 0 ||
        base64_encode(&text, plain.data, plain.length) < 0 || buffer_text(&text) == NULL) {
        return -1;
    }
    return add(list, count, "Authorization: Basic %s", (const char *)text.data);
}

/* With the lock. */
static int headers_of(const struct k8s_credentials *credentials, char ***ret)
{
    const struct k8s_user *user = &credentials->config->user;
    const char *token = user->token_file != NULL ? credentials->token
                        : user->token != NULL    ? user->token
                        : wants_plugin(user)     ? credentials->plugin.token
                                                 : NULL;
    size_t count = 0;

    /* What is upgraded is no JSON: an API server refuses to exec for who takes nothing else. */
    if (add(ret, &count, "Accept: application/json, */*") < 0 ||
        add(ret, &count, "User-Agent: handsfs/" HANDSFS_VERSION) < 0 ||
        (token != NULL && add(ret, &count, "Authorization: Bearer %s", token) < 0) ||
        (token == NULL && user->username != NULL && add_basic(user, ret, &count) < 0) ||
        (user->as != NULL && add(ret, &count, "Impersonate-User: %s", user->as) < 0) ||
        (user->as_uid != NULL && add(ret, &count, "Impersonate-Uid: %s", user->as_uid) < 0)) {
        return -1;
    }
    for (char **group = user->as_groups; group != NULL && *group != NULL; group++) {
        if (add(ret, &count, "Impersonate-Group: %s", *group) < 0) {
            return -1;
        }
    }
    return 0;
}

void k8s_ticket_release(struct k8s_ticket *ticket)
{
    for (char **header = ticket->headers; header != NULL && *header != NULL; header++) {
        free(*header);
    }
    free(ticket->headers);
    buffer_release(&ticket->cert);
    buffer_release(&ticket->key);
    memset(ticket, 0, sizeof *ticket);
}

/* With the lock. */
static int write_ticket(const struct k8s_credentials *credentials, unsigned seen,
                        struct k8s_ticket *ret)
{
    buffer_init(&ret->cert, K8S_PLUGIN_MAX_OUTPUT);
    buffer_init(&ret->key, K8S_PLUGIN_MAX_OUTPUT);
    ret->generation = credentials->generation;
    ret->certificates = credentials->certificates;
    if (headers_of(credentials, &ret->headers) < 0) {
        return -1;
    }
    if (ret->certificates == seen) {
        return 0;
    }
    return buffer_append(&ret->cert, credentials->plugin.cert.data, credentials->plugin.cert.length) < 0 ||
                   buffer_append(&ret->key, credentials->plugin.key.data,
                                 credentials->plugin.key.length) < 0
               ? -1
               : 0;
}

int k8s_credentials_ticket(struct k8s_credentials *credentials, unsigned seen, uint64_t deadline_ms,
                           struct k8s_ticket *ret, struct error *err)
{
    int r;

    memset(ret, 0, sizeof *ret);
    pthread_mutex_lock(&credentials->lock);
    r = make_usable(credentials, deadline_ms, err);
    if (r == 0 && write_ticket(credentials, seen, ret) < 0) {
        r = error_set(err, ERROR_NO_MEMORY, 0, "out of memory for credentials");
    }
    pthread_mutex_unlock(&credentials->lock);
    if (r < 0) {
        k8s_ticket_release(ret);
    }
    return r;
}

bool k8s_credentials_refused(struct k8s_credentials *credentials, unsigned generation)
{
    const struct k8s_user *user = &credentials->config->user;

    if (user->token_file == NULL && !wants_plugin(user)) {
        return false;
    }
    pthread_mutex_lock(&credentials->lock);
    if (credentials->generation == generation) {
        credentials->stale = true;
    }
    pthread_mutex_unlock(&credentials->lock);
    return true;
}
