#include "backends/docker_auth.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/docker_helper.h"
#include "backends/docker_reference.h"
#include "sandbox/base64.h"
#include "sandbox/buffer.h"
#include "sandbox/cleanup.h"

#define HUB_KEY "https://index.docker.io/v1/" /* how the file names docker.io */
#define TOKEN_USER "<token>" /* a helper's name for a secret that is an identity token */
#define MAX_HEADER (64u << 10)
#define HEADER "X-Registry-Auth: "

/* ---- The file ---- */

/* The path, to be freed; NULL with errno 0 where there is no home. */
static char *config_path(void)
{
    const char *folder = getenv("DOCKER_CONFIG");
    const char *home = getenv("HOME");
    char *path = NULL;

    errno = 0;
    if (folder != NULL && folder[0] != '\0') {
        return asprintf(&path, "%s/config.json", folder) < 0 ? NULL : path;
    }
    if (home != NULL && home[0] == '/') {
        return asprintf(&path, "%s/.docker/config.json", home) < 0 ? NULL : path;
    }
    return NULL;
}

static int read_all(int fd, struct buffer *text)
{
    ssize_t n = 1;

    while (n != 0) {
        uint8_t *room = buffer_reserve(text, 4096);

        if (room == NULL) {
            return -1;
        }
        n = read(fd, room, 4096);
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        buffer_commit(text, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

/* The object in it; NULL where there is none, with `note` where that is not as it should be. */
static json_t *read_config(char *note)
{
    cleanup_free char *path = config_path();
    cleanup_fd int fd = -1;
    cleanup_buffer struct buffer text = BUFFER_INIT(DOCKER_MAX_CONFIG);
    json_error_t where;
    json_t *json;

    note[0] = '\0';
    if (path == NULL) {
        return NULL;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
        return NULL;
    }
    if (fd < 0 || read_all(fd, &text) < 0) {
        snprintf(note, DOCKER_AUTH_NOTE, "%.150s cannot be read: %s", path,
                 errno == ENOBUFS ? "it is too large" : strerror(errno));
        return NULL;
    }
    json = json_loadb((const char *)text.data, text.length, 0, &where);
    if (!json_is_object(json)) {
        snprintf(note, DOCKER_AUTH_NOTE, "%.150s is not an object in JSON (line %d)", path,
                 where.line);
        json_decref(json);
        json = NULL;
    }
    if (text.data != NULL) {
        explicit_bzero(text.data, text.length);
    }
    return json;
}

static const char *text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text != NULL ? text : "";
}

/* ---- Accounts ---- */

/* What an entry of the file is a name for: old clients wrote whole URLs. */
static bool names_registry(const char *key, const char *registry)
{
    static const char *const schemes[] = {"https://", "http://"};
    size_t length = strlen(registry);

    for (size_t i = 0; i < 2; i++) {
        if (strncmp(key, schemes[i], strlen(schemes[i])) == 0) {
            key += strlen(schemes[i]);
        }
    }
    return strncmp(key, registry, length) == 0 && (key[length] == '\0' || key[length] == '/');
}

static const json_t *find_entry(json_t *config, const char *key, const char *registry)
{
    json_t *auths = json_object_get(config, "auths");
    json_t *entry = json_object_get(auths, key);
    const char *name;

    if (json_is_object(entry)) {
        return entry;
    }
    json_object_foreach(auths, name, entry)
    {
        if (json_is_object(entry) && names_registry(name, registry)) {
            return entry;
        }
    }
    return NULL;
}

/* An account as the engines take it; steals nothing. */
static json_t *make_account(const char *user, const char *secret, const char *token,
                            const char *server)
{
    if (token[0] != '\0') {
        return json_pack("{s:s, s:s}", "identitytoken", token, "serveraddress", server);
    }
    return json_pack("{s:s, s:s, s:s}", "username", user, "password", secret, "serveraddress",
                     server);
}

/* "USER:PASSWORD" in base64, or the two fields, or a token. NULL with a note where it makes no
 * sense. */
static json_t *account_of_entry(const json_t *entry, const char *server, char *note)
{
    cleanup_buffer struct buffer decoded = BUFFER_INIT(DOCKER_MAX_CONFIG);
    const char *auth = text_at(entry, "auth");
    const char *token = text_at(entry, "identitytoken");
    json_t *account = NULL;
    char *user, *colon;

    if (token[0] != '\0' || auth[0] == '\0') {
        const char *name = text_at(entry, "username");

        return token[0] != '\0' || name[0] != '\0'
                   ? make_account(name, text_at(entry, "password"), token, server)
                   : NULL;
    }
    user = base64_decode(&decoded, auth, strlen(auth)) == 0 ? buffer_text(&decoded) : NULL;
    colon = user != NULL ? strchr(user, ':') : NULL;
    if (colon != NULL) {
        *colon = '\0';
        account = make_account(user, colon + 1, "", server);
        explicit_bzero(decoded.data, decoded.length);
    }
    if (account == NULL) {
        snprintf(note, DOCKER_AUTH_NOTE,
                 "the account at %.100s in the docker client's configuration makes no sense",
                 server);
    }
    return account;
}

static json_t *account_of_helper(const char *helper, const char *server, char *note)
{
    json_auto_t *said = NULL;
    json_t *account = NULL;
    struct error err = {0};

    if (docker_helper_get(helper, server, &said, &err) < 0) {
        snprintf(note, DOCKER_AUTH_NOTE, "%.*s", DOCKER_AUTH_NOTE - 1, err.message);
    } else if (said != NULL) {
        bool token = strcmp(text_at(said, "Username"), TOKEN_USER) == 0;
        const char *secret = text_at(said, "Secret");

        account = make_account(text_at(said, "Username"), secret, token ? secret : "", server);
    }
    return account;
}

/* A helper for this registry alone, else the one for all, else the file itself; as the docker
 * client does. */
static json_t *find_account(json_t *config, const char *registry, char *note)
{
    const char *key = strcmp(registry, DOCKER_HUB) == 0 ? HUB_KEY : registry;
    const char *helper = text_at(json_object_get(config, "credHelpers"), key);
    const json_t *entry;

    if (helper[0] == '\0') {
        helper = text_at(json_object_get(config, "credHelpers"), registry);
    }
    if (helper[0] == '\0') {
        helper = text_at(config, "credsStore");
    }
    if (helper[0] != '\0') {
        return account_of_helper(helper, key, note);
    }
    entry = find_entry(config, key, registry);
    return entry != NULL ? account_of_entry(entry, key, note) : NULL;
}

/* Base64 with the alphabet for URLs (RFC 4648, 5), padded. */
static int encode(const char *text, char **ret)
{
    cleanup_buffer struct buffer line = BUFFER_INIT(MAX_HEADER);
    char *encoded;

    if (buffer_append_string(&line, HEADER) < 0 ||
        base64_encode(&line, (const uint8_t *)text, strlen(text)) < 0 ||
        (encoded = buffer_text(&line)) == NULL) {
        return -1;
    }
    for (char *p = encoded + strlen(HEADER); *p != '\0'; p++) {
        *p = *p == '+' ? '-' : *p == '/' ? '_' : *p;
    }
    *ret = strdup(encoded);
    explicit_bzero(line.data, line.length);
    return *ret != NULL ? 0 : -1;
}

int docker_auth_header(const char *registry, char **ret, char *note, struct error *err)
{
    json_auto_t *config = read_config(note);
    json_auto_t *account = NULL;
    char *text;
    int r;

    *ret = NULL;
    if (config != NULL) {
        account = find_account(config, registry, note);
    }
    if (account == NULL) {
        return 0;
    }
    text = json_dumps(account, JSON_COMPACT);
    r = text != NULL ? encode(text, ret) : -1;
    docker_auth_free(text);
    return r < 0 ? error_set(err, ERROR_NO_MEMORY, 0, "out of memory") : 0;
}

void docker_auth_free(char *header)
{
    if (header != NULL) {
        explicit_bzero(header, strlen(header));
        free(header);
    }
}

/* ---- For people ---- */

static void tell_helper(const char *name,
                        void (*tell)(void *arg, const char *program, bool found, const char *why),
                        void *arg)
{
    char program[DOCKER_HELPER_PROGRAM];

    if (name[0] != '\0' && docker_helper_program(name, program)) {
        tell(arg, program, docker_helper_found(program), "");
    }
}

void docker_auth_helpers(void (*tell)(void *arg, const char *program, bool found, const char *why),
                         void *arg)
{
    char note[DOCKER_AUTH_NOTE];
    json_auto_t *config = read_config(note);
    const char *registry;
    json_t *helper;

    if (note[0] != '\0') {
        tell(arg, NULL, false, note);
    }
    tell_helper(text_at(config, "credsStore"), tell, arg);
    json_object_foreach(json_object_get(config, "credHelpers"), registry, helper)
    {
        if (json_is_string(helper)) {
            tell_helper(json_string_value(helper), tell, arg);
        }
    }
}
