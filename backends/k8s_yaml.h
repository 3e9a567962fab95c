/* A YAML file as a kubeconfig is one, over libyaml: a document of which single fields are asked for. Every
 * error names the file and the line. Bounded: bytes, depth, values and anchors; an alias is a reference
 * and never a copy, so that none multiplies. */
#ifndef HANDSFS_BACKENDS_K8S_YAML_H
#define HANDSFS_BACKENDS_K8S_YAML_H

#include <stdbool.h>
#include <stddef.h>

#include <yaml.h>

#include "sandbox/error.h"

#define K8S_YAML_MAX_BYTES (1u << 20)
#define K8S_YAML_MAX_DEPTH 32
#define K8S_YAML_MAX_VALUES 65536
#define K8S_YAML_MAX_ANCHORS 256

struct k8s_yaml {
    char *path;
    bool loaded; /* `document` is one */
    yaml_document_t document;
};

/* `path` is copied and names the file in messages. The text need not be NUL-terminated. ERROR_BAD_REQUEST.
 * Release also after a failure. An empty text is a document without values. */
int k8s_yaml_parse(struct k8s_yaml *ret, const char *path, const char *text, size_t length,
                   struct error *err) __attribute__((nonnull, warn_unused_result));

/* Reads a file first: ERROR_NO_SUCH_FILE where there is none, other errors as above. */
int k8s_yaml_load(struct k8s_yaml *ret, const char *path, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void k8s_yaml_release(struct k8s_yaml *yaml) __attribute__((nonnull)); /* accepts it zeroed */

/* The root mapping; NULL for an empty document. ERROR_BAD_REQUEST where it is something else. */
int k8s_yaml_root(struct k8s_yaml *yaml, yaml_node_t **ret, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Fields of a mapping. What is absent or null gives NULL (false) and is no error; another kind than
 * asked for, or a key that stands there twice, is ERROR_BAD_REQUEST. `map` may be NULL: all is absent. */
int k8s_yaml_map(struct k8s_yaml *yaml, yaml_node_t *map, const char *key, yaml_node_t **ret,
                 struct error *err) __attribute__((nonnull(1, 3, 4, 5), warn_unused_result));
int k8s_yaml_list(struct k8s_yaml *yaml, yaml_node_t *map, const char *key, yaml_node_t **ret,
                  struct error *err) __attribute__((nonnull(1, 3, 4, 5), warn_unused_result));
/* A copy of the text, to be freed; what is empty counts as absent. */
int k8s_yaml_string(struct k8s_yaml *yaml, yaml_node_t *map, const char *key, char **ret,
                    struct error *err) __attribute__((nonnull(1, 3, 4, 5), warn_unused_result));
int k8s_yaml_bool(struct k8s_yaml *yaml, yaml_node_t *map, const char *key, bool *ret,
                  struct error *err) __attribute__((nonnull(1, 3, 4, 5), warn_unused_result));

/* How many items a list has (0 for NULL), and one of them. */
size_t k8s_yaml_count(const yaml_node_t *list);
yaml_node_t *k8s_yaml_item(struct k8s_yaml *yaml, yaml_node_t *list, size_t index)
    __attribute__((nonnull));
/* An item that must be text; a copy. */
int k8s_yaml_text(struct k8s_yaml *yaml, yaml_node_t *node, const char *what, char **ret,
                  struct error *err) __attribute__((nonnull, warn_unused_result));

/* ERROR_BAD_REQUEST "PATH:LINE: ..." about a value; returns -1. `node` may be NULL. */
int k8s_yaml_fault(const struct k8s_yaml *yaml, const yaml_node_t *node, struct error *err,
                   const char *format, ...)
    __attribute__((format(printf, 4, 5), nonnull(1, 3, 4)));

#endif
