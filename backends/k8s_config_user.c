#include "backends/k8s_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/k8s_file.h"
#include "sandbox/cleanup.h"

#define API_GROUP "client.authentication.k8s.io/"

/* "env" of a plugin: a list of mappings with a name and a value. */
static int read_env(struct k8s_plugin *plugin, struct k8s_yaml *yaml, yaml_node_t *exec,
                    struct error *err)
{
    yaml_node_t *list = NULL;
    size_t count;

    if (k8s_yaml_list(yaml, exec, "env", &list, err) < 0) {
        return -1;
    }
    count = k8s_yaml_count(list);
    if (count > K8S_CONFIG_MAX_ITEMS) {
        return k8s_yaml_fault(yaml, list, err, "\"env\" has more than %d items", K8S_CONFIG_MAX_ITEMS);
    }
    plugin->env = calloc(count + 1, sizeof *plugin->env);
    if (plugin->env == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", yaml->path);
    }
    for (size_t i = 0; i < count; i++) {
        yaml_node_t *item = k8s_yaml_item(yaml, list, i);
        cleanup_free char *name = NULL;
        cleanup_free char *value = NULL;

        if (item->type != YAML_MAPPING_NODE) {
            return k8s_yaml_fault(yaml, item, err, "a mapping is expected in \"env\"");
        }
        if (k8s_yaml_string(yaml, item, "name", &name, err) < 0 ||
            k8s_yaml_string(yaml, item, "value", &value, err) < 0) {
            return -1;
        }
        if (name == NULL || strchr(name, '=') != NULL) {
            return k8s_yaml_fault(yaml, item, err, "a variable needs a name without \"=\"");
        }
        if (asprintf(&plugin->env[i], "%s=%s", name, value != NULL ? value : "") < 0) {
            plugin->env[i] = NULL;
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", yaml->path);
        }
    }
    return 0;
}

static int read_version(struct k8s_plugin *plugin, struct k8s_yaml *yaml, yaml_node_t *exec,
                        struct error *err)
{
    cleanup_free char *version = NULL;

    if (k8s_yaml_string(yaml, exec, "apiVersion", &version, err) < 0) {
        return -1;
    }
    if (version == NULL || (strcmp(version, API_GROUP "v1") != 0 &&
                            strcmp(version, API_GROUP "v1beta1") != 0)) {
        return k8s_yaml_fault(yaml, exec, err,
                              "the plugin's \"apiVersion\" must be " API_GROUP "v1 or v1beta1");
    }
    plugin->version = strdup(version + strlen(API_GROUP));
    return plugin->version != NULL
               ? 0
               : error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", yaml->path);
}

static int read_plugin(struct k8s_plugin *plugin, struct k8s_yaml *yaml, yaml_node_t *exec,
                       struct error *err)
{
    cleanup_free char *command = NULL;
    cleanup_free char *interactive = NULL;
    char *path = NULL;

    if (read_version(plugin, yaml, exec, err) < 0 ||
        k8s_yaml_string(yaml, exec, "command", &command, err) < 0 ||
        k8s_yaml_string(yaml, exec, "interactiveMode", &interactive, err) < 0 ||
        k8s_yaml_string(yaml, exec, "installHint", &plugin->hint, err) < 0 ||
        k8s_yaml_bool(yaml, exec, "provideClusterInfo", &plugin->cluster_info, err) < 0) {
        return -1;
    }
    if (command == NULL) {
        return k8s_yaml_fault(yaml, exec, err, "the plugin has no \"command\"");
    }
    if (interactive != NULL && strcmp(interactive, "Always") == 0) {
        return k8s_yaml_fault(yaml, exec, err, "the plugin %s wants to ask at a terminal: "
                              "\"interactiveMode: Always\" is refused", command);
    }
    path = strchr(command, '/') != NULL ? k8s_file_beside(command, yaml->path) : strdup(command);
    if (path == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", yaml->path);
    }
    return k8s_config_texts(yaml, exec, "args", path, &plugin->argv, err) < 0 ||
                   read_env(plugin, yaml, exec, err) < 0
               ? -1
               : 0;
}

static int read_impersonation(struct k8s_user *ret, struct k8s_yaml *yaml, yaml_node_t *user,
                              struct error *err)
{
    yaml_node_t *extra = NULL;

    if (k8s_yaml_string(yaml, user, "as", &ret->as, err) < 0 ||
        k8s_yaml_string(yaml, user, "as-uid", &ret->as_uid, err) < 0 ||
        k8s_config_texts(yaml, user, "as-groups", NULL, &ret->as_groups, err) < 0 ||
        k8s_yaml_map(yaml, user, "as-user-extra", &extra, err) < 0) {
        return -1;
    }
    /* Left out, they would not lessen what is allowed but change it. */
    if (extra != NULL) {
        return k8s_yaml_fault(yaml, extra, err, "\"as-user-extra\" is not known here");
    }
    if (ret->as == NULL && (ret->as_uid != NULL || ret->as_groups[0] != NULL)) {
        return k8s_yaml_fault(yaml, user, err, "\"as-uid\" and \"as-groups\" need \"as\"");
    }
    return 0;
}

/* What becomes part of a header must not end it. */
static int check_headers(const struct k8s_user *ret, struct k8s_yaml *yaml, yaml_node_t *user,
                         struct error *err)
{
    const char *const texts[] = {ret->token, ret->as, ret->as_uid};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (texts[i] != NULL && !k8s_header_text(texts[i])) {
            return k8s_yaml_fault(yaml, user, err,
                                  "\"token\", \"as\" and \"as-uid\" must be printable ASCII");
        }
    }
    for (size_t i = 0; ret->as_groups[i] != NULL; i++) {
        if (!k8s_header_text(ret->as_groups[i])) {
            return k8s_yaml_fault(yaml, user, err, "\"as-groups\" must be printable ASCII");
        }
    }
    if (ret->token != NULL && strlen(ret->token) > K8S_MAX_TOKEN) {
        return k8s_yaml_fault(yaml, user, err, "\"token\" is over %u bytes", K8S_MAX_TOKEN);
    }
    return 0;
}

int k8s_config_user(struct k8s_config *config, struct k8s_yaml *yaml, yaml_node_t *user,
                    struct error *err)
{
    struct k8s_user *ret = &config->user;
    struct http_server *server = &config->server;
    yaml_node_t *exec = NULL;
    yaml_node_t *provider = NULL;

    if (k8s_yaml_string(yaml, user, "token", &ret->token, err) < 0 ||
        k8s_config_path(yaml, user, "tokenFile", &ret->token_file, err) < 0 ||
        k8s_yaml_string(yaml, user, "username", &ret->username, err) < 0 ||
        k8s_yaml_string(yaml, user, "password", &ret->password, err) < 0 ||
        k8s_config_pem(yaml, user, "client-certificate", &server->cert_file, &server->cert_pem,
                       err) < 0 ||
        k8s_config_pem(yaml, user, "client-key", &server->key_file, &server->key_pem, err) < 0 ||
        k8s_yaml_map(yaml, user, "exec", &exec, err) < 0 ||
        k8s_yaml_map(yaml, user, "auth-provider", &provider, err) < 0 ||
        read_impersonation(ret, yaml, user, err) < 0 || check_headers(ret, yaml, user, err) < 0) {
        return -1;
    }
    if (provider != NULL) {
        return k8s_yaml_fault(yaml, provider, err,
                              "\"auth-provider\" is not known here: give the user an \"exec\" plugin");
    }
    if ((server->cert_file != NULL || server->cert_pem.length > 0) !=
        (server->key_file != NULL || server->key_pem.length > 0)) {
        return k8s_yaml_fault(yaml, user, err,
                              "a client-certificate needs its client-key, and the other way");
    }
    if (ret->username != NULL && (ret->token != NULL || ret->token_file != NULL)) {
        return k8s_yaml_fault(yaml, user, err, "there is a username and also a token");
    }
    if (exec == NULL) {
        return 0;
    }
    ret->plugin = calloc(1, sizeof *ret->plugin);
    if (ret->plugin == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", yaml->path);
    }
    return read_plugin(ret->plugin, yaml, exec, err);
}
