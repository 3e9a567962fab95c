#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "backends/k8s_file.h"
#include "backends/k8s_plugin.h"
#include "sandbox/cleanup.h"

#define API_GROUP "client.authentication.k8s.io/"

void k8s_credential_init(struct k8s_credential *credential)
{
    *credential = (struct k8s_credential){.token = NULL};
    buffer_init(&credential->cert, K8S_PLUGIN_MAX_OUTPUT);
    buffer_init(&credential->key, K8S_PLUGIN_MAX_OUTPUT);
}

void k8s_credential_release(struct k8s_credential *credential)
{
    free(credential->token);
    buffer_release(&credential->cert);
    buffer_release(&credential->key);
    credential->token = NULL;
    credential->expires = 0;
}

/* "Z" or "+hh:mm" in seconds east of Greenwich; -1 where it is neither. */
static int zone(const char *text, int64_t *ret)
{
    int hours, minutes;

    if ((text[0] == 'Z' || text[0] == 'z') && text[1] == '\0') {
        *ret = 0;
        return 0;
    }
    if ((text[0] != '+' && text[0] != '-') || strlen(text) != 6 || text[3] != ':') {
        return -1;
    }
    for (size_t i = 1; i < 6; i++) {
        if (i != 3 && (text[i] < '0' || text[i] > '9')) {
            return -1;
        }
    }
    hours = (text[1] - '0') * 10 + text[2] - '0';
    minutes = (text[4] - '0') * 10 + text[5] - '0';
    *ret = (text[0] == '-' ? -60 : 60) * (int64_t)(hours * 60 + minutes);
    return 0;
}

int64_t k8s_time_parse(const char *text)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int64_t east;
    int64_t seconds;

    if (rest == NULL) {
        return -1;
    }
    if (*rest == '.') {
        rest++;
        rest += strspn(rest, "0123456789");
    }
    if (zone(rest, &east) < 0) {
        return -1;
    }
    seconds = timegm(&tm) - east;
    return seconds >= 0 ? seconds : -1;
}

static int fault(const char *name, const char *what, struct error *err)
{
    return error_set(err, ERROR_BAD_REQUEST, 0, "the credential plugin %s: %s", name, what);
}

static int parse_status(json_t *status, const char *name, struct k8s_credential *ret,
                        struct error *err)
{
    const char *token = NULL;
    const char *cert = NULL;
    const char *key = NULL;
    const char *expires = NULL;

    if (json_unpack(status, "{s?s, s?s, s?s, s?s}", "token", &token, "clientCertificateData", &cert,
                    "clientKeyData", &key, "expirationTimestamp", &expires) < 0) {
        return fault(name, "its answer has no status that makes sense", err);
    }
    token = token != NULL && token[0] != '\0' ? token : NULL;
    if ((cert == NULL) != (key == NULL) || (cert == NULL && token == NULL)) {
        return fault(name, "its answer has neither a token nor a certificate with its key", err);
    }
    if (token != NULL && (!k8s_header_text(token) || strlen(token) > K8S_MAX_TOKEN)) {
        return fault(name, "its token is no line of printable ASCII", err);
    }
    if (expires != NULL) {
        ret->expires = k8s_time_parse(expires);
        if (ret->expires < 0) {
            return fault(name, "its expirationTimestamp is no time", err);
        }
    }
    if ((token != NULL && (ret->token = strdup(token)) == NULL) ||
        (cert != NULL && (buffer_append_string(&ret->cert, cert) < 0 ||
                          buffer_append_string(&ret->key, key) < 0))) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory for credentials");
    }
    return 0;
}

int k8s_credential_parse(const char *text, size_t length, const char *version, const char *name,
                         struct k8s_credential *ret, struct error *err)
{
    json_t *json = json_loadb(text, length, 0, NULL);
    const char *api = json_string_value(json_object_get(json, "apiVersion"));
    const char *kind = json_string_value(json_object_get(json, "kind"));
    int r;

    k8s_credential_init(ret);
    if (api == NULL || strncmp(api, API_GROUP, strlen(API_GROUP)) != 0 ||
        strcmp(api + strlen(API_GROUP), version) != 0 || kind == NULL ||
        strcmp(kind, "ExecCredential") != 0) {
        json_decref(json);
        return fault(name, "its answer is no ExecCredential of the version that it was asked for", err);
    }
    r = parse_status(json_object_get(json, "status"), name, ret, err);
    json_decref(json);
    if (r < 0) {
        k8s_credential_release(ret);
    }
    return r;
}
