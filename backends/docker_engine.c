#include "backends/docker_engine.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "backends/docker_engine_internal.h"
#include "backends/docker_host.h"
#include "backends/printable.h"
#include "sandbox/cleanup.h"

#define VERSION_BYTES (256u << 10) /* of the answer to GET /version */
#define REQUEST_BYTES (16u << 20)  /* of a body in JSON */
#define PATH_BYTES (64u << 10)
#define API_PARTS_MAX 9999 /* of either number of an API version */
#define PODMAN_API "1.41"  /* what Podman from 4 on is compatible with */

#define cleanup_http_server __attribute__((cleanup(http_server_release)))

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
}

/* ---- Replies ---------------------------------------------------------------------------------- */

void docker_reply_init(struct docker_reply *reply)
{
    *reply = (struct docker_reply){0};
    buffer_init(&reply->body, HTTP_DEFAULT_LIMIT);
    buffer_init(&reply->wanted, HTTP_MAX_HEADERS);
}

void docker_reply_release(struct docker_reply *reply)
{
    json_decref(reply->json);
    buffer_release(&reply->body);
    buffer_release(&reply->wanted);
    docker_reply_init(reply);
}

/* Docker says {"message": ...}; Podman {"cause": ..., "message": ...}; a proxy whatever it likes. */
static void take_message(struct docker_reply *reply)
{
    const json_t *message = json_object_get(reply->json, "message");
    const void *text = json_is_string(message) ? json_string_value(message) : (void *)reply->body.data;
    size_t length = json_is_string(message) ? json_string_length(message) : reply->body.length;

    copy_printable(reply->message, sizeof reply->message, text, length);
    if (reply->message[0] == '\0') {
        snprintf(reply->message, sizeof reply->message, "status %ld", reply->status);
    }
}

int docker_reply_take(struct docker_reply *ret, struct http_answer *answer, struct error *err)
{
    json_error_t why;

    docker_reply_release(ret);
    ret->status = answer->status;
    buffer_move(&ret->body, &answer->body);
    buffer_move(&ret->wanted, &answer->wanted);
    if (strstr(answer->content_type, "json") != NULL && ret->body.length > 0) {
        ret->json = json_loadb((const char *)ret->body.data, ret->body.length, 0, &why);
        if (ret->json == NULL && ret->status < 400) {
            return error_set(err, json_error_code(&why) == json_error_out_of_memory ? ERROR_NO_MEMORY
                                                                                    : ERROR_NO_ANSWER,
                             0, "the engine's answer is no JSON");
        }
    }
    if (ret->status >= 400) {
        take_message(ret);
    }
    return 0;
}

int docker_refused(const struct docker_reply *reply, struct error *err, const char *format, ...)
{
    bool full = strcasestr(reply->message, "no space left on device") != NULL;
    char what[ERROR_MESSAGE_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (reply->status < 400) {
        return error_set(err, ERROR_NO_ANSWER, 0, "%s: the engine answers with status %ld", what,
                         reply->status);
    }
    if (reply->status < 500) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "%s: %s", what, reply->message);
    }
    return error_set(err, full ? ERROR_ERRNO : ERROR_NO_ANSWER, full ? ENOSPC : 0, "%s: %s", what,
                     reply->message);
}

/* ---- Requests --------------------------------------------------------------------------------- */

int docker_put_path(const struct docker_engine *engine, struct buffer *ret, const char *path,
                    struct error *err)
{
    if (buffer_printf(ret, "/v%s%s", engine->api, path) < 0 || buffer_text(ret) == NULL) {
        return errno == ENOBUFS ? error_set(err, ERROR_TOO_LARGE, 0, "the request's path is too long")
                                : no_memory(err);
    }
    return 0;
}

static int append_json(const char *text, size_t length, void *arg)
{
    return buffer_append(arg, text, length);
}

static int call(struct docker_engine *engine, const struct docker_request *request, const char *path,
                struct docker_reply *ret, struct error *err)
{
    cleanup_buffer struct buffer body = BUFFER_INIT(REQUEST_BYTES);
    cleanup_http_answer struct http_answer answer = HTTP_ANSWER_INIT;
    struct http_request http = {
        .method = request->method,
        .path = path,
        .headers = request->headers,
        .content_type = request->content_type,
        .body = request->body,
        .body_length = request->body_length,
        .deadline_ms = request->deadline_ms,
        .limit = request->limit,
        .sink = request->sink,
        .cancelled = request->cancelled,
        .arg = request->arg,
        .want_headers = request->want_headers,
    };

    assert(request->json == NULL || request->body == NULL);
    if (request->json != NULL) {
        if (json_dump_callback(request->json, append_json, &body, JSON_COMPACT) < 0) {
            return errno == ENOBUFS ? error_set(err, ERROR_TOO_LARGE, 0, "the request is too long")
                                    : no_memory(err);
        }
        http.body = body.data;
        http.body_length = body.length;
        http.content_type = "application/json";
    }
    if (http_perform(engine->http, &http, &answer, err) < 0) {
        return -1;
    }
    return docker_reply_take(ret, &answer, err);
}

int docker_call(struct docker_engine *engine, const struct docker_request *request,
                struct docker_reply *ret, struct error *err)
{
    cleanup_buffer struct buffer path = BUFFER_INIT(PATH_BYTES);

    if (docker_put_path(engine, &path, request->path, err) < 0) {
        return -1;
    }
    return call(engine, request, (const char *)path.data, ret, err);
}

/* ---- The daemon's version --------------------------------------------------------------------- */

struct api {
    unsigned major, minor;
};

static int parse_api(const char *text, struct api *ret)
{
    char end;

    return text != NULL && sscanf(text, "%4u.%4u%c", &ret->major, &ret->minor, &end) == 2 &&
                   ret->major <= API_PARTS_MAX && ret->minor <= API_PARTS_MAX
               ? 0
               : -1;
}

static int compare_api(struct api a, struct api b)
{
    if (a.major != b.major) {
        return a.major < b.major ? -1 : 1;
    }
    return a.minor < b.minor ? -1 : a.minor > b.minor;
}

/* The newest that both sides speak; `min` may be NULL. */
static int choose_api(struct docker_engine *engine, const char *max, const char *min, struct error *err)
{
    struct api newest, least, oldest = {0, 0}, chosen;

    if (parse_api(max, &newest) < 0) {
        return error_set(err, ERROR_NO_ANSWER, 0, "%s does not tell the version of its API: is it Docker?",
                         engine->host);
    }
    (void)parse_api(min, &oldest);
    (void)parse_api(DOCKER_NEWEST_API, &chosen);
    (void)parse_api(DOCKER_OLDEST_API, &least);
    if (compare_api(newest, chosen) < 0) {
        chosen = newest;
    }
    if (compare_api(chosen, least) < 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "the engine at %s is too old: it speaks API %u.%u, and " DOCKER_OLDEST_API
                         " is needed", engine->host, newest.major, newest.minor);
    }
    if (compare_api(oldest, chosen) > 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "the engine at %s is too new: it speaks no API before %u.%u, and "
                         DOCKER_NEWEST_API " is the newest that is known here", engine->host,
                         oldest.major, oldest.minor);
    }
    snprintf(engine->api, sizeof engine->api, "%u.%u", chosen.major % 1000, chosen.minor % 1000);
    return 0;
}

static bool says_podman(const json_t *version)
{
    const json_t *components = json_object_get(version, "Components");
    const json_t *component;
    size_t i;

    json_array_foreach (components, i, component) {
        const char *name = json_string_value(json_object_get(component, "Name"));

        if (name != NULL && strcasestr(name, "podman") != NULL) {
            return true;
        }
    }
    return false;
}

/* ---- Whether it is on this host --------------------------------------------------------------- */

/* Who listens at the socket, by its peer credentials; 0 where nobody is seen. */
static pid_t listener(const char *path)
{
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer;
    socklen_t length = sizeof peer;

    if (fd < 0 || strlen(path) >= sizeof address.sun_path) {
        return 0;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) < 0 ||
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) < 0) {
        return 0;
    }
    return peer.pid > 0 ? peer.pid : 0;
}

static bool forwards(pid_t pid)
{
    static const char *const forwarders[] = {"ssh", "sshd", "socat", "com.docker.back", "colima", "limactl"};
    char path[64], name[32] = "";
    cleanup_fd int fd = -1;
    ssize_t n;

    snprintf(path, sizeof path, "/proc/%d/comm", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, name, sizeof name - 1) : -1;
    name[n > 0 ? n : 0] = '\0';
    name[strcspn(name, "\n")] = '\0';
    for (size_t i = 0; i < sizeof forwarders / sizeof forwarders[0]; i++) {
        if (strcmp(name, forwarders[i]) == 0) {
            return true;
        }
    }
    return n <= 0;
}

/* A socket may be a forward from elsewhere, into a virtual machine too: then who listens is known for that, or what
 * runs there has another kernel (`kernel`, NULL where it is not known). That a container is on this host is known
 * only when its process was found, docker_process_open(). */
static bool is_local(const char *unix_socket, const char *kernel)
{
    struct utsname ours;
    pid_t pid;

    if (unix_socket == NULL || uname(&ours) < 0 || (kernel != NULL && strcmp(kernel, ours.release) != 0)) {
        return false;
    }
    pid = listener(unix_socket);
    return pid > 0 && !forwards(pid);
}

/* ---- Opening ---------------------------------------------------------------------------------- */

/* Says what a person can do about a daemon that cannot be reached. */
static void advise(const struct docker_engine *engine, struct error *err)
{
    const char *advice = NULL;

    if (err->code != ERROR_NO_ANSWER) {
        return;
    }
    if (err->os_errno == EACCES || err->os_errno == EPERM) {
        advice = "this user may not use it: as root, or in the socket's group (docker), one may";
    } else if (err->os_errno == ENOENT || err->os_errno == ECONNREFUSED) {
        advice = "does the Docker daemon run there? DOCKER_HOST names another one";
    } else if (strncmp(engine->host, "ssh:", 4) == 0) {
        advice = "ssh must log in without asking, and docker must be installed there";
    }
    if (advice != NULL) {
        size_t used = strlen(err->message);

        snprintf(err->message + used, sizeof err->message - used, " (%s)", advice);
    }
}

/* "Docker/20.10.24 (linux)" */
static void take_version(struct docker_engine *engine, const char *server)
{
    const char *slash = strchr(server, '/');
    const char *version = slash != NULL ? slash + 1 : "?";

    copy_printable(engine->version, sizeof engine->version, version, strcspn(version, " "));
}

static int ask_version(struct docker_engine *engine, const char *unix_socket, uint64_t deadline_ms,
                       struct error *err)
{
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;
    const struct docker_request request = {
        .method = "GET", .path = "/version", .deadline_ms = deadline_ms, .limit = VERSION_BYTES};
    const char *version;

    if (call(engine, &request, request.path, &reply, err) < 0) {
        return error_prefix(err, "Docker");
    }
    if (reply.status != 200) {
        return docker_refused(&reply, err, "Docker at %s does not tell its version", engine->host);
    }
    if (choose_api(engine, json_string_value(json_object_get(reply.json, "ApiVersion")),
                   json_string_value(json_object_get(reply.json, "MinAPIVersion")), err) < 0) {
        return -1;
    }
    version = json_string_value(json_object_get(reply.json, "Version"));
    copy_printable(engine->version, sizeof engine->version, version != NULL ? version : "?",
                   version != NULL ? strlen(version) : 1);
    engine->podman = says_podman(reply.json);
    engine->local = is_local(unix_socket, json_string_value(json_object_get(reply.json, "KernelVersion")));
    return 0;
}

/* What the headers of each answer say is enough for an engine that is not newer than what is known here. The question for
 * its version runs three programs in a Docker daemon, and in Podman asks Debian's package database, for seconds. */
static int ask(struct docker_engine *engine, const char *unix_socket, uint64_t deadline_ms, struct error *err)
{
    enum { PODMAN, API, SERVER };
    static const char *const wanted[] = {"Libpod-Api-Version", "Api-Version", "Server", NULL};
    cleanup_reply struct docker_reply reply = DOCKER_REPLY_INIT;
    const struct docker_request request = {.method = "GET",
                                           .path = "/_ping",
                                           .deadline_ms = deadline_ms,
                                           .limit = VERSION_BYTES,
                                           .want_headers = wanted};
    const char *podman, *api;
    struct api its, known;

    if (call(engine, &request, request.path, &reply, err) < 0) {
        advise(engine, err);
        return error_prefix(err, "Docker");
    }
    podman = http_wanted(&reply.wanted, PODMAN);
    api = http_wanted(&reply.wanted, API);
    if (reply.status == 200 && podman[0] != '\0') {
        engine->podman = true;
        engine->local = is_local(unix_socket, NULL);
        snprintf(engine->api, sizeof engine->api, "%s", PODMAN_API);
        copy_printable(engine->version, sizeof engine->version, podman, strlen(podman));
        return 0;
    }
    (void)parse_api(DOCKER_NEWEST_API, &known);
    if (reply.status != 200 || parse_api(api, &its) < 0 || compare_api(its, known) > 0) {
        return ask_version(engine, unix_socket, deadline_ms, err);
    }
    take_version(engine, http_wanted(&reply.wanted, SERVER));
    engine->local = is_local(unix_socket, NULL);
    return choose_api(engine, api, NULL, err);
}

int docker_engine_open(struct docker_engine **ret, uint64_t deadline_ms, struct error *err)
{
    cleanup_engine struct docker_engine *engine = calloc(1, sizeof *engine);
    cleanup_http_server struct http_server server = {0};
    cleanup_free char *unix_socket = NULL;

    http_server_init(&server);
    if (engine == NULL) {
        return no_memory(err);
    }
    if (docker_host_find(&server, &engine->host, err) < 0) {
        return -1;
    }
    if (server.unix_socket != NULL && (unix_socket = strdup(server.unix_socket)) == NULL) {
        return no_memory(err);
    }
    if (http_new(&engine->http, &server, err) < 0 ||
        ask(engine, unix_socket, deadline_ms, err) < 0) {
        return -1;
    }
    *ret = take_ptr(engine);
    return 0;
}

void docker_engine_close(struct docker_engine *engine)
{
    if (engine != NULL) {
        http_free(engine->http);
        free(engine->host);
        free(engine);
    }
}

void docker_engine_closep(struct docker_engine **engine)
{
    docker_engine_close(*engine);
}

const char *docker_engine_host(const struct docker_engine *engine)
{
    return engine->host;
}

const char *docker_engine_api(const struct docker_engine *engine)
{
    return engine->api;
}

const char *docker_engine_version(const struct docker_engine *engine)
{
    return engine->version;
}

bool docker_engine_is_podman(const struct docker_engine *engine)
{
    return engine->podman;
}

bool docker_engine_is_local(const struct docker_engine *engine)
{
    return engine->local;
}
