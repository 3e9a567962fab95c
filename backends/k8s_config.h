/* Which cluster, as whom: kubeconfig files as kubectl reads them, or the service account of the Pod that
 * this process runs in. Nothing here speaks to anybody.
 *
 * Several files are merged so: of each name the first file that has it counts, whole; so does the first
 * current-context. A relative path in a file starts at the file's folder.
 *
 *     k8s_config.c        where to look; the in-cluster service account
 *     k8s_config_merge.c  the files, and finding a name in them
 *     k8s_config_user.c   a user entry */
#ifndef HANDSFS_BACKENDS_K8S_CONFIG_H
#define HANDSFS_BACKENDS_K8S_CONFIG_H

#include "backends/http.h"
#include "backends/k8s_yaml.h"

#define K8S_CONFIG_MAX_FILES 32
#define K8S_CONFIG_MAX_ITEMS 1024 /* entries of a list in a kubeconfig */
#define K8S_MAX_TOKEN (64u << 10)
#define K8S_SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

/* An exec credential plugin (client.authentication.k8s.io). */
struct k8s_plugin {
    char *version;     /* "v1" or "v1beta1" */
    char **argv;       /* NULL-terminated; [0] is a path with a slash in it, or looked for in PATH */
    char **env;        /* NAME=VALUE, NULL-terminated: added to ours */
    char *hint;        /* how to install it, as the file says; or NULL */
    bool cluster_info; /* it wants to know about the cluster */
};

/* As whom. All owned; what is absent is NULL. */
struct k8s_user {
    char *token, *token_file;
    char *username, *password;
    char *as, *as_uid; /* impersonation */
    char **as_groups;  /* NULL-terminated */
    struct k8s_plugin *plugin;
};

struct k8s_config {
    struct http_server server; /* with the user's own client certificate, where it has one */
    struct k8s_user user;
    char *namespace_;
    char *origin; /* for messages: "the context NAME", "the service account of this Pod" */
};

/* Where to look; what is NULL is not set. */
struct k8s_config_source {
    const char *kubeconfig;      /* $KUBECONFIG */
    const char *home;            /* below it .kube/config */
    const char *service_host;    /* $KUBERNETES_SERVICE_HOST and _PORT */
    const char *service_port;
    const char *service_account; /* the folder with token, ca.crt and namespace */
    const char *unix_socket;     /* where a stand-in for the server is, whatever its URL says */
};

/* `context` NULL: the current one. ERROR_BAD_REQUEST with the file and the line. Release in any case. */
int k8s_config_load(struct k8s_config *ret, const struct k8s_config_source *source,
                    const char *context, struct error *err)
    __attribute__((nonnull(1, 2, 4), warn_unused_result));
void k8s_config_release(struct k8s_config *config) __attribute__((nonnull)); /* accepts it zeroed */

/* A copy of a server, since http_new() takes it over. */
int k8s_server_copy(struct http_server *ret, const struct http_server *from, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* ---- Between its source files ---- */

struct k8s_config_files {
    struct k8s_yaml files[K8S_CONFIG_MAX_FILES];
    size_t count;
};

/* Adds the file; one that is not there is left out. */
int k8s_config_files_add(struct k8s_config_files *files, const char *path, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void k8s_config_files_release(struct k8s_config_files *files) __attribute__((nonnull));

/* What a context of these files stands for. */
int k8s_config_merge(struct k8s_config *ret, struct k8s_config_files *files, const char *context,
                     struct error *err) __attribute__((nonnull(1, 2, 4), warn_unused_result));

/* A user entry's mapping (NULL: nobody). */
int k8s_config_user(struct k8s_config *ret, struct k8s_yaml *yaml, yaml_node_t *user, struct error *err)
    __attribute__((nonnull(1, 2, 4), warn_unused_result));

/* A path that is a field: as k8s_yaml_string(), beginning at the file's folder. */
int k8s_config_path(struct k8s_yaml *yaml, yaml_node_t *map, const char *key, char **ret,
                    struct error *err) __attribute__((nonnull(1, 3, 4, 5), warn_unused_result));
/* KEY-data, PEM in base64, into `pem`, else the file of KEY into *file. Both at once is a fault. */
int k8s_config_pem(struct k8s_yaml *yaml, yaml_node_t *map, const char *key, char **file,
                   struct buffer *pem, struct error *err)
    __attribute__((nonnull(1, 3, 4, 5, 6), warn_unused_result));
/* A list of texts, NULL-terminated; `first` (may be NULL) is taken over as the one before it. */
int k8s_config_texts(struct k8s_yaml *yaml, yaml_node_t *map, const char *key, char *first,
                     char ***ret, struct error *err)
    __attribute__((nonnull(1, 3, 5, 6), warn_unused_result));

#endif
