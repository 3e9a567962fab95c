/* The docker client keeps a context in contexts/meta/HASH/meta.json and its certificates in
 * contexts/tls/HASH/docker/, where HASH is a digest of the context's name. The name stands in meta.json as
 * well, so that looking through the folders needs no digest. */
#include "backends/docker_host.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/printable.h"
#include "sandbox/cleanup.h"

#define MAX_CONFIG_BYTES (4u << 20) /* of config.json or a context's meta.json */
#define MAX_CONTEXTS 1000           /* that are looked through for a name */
#define MAX_HOST_BYTES 1000
#define PLAIN_PORT "2375"
#define TLS_PORT "2376"
#define DEFAULT_CONTEXT "default"

#define cleanup_json __attribute__((cleanup(json_decrefp)))

/* What a daemon's endpoint is made of. */
struct endpoint {
    const char *host;
    const char *certificates; /* a folder of ca.pem, cert.pem, key.pem, or NULL */
    bool tls;
    bool verified;
};

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
}

static const char *setting(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The docker client's folder; NULL where there is no home (or no memory). */
static char *config_folder(void)
{
    const char *folder = setting("DOCKER_CONFIG");
    const char *home = setting("HOME");

    return folder != NULL ? printed("%s", folder) : home != NULL ? printed("%s/.docker", home) : NULL;
}

/* ---- Endpoints -------------------------------------------------------------------------------- */

/* FOLDER/NAME where there is such a file, else NULL. -1 without memory. */
static int find_file(char **ret, const char *folder, const char *name)
{
    char *path = printed("%s/%s", folder, name);

    if (path == NULL) {
        return -1;
    }
    if (access(path, F_OK) == 0) {
        *ret = path;
    } else {
        free(path);
    }
    return 0;
}

static int set_certificates(struct http_server *server, const struct endpoint *endpoint, struct error *err)
{
    server->insecure = !endpoint->verified;
    if (endpoint->certificates == NULL) {
        return 0;
    }
    if (find_file(&server->ca_file, endpoint->certificates, "ca.pem") < 0 ||
        find_file(&server->cert_file, endpoint->certificates, "cert.pem") < 0 ||
        find_file(&server->key_file, endpoint->certificates, "key.pem") < 0) {
        return no_memory(err);
    }
    if ((server->cert_file != NULL) != (server->key_file != NULL)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "%s needs both cert.pem and key.pem, or neither",
                         endpoint->certificates);
    }
    return 0;
}

static int nonsense(const char *host, const char *why, struct error *err)
{
    char text[256];

    copy_printable(text, sizeof text, host, strlen(host));
    return error_set(err, ERROR_BAD_REQUEST, 0, "the Docker host %s %s", text, why);
}

static int unix_endpoint(struct http_server *server, const char *path, const char *host, struct error *err)
{
    if (path[0] != '/') {
        return nonsense(host, "names no absolute path of a socket", err);
    }
    server->unix_socket = strdup(path);
    server->url = strdup("http://docker"); /* what stands in the Host header */
    return server->unix_socket != NULL && server->url != NULL ? 0 : no_memory(err);
}

/* True where the authority (up to a slash) ends in a port; an IPv6 address stands in brackets. */
static bool has_port(const char *authority)
{
    size_t length = strcspn(authority, "/");
    size_t at = length;

    while (at > 0 && isdigit((unsigned char)authority[at - 1])) {
        at--;
    }
    return at > 0 && at < length && authority[at - 1] == ':';
}

static int tcp_endpoint(struct http_server *server, const struct endpoint *endpoint, const char *rest,
                        struct error *err)
{
    size_t authority = strcspn(rest, "/");

    if (authority == 0 || rest[0] == ':') {
        return nonsense(endpoint->host, "names no host", err);
    }
    if (memchr(rest, '@', authority) != NULL) {
        return nonsense(endpoint->host, "may not hold a user", err);
    }
    server->url = printed("%s://%.*s%s%s", endpoint->tls ? "https" : "http", (int)authority, rest,
                          has_port(rest)  ? ""
                          : endpoint->tls ? ":" TLS_PORT
                                          : ":" PLAIN_PORT,
                          rest + authority);
    if (server->url == NULL) {
        return no_memory(err);
    }
    return endpoint->tls ? set_certificates(server, endpoint, err) : 0;
}

/* "ssh", ["-p", PORT], "--", [USER@]HOST, and what is run there. */
static int ssh_endpoint(struct http_server *server, const char *rest, const char *host, struct error *err)
{
    cleanup_free char *target = strdup(rest);
    const char *words[12];
    char *slash, *port = NULL, *at;
    size_t n = 0;

    if (target == NULL) {
        return no_memory(err);
    }
    slash = strchr(target, '/');
    if (slash != NULL) {
        if (slash[1] != '\0') {
            return nonsense(host, "may not hold a path", err);
        }
        *slash = '\0';
    }
    if (has_port(target)) {
        port = strrchr(target, ':');
        *port++ = '\0';
    }
    at = strrchr(target, '@');
    at = at != NULL ? at + 1 : target;
    if (at[0] == '\0' || at[0] == '-' || target[0] == '-' || target[0] == '@' || strchr(target, ' ') != NULL) {
        return nonsense(host, "names no host", err);
    }
    if (at[0] == '[' && at[strlen(at) - 1] == ']') { /* ssh wants the bare address */
        at[strlen(at) - 1] = '\0';
        memmove(at, at + 1, strlen(at));
    }
    words[n++] = "ssh";
    if (port != NULL) {
        words[n++] = "-p";
        words[n++] = port;
    }
    words[n++] = "--";
    words[n++] = target;
    words[n++] = "docker";
    words[n++] = "system";
    words[n++] = "dial-stdio";
    server->url = strdup("http://docker");
    server->dial = calloc(n + 1, sizeof *server->dial);
    for (size_t i = 0; server->dial != NULL && i < n; i++) {
        server->dial[i] = strdup(words[i]);
        if (server->dial[i] == NULL) {
            return no_memory(err);
        }
    }
    return server->url != NULL && server->dial != NULL ? 0 : no_memory(err);
}

static const char *behind(const char *text, const char *prefix)
{
    size_t length = strlen(prefix);

    return strncasecmp(text, prefix, length) == 0 ? text + length : NULL;
}

static int take_endpoint(struct http_server *server, const struct endpoint *endpoint, struct error *err)
{
    const char *host = endpoint->host;
    struct endpoint secure = *endpoint;
    const char *rest;

    if (strlen(host) > MAX_HOST_BYTES) {
        return nonsense(host, "is too long", err);
    }
    if ((rest = behind(host, "unix://")) != NULL) {
        return unix_endpoint(server, rest, host, err);
    }
    if ((rest = behind(host, "ssh://")) != NULL) {
        return ssh_endpoint(server, rest, host, err);
    }
    if ((rest = behind(host, "https://")) != NULL) {
        secure.verified = secure.verified || !secure.tls; /* unverified only where that was said */
        secure.tls = true;
        return tcp_endpoint(server, &secure, rest, err);
    }
    if ((rest = behind(host, "tcp://")) != NULL || (rest = behind(host, "http://")) != NULL) {
        return tcp_endpoint(server, endpoint, rest, err);
    }
    return nonsense(host, "is not one of unix://, tcp:// and ssh://", err);
}

/* ---- Files of the docker client --------------------------------------------------------------- */

/* NULL with errno where there is none; *ret_json NULL where it is no JSON object. */
static int read_json(const char *path, json_t **ret_json)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    cleanup_buffer struct buffer text = BUFFER_INIT(MAX_CONFIG_BYTES);
    struct stat st;
    ssize_t n;

    *ret_json = NULL;
    if (fd < 0 || fstat(fd, &st) < 0) {
        return -1;
    }
    if (!S_ISREG(st.st_mode)) {
        errno = EINVAL;
        return -1;
    }
    do {
        uint8_t *room = buffer_reserve(&text, 4096);

        n = room != NULL ? read(fd, room, 4096) : -1;
        if (n > 0) {
            buffer_commit(&text, (size_t)n);
        }
    } while (n > 0);
    if (n < 0) {
        return -1;
    }
    *ret_json = json_loadb((const char *)text.data, text.length, 0, NULL);
    if (*ret_json != NULL && !json_is_object(*ret_json)) {
        json_decref(*ret_json);
        *ret_json = NULL;
    }
    return 0;
}

/* The current context, "" where there is none. The caller frees it. */
static int current_context(const char *folder, char **ret, struct error *err)
{
    cleanup_free char *path = printed("%s/config.json", folder);
    cleanup_json json_t *config = NULL;
    const char *name;

    if (path == NULL) {
        return no_memory(err);
    }
    if (read_json(path, &config) < 0 && errno != ENOENT && errno != ENOTDIR) {
        return error_set(err, ERROR_BAD_REQUEST, errno, "%s: %s", path, strerror(errno));
    }
    if (config == NULL && access(path, F_OK) == 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "%s is no JSON object", path);
    }
    name = json_string_value(json_object_get(config, "currentContext"));
    *ret = strdup(name != NULL ? name : "");
    return *ret != NULL ? 0 : no_memory(err);
}

/* Looks into contexts/meta/ENTRY. 1 where it is the context, with *ret_meta. */
static int is_context(const char *folder, const char *entry, const char *name, json_t **ret_meta)
{
    cleanup_free char *path = printed("%s/contexts/meta/%s/meta.json", folder, entry);
    cleanup_json json_t *meta = NULL;
    const char *its_name;

    if (path == NULL || read_json(path, &meta) < 0) {
        return 0;
    }
    its_name = json_string_value(json_object_get(meta, "Name"));
    if (its_name == NULL || strcmp(its_name, name) != 0) {
        return 0;
    }
    *ret_meta = take_ptr(meta);
    return 1;
}

static int use_meta(struct http_server *server, const char *folder, const char *entry, const char *name,
                    const json_t *meta, char **ret_host, struct error *err)
{
    const json_t *docker = json_object_get(json_object_get(meta, "Endpoints"), "docker");
    cleanup_free char *certificates = printed("%s/contexts/tls/%s/docker", folder, entry);
    struct endpoint endpoint = {.host = json_string_value(json_object_get(docker, "Host"))};

    if (certificates == NULL) {
        return no_memory(err);
    }
    if (endpoint.host == NULL || endpoint.host[0] == '\0') {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the Docker context %s names no host", name);
    }
    endpoint.verified = !json_is_true(json_object_get(docker, "SkipTLSVerify"));
    endpoint.tls = access(certificates, F_OK) == 0 || !endpoint.verified;
    endpoint.certificates = endpoint.tls ? certificates : NULL;
    if (take_endpoint(server, &endpoint, err) < 0) {
        return -1;
    }
    *ret_host = strdup(endpoint.host);
    return *ret_host != NULL ? 0 : no_memory(err);
}

static int use_context(struct http_server *server, const char *folder, const char *name, char **ret_host,
                       struct error *err)
{
    cleanup_free char *path = printed("%s/contexts/meta", folder);
    cleanup_dir DIR *dir = path != NULL ? opendir(path) : NULL;
    char shown[128];

    if (path == NULL) {
        return no_memory(err);
    }
    for (unsigned i = 0; dir != NULL && i < MAX_CONTEXTS; i++) {
        const struct dirent *entry = readdir(dir);
        cleanup_json json_t *meta = NULL;

        if (entry == NULL) {
            break;
        }
        if (entry->d_name[0] != '.' && is_context(folder, entry->d_name, name, &meta) == 1) {
            return use_meta(server, folder, entry->d_name, name, meta, ret_host, err);
        }
    }
    copy_printable(shown, sizeof shown, name, strlen(name));
    return error_set(err, ERROR_BAD_REQUEST, 0, "there is no Docker context %s in %s", shown, folder);
}

/* ---- The choice ------------------------------------------------------------------------------- */

/* The rootless daemon's socket only where there is no other: as the docker client does by its context. */
static int use_standard(struct http_server *server, char **ret_host, struct error *err)
{
    static const char *const sockets[] = {"/run/docker.sock", "/var/run/docker.sock"};
    const char *runtime = setting("XDG_RUNTIME_DIR");
    cleanup_free char *rootless = runtime != NULL ? printed("%s/docker.sock", runtime) : NULL;
    const char *chosen = access(sockets[0], F_OK) == 0   ? sockets[0]
                         : access(sockets[1], F_OK) == 0 ? sockets[1]
                         : rootless != NULL && access(rootless, F_OK) == 0 ? rootless
                                                                           : sockets[0];

    *ret_host = printed("unix://%s", chosen);
    return *ret_host != NULL ? unix_endpoint(server, chosen, *ret_host, err) : no_memory(err);
}

static int use_host(struct http_server *server, const char *folder, const char *host, char **ret_host,
                    struct error *err)
{
    const char *certificates = setting("DOCKER_CERT_PATH");
    struct endpoint endpoint = {
        .host = host,
        .certificates = certificates != NULL ? certificates : folder,
        .verified = setting("DOCKER_TLS_VERIFY") != NULL,
        .tls = setting("DOCKER_TLS_VERIFY") != NULL || setting("DOCKER_TLS") != NULL,
    };

    if (take_endpoint(server, &endpoint, err) < 0) {
        return -1;
    }
    *ret_host = strdup(host);
    return *ret_host != NULL ? 0 : no_memory(err);
}

int docker_host_find(struct http_server *server, char **ret_host, struct error *err)
{
    cleanup_free char *folder = config_folder();
    cleanup_free char *context = NULL;
    const char *host = setting("DOCKER_HOST");
    const char *named = setting("DOCKER_CONTEXT");

    *ret_host = NULL;
    if (host != NULL) {
        return use_host(server, folder, host, ret_host, err);
    }
    if (named == NULL && folder != NULL) {
        if (current_context(folder, &context, err) < 0) {
            return -1;
        }
        named = context;
    }
    if (named == NULL || named[0] == '\0' || strcmp(named, DEFAULT_CONTEXT) == 0) {
        return use_standard(server, ret_host, err);
    }
    return use_context(server, folder != NULL ? folder : "", named, ret_host, err);
}
