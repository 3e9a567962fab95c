/* A plugin runs in a process group of its own, so that it can be ended whole. It is over when its process
 * has ended, whatever it left behind that still holds its output. */
#include "backends/k8s_plugin.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/k8s_file.h"
#include "backends/printable.h"
#include "sandbox/base64.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define EXEC_INFO "KUBERNETES_EXEC_INFO"
#define LOOK_MS 50 /* between looks at a process that cannot be polled */

static void free_json(json_t **json)
{
    json_decref(*json);
}
#define cleanup_json __attribute__((cleanup(free_json)))

/* ---- What it is told -------------------------------------------------------------------------- */

/* The cluster's CA as base64; NULL (and 0) where there is none. */
static int ca_json(const struct http_server *cluster, json_t **ret, struct error *err)
{
    cleanup_buffer struct buffer file = BUFFER_INIT(K8S_YAML_MAX_BYTES);
    cleanup_buffer struct buffer text = BUFFER_INIT(2 * K8S_YAML_MAX_BYTES);
    const struct buffer *pem = &cluster->ca_pem;

    if (cluster->ca_file != NULL) {
        if (k8s_file_read(cluster->ca_file, &file, err) < 0) {
            return -1;
        }
        pem = &file;
    }
    *ret = NULL;
    if (pem->length > 0) {
        if (base64_encode(&text, pem->data, pem->length) < 0 ||
            (*ret = json_stringn((const char *)text.data, text.length)) == NULL) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to run a plugin");
        }
    }
    return 0;
}

/* NAME=JSON of KUBERNETES_EXEC_INFO. */
static char *exec_info(const struct k8s_plugin *plugin, const struct http_server *cluster,
                       struct error *err)
{
    cleanup_json json_t *info =
        json_pack("{s:s, s:s+, s:{s:b}}", "kind", "ExecCredential", "apiVersion",
                  "client.authentication.k8s.io/", plugin->version, "spec", "interactive", 0);
    cleanup_free char *text = NULL;
    char *variable = NULL;

    if (info != NULL && plugin->cluster_info) {
        json_t *ca = NULL;
        json_t *about;

        if (ca_json(cluster, &ca, err) < 0) {
            return NULL;
        }
        about = json_pack("{s:s, s:s*, s:b, s:o*, s:s*}", "server", cluster->url, "tls-server-name",
                          cluster->tls_name, "insecure-skip-tls-verify", cluster->insecure,
                          "certificate-authority-data", ca, "proxy-url", cluster->proxy);
        json_object_set_new(json_object_get(info, "spec"), "cluster", about);
    }
    text = info != NULL ? json_dumps(info, JSON_COMPACT) : NULL;
    if (text == NULL || asprintf(&variable, EXEC_INFO "=%s", text) < 0) {
        error_set(err, ERROR_NO_MEMORY, 0, "out of memory to run a plugin");
        return NULL;
    }
    return variable;
}

static bool same_name(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");

    return strncmp(a, b, length) == 0 && b[length] == '=';
}

static bool among(const char *variable, char *const *list)
{
    for (; *list != NULL; list++) {
        if (same_name(*list, variable)) {
            return true;
        }
    }
    return false;
}

/* Ours, the kubeconfig's, and the info. The strings are borrowed, the array is to be freed. */
static char **environment_of(const struct k8s_plugin *plugin, char *info)
{
    size_t count = 0;
    size_t own = 0;
    char **list;

    while (environ[count] != NULL) {
        count++;
    }
    while (plugin->env[own] != NULL) {
        own++;
    }
    list = calloc(count + own + 2, sizeof *list);
    if (list == NULL) {
        return NULL;
    }
    count = 0;
    for (char **at = environ; *at != NULL; at++) {
        if (!among(*at, plugin->env) && !same_name(info, *at)) {
            list[count++] = *at;
        }
    }
    for (char **at = plugin->env; *at != NULL; at++) {
        if (!same_name(info, *at)) {
            list[count++] = *at;
        }
    }
    list[count] = info;
    return list;
}

/* How a shell ends, and posix_spawn(3) where it cannot tell otherwise, if there was nothing to run. */
#define NOT_RUN 127

/* ---- The process ------------------------------------------------------------------------------ */

struct child {
    pid_t pid;
    int pidfd;
    int out, complaint; /* our ends; non-blocking */
};

static int spawn(const struct k8s_plugin *plugin, char *const *environment, int out, int complaint,
                 pid_t *ret)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int r;

    if (posix_spawn_file_actions_init(&actions) != 0) {
        return ENOMEM;
    }
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return ENOMEM;
    }
    sigemptyset(&none);
    sigfillset(&all);
    r = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK |
                                                  POSIX_SPAWN_SETSIGDEF);
    r = r != 0 ? r : posix_spawnattr_setsigmask(&attributes, &none);
    r = r != 0 ? r : posix_spawnattr_setsigdefault(&attributes, &all);
    r = r != 0 ? r : posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    r = r != 0 ? r : posix_spawn_file_actions_adddup2(&actions, out, 1);
    r = r != 0 ? r : posix_spawn_file_actions_adddup2(&actions, complaint, 2);
    r = r != 0 ? r
               : posix_spawnp(ret, plugin->argv[0], &actions, &attributes, plugin->argv, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return r;
}

static void child_end(struct child *child)
{
    if (child->pid > 0) {
        kill(-child->pid, SIGKILL);
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR) {
        }
    }
    cleanup_fd_fn(&child->pidfd);
    cleanup_fd_fn(&child->out);
    cleanup_fd_fn(&child->complaint);
}

static int child_start(struct child *ret, const struct k8s_plugin *plugin, char *const *environment,
                       struct error *err)
{
    int out[2] = {-1, -1};
    int complaint[2] = {-1, -1};
    int r = 0;

    *ret = (struct child){.pid = -1, .pidfd = -1, .out = -1, .complaint = -1};
    if (pipe2(out, O_CLOEXEC) < 0 || pipe2(complaint, O_CLOEXEC) < 0) {
        r = errno;
    }
    ret->out = out[0];
    ret->complaint = complaint[0];
    if (r == 0 && (fcntl(out[0], F_SETFL, O_NONBLOCK) < 0 || fcntl(complaint[0], F_SETFL, O_NONBLOCK) < 0)) {
        r = errno;
    }
    r = r != 0 ? r : spawn(plugin, environment, out[1], complaint[1], &ret->pid);
    cleanup_fd_fn(&out[1]);
    cleanup_fd_fn(&complaint[1]);
    if (r != 0) {
        ret->pid = -1;
        return error_set(err, ERROR_BAD_REQUEST, r, "the credential plugin %s cannot be run: %s%s%.300s",
                         plugin->argv[0], strerror(r), plugin->hint != NULL ? ": " : "",
                         plugin->hint != NULL ? plugin->hint : "");
    }
    ret->pidfd = (int)syscall(SYS_pidfd_open, ret->pid, 0);
    if (ret->pidfd < 0 && errno != ENOSYS) {
        return error_set_errno(err, errno, "the credential plugin %s cannot be waited for",
                               plugin->argv[0]);
    }
    return 0;
}

/* Reads what is there. Past the limit: with `drop` forgotten, else -1. *fd is -1 after the end. */
static int take(int *fd, struct buffer *to, bool drop)
{
    while (*fd >= 0) {
        uint8_t piece[4096];
        ssize_t n = read(*fd, piece, sizeof piece);
        size_t room = to->limit - to->length;

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return 0;
        }
        if (n <= 0) {
            close(take_fd(fd));
            return 0;
        }
        if ((size_t)n > room && !drop) {
            return -1;
        }
        if (buffer_append(to, piece, (size_t)n < room ? (size_t)n : room) < 0) {
            return -1;
        }
    }
    return 0;
}

/* Where there is no pidfd: Linux before 5.3, and valgrind. */
static bool has_ended(const struct child *child)
{
    siginfo_t info = {.si_pid = 0};

    return waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == child->pid;
}

/* Until its end; `why` is what to say where it does not come. Returns the wait status, or -1. */
static int child_wait(struct child *child, uint64_t deadline_ms, struct buffer *out,
                      struct buffer *complaint, const char **why)
{
    int status = 0;
    bool ended = false;

    while (!ended) {
        struct pollfd fds[] = {{.fd = child->pidfd, .events = POLLIN},
                               {.fd = child->out, .events = POLLIN},
                               {.fd = child->complaint, .events = POLLIN}};
        uint64_t now = clock_now_ms();
        uint64_t wait = deadline_ms - now;

        if (now >= deadline_ms) {
            *why = "it took too long";
            return -1;
        }
        if (child->pidfd < 0 && wait > LOOK_MS) {
            wait = LOOK_MS;
        }
        if (poll(fds, 3, (int)wait) < 0 && errno != EINTR) {
            *why = "it cannot be waited for";
            return -1;
        }
        ended = child->pidfd >= 0 ? fds[0].revents != 0 : has_ended(child);
        if (take(&child->out, out, false) < 0) {
            *why = "it said too much";
            return -1;
        }
        (void)!take(&child->complaint, complaint, true);
    }
    while (waitpid(child->pid, &status, 0) < 0) {
        if (errno != EINTR) {
            *why = "it cannot be waited for";
            return -1;
        }
    }
    child->pid = -1;
    return status;
}

int k8s_plugin_run(const struct k8s_plugin *plugin, const struct http_server *cluster,
                   uint64_t deadline_ms, struct k8s_credential *ret, struct error *err)
{
    cleanup_free char *info = exec_info(plugin, cluster, err);
    cleanup_free char **environment = NULL;
    cleanup_buffer struct buffer out = BUFFER_INIT(K8S_PLUGIN_MAX_OUTPUT);
    cleanup_buffer struct buffer complaint = BUFFER_INIT(K8S_PLUGIN_MAX_COMPLAINT);
    uint64_t latest = clock_now_ms() + K8S_PLUGIN_WAIT_MS;
    const char *why = "it failed";
    char words[256];
    struct child child;
    int status = -1;

    if (info == NULL) {
        return -1;
    }
    environment = environment_of(plugin, info);
    if (environment == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to run a plugin");
    }
    if (child_start(&child, plugin, environment, err) < 0) {
        child_end(&child);
        return -1;
    }
    status = child_wait(&child, deadline_ms < latest ? deadline_ms : latest, &out, &complaint, &why);
    child_end(&child);
    if (status != 0) {
        copy_printable(words, sizeof words, complaint.data, complaint.length);
        if (words[0] == '\0' && plugin->hint != NULL && status > 0 && WIFEXITED(status) &&
            WEXITSTATUS(status) == NOT_RUN) {
            copy_printable(words, sizeof words, plugin->hint, strlen(plugin->hint));
        }
        return error_set(err, ERROR_BAD_REQUEST, 0, "the credential plugin %s: %s%s%s",
                         plugin->argv[0], why, words[0] != '\0' ? ": " : "", words);
    }
    return k8s_credential_parse(out.data != NULL ? (const char *)out.data : "", out.length,
                                plugin->version, plugin->argv[0], ret, err);
}
