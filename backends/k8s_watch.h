/* The events of a watch out of pieces of its answer. */
#ifndef HANDSFS_BACKENDS_K8S_WATCH_H
#define HANDSFS_BACKENDS_K8S_WATCH_H

#include <jansson.h>

#include "sandbox/buffer.h"
#include "sandbox/error.h"

#define K8S_WATCH_MAX_LINE (4u << 20) /* bytes of one event; a Pod has at most 1.5 MiB in etcd */

struct k8s_watch_lines {
    struct buffer line; /* what of it came */
};
void k8s_watch_lines_init(struct k8s_watch_lines *lines) __attribute__((nonnull));
void k8s_watch_lines_release(struct k8s_watch_lines *lines) __attribute__((nonnull));

/* "ADDED", "MODIFIED", "DELETED", "BOOKMARK" or "ERROR", and a JSON object, borrowed. */
typedef int (*k8s_watch_event)(void *arg, const char *type, json_t *object, struct error *err);

/* Calls `event` for each line that is whole now. What it returns other than 0 is returned at once; -1
 * with ERROR_TOO_LARGE for a line over the limit, ERROR_NO_ANSWER for one that is no event. */
int k8s_watch_lines_feed(struct k8s_watch_lines *lines, const void *data, size_t length,
                         k8s_watch_event event, void *arg, struct error *err)
    __attribute__((nonnull(1, 4, 6), warn_unused_result));

#endif
