#include <stdlib.h>
#include <string.h>

#include "backends/http_internal.h"
#include "backends/printable.h"
#include "sandbox/cleanup.h"

#define MAX_PEM (1u << 20)

void http_server_init(struct http_server *server)
{
    *server = (struct http_server){0};
    buffer_init(&server->ca_pem, MAX_PEM);
    buffer_init(&server->cert_pem, MAX_PEM);
    buffer_init(&server->key_pem, MAX_PEM);
}

void http_server_release(struct http_server *server)
{
    char **texts[] = {&server->url,      &server->unix_socket, &server->ca_file, &server->cert_file,
                      &server->key_file, &server->tls_name,    &server->proxy};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        free(*texts[i]);
    }
    for (char **arg = server->dial; arg != NULL && *arg != NULL; arg++) {
        free(*arg);
    }
    free(server->dial);
    buffer_release(&server->ca_pem);
    buffer_release(&server->cert_pem);
    if (server->key_pem.data != NULL) {
        explicit_bzero(server->key_pem.data, server->key_pem.capacity);
    }
    buffer_release(&server->key_pem);
    http_server_init(server);
}

void http_server_name(const struct http_server *server, char name[HTTP_NAME_BYTES])
{
    struct buffer text = BUFFER_INIT(4096);
    bool whole = true;

    if (server->unix_socket != NULL) {
        whole = buffer_printf(&text, "unix://%s", server->unix_socket) == 0;
    } else if (server->dial != NULL) {
        for (char **arg = server->dial; whole && *arg != NULL; arg++) {
            whole = buffer_printf(&text, "%s%s", arg > server->dial ? " " : "", *arg) == 0;
        }
    } else {
        whole = buffer_append_string(&text, server->url) == 0;
    }
    (void)whole; /* else it is cut */
    copy_printable(name, HTTP_NAME_BYTES, text.data, text.length);
    buffer_release(&text);
}

/* ---- The URL ---------------------------------------------------------------------------------- */

void http_origin_release(struct http_origin *origin)
{
    free(origin->url);
    free(origin->host);
    free(origin->prefix);
    free(origin->connect_to);
    *origin = (struct http_origin){0};
}

static int take_url(const struct http_server *server, CURLU *u, struct http_origin *ret)
{
    char *scheme = NULL, *host = NULL, *port = NULL, *path = NULL;
    CURLUcode r = curl_url_set(u, CURLUPART_URL, server->url, 0);

    if (r == CURLUE_OK && (r = curl_url_get(u, CURLUPART_SCHEME, &scheme, 0)) == CURLUE_OK &&
        (r = curl_url_get(u, CURLUPART_HOST, &host, 0)) == CURLUE_OK &&
        (r = curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT)) == CURLUE_OK) {
        r = curl_url_get(u, CURLUPART_PATH, &path, 0);
    }
    if (r == CURLUE_OK) {
        const char *named = server->tls_name != NULL ? server->tls_name : host;
        size_t length = strlen(path);

        while (length > 0 && path[length - 1] == '/') {
            path[--length] = '\0';
        }
        ret->tls = strcmp(scheme, "https") == 0;
        ret->url = printed("%s://%s:%s%s", scheme, named, port, path);
        ret->host = strcmp(port, ret->tls ? "443" : "80") == 0 ? printed("%s", host)
                                                                : printed("%s:%s", host, port);
        ret->prefix = printed("%s", path);
        ret->connect_to = server->tls_name != NULL ? printed("::%s:%s", host, port) : NULL;
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_free(path);
    return r == CURLUE_OK ? 0 : r == CURLUE_OUT_OF_MEMORY ? -1 : 1;
}

int http_origin_of(const struct http_server *server, struct http_origin *ret, struct error *err)
{
    struct http_origin origin = {0};
    CURLU *u = curl_url();
    int r = u != NULL ? take_url(server, u, &origin) : -1;

    curl_url_cleanup(u);
    if (r == 0 && (origin.url == NULL || origin.host == NULL || origin.prefix == NULL ||
                   (server->tls_name != NULL && origin.connect_to == NULL))) {
        r = -1;
    }
    if (r < 0) {
        http_origin_release(&origin);
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (r > 0 || (!origin.tls && strncmp(origin.url, "http:", 5) != 0)) {
        char name[HTTP_NAME_BYTES];

        http_origin_release(&origin);
        copy_printable(name, sizeof name, server->url, strlen(server->url));
        return error_set(err, ERROR_BAD_REQUEST, 0, "%s is no URL of an HTTP server", name);
    }
    *ret = origin;
    return 0;
}

/* ---- Paths ------------------------------------------------------------------------------------ */

int http_put_segment(struct buffer *path, const char *segment)
{
    size_t before = path->length;

    for (const char *c = segment; *c != '\0'; c++) {
        bool plain = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9') ||
                     strchr("-._~", *c) != NULL;
        int r = plain ? buffer_append(path, c, 1) : buffer_printf(path, "%%%02X", (unsigned char)*c);

        if (r < 0) {
            path->length = before;
            return -1;
        }
    }
    return 0;
}

int http_put_query(struct buffer *path, const char *name, const char *value)
{
    size_t before = path->length;
    bool first = path->length == 0 || memchr(path->data, '?', path->length) == NULL;

    if (buffer_printf(path, "%c%s=", first ? '?' : '&', name) < 0) {
        return -1;
    }
    if (http_put_segment(path, value) < 0) {
        path->length = before;
        return -1;
    }
    return 0;
}

static bool may_stand(const char *text, unsigned char from)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < from || *text == 0x7f) {
            return false;
        }
    }
    return true;
}

int http_check_request(const struct http_request *request, struct error *err)
{
    bool fine = request->method[0] != '\0' && may_stand(request->method, '!') &&
                request->path[0] == '/' && may_stand(request->path, '!') &&
                (request->content_type == NULL || may_stand(request->content_type, ' '));

    for (const char *const *h = request->headers; fine && h != NULL && *h != NULL; h++) {
        fine = may_stand(*h, ' ') && strchr(*h, ':') != NULL;
    }
    return fine ? 0 : error_set(err, ERROR_BAD_REQUEST, 0, "a request with characters that may not be in it");
}
