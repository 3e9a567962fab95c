#include "backends/k8s_config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backends/k8s_file.h"
#include "sandbox/cleanup.h"

static void free_list(char **list)
{
    for (size_t i = 0; list != NULL && list[i] != NULL; i++) {
        free(list[i]);
    }
    free(list);
}

static void user_release(struct k8s_user *user)
{
    free(user->token);
    free(user->token_file);
    free(user->username);
    free(user->password);
    free(user->as);
    free(user->as_uid);
    free_list(user->as_groups);
    if (user->plugin != NULL) {
        free(user->plugin->version);
        free_list(user->plugin->argv);
        free_list(user->plugin->env);
        free(user->plugin->hint);
        free(user->plugin);
    }
}

void k8s_config_release(struct k8s_config *config)
{
    http_server_release(&config->server);
    user_release(&config->user);
    free(config->namespace_);
    free(config->origin);
    memset(config, 0, sizeof *config);
}

static int copy_text(char **ret, const char *from, struct error *err)
{
    if (from != NULL) {
        *ret = strdup(from);
        if (*ret == NULL) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
    }
    return 0;
}

static int copy_pem(struct buffer *ret, const struct buffer *from, struct error *err)
{
    if (buffer_append(ret, from->data, from->length) < 0) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    return 0;
}

int k8s_server_copy(struct http_server *ret, const struct http_server *from, struct error *err)
{
    http_server_init(ret);
    ret->insecure = from->insecure;
    if (copy_text(&ret->url, from->url, err) < 0 || copy_text(&ret->ca_file, from->ca_file, err) < 0 ||
        copy_text(&ret->unix_socket, from->unix_socket, err) < 0 ||
        copy_text(&ret->cert_file, from->cert_file, err) < 0 ||
        copy_text(&ret->key_file, from->key_file, err) < 0 ||
        copy_text(&ret->tls_name, from->tls_name, err) < 0 ||
        copy_text(&ret->proxy, from->proxy, err) < 0 || copy_pem(&ret->ca_pem, &from->ca_pem, err) < 0 ||
        copy_pem(&ret->cert_pem, &from->cert_pem, err) < 0 ||
        copy_pem(&ret->key_pem, &from->key_pem, err) < 0) {
        http_server_release(ret);
        return -1;
    }
    return 0;
}

static bool given(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* The files of $KUBECONFIG, else ~/.kube/config. */
static int read_files(struct k8s_config_files *files, const struct k8s_config_source *source,
                      struct error *err)
{
    cleanup_free char *list = NULL;
    char *rest;

    if (given(source->kubeconfig)) {
        list = strdup(source->kubeconfig);
    } else if (!given(source->home)) {
        return 0;
    } else if (asprintf(&list, "%s/.kube/config", source->home) < 0) {
        list = NULL;
    }
    if (list == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to find the cluster");
    }
    if (!given(source->kubeconfig)) {
        return k8s_config_files_add(files, list, err);
    }
    rest = list;
    for (char *path = strsep(&rest, ":"); path != NULL; path = strsep(&rest, ":")) {
        if (path[0] != '\0' && k8s_config_files_add(files, path, err) < 0) {
            return -1;
        }
    }
    if (files->count == 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "KUBECONFIG names no file that is there: %s",
                         source->kubeconfig);
    }
    return 0;
}

static char *in_folder(const char *folder, const char *name)
{
    char *path = NULL;

    return asprintf(&path, "%s/%s", folder, name) < 0 ? NULL : path;
}

/* What the kubelet puts into each Pod that has a service account. */
static int in_cluster(struct k8s_config *ret, const struct k8s_config_source *source,
                      struct error *err)
{
    const char *host = source->service_host;
    const char *port = given(source->service_port) ? source->service_port : "443";
    cleanup_free char *name = in_folder(source->service_account, "namespace");
    bool ipv6 = strchr(host, ':') != NULL;
    struct error why;

    ret->user.token_file = in_folder(source->service_account, "token");
    ret->server.ca_file = in_folder(source->service_account, "ca.crt");
    ret->origin = strdup("the service account of this Pod");
    if (name == NULL || ret->user.token_file == NULL || ret->server.ca_file == NULL ||
        ret->origin == NULL ||
        asprintf(&ret->server.url, "https://%s%s%s:%s", ipv6 ? "[" : "", host, ipv6 ? "]" : "",
                 port) < 0) {
        ret->server.url = NULL;
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to find the cluster");
    }
    if (k8s_file_line(name, 253, &ret->namespace_, &why) < 0) {
        if (why.code != ERROR_NO_SUCH_FILE) {
            *err = why;
            return -1;
        }
        ret->namespace_ = strdup("default");
    }
    return ret->namespace_ != NULL ? 0 : error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
}

int k8s_config_load(struct k8s_config *ret, const struct k8s_config_source *source,
                    const char *context, struct error *err)
{
    struct k8s_config_files *files = calloc(1, sizeof *files);
    int r;

    memset(ret, 0, sizeof *ret);
    http_server_init(&ret->server);
    if (files == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to find the cluster");
    }
    r = read_files(files, source, err);
    if (r == 0 && files->count > 0) {
        r = k8s_config_merge(ret, files, context, err);
    } else if (r == 0 && context != NULL) {
        r = error_set(err, ERROR_BAD_REQUEST, 0, "there is no kubeconfig with the context %s", context);
    } else if (r == 0 && given(source->service_host)) {
        r = in_cluster(ret, source, err);
    } else if (r == 0) {
        r = error_set(err, ERROR_BAD_REQUEST, 0,
                      "no cluster is known: there is no ~/.kube/config, KUBECONFIG is not set, and this "
                      "is no Pod");
    }
    k8s_config_files_release(files);
    free(files);
    return r < 0 ? -1 : copy_text(&ret->server.unix_socket, source->unix_socket, err);
}
