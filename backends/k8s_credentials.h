/* A client's credentials as they change: token files are read anew when they have aged, plugins run again
 * when what they gave has run out, and both when the server says 401. Any number of threads; while one
 * fetches, the others wait, each for as long as its own deadline. */
#ifndef HANDSFS_BACKENDS_K8S_CREDENTIALS_H
#define HANDSFS_BACKENDS_K8S_CREDENTIALS_H

#include <pthread.h>

#include "backends/k8s_config.h"
#include "backends/k8s_plugin.h"

#define K8S_TOKEN_AGE_MS 60000 /* of what a token file said */
#define K8S_EXPIRY_MARGIN_S 10 /* a credential that runs out so soon has run out */

struct k8s_credentials {
    const struct k8s_config *config; /* borrowed */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool fetching;
    bool stale;              /* the server refused what is here */
    bool have;               /* there is something here */
    uint64_t fetched_ms;
    unsigned generation;     /* counts what was fetched; 0: nothing yet */
    unsigned certificates;   /* counts changes of the plugin's certificate; 0: none yet */
    char *token;             /* of the file */
    struct k8s_credential plugin;
};

int k8s_credentials_init(struct k8s_credentials *ret, const struct k8s_config *config,
                         struct error *err) __attribute__((nonnull, warn_unused_result));
void k8s_credentials_release(struct k8s_credentials *credentials) __attribute__((nonnull));

/* What a request carries. */
struct k8s_ticket {
    unsigned generation;
    unsigned certificates;   /* 0: there is none of a plugin */
    char **headers;          /* NULL-terminated */
    struct buffer cert, key; /* only where `certificates` is another than the caller has seen */
};

/* Fetches what is missing first. `seen` is the last ticket's `certificates`. ERROR_BAD_REQUEST where they cannot be had,
 * ERROR_NO_ANSWER at the deadline. */
int k8s_credentials_ticket(struct k8s_credentials *credentials, unsigned seen, uint64_t deadline_ms,
                           struct k8s_ticket *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void k8s_ticket_release(struct k8s_ticket *ticket) __attribute__((nonnull)); /* accepts it zeroed */

/* The server said 401 to a ticket. True where the next one may be another. */
bool k8s_credentials_refused(struct k8s_credentials *credentials, unsigned generation)
    __attribute__((nonnull));

#endif
