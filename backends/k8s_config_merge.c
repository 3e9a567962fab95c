#include "backends/k8s_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "backends/k8s_file.h"
#include "sandbox/base64.h"
#include "sandbox/cleanup.h"

int k8s_config_files_add(struct k8s_config_files *files, const char *path, struct error *err)
{
    struct error why;

    if (files->count == K8S_CONFIG_MAX_FILES) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "KUBECONFIG names more than %d files",
                         K8S_CONFIG_MAX_FILES);
    }
    if (k8s_yaml_load(&files->files[files->count], path, &why) == 0) {
        files->count++;
        return 0;
    }
    k8s_yaml_release(&files->files[files->count]);
    if (why.code == ERROR_NO_SUCH_FILE) {
        return 0;
    }
    *err = why;
    return -1;
}

void k8s_config_files_release(struct k8s_config_files *files)
{
    for (size_t i = 0; i < files->count; i++) {
        k8s_yaml_release(&files->files[i]);
    }
    files->count = 0;
}

/* ---- Fields ----------------------------------------------------------------------------------- */

int k8s_config_path(struct k8s_yaml *yaml, yaml_node_t *map, const char *key, char **ret,
                    struct error *err)
{
    cleanup_free char *path = NULL;

    if (k8s_yaml_string(yaml, map, key, &path, err) < 0) {
        return -1;
    }
    if (path != NULL) {
        *ret = k8s_file_beside(path, yaml->path);
        if (*ret == NULL) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", yaml->path);
        }
    }
    return 0;
}

int k8s_config_pem(struct k8s_yaml *yaml, yaml_node_t *map, const char *key, char **file,
                   struct buffer *pem, struct error *err)
{
    cleanup_free char *text = NULL;
    char data_key[64];
    size_t length = 0;

    snprintf(data_key, sizeof data_key, "%s-data", key);
    if (k8s_config_path(yaml, map, key, file, err) < 0 ||
        k8s_yaml_string(yaml, map, data_key, &text, err) < 0) {
        return -1;
    }
    if (text == NULL) {
        return 0;
    }
    if (*file != NULL) {
        return k8s_yaml_fault(yaml, map, err, "there is \"%s\" and also \"%s\"", key, data_key);
    }
    for (const char *at = text; *at != '\0'; at++) { /* a folded text has line breaks in it */
        if (strchr(" \t\r\n", *at) == NULL) {
            text[length++] = *at;
        }
    }
    if (base64_decode(pem, text, length) < 0) {
        return errno == EINVAL
                   ? k8s_yaml_fault(yaml, map, err, "\"%s\" is not base64", data_key)
                   : error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", yaml->path);
    }
    return 0;
}

int k8s_config_texts(struct k8s_yaml *yaml, yaml_node_t *map, const char *key, char *first,
                     char ***ret, struct error *err)
{
    cleanup_free char *mine = first;
    yaml_node_t *list = NULL;
    size_t used = 0;
    size_t count;

    if (k8s_yaml_list(yaml, map, key, &list, err) < 0) {
        return -1;
    }
    count = k8s_yaml_count(list);
    if (count > K8S_CONFIG_MAX_ITEMS) {
        return k8s_yaml_fault(yaml, list, err, "\"%s\" has more than %d items", key,
                              K8S_CONFIG_MAX_ITEMS);
    }
    *ret = calloc(count + 2, sizeof **ret);
    if (*ret == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", yaml->path);
    }
    if (mine != NULL) {
        (*ret)[used++] = take_ptr(mine);
    }
    for (size_t i = 0; i < count; i++) {
        if (k8s_yaml_text(yaml, k8s_yaml_item(yaml, list, i), key, &(*ret)[used], err) < 0) {
            return -1;
        }
        used++;
    }
    return 0;
}

/* ---- Names ------------------------------------------------------------------------------------ */

/* In one file: the value of "- name: NAME, KIND: VALUE" of the list LIST; NULL where it has none. */
static int find_in_file(struct k8s_yaml *yaml, const char *list_key, const char *kind,
                        const char *name, yaml_node_t **ret, struct error *err)
{
    yaml_node_t *root = NULL;
    yaml_node_t *list = NULL;
    yaml_node_t *found = NULL;

    if (k8s_yaml_root(yaml, &root, err) < 0 || k8s_yaml_list(yaml, root, list_key, &list, err) < 0) {
        return -1;
    }
    if (k8s_yaml_count(list) > K8S_CONFIG_MAX_ITEMS) {
        return k8s_yaml_fault(yaml, list, err, "\"%s\" has more than %d items", list_key,
                              K8S_CONFIG_MAX_ITEMS);
    }
    for (size_t i = 0; i < k8s_yaml_count(list); i++) {
        yaml_node_t *item = k8s_yaml_item(yaml, list, i);
        cleanup_free char *its_name = NULL;

        if (item->type != YAML_MAPPING_NODE) {
            return k8s_yaml_fault(yaml, item, err, "a mapping is expected in \"%s\"", list_key);
        }
        if (k8s_yaml_string(yaml, item, "name", &its_name, err) < 0) {
            return -1;
        }
        if (its_name == NULL || strcmp(its_name, name) != 0) {
            continue;
        }
        if (found != NULL) {
            return k8s_yaml_fault(yaml, item, err, "the %s %s stands here a second time", kind, name);
        }
        if (k8s_yaml_map(yaml, item, kind, &found, err) < 0) {
            return -1;
        }
        if (found == NULL) {
            return k8s_yaml_fault(yaml, item, err, "the %s %s is empty", kind, name);
        }
    }
    *ret = found;
    return 0;
}

/* In the first file that has it. */
static int find_named(struct k8s_config_files *files, const char *list_key, const char *kind,
                      const char *name, struct k8s_yaml **ret_file, yaml_node_t **ret,
                      struct error *err)
{
    for (size_t i = 0; i < files->count; i++) {
        if (find_in_file(&files->files[i], list_key, kind, name, ret, err) < 0) {
            return -1;
        }
        if (*ret != NULL) {
            *ret_file = &files->files[i];
            return 0;
        }
    }
    return error_set(err, ERROR_BAD_REQUEST, 0, "%s%s: there is no %s %s", files->files[0].path,
                     files->count > 1 ? " and the others of KUBECONFIG" : "", kind, name);
}

static int current_context(struct k8s_config_files *files, char **ret, struct error *err)
{
    for (size_t i = 0; i < files->count; i++) {
        yaml_node_t *root = NULL;

        if (k8s_yaml_root(&files->files[i], &root, err) < 0 ||
            k8s_yaml_string(&files->files[i], root, "current-context", ret, err) < 0) {
            return -1;
        }
        if (*ret != NULL) {
            return 0;
        }
    }
    return error_set(err, ERROR_BAD_REQUEST, 0, "%s: there is no current-context; name one",
                     files->files[0].path);
}

static int read_cluster(struct k8s_config *ret, struct k8s_yaml *yaml, yaml_node_t *cluster,
                        struct error *err)
{
    struct http_server *server = &ret->server;
    size_t length;

    if (k8s_yaml_string(yaml, cluster, "server", &server->url, err) < 0 ||
        k8s_yaml_string(yaml, cluster, "tls-server-name", &server->tls_name, err) < 0 ||
        k8s_yaml_string(yaml, cluster, "proxy-url", &server->proxy, err) < 0 ||
        k8s_yaml_bool(yaml, cluster, "insecure-skip-tls-verify", &server->insecure, err) < 0 ||
        k8s_config_pem(yaml, cluster, "certificate-authority", &server->ca_file, &server->ca_pem,
                       err) < 0) {
        return -1;
    }
    if (server->url == NULL) {
        return k8s_yaml_fault(yaml, cluster, err, "the cluster has no \"server\"");
    }
    if ((strncasecmp(server->url, "https://", 8) != 0 && strncasecmp(server->url, "http://", 7) != 0) ||
        strpbrk(server->url, "?# \t\r\n") != NULL || !k8s_header_text(server->url)) {
        return k8s_yaml_fault(yaml, cluster, err, "\"server\" must be an http or https URL, not %s",
                              server->url);
    }
    for (length = strlen(server->url); length > 0 && server->url[length - 1] == '/';) {
        server->url[--length] = '\0';
    }
    if (server->insecure && (server->ca_file != NULL || server->ca_pem.length > 0)) {
        return k8s_yaml_fault(yaml, cluster, err,
                              "there is a certificate-authority and also insecure-skip-tls-verify");
    }
    return 0;
}

int k8s_config_merge(struct k8s_config *ret, struct k8s_config_files *files, const char *context,
                     struct error *err)
{
    cleanup_free char *name = NULL;
    cleanup_free char *cluster_name = NULL;
    cleanup_free char *user_name = NULL;
    struct k8s_yaml *yaml = NULL;
    yaml_node_t *node = NULL;

    if (context != NULL) {
        name = strdup(context);
    } else if (current_context(files, &name, err) < 0) {
        return -1;
    }
    if (name == NULL || asprintf(&ret->origin, "the context %s", name) < 0) {
        ret->origin = NULL;
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to find the cluster");
    }
    if (find_named(files, "contexts", "context", name, &yaml, &node, err) < 0 ||
        k8s_yaml_string(yaml, node, "cluster", &cluster_name, err) < 0 ||
        k8s_yaml_string(yaml, node, "user", &user_name, err) < 0 ||
        k8s_yaml_string(yaml, node, "namespace", &ret->namespace_, err) < 0) {
        return -1;
    }
    if (cluster_name == NULL) {
        return k8s_yaml_fault(yaml, node, err, "the context %s names no cluster", name);
    }
    if (ret->namespace_ == NULL && (ret->namespace_ = strdup("default")) == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to find the cluster");
    }
    if (find_named(files, "clusters", "cluster", cluster_name, &yaml, &node, err) < 0 ||
        read_cluster(ret, yaml, node, err) < 0) {
        return -1;
    }
    if (user_name == NULL) {
        return 0;
    }
    return find_named(files, "users", "user", user_name, &yaml, &node, err) < 0 ||
                   k8s_config_user(ret, yaml, node, err) < 0
               ? -1
               : 0;
}
