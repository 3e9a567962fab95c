#include "tests/unit/fake_cluster.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backends/k8s_client.h"
#include "sandbox/clock.h"

#define LOG_MAX (1u << 20)

struct cluster cluster;

struct k8s_client {
    int unused;
};

void cluster_begin(void)
{
    cluster = (struct cluster){.pods = json_object(), .runs_after_hand = true, .hand_serves = true};
    buffer_init(&cluster.log, LOG_MAX);
    cluster.steps[0] = STATUS_STARTING;
    cluster.steps[1] = STATUS_WAITS;
}

void cluster_end(void)
{
    json_decref(cluster.pods);
    buffer_release(&cluster.log);
}

json_t *quoted(const char *text)
{
    char *copy = strdup(text);
    json_t *json;

    ck_assert_ptr_nonnull(copy);
    for (char *p = copy; *p != '\0'; p++) {
        *p = *p == '\'' ? '"' : *p;
    }
    json = json_loads(copy, 0, NULL);
    ck_assert_msg(json != NULL, "no JSON: %s", copy);
    free(copy);
    return json;
}

static void note(const char *what, const char *more)
{
    ck_assert_int_eq(buffer_printf(&cluster.log, "%s %s\n", what, more), 0);
}

unsigned cluster_count(const char *prefix)
{
    const char *at = buffer_text(&cluster.log);
    unsigned n = 0;

    while (at != NULL && *at != '\0') {
        n += strncmp(at, prefix, strlen(prefix)) == 0;
        at = strchr(at, '\n') + 1;
    }
    return n;
}

/* ---- Pods ---- */

static void touch(json_t *pod)
{
    char text[32];

    snprintf(text, sizeof text, "%u", ++cluster.serial);
    json_object_set_new(json_object_get(pod, "metadata"), "resourceVersion", json_string(text));
}

void cluster_set_status(json_t *pod, const char *status)
{
    json_object_set_new(pod, "status", quoted(status));
    if (strcmp(status, STATUS_NEW) != 0 && strcmp(status, STATUS_NO_NODE) != 0) {
        json_object_set_new(json_object_get(pod, "spec"), "nodeName", json_string("node-1"));
    }
    touch(pod);
}

json_t *cluster_put(const char *name, json_t *pod, const char *status)
{
    char uid[64];

    snprintf(uid, sizeof uid, "uid-%u", ++cluster.serial);
    json_object_set_new(json_object_get(pod, "metadata"), "uid", json_string(uid));
    json_object_set_new(json_object_get(pod, "metadata"), "name", json_string(name));
    json_object_set_new(json_object_get(pod, "metadata"), "creationTimestamp",
                        json_string("2020-01-01T00:00:00Z"));
    cluster_set_status(pod, status);
    json_object_set_new(cluster.pods, name, pod);
    cluster.step = 0;
    return pod;
}

json_t *cluster_pod(const char *name)
{
    return json_object_get(cluster.pods, name);
}

/* ---- Calls ---- */

int k8s_client_open(struct k8s_client **ret, const char *context, struct error *err)
{
    if (context != NULL && strcmp(context, "nowhere") == 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "there is no context nowhere");
    }
    *ret = calloc(1, sizeof **ret);
    return 0;
}

void k8s_client_close(struct k8s_client *client)
{
    free(client);
}

void k8s_client_closep(struct k8s_client **client)
{
    k8s_client_close(*client);
}

const char *k8s_client_server(const struct k8s_client *client)
{
    (void)client;
    return "https://fake:6443";
}

const char *k8s_client_namespace(const struct k8s_client *client)
{
    (void)client;
    return CLUSTER_NAMESPACE;
}

void k8s_reply_init(struct k8s_reply *reply)
{
    *reply = (struct k8s_reply){.status = 0};
}

void k8s_reply_release(struct k8s_reply *reply)
{
    json_decref(reply->json);
    k8s_reply_init(reply);
}

int k8s_refused(const struct k8s_reply *reply, struct error *err, const char *format, ...)
{
    char text[ERROR_MESSAGE_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return error_set(err, reply->status < 500 ? ERROR_BAD_REQUEST : ERROR_NO_ANSWER, 0,
                     "%.150s: %s: %.250s", text, reply->reason, reply->message);
}

static void refuse(struct k8s_reply *ret, long status, const char *reason, const char *message)
{
    ret->status = status;
    snprintf(ret->reason, sizeof ret->reason, "%s", reason);
    snprintf(ret->message, sizeof ret->message, "%s", message);
}

static void create(json_t *pod, struct k8s_reply *ret)
{
    const char *name = json_string_value(json_object_get(json_object_get(pod, "metadata"), "name"));

    if (cluster.refuse_status != 0) {
        refuse(ret, cluster.refuse_status, cluster.refuse_reason, cluster.refuse_message);
    } else if (cluster_pod(name) != NULL) {
        refuse(ret, 409, "AlreadyExists", "it is there");
    } else {
        ret->status = 201;
        ret->json = json_deep_copy(cluster_put(name, json_deep_copy(pod), STATUS_NEW));
    }
}

static void delete (const char *name, json_t *options, struct k8s_reply *ret)
{
    json_t *pod = cluster_pod(name);
    const char *want =
        json_string_value(json_object_get(json_object_get(options, "preconditions"), "uid"));

    ck_assert_msg(want != NULL, "a Pod was deleted whatever its uid is");
    if (pod == NULL) {
        refuse(ret, 404, "NotFound", "no such Pod");
    } else if (strcmp(want, json_string_value(
                                json_object_get(json_object_get(pod, "metadata"), "uid"))) != 0) {
        refuse(ret, 409, "Conflict", "another uid");
    } else if (cluster.ends_slowly && json_object_get(options, "gracePeriodSeconds") == NULL) {
        ret->status = 200;
        json_object_set_new(json_object_get(pod, "metadata"), "deletionTimestamp",
                            json_string("now"));
        touch(pod);
    } else {
        ret->status = 200;
        json_object_del(cluster.pods, name);
    }
}

static void list(struct k8s_reply *ret)
{
    json_t *items = json_array();
    const char *name;
    json_t *pod;

    json_object_foreach(cluster.pods, name, pod)
    {
        json_array_append(items, pod);
    }
    ret->status = 200;
    ret->json = json_pack("{s:{},s:o}", "metadata", "items", items);
}

int k8s_call(struct k8s_client *client, const char *method, const char *path, json_t *json,
             uint64_t deadline_ms, struct k8s_reply *ret, struct error *err)
{
    static const char pods[] = "/api/v1/namespaces/" CLUSTER_NAMESPACE "/pods";
    const char *name = path + strlen(pods) + 1;

    (void)client;
    note(method, strncmp(path, pods, strlen(pods)) == 0 ? path + strlen(pods) - 4 : path);
    if (clock_now_ms() >= deadline_ms) {
        return error_set(err, ERROR_NO_ANSWER, 0, "late");
    }
    if (cluster.before != NULL) {
        cluster.before(method, path);
    }
    if (strncmp(path, pods, strlen(pods)) != 0) {
        refuse(ret, 404, "NotFound", "the fake cluster has Pods only");
    } else if (strcmp(method, "POST") == 0) {
        create(json, ret);
        if (cluster.unanswered > 0) {
            cluster.unanswered--;
            k8s_reply_release(ret);
            return error_set(err, ERROR_NO_ANSWER, 0, "the connection was lost");
        }
    } else if (strcmp(method, "DELETE") == 0) {
        delete (name, json, ret);
    } else if (path[strlen(pods)] != '/') {
        list(ret);
    } else if (cluster_pod(name) == NULL) {
        refuse(ret, 404, "NotFound", "no such Pod");
    } else {
        ret->status = 200;
        ret->json = json_deep_copy(cluster_pod(name));
    }
    return 0;
}

/* ---- Watches ---- */

static void sleep_until(uint64_t deadline_ms)
{
    while (clock_now_ms() < deadline_ms) {
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
}

static bool is_newer(json_t *pod, const char *version)
{
    json_t *is = json_object_get(json_object_get(pod, "metadata"), "resourceVersion");

    return is != NULL && atoi(json_string_value(is)) > atoi(version);
}

int k8s_watch_pod(struct k8s_client *client, const char *namespace_, const char *name,
                  const char *version, uint64_t deadline_ms, k8s_seen seen, void *arg,
                  struct error *err)
{
    bool first = true;

    (void)client;
    ck_assert_str_eq(namespace_, CLUSTER_NAMESPACE);
    note("watch", name);
    for (;; first = false) {
        json_t *pod = cluster_pod(name);
        json_t *copy;
        int r;

        if (first && (version == NULL || is_newer(pod, version))) {
            /* what has happened since is told at once */
        } else if (pod != NULL && cluster.step < CLUSTER_MAX_STEPS &&
                   cluster.steps[cluster.step] != NULL) {
            cluster_set_status(pod, cluster.steps[cluster.step++]);
        } else if (pod != NULL) { /* nothing happens any more */
            sleep_until(deadline_ms);
            return error_set(err, ERROR_NO_ANSWER, 0, "nothing happens");
        }
        copy = json_deep_copy(pod);
        r = seen(arg, copy, err);
        json_decref(copy);
        if (r != 0) {
            return r;
        }
    }
}

/* ---- Exec ---- */

/* What the scripts of the backend come to. */
static int run_script(json_t *pod, const char *script, const void *input, size_t length,
                      struct buffer *output)
{
    if (strstr(script, "head -c") != NULL) {
        size_t lost = cluster.lossy > 0 ? 1 : 0;

        cluster.lossy -= (unsigned)lost;
        note("exec", "upload");
        ck_assert_int_eq(buffer_append(output, input, length - lost), 0);
        return 0;
    }
    if (strstr(script, "publish=") != NULL) {
        note("exec", "publish");
        if (cluster.broken > 0) {
            cluster.broken--;
            return 126;
        }
        if (cluster.runs_after_hand && cluster.container == NULL) {
            cluster_set_status(pod, STATUS_RUNNING);
        }
        return 0;
    }
    if (strstr(script, "/try") != NULL) {
        note("exec", "find");
        ck_assert_int_eq(buffer_append_string(output, cluster.directories), 0);
        return cluster.directories[0] == '\0' ? 3 : 0;
    }
    if (strstr(script, " serve ") != NULL) {
        note("exec", "start");
        cluster.hand_serves = true;
        return 0;
    }
    ck_abort_msg("an unknown script: %s", script);
    return 1;
}

int k8s_exec_run(struct k8s_client *client, const struct k8s_exec *exec, const void *input,
                 size_t length, struct buffer *output, int *ret_exit, struct error *err)
{
    json_t *pod = cluster_pod(exec->pod);

    (void)client;
    if (cluster.before != NULL) {
        cluster.before("exec", exec->argv[0]);
    }
    if (pod == NULL || cluster_pod(exec->pod) == NULL) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "no such Pod");
    }
    if (strcmp(exec->argv[0], "/bin/sh") == 0) {
        ck_assert_str_eq(exec->container, cluster.container != NULL ? cluster.container : "hand");
        *ret_exit = run_script(pod, exec->argv[2], input, length, output);
        return 0;
    }
    note("exec", "await");
    ck_assert_ptr_nonnull(strstr(exec->argv[0], "/bin/hand"));
    ck_assert_str_eq(exec->argv[1], "prepare");
    *ret_exit = cluster.hand_serves ? 0 : 1;
    return 0;
}

int k8s_exec_stream(struct k8s_client *client, const struct k8s_exec *exec, int *ret_fd,
                    struct k8s_reply *refused, struct error *err)
{
    (void)client;
    (void)err;
    note("stream", exec->pod);
    if (cluster_pod(exec->pod) == NULL) {
        refuse(refused, 404, "NotFound", "no such Pod");
        *ret_fd = -1;
        return 0;
    }
    *ret_fd = open("/dev/null", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    return 0;
}
