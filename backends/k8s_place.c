/* Where a session is. Most are where the kubeconfig's current context points to, and of them
 * nothing is kept here. One file a session, in JSON, in this user's state directory, is for
 * those that were put into a context or namespace of their own, and for Pods that somebody else
 * made. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "backends/k8s_internal.h"
#include "sandbox/cleanup.h"
#include "sandbox/dirs.h"

#define STATE_DIRECTORY "k8s"
#define FILE_MAX (64u << 10) /* bytes of one record */

void k8s_place_release(struct k8s_place *place)
{
    free(place->context);
    free(place->namespace_);
    free(place->pod);
    free(place->uid);
    free(place->container);
    free(place->container_id);
    free(place->workdir);
    free(place->directory);
    free(place->socket);
    *place = (struct k8s_place)K8S_PLACE_INIT;
}

/* A copy of the variable's value, NULL where it is not set. */
static int from_environment(const char *variable, char **ret, struct error *err)
{
    const char *value = getenv(variable);

    if (value == NULL || value[0] == '\0') {
        return 0;
    }
    *ret = strdup(value);
    return *ret == NULL ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory") : 0;
}

/* The fields and what they are called. */
static char **field(struct k8s_place *place, size_t i, const char **ret_key)
{
    static const char *const keys[] = {"context", "namespace", "pod",
                                       "uid",     "container", "container_id",
                                       "workdir", "directory", "socket"};
    char **fields[] = {&place->context, &place->namespace_, &place->pod,
                       &place->uid,     &place->container,  &place->container_id,
                       &place->workdir, &place->directory,  &place->socket};

    if (i >= sizeof keys / sizeof keys[0]) {
        return NULL;
    }
    *ret_key = keys[i];
    return fields[i];
}

/* 0 with *ret_recorded false where there is no such file. */
static int read_record(int dir, const char *session, struct k8s_place *ret, bool *ret_recorded,
                       struct error *err)
{
    cleanup_fd int fd = openat(dir, session, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    cleanup_place struct k8s_place place = K8S_PLACE_INIT;
    cleanup_free char *text = NULL;
    json_auto_t *json = NULL;
    const char *key;
    char **to;
    ssize_t n;

    if (fd < 0) {
        *ret_recorded = false;
        return errno == ENOENT
                   ? 0
                   : error_set_errno(err, errno, "what is known of session %s", session);
    }
    text = malloc(FILE_MAX);
    n = text == NULL ? -1 : read(fd, text, FILE_MAX);
    json = n <= 0 ? NULL : json_loadb(text, (size_t)n, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(json)) {
        return error_set(err, ERROR_IO, 0,
                         "what is kept of session %s (in the state directory, %s/%s) is damaged",
                         session, STATE_DIRECTORY, session);
    }
    for (size_t i = 0; (to = field(&place, i, &key)) != NULL; i++) {
        const char *value = json_string_value(json_object_get(json, key));

        if (value != NULL && (*to = strdup(value)) == NULL) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
    }
    *ret = place;
    place = (struct k8s_place)K8S_PLACE_INIT;
    *ret_recorded = true;
    return 0;
}

int k8s_place_find(const char *session, struct k8s_place *ret, bool *ret_recorded,
                   struct error *err)
{
    cleanup_fd int dir = -1;
    bool recorded = false;

    if (state_dir_open(STATE_DIRECTORY, &dir, NULL, err) < 0 ||
        read_record(dir, session, ret, &recorded, err) < 0) {
        return -1;
    }
    *ret_recorded = recorded;
    return recorded ? 0 : k8s_place_default(ret, err);
}

int k8s_place_default(struct k8s_place *ret, struct error *err)
{
    cleanup_place struct k8s_place place = K8S_PLACE_INIT;

    if (from_environment("HANDSFS_K8S_CONTEXT", &place.context, err) < 0 ||
        from_environment("HANDSFS_K8S_NAMESPACE", &place.namespace_, err) < 0) {
        return -1;
    }
    *ret = place;
    place = (struct k8s_place)K8S_PLACE_INIT;
    return 0;
}

/* The whole file or none: a temporary name, which is no session's, then a rename. */
static int write_file(int dir, const char *name, const char *text, struct error *err)
{
    char temporary[128];
    cleanup_fd int fd = -1;
    size_t length = strlen(text);

    snprintf(temporary, sizeof temporary, ".%s.%ld", name, (long)getpid());
    fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0) {
        return error_set_errno(err, errno, "remember session %s", name);
    }
    if (write(fd, text, length) != (ssize_t)length || fsync(fd) < 0 ||
        renameat(dir, temporary, dir, name) < 0) {
        int e = errno;

        unlinkat(dir, temporary, 0);
        return error_set_errno(err, e, "remember session %s", name);
    }
    return 0;
}

int k8s_place_write(const char *session, const struct k8s_place *place, struct error *err)
{
    struct k8s_place copy = *place; /* borrowed strings */
    json_auto_t *json = json_object();
    cleanup_free char *text = NULL;
    cleanup_fd int dir = -1;
    const char *key;
    char **from;

    for (size_t i = 0; (from = field(&copy, i, &key)) != NULL; i++) {
        if (*from != NULL && json_object_set_new(json, key, json_string(*from)) < 0) {
            return error_set(err, ERROR_BAD_REQUEST, 0,
                             "the %s of session %s cannot be written down", key, session);
        }
    }
    text = json_dumps(json, JSON_INDENT(2));
    if (text == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    return state_dir_open(STATE_DIRECTORY, &dir, NULL, err) < 0
               ? -1
               : write_file(dir, session, text, err);
}

int k8s_place_forget(const char *session, struct error *err)
{
    cleanup_fd int dir = -1;

    if (state_dir_open(STATE_DIRECTORY, &dir, NULL, err) < 0) {
        return -1;
    }
    if (unlinkat(dir, session, 0) < 0 && errno != ENOENT) {
        return error_set_errno(err, errno, "forget session %s", session);
    }
    return 0;
}

int k8s_place_each(int (*found)(void *arg, const char *session, const struct k8s_place *place,
                                struct error *err),
                   void *arg, struct error *err)
{
    cleanup_fd int fd = -1;
    cleanup_dir DIR *dir = NULL;
    const struct dirent *entry;

    if (state_dir_open(STATE_DIRECTORY, &fd, NULL, err) < 0) {
        return -1;
    }
    dir = fdopendir(fd);
    if (dir == NULL) {
        return error_set_errno(err, errno, "the state directory");
    }
    fd = -1; /* the directory stream's now */
    while ((entry = readdir(dir)) != NULL) {
        cleanup_place struct k8s_place place = K8S_PLACE_INIT;
        struct error why = {0};
        bool recorded = false;

        if (session_name_check(entry->d_name, &why) == 0 &&
            read_record(dirfd(dir), entry->d_name, &place, &recorded, &why) == 0 && recorded &&
            found(arg, entry->d_name, &place, err) < 0) {
            return -1;
        }
    }
    return 0;
}
