/* Exec credential plugins: a program of the kubeconfig that prints an ExecCredential
 * (client.authentication.k8s.io). */
#ifndef HANDSFS_BACKENDS_K8S_PLUGIN_H
#define HANDSFS_BACKENDS_K8S_PLUGIN_H

#include <stdint.h>

#include "backends/k8s_config.h"

#define K8S_PLUGIN_WAIT_MS 60000             /* for its end, where the caller's deadline is later */
#define K8S_PLUGIN_MAX_OUTPUT (1u << 20)     /* bytes */
#define K8S_PLUGIN_MAX_COMPLAINT (4u << 10)  /* of standard error, kept for the message */

/* What such a program answered. */
struct k8s_credential {
    char *token;             /* or NULL */
    struct buffer cert, key; /* PEM; both or none */
    int64_t expires;         /* seconds since 1970, 0: it does not say */
};
void k8s_credential_init(struct k8s_credential *credential) __attribute__((nonnull));
void k8s_credential_release(struct k8s_credential *credential) __attribute__((nonnull));

/* Runs it without a terminal, its input /dev/null. ERROR_BAD_REQUEST where it is not installed, fails,
 * says nothing in time or says what is no ExecCredential; the message ends in its own last words. */
int k8s_plugin_run(const struct k8s_plugin *plugin, const struct http_server *cluster,
                   uint64_t deadline_ms, struct k8s_credential *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* The program's answer. `name` is for messages. */
int k8s_credential_parse(const char *text, size_t length, const char *version, const char *name,
                         struct k8s_credential *ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* "2030-01-02T03:04:05Z" (RFC 3339) in seconds since 1970; -1 where it is none. */
int64_t k8s_time_parse(const char *text) __attribute__((nonnull));

#endif
