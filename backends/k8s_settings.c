/* What `--set NAME=VALUE` says to this backend. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "backends/k8s_internal.h"
#include "sandbox/cleanup.h"
#include "sandbox/units.h"

#define KNOWN                                                                                      \
    "context, namespace, service_account, runtime_class, init_image, pull, pull_secrets, "         \
    "node_selector, "                                                                              \
    "tolerations, network_none, workdir_volume, schedule_timeout"

/* ---- Lists ---- */

/* Labels, taints and names that are none of ours: what the API says of them in the end is theirs
 * to say. */
static bool is_plain(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (!isalnum((unsigned char)text[i]) && strchr("-_./", text[i]) == NULL) {
            return false;
        }
    }
    return true;
}

/* Cuts "KEY=VALUE" into an object's member. */
static int add_selector(json_t *object, char *item)
{
    char *value = strchr(item, '=');

    if (value == NULL || value == item || !is_plain(item, (size_t)(value - item)) ||
        !is_plain(value + 1, strlen(value + 1))) {
        return -1;
    }
    *value++ = '\0';
    return json_object_set_new(object, item, json_string(value));
}

/* "KEY[=VALUE][:EFFECT]"; "*" alone tolerates everything. */
static int add_toleration(json_t *array, char *item)
{
    static const char *const effects[] = {"NoSchedule", "PreferNoSchedule", "NoExecute"};
    char *effect = strchr(item, ':');
    char *value;
    json_t *one = json_object();
    int r = 0;

    if (effect != NULL) {
        *effect++ = '\0';
        r = -1;
        for (size_t i = 0; i < sizeof effects / sizeof effects[0]; i++) {
            if (strcmp(effect, effects[i]) == 0) {
                r = json_object_set_new(one, "effect", json_string(effect));
            }
        }
    }
    value = strchr(item, '=');
    if (value != NULL) {
        *value++ = '\0';
        r |= !is_plain(value, strlen(value)) ||
             json_object_set_new(one, "value", json_string(value)) < 0;
    }
    r |= json_object_set_new(one, "operator", json_string(value != NULL ? "Equal" : "Exists"));
    if (strcmp(item, "*") != 0) {
        r |= item[0] == '\0' || !is_plain(item, strlen(item)) ||
             json_object_set_new(one, "key", json_string(item)) < 0;
    } else {
        r |= value != NULL;
    }
    if (r != 0) {
        json_decref(one);
        return -1;
    }
    return json_array_append_new(array, one);
}

static int add_secret(json_t *array, char *item)
{
    return k8s_is_name(item) ? json_array_append_new(array, json_pack("{s:s}", "name", item)) : -1;
}

/* Gives each part of "A,B,C" to `add`; *ret is taken over on success. */
static int read_list(const char *value, int (*add)(json_t *to, char *item), json_t *to,
                     json_t **ret)
{
    json_auto_t *list = to;
    cleanup_free char *copy = strdup(value);
    char *at = copy;

    if (list == NULL || copy == NULL) {
        return -1;
    }
    while (at != NULL) {
        char *item = strsep(&at, ",");

        if (add(list, item) != 0) {
            return -1;
        }
    }
    json_decref(*ret);
    *ret = take_ptr(list);
    return 0;
}

/* ---- Single values ---- */

static int read_name(const char *value, const char **ret)
{
    if (!k8s_is_name(value)) {
        return -1;
    }
    *ret = value;
    return 0;
}

static int read_text(const char *value, const char **ret)
{
    *ret = value;
    return value[0] != '\0' ? 0 : -1;
}

/* The place of `value` in the list, or -1. */
static int choice(const char *value, const char *const *words)
{
    for (int i = 0; words[i] != NULL; i++) {
        if (strcmp(value, words[i]) == 0) {
            return i;
        }
    }
    return -1;
}

static int read_pull(const char *value, const char **ret)
{
    static const char *const words[] = {"missing", "always", "never", NULL};
    static const char *const policies[] = {"IfNotPresent", "Always", "Never"};
    int i = choice(value, words);

    if (i >= 0) {
        *ret = policies[i];
    }
    return i < 0 ? -1 : 0;
}

static int read_cut(const char *value, enum k8s_cut *ret)
{
    static const char *const words[] = {"interfaces", "policy", NULL};
    int i = choice(value, words);

    if (i >= 0) {
        *ret = (enum k8s_cut)i;
    }
    return i < 0 ? -1 : 0;
}

static int read_volume(const char *value, enum k8s_volume *ret)
{
    static const char *const words[] = {"auto", "yes", "no", NULL};
    int i = choice(value, words);

    if (i >= 0) {
        *ret = (enum k8s_volume)i;
    }
    return i < 0 ? -1 : 0;
}

/* 0, -1 for a value that makes no sense, 1 for a name that is unknown. */
static int read_one(struct k8s_settings *s, const char *name, const char *value)
{
    struct error why = {0};

    if (strcmp(name, "context") == 0) {
        return read_text(value, &s->context);
    }
    if (strcmp(name, "namespace") == 0) {
        return read_name(value, &s->namespace_);
    }
    if (strcmp(name, "service_account") == 0) {
        return read_name(value, &s->service_account);
    }
    if (strcmp(name, "runtime_class") == 0) {
        return read_name(value, &s->runtime_class);
    }
    if (strcmp(name, "init_image") == 0) {
        return read_text(value, &s->init_image);
    }
    if (strcmp(name, "pull") == 0) {
        return read_pull(value, &s->pull_policy);
    }
    if (strcmp(name, "pull_secrets") == 0) {
        return read_list(value, add_secret, json_array(), &s->pull_secrets);
    }
    if (strcmp(name, "node_selector") == 0) {
        return read_list(value, add_selector, json_object(), &s->node_selector);
    }
    if (strcmp(name, "tolerations") == 0) {
        return read_list(value, add_toleration, json_array(), &s->tolerations);
    }
    if (strcmp(name, "network_none") == 0) {
        return read_cut(value, &s->cut);
    }
    if (strcmp(name, "workdir_volume") == 0) {
        return read_volume(value, &s->volume);
    }
    if (strcmp(name, "schedule_timeout") == 0) {
        return parse_duration(value, &s->schedule_ms, &why);
    }
    return 1;
}

int k8s_settings_read(const struct env_list *engine, struct k8s_settings *ret, struct error *err)
{
    cleanup_settings struct k8s_settings s = {.schedule_ms = K8S_SCHEDULE_MS,
                                              .pull_policy = "IfNotPresent"};

    for (size_t i = 0; i < engine->count; i++) {
        const char *value = strchr(engine->entries[i], '=') + 1;
        cleanup_free char *name =
            strndup(engine->entries[i], (size_t)(value - 1 - engine->entries[i]));
        int r = name == NULL ? -1 : read_one(&s, name, value);

        if (name == NULL) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
        if (r > 0) {
            return error_set(err, ERROR_BAD_REQUEST, 0,
                             "the k8s backend has no setting \"%.60s\"; the known ones: " KNOWN,
                             name);
        }
        if (r < 0) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "setting %s: \"%.200s\" is no value for it",
                             name, value);
        }
    }
    *ret = s;
    s = (struct k8s_settings){.context = NULL};
    return 0;
}

void k8s_settings_release(struct k8s_settings *settings)
{
    json_decref(settings->node_selector);
    json_decref(settings->tolerations);
    json_decref(settings->pull_secrets);
    *settings = (struct k8s_settings){.context = NULL};
}
