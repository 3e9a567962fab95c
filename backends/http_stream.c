/* An upgrade. libcurl makes the connection (sockets, TLS, proxies, programs) and leaves it to us
 * (CURLOPT_CONNECT_ONLY); the request's head and the answer's are written and read here. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "backends/http_head.h"
#include "backends/http_internal.h"
#include "backends/printable.h"
#include "config.h"
#include "sandbox/cleanup.h"

#define RECEIVE_BYTES (16u << 10) /* at once, of the answer's head */
#define MAX_REQUEST (16u << 20)   /* bytes of head and body */
#define MAX_INTERIM 8             /* answers with a status from 100 on, but for 101 */
#define HELD_BYTES (16u << 10)    /* a TLS record */

struct http_stream {
    struct session *session;
    struct http_head head;
    struct buffer rest; /* bytes that came behind the head */
    size_t rest_at;
    int fd;
    bool tls;
    size_t held_length; /* of a record that TLS has not been able to send yet */
    uint8_t held[HELD_BYTES];
};

/* ---- The connection --------------------------------------------------------------------------- */

static int connect_only(struct session *session, const struct http_request *request, struct error *err)
{
    struct http *http = session->http;
    CURLcode r = curl_easy_setopt(session->easy, CURLOPT_URL, http->origin.url);

    if (r == CURLE_OK) {
        r = curl_easy_setopt(session->easy, CURLOPT_CONNECT_ONLY, 1L);
    }
    if (r == CURLE_OK && http->server.proxy != NULL) {
        r = curl_easy_setopt(session->easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    }
    if (r != CURLE_OK) {
        return session_error(session, r, err);
    }
    return session_run(session, request->deadline_ms, request->cancelled, request->arg, err);
}

static struct http_stream *stream_new(struct http *http, const struct http_request *request,
                                      struct error *err)
{
    struct http_stream *stream = calloc(1, sizeof *stream);
    curl_socket_t fd = CURL_SOCKET_BAD;

    if (stream == NULL) {
        error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        return NULL;
    }
    http_head_init(&stream->head);
    buffer_init(&stream->rest, HTTP_MAX_HEADERS + RECEIVE_BYTES);
    stream->tls = http->origin.tls;
    stream->session = http_take_session(http, true, err);
    if (stream->session == NULL || connect_only(stream->session, request, err) < 0) {
        http_stream_close(stream);
        return NULL;
    }
    if (curl_easy_getinfo(stream->session->easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK ||
        fd == CURL_SOCKET_BAD) {
        error_set(err, ERROR_NO_ANSWER, 0, "%s: the connection is lost", http->name);
        http_stream_close(stream);
        return NULL;
    }
    stream->fd = fd;
    return stream;
}

void http_stream_close(struct http_stream *stream)
{
    if (stream == NULL) {
        return;
    }
    if (stream->session != NULL) {
        http_drop_session(stream->session);
    }
    http_head_release(&stream->head);
    buffer_release(&stream->rest);
    free(stream);
}

/* ---- Bytes ------------------------------------------------------------------------------------ */

static int lost(const struct http_stream *stream, CURLcode code, struct error *err)
{
    char text[CURL_ERROR_SIZE];
    const char *why = stream->session->text[0] != '\0' ? stream->session->text : curl_easy_strerror(code);

    copy_printable(text, sizeof text, why, strlen(why));
    return error_set(err, code == CURLE_OUT_OF_MEMORY ? ERROR_NO_MEMORY : ERROR_NO_ANSWER, 0, "%s: %s",
                     stream->session->http->name, text);
}

ssize_t http_stream_recv(struct http_stream *stream, void *data, size_t length, struct error *err)
{
    size_t kept = stream->rest.length - stream->rest_at;
    size_t n = 0;
    CURLcode r;

    if (kept > 0) {
        n = kept < length ? kept : length;
        memcpy(data, stream->rest.data + stream->rest_at, n);
        stream->rest_at += n;
        if (n == kept) {
            buffer_release(&stream->rest);
            stream->rest_at = 0;
        }
        return (ssize_t)n;
    }
    r = curl_easy_recv(stream->session->easy, data, length, &n);
    if (r == CURLE_AGAIN) {
        return HTTP_AGAIN;
    }
    return r == CURLE_OK ? (ssize_t)n : lost(stream, r, err);
}

/* What TLS was not able to send it wants to be given again as it was, at the same address (OpenSSL's SSL_write(3),
 * "bad write retry"), while a caller's buffer may move: so it is given a copy of ours. */
static void hold(struct http_stream *stream, const void **data, size_t *length)
{
    if (stream->held_length == 0) {
        stream->held_length = *length < HELD_BYTES ? *length : HELD_BYTES;
        memcpy(stream->held, *data, stream->held_length);
    }
    assert(*length >= stream->held_length && memcmp(*data, stream->held, stream->held_length) == 0);
    *data = stream->held;
    *length = stream->held_length;
}

ssize_t http_stream_send(struct http_stream *stream, const void *data, size_t length, struct error *err)
{
    size_t n = 0;
    CURLcode r;

    if (stream->tls && length > 0) {
        hold(stream, &data, &length);
    }
    r = curl_easy_send(stream->session->easy, data, length, &n);
    if (n > 0) {
        stream->held_length = 0;
    }
    if (r == CURLE_AGAIN || (r == CURLE_OK && n == 0 && length > 0)) {
        return HTTP_AGAIN;
    }
    return r == CURLE_OK ? (ssize_t)n : lost(stream, r, err);
}

bool http_stream_shutdown(struct http_stream *stream)
{
    return !stream->tls && shutdown(stream->fd, SHUT_WR) == 0;
}

int http_stream_fd(const struct http_stream *stream)
{
    return stream->fd;
}

const char *http_stream_header(const struct http_stream *stream, const char *name)
{
    return http_head_field(&stream->head, name);
}

/* ---- The request ------------------------------------------------------------------------------ */

static int write_request(const struct http *http, const struct http_request *request, struct buffer *out)
{
    if (buffer_printf(out, "%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\n", request->method,
                      http->origin.prefix, request->path, http->origin.host, PACKAGE "/" VERSION) < 0) {
        return -1;
    }
    for (const char *const *h = request->headers; h != NULL && *h != NULL; h++) {
        if (buffer_printf(out, "%s\r\n", *h) < 0) {
            return -1;
        }
    }
    if (request->body != NULL &&
        buffer_printf(out, "Content-Type: %s\r\n",
                      request->content_type != NULL ? request->content_type : "application/json") < 0) {
        return -1;
    }
    if ((request->body != NULL || strcmp(request->method, "POST") == 0) &&
        buffer_printf(out, "Content-Length: %zu\r\n",
                      request->body != NULL ? request->body_length : 0) < 0) {
        return -1;
    }
    if (buffer_append_string(out, "\r\n") < 0) {
        return -1;
    }
    return request->body != NULL ? buffer_append(out, request->body, request->body_length) : 0;
}

/* Waits for the connection, within the request's bounds. */
static int wait_for(struct http_stream *stream, const struct http_request *request, short events,
                    struct error *err)
{
    struct pollfd p = {.fd = stream->fd, .events = events};

    if (http_go_on(stream->session->http, request->deadline_ms, request->cancelled, request->arg, err) < 0) {
        return -1;
    }
    poll(&p, 1, http_patience(request->deadline_ms, request->cancelled != NULL));
    return 0;
}

static int send_request(struct http_stream *stream, const struct http_request *request, struct error *err)
{
    cleanup_buffer struct buffer out = BUFFER_INIT(MAX_REQUEST);
    size_t at = 0;

    if (write_request(stream->session->http, request, &out) < 0) {
        return errno == ENOBUFS ? error_set(err, ERROR_TOO_LARGE, 0, "the request is too long")
                                : error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    while (at < out.length) {
        ssize_t n = http_stream_send(stream, out.data + at, out.length - at, err);

        if (n == -1 || (n == HTTP_AGAIN && wait_for(stream, request, POLLOUT, err) < 0)) {
            return -1;
        }
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* ---- The answer ------------------------------------------------------------------------------- */

/* Some bytes within the request's bounds; 0 at the end. */
static ssize_t receive(struct http_stream *stream, const struct http_request *request, void *data,
                       size_t length, struct error *err)
{
    ssize_t n;

    for (;;) {
        n = http_stream_recv(stream, data, length, err);
        if (n != HTTP_AGAIN || wait_for(stream, request, POLLIN, err) < 0) {
            return n == HTTP_AGAIN ? -1 : n;
        }
    }
}

static int ended_early(struct http_stream *stream, struct error *err)
{
    struct http *http = stream->session->http;

    if (http->server.dial != NULL) {
        return session_error(stream->session, CURLE_GOT_NOTHING, err); /* with the program's last words */
    }
    return error_set(err, ERROR_NO_ANSWER, 0, "%s hung up in the middle of its answer", http->name);
}

/* Reads until a head is whole; what came behind it stays in `in`. */
static int receive_head(struct http_stream *stream, const struct http_request *request, struct buffer *in,
                        struct error *err)
{
    for (unsigned interim = 0; interim <= MAX_INTERIM;) {
        int r = http_head_parse(&stream->head, in->data, in->length, err);

        if (r < 0) {
            return error_prefix(err, "%s", stream->session->http->name);
        }
        if (r > 0) {
            buffer_consume(in, stream->head.length);
            if (stream->head.status >= 200 || stream->head.status == 101) {
                return 0;
            }
            interim++;
        } else {
            uint8_t *room = buffer_reserve(in, RECEIVE_BYTES);
            ssize_t n;

            if (room == NULL) {
                return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
            }
            n = receive(stream, request, room, RECEIVE_BYTES, err);
            if (n <= 0) {
                return n < 0 ? -1 : ended_early(stream, err);
            }
            buffer_commit(in, (size_t)n);
        }
    }
    return error_set(err, ERROR_NO_ANSWER, 0, "%s does not come to an answer", stream->session->http->name);
}

static int receive_body(struct http_stream *stream, const struct http_request *request, struct buffer *in,
                        struct buffer *ret, struct error *err)
{
    struct http_body body;
    int r;

    if (http_body_begin(&body, &stream->head, err) < 0) {
        return error_prefix(err, "%s", stream->session->http->name);
    }
    r = http_body_take(&body, in->data, in->length, ret, err);
    while (r == 0) {
        uint8_t *piece;
        ssize_t n;

        buffer_clear(in);
        piece = buffer_reserve(in, RECEIVE_BYTES);
        if (piece == NULL) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
        n = receive(stream, request, piece, RECEIVE_BYTES, err);
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            return body.kind == HTTP_BODY_TO_END ? 0 : ended_early(stream, err);
        }
        r = http_body_take(&body, piece, (size_t)n, ret, err);
    }
    return r < 0 ? error_prefix(err, "%s", stream->session->http->name) : 0;
}

static int receive_refusal(struct http_stream *stream, const struct http_request *request,
                           struct buffer *in, struct http_answer *refused, struct error *err)
{
    const char *type = http_head_field(&stream->head, "Content-Type");
    const char *after = http_head_field(&stream->head, "Retry-After");

    http_answer_release(refused);
    refused->status = stream->head.status;
    refused->body.limit = request->limit > 0 ? request->limit : HTTP_DEFAULT_LIMIT;
    if (type != NULL) {
        copy_printable(refused->content_type, sizeof refused->content_type, type, strlen(type));
    }
    if (after != NULL && strspn(after, "0123456789") == strlen(after) && strlen(after) < 10) {
        refused->retry_after_ms = strtoull(after, NULL, 10) * 1000;
    }
    for (const char *const *name = request->want_headers; name != NULL && *name != NULL; name++) {
        const char *value = http_head_field(&stream->head, *name);

        value = value != NULL ? value : "";
        if (buffer_append(&refused->wanted, value, strlen(value) + 1) < 0) {
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
    }
    return receive_body(stream, request, in, &refused->body, err);
}

/* Old engines answer 200 to what is no upgrade in the sense of HTTP. */
static bool upgraded(const struct http_stream *stream, const struct http_request *request)
{
    if (stream->head.status != 200) {
        return stream->head.status == 101;
    }
    for (const char *const *h = request->headers; h != NULL && *h != NULL; h++) {
        if (strcasecmp(*h, "Upgrade: tcp") == 0) {
            return http_head_field(&stream->head, "Content-Length") == NULL &&
                   http_head_field(&stream->head, "Transfer-Encoding") == NULL;
        }
    }
    return false;
}

static int ask(struct http_stream *stream, const struct http_request *request, bool *ret_upgraded,
               struct http_answer *refused, struct error *err)
{
    cleanup_buffer struct buffer in = BUFFER_INIT(HTTP_MAX_HEADERS + 2 * RECEIVE_BYTES);

    if (send_request(stream, request, err) < 0 || receive_head(stream, request, &in, err) < 0) {
        return -1;
    }
    *ret_upgraded = upgraded(stream, request);
    if (!*ret_upgraded) {
        return receive_refusal(stream, request, &in, refused, err);
    }
    buffer_move(&stream->rest, &in);
    return 0;
}

int http_upgrade(struct http *http, const struct http_request *request, struct http_stream **ret,
                 struct http_answer *refused, struct error *err)
{
    struct http_stream *stream;
    bool taken = false;

    assert(request->sink == NULL);
    if (http_check_request(request, err) < 0 ||
        http_go_on(http, request->deadline_ms, request->cancelled, request->arg, err) < 0) {
        return -1;
    }
    stream = stream_new(http, request, err);
    if (stream == NULL) {
        return -1;
    }
    if (ask(stream, request, &taken, refused, err) < 0) {
        http_stream_close(stream);
        return -1;
    }
    if (!taken) {
        http_stream_close(stream);
        stream = NULL;
    }
    *ret = stream;
    return 0;
}
