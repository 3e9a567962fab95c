/* One Kubernetes cluster, as a kubeconfig or the Pod that this process runs in names it: API calls, watches,
 * and exec streams over WebSocket. See the Kubernetes API reference and
 * "Organizing Cluster Access Using kubeconfig Files". */
#ifndef HANDSFS_BACKENDS_K8S_CLIENT_H
#define HANDSFS_BACKENDS_K8S_CLIENT_H

#include <jansson.h>

#include "backends/http.h"

struct k8s_client;

/* `context` NULL: the current one. Reads KUBECONFIG (several files, merged as kubectl does), else
 * ~/.kube/config, else the in-cluster service account. Speaks to nobody yet. ERROR_BAD_REQUEST with the file and
 * what is wrong in it. */
int k8s_client_open(struct k8s_client **ret, const char *context, struct error *err)
    __attribute__((nonnull(1, 3), warn_unused_result));
void k8s_client_close(struct k8s_client *client); /* accepts NULL */
#define cleanup_k8s __attribute__((cleanup(k8s_client_closep)))
void k8s_client_closep(struct k8s_client **client);

const char *k8s_client_server(const struct k8s_client *client);    /* "https://host:6443" */
const char *k8s_client_namespace(const struct k8s_client *client); /* the context's; "default" */

/* A reply, and the API's own word on a status from 400 on (a Status object). */
struct k8s_reply {
    long status;
    json_t *json;      /* an object, or NULL */
    char reason[64];   /* "AlreadyExists", "NotFound", "Forbidden"...; "" where there is none */
    char message[ERROR_MESSAGE_MAX]; /* made printable */
};
void k8s_reply_init(struct k8s_reply *reply) __attribute__((nonnull));
void k8s_reply_release(struct k8s_reply *reply) __attribute__((nonnull));
#define cleanup_k8s_reply __attribute__((cleanup(k8s_reply_release)))

/* `path` begins with "/api". `json` (borrowed, may be NULL) is the body. Credentials are added and, where they
 * have run out (401), fetched anew once. 429, 503 and lost connections are tried again with back-off until the deadline for
 * GET, PUT and DELETE, and for POST where the server cannot have acted (429, not connected). Errors are those of
 * http_perform(), and ERROR_BAD_REQUEST for credentials that cannot be had. */
int k8s_call(struct k8s_client *client, const char *method, const char *path, json_t *json,
             uint64_t deadline_ms, struct k8s_reply *ret, struct error *err)
    __attribute__((nonnull(1, 2, 3, 6, 7), warn_unused_result));

/* The error that a refused reply stands for, where the caller knows nothing better; returns -1. */
int k8s_refused(const struct k8s_reply *reply, struct error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4), nonnull(1, 2, 3)));

/* Watches one Pod from `resource_version` on until `seen` returns other than 0 (that is returned), or -1 with an
 * error: the deadline is ERROR_NO_ANSWER. A watch that the server ends is taken up again, one that has grown too old
 * (410) starts from a fresh GET. `pod` is borrowed; NULL where the Pod is deleted. */
typedef int (*k8s_seen)(void *arg, json_t *pod, struct error *err);
int k8s_watch_pod(struct k8s_client *client, const char *namespace_, const char *name,
                  const char *resource_version, uint64_t deadline_ms, k8s_seen seen, void *arg,
                  struct error *err) __attribute__((nonnull(1, 2, 3, 6, 8), warn_unused_result));

/* ---- Exec ---- */

struct k8s_exec {
    const char *namespace_, *pod, *container;
    const char *const *argv; /* NULL-terminated */
    uint64_t deadline_ms;
};

/* Runs a program to its end, stdout collected up to its limit (past it: ERROR_TOO_LARGE). The exit code is
 * channel 3's Status; a stream that closes without one is ERROR_NO_ANSWER, a program that could not be started ERROR_IO
 * with the server's words. With a code other than 0 the return is 0 too, and `err` is filled: stderr's beginning.
 *
 * `input` (none: no stdin at all) goes out as fast as it is taken, while output is read. What is sure of it, and what not:
 *  - Bytes that arrive are in order and right (TCP, TLS). All of them may not arrive: what the program has not read
 *    when it ends is lost without a word, and runtimes are known to lose input of a program that ends
 *    soon after its last read.
 *  - There is no end of it: v4 cannot tell one, and it is not told with v5 either. The program must know where it ends.
 *  - Output that was written just before the end may be cut while the Status says Success.
 * So whoever cares counts on both ends: the program tells what it took, before it ends and not by its exit code. */
int k8s_exec_run(struct k8s_client *client, const struct k8s_exec *exec, const void *input,
                 size_t length, struct buffer *output, int *ret_exit, struct error *err)
    __attribute__((nonnull(1, 2, 5, 6, 7), warn_unused_result));

/* Gives a program's stdin and stdout as one descriptor (backends/pump.h). Each 10 s a sign of life goes out that the
 * kubelet's and the runtime's idle timeouts count, and a server that is silent for a minute is given up. Shutting the descriptor
 * down for writing ends the program's stdin with v5 alone; closing it ends the connection and with it stdin. Where the server
 * refuses, `refused` is filled, *ret_fd is -1 and the return 0. */
int k8s_exec_stream(struct k8s_client *client, const struct k8s_exec *exec, int *ret_fd,
                    struct k8s_reply *refused, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
