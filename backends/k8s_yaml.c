#include "backends/k8s_yaml.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backends/k8s_file.h"
#include "backends/printable.h"
#include "sandbox/buffer.h"
#include "sandbox/cleanup.h"

static int fault_at(const char *path, size_t line, struct error *err, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));
static int fault_at(const char *path, size_t line, struct error *err, const char *format, va_list args)
{
    char text[ERROR_MESSAGE_MAX];
    char what[ERROR_MESSAGE_MAX];

    vsnprintf(text, sizeof text, format, args);
    copy_printable(what, sizeof what, text, strlen(text));
    return error_set(err, ERROR_BAD_REQUEST, 0, "%s:%zu: %s", path, line, what);
}

int k8s_yaml_fault(const struct k8s_yaml *yaml, const yaml_node_t *node, struct error *err,
                   const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fault_at(yaml->path, node != NULL ? node->start_mark.line + 1 : 1, err, format, args);
    va_end(args);
    return -1;
}

static int fault_of_line(const char *path, size_t line, struct error *err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static int fault_of_line(const char *path, size_t line, struct error *err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fault_at(path, line, err, format, args);
    va_end(args);
    return -1;
}

static int parser_fault(const char *path, const yaml_parser_t *parser, struct error *err)
{
    if (parser->error == YAML_MEMORY_ERROR) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", path);
    }
    return fault_of_line(path, parser->problem_mark.line + 1, err, "this is not YAML: %s",
                         parser->problem != NULL ? parser->problem : "it cannot be read");
}

/* What the events of the first document add up to. */
struct census {
    size_t depth, values, anchors;
    bool ended;
};

static void count(struct census *census, const yaml_event_t *event)
{
    const yaml_char_t *anchor = NULL;

    switch (event->type) {
    case YAML_MAPPING_START_EVENT:
        anchor = event->data.mapping_start.anchor;
        census->depth++;
        census->values++;
        break;
    case YAML_SEQUENCE_START_EVENT:
        anchor = event->data.sequence_start.anchor;
        census->depth++;
        census->values++;
        break;
    case YAML_MAPPING_END_EVENT:
    case YAML_SEQUENCE_END_EVENT:
        census->depth--;
        break;
    case YAML_SCALAR_EVENT:
        anchor = event->data.scalar.anchor;
        census->values++;
        break;
    case YAML_ALIAS_EVENT:
        census->values++;
        break;
    case YAML_DOCUMENT_END_EVENT:
    case YAML_STREAM_END_EVENT:
        census->ended = true;
        break;
    default:
        break;
    }
    census->anchors += anchor != NULL;
}

/* Reads the first document's events only to see that its size is sane: building the document costs
 * memory for each value, and time for each pair of anchors. */
static int take_census(const char *path, const char *text, size_t length, struct error *err)
{
    struct census census = {0};
    yaml_parser_t parser;
    int r = 0;

    if (yaml_parser_initialize(&parser) == 0) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", path);
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    while (r == 0 && !census.ended) {
        yaml_event_t event;

        if (yaml_parser_parse(&parser, &event) == 0) {
            r = parser_fault(path, &parser, err);
            break;
        }
        count(&census, &event);
        if (census.depth > K8S_YAML_MAX_DEPTH || census.values > K8S_YAML_MAX_VALUES ||
            census.anchors > K8S_YAML_MAX_ANCHORS) {
            r = fault_of_line(path, event.start_mark.line + 1, err, "there are too many %s",
                              census.depth > K8S_YAML_MAX_DEPTH     ? "levels"
                              : census.values > K8S_YAML_MAX_VALUES ? "values"
                                                                    : "anchors");
        }
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    return r;
}

int k8s_yaml_parse(struct k8s_yaml *ret, const char *path, const char *text, size_t length,
                   struct error *err)
{
    yaml_parser_t parser;
    int r = 0;

    *ret = (struct k8s_yaml){.path = strdup(path)};
    if (ret->path == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", path);
    }
    if (length > K8S_YAML_MAX_BYTES) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "%s is too large: over %u bytes", path,
                         K8S_YAML_MAX_BYTES);
    }
    if (take_census(path, text, length, err) < 0) {
        return -1;
    }
    if (yaml_parser_initialize(&parser) == 0) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", path);
    }
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    if (yaml_parser_load(&parser, &ret->document) == 0) {
        r = parser_fault(path, &parser, err);
    } else {
        ret->loaded = true;
    }
    yaml_parser_delete(&parser);
    return r;
}

int k8s_yaml_load(struct k8s_yaml *ret, const char *path, struct error *err)
{
    cleanup_buffer struct buffer text = BUFFER_INIT(K8S_YAML_MAX_BYTES);

    *ret = (struct k8s_yaml){0};
    if (k8s_file_read(path, &text, err) < 0) {
        return -1;
    }
    return k8s_yaml_parse(ret, path, text.data != NULL ? (const char *)text.data : "", text.length,
                          err);
}

void k8s_yaml_release(struct k8s_yaml *yaml)
{
    if (yaml->loaded) {
        yaml_document_delete(&yaml->document);
    }
    free(yaml->path);
    *yaml = (struct k8s_yaml){0};
}

/* ---- Values ----------------------------------------------------------------------------------- */

/* "", "~" and "null" without quotes. */
static bool is_null(const yaml_node_t *node)
{
    const char *text;

    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE) {
        return false;
    }
    text = (const char *)node->data.scalar.value;
    return text[0] == '\0' || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0;
}

int k8s_yaml_root(struct k8s_yaml *yaml, yaml_node_t **ret, struct error *err)
{
    yaml_node_t *root = yaml->loaded ? yaml_document_get_root_node(&yaml->document) : NULL;

    if (root != NULL && is_null(root)) {
        root = NULL;
    }
    if (root != NULL && root->type != YAML_MAPPING_NODE) {
        return k8s_yaml_fault(yaml, root, err, "a mapping is expected here");
    }
    *ret = root;
    return 0;
}

static bool is_text(const yaml_node_t *node, const char *text)
{
    return node != NULL && node->type == YAML_SCALAR_NODE &&
           node->data.scalar.length == strlen(text) &&
           memcmp(node->data.scalar.value, text, node->data.scalar.length) == 0;
}

static int find(struct k8s_yaml *yaml, yaml_node_t *map, const char *key, yaml_node_t **ret,
                struct error *err)
{
    yaml_node_t *found = NULL;

    if (map == NULL) {
        *ret = NULL;
        return 0;
    }
    for (yaml_node_pair_t *pair = map->data.mapping.pairs.start; pair < map->data.mapping.pairs.top;
         pair++) {
        if (!is_text(yaml_document_get_node(&yaml->document, pair->key), key)) {
            continue;
        }
        if (found != NULL) {
            return k8s_yaml_fault(yaml, yaml_document_get_node(&yaml->document, pair->key), err,
                                  "\"%s\" stands here a second time", key);
        }
        found = yaml_document_get_node(&yaml->document, pair->value);
    }
    *ret = found != NULL && is_null(found) ? NULL : found;
    return 0;
}

int k8s_yaml_map(struct k8s_yaml *yaml, yaml_node_t *map, const char *key, yaml_node_t **ret,
                 struct error *err)
{
    yaml_node_t *node = NULL;

    if (find(yaml, map, key, &node, err) < 0) {
        return -1;
    }
    if (node != NULL && node->type != YAML_MAPPING_NODE) {
        return k8s_yaml_fault(yaml, node, err, "\"%s\" must be a mapping", key);
    }
    *ret = node;
    return 0;
}

int k8s_yaml_list(struct k8s_yaml *yaml, yaml_node_t *map, const char *key, yaml_node_t **ret,
                  struct error *err)
{
    yaml_node_t *node = NULL;

    if (find(yaml, map, key, &node, err) < 0) {
        return -1;
    }
    if (node != NULL && node->type != YAML_SEQUENCE_NODE) {
        return k8s_yaml_fault(yaml, node, err, "\"%s\" must be a list", key);
    }
    *ret = node;
    return 0;
}

int k8s_yaml_text(struct k8s_yaml *yaml, yaml_node_t *node, const char *what, char **ret,
                  struct error *err)
{
    char *text;

    if (node->type != YAML_SCALAR_NODE) {
        return k8s_yaml_fault(yaml, node, err, "\"%s\" must be text", what);
    }
    if (memchr(node->data.scalar.value, '\0', node->data.scalar.length) != NULL) {
        return k8s_yaml_fault(yaml, node, err, "\"%s\" has a NUL in it", what);
    }
    text = strdup((const char *)node->data.scalar.value);
    if (text == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", yaml->path);
    }
    *ret = text;
    return 0;
}

int k8s_yaml_string(struct k8s_yaml *yaml, yaml_node_t *map, const char *key, char **ret,
                    struct error *err)
{
    yaml_node_t *node = NULL;

    if (find(yaml, map, key, &node, err) < 0) {
        return -1;
    }
    if (node == NULL || is_text(node, "")) {
        *ret = NULL;
        return 0;
    }
    return k8s_yaml_text(yaml, node, key, ret, err);
}

int k8s_yaml_bool(struct k8s_yaml *yaml, yaml_node_t *map, const char *key, bool *ret,
                  struct error *err)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};
    yaml_node_t *node = NULL;

    if (find(yaml, map, key, &node, err) < 0) {
        return -1;
    }
    if (node == NULL) {
        *ret = false;
        return 0;
    }
    for (size_t i = 0; node->type == YAML_SCALAR_NODE && i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp((const char *)node->data.scalar.value, words[i]) == 0) {
            *ret = i % 2 != 0;
            return 0;
        }
    }
    return k8s_yaml_fault(yaml, node, err, "\"%s\" must be true or false", key);
}

size_t k8s_yaml_count(const yaml_node_t *list)
{
    return list == NULL ? 0
                        : (size_t)(list->data.sequence.items.top - list->data.sequence.items.start);
}

yaml_node_t *k8s_yaml_item(struct k8s_yaml *yaml, yaml_node_t *list, size_t index)
{
    return yaml_document_get_node(&yaml->document, list->data.sequence.items.start[index]);
}
