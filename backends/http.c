#include "backends/http.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "backends/http_internal.h"
#include "backends/printable.h"
#include "config.h"
#include "sandbox/cleanup.h"

#define AGENT PACKAGE "/" VERSION

/* ---- Clients ---------------------------------------------------------------------------------- */

static pthread_once_t global_once = PTHREAD_ONCE_INIT;
static CURLcode global_result;

static void global_init(void)
{
    global_result = curl_global_init(CURL_GLOBAL_DEFAULT);
}

int http_new(struct http **ret, struct http_server *server, struct error *err)
{
    cleanup_free struct http *http = calloc(1, sizeof *http);

    assert(server->url != NULL && (server->unix_socket == NULL || server->dial == NULL));
    pthread_once(&global_once, global_init);
    if (http == NULL || global_result != CURLE_OK) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    if (http_origin_of(server, &http->origin, err) < 0) {
        return -1;
    }
    if (http->origin.connect_to != NULL) {
        http->connect_to = curl_slist_append(NULL, http->origin.connect_to);
        if (http->connect_to == NULL) {
            http_origin_release(&http->origin);
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        }
    }
    http_server_name(server, http->name);
    pthread_mutex_init(&http->lock, NULL);
    http->refs = 1;
    http->server = *server;
    http_server_init(server);
    *ret = take_ptr(http);
    return 0;
}

void http_unref(struct http *http)
{
    bool last;

    pthread_mutex_lock(&http->lock);
    last = --http->refs == 0;
    pthread_mutex_unlock(&http->lock);
    if (!last) {
        return;
    }
    while (http->idle != NULL) {
        struct session *session = http->idle;

        http->idle = session->next;
        session_free(session);
    }
    curl_slist_free_all(http->connect_to);
    http_origin_release(&http->origin);
    http_server_release(&http->server);
    pthread_mutex_destroy(&http->lock);
    free(http);
}

void http_free(struct http *http)
{
    struct session *idle;

    if (http == NULL) {
        return;
    }
    pthread_mutex_lock(&http->lock);
    idle = http->idle;
    http->idle = NULL;
    http->idle_count = 0;
    pthread_mutex_unlock(&http->lock);
    while (idle != NULL) { /* streams may keep the rest for long */
        struct session *session = idle;

        idle = session->next;
        session_free(session);
    }
    http_unref(http);
}

void http_answer_init(struct http_answer *answer)
{
    *answer = (struct http_answer){0};
    buffer_init(&answer->body, HTTP_DEFAULT_LIMIT);
    buffer_init(&answer->wanted, HTTP_MAX_HEADERS);
}

void http_answer_release(struct http_answer *answer)
{
    buffer_release(&answer->body);
    buffer_release(&answer->wanted);
    http_answer_init(answer);
}

const char *http_wanted(const struct buffer *wanted, unsigned i)
{
    const char *at = (const char *)wanted->data;
    const char *end = at + wanted->length;

    while (i > 0 && at < end) {
        at += strlen(at) + 1;
        i--;
    }
    return wanted->length > 0 && at < end ? at : "";
}

/* ---- One request ------------------------------------------------------------------------------ */

/* While it runs. */
struct exchange {
    struct session *session;
    const struct http_request *request;
    struct http_answer answer;
    size_t head; /* bytes of heads so far */
    bool whole;  /* the empty line behind the head has come: libcurl does not insist on it */
};

static size_t take_head(char *data, size_t size, size_t count, void *arg)
{
    struct exchange *x = arg;
    size_t length = size * count;

    if (length > 0 && (data[0] == '\r' || data[0] == '\n')) {
        x->whole = true;
    } else if (length >= 5 && memcmp(data, "HTTP/", 5) == 0) {
        x->whole = false;
    }
    x->head += length;
    if (x->head > HTTP_MAX_HEADERS) {
        error_set(&x->session->failure, ERROR_TOO_LARGE, 0, "%s: the head of the answer is too long",
                  x->session->http->name);
        return 0;
    }
    return length;
}

static size_t take_body(char *data, size_t size, size_t count, void *arg)
{
    struct exchange *x = arg;
    const struct http_request *request = x->request;
    struct error *failure = &x->session->failure;
    size_t length = size * count;
    long status = 0;

    (void)curl_easy_getinfo(x->session->easy, CURLINFO_RESPONSE_CODE, &status);
    if (request->sink != NULL && status < 300) {
        return request->sink(request->arg, data, length, failure) == 0 ? length : CURL_WRITEFUNC_ERROR;
    }
    if (buffer_append(&x->answer.body, data, length) < 0) {
        if (errno == ENOBUFS) {
            error_set(failure, ERROR_TOO_LARGE, 0, "%s: the answer is over %zu bytes",
                      x->session->http->name, x->answer.body.limit);
        } else {
            error_set(failure, ERROR_NO_MEMORY, 0, "out of memory");
        }
        return CURL_WRITEFUNC_ERROR;
    }
    return length;
}

static int no_memory(struct error *err)
{
    return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
}

static int append_header(struct curl_slist **list, const char *header)
{
    struct curl_slist *longer = curl_slist_append(*list, header);

    if (longer == NULL) {
        return -1;
    }
    *list = longer;
    return 0;
}

static int make_headers(const struct http *http, const struct http_request *request,
                        struct curl_slist **list)
{
    struct buffer line = BUFFER_INIT(HTTP_MAX_HEADERS);
    int r = append_header(list, "Expect:"); /* no waiting for a "100 Continue" */

    if (r == 0 && http->server.tls_name != NULL) {
        r = buffer_printf(&line, "Host: %s", http->origin.host) < 0 || buffer_text(&line) == NULL
                ? -1
                : append_header(list, buffer_text(&line));
        buffer_clear(&line);
    }
    if (r == 0 && request->body != NULL) {
        r = buffer_printf(&line, "Content-Type: %s",
                          request->content_type != NULL ? request->content_type : "application/json");
        r = r < 0 || buffer_text(&line) == NULL ? -1 : append_header(list, buffer_text(&line));
    }
    for (const char *const *h = request->headers; r == 0 && h != NULL && *h != NULL; h++) {
        r = append_header(list, *h);
    }
    buffer_release(&line);
    return r;
}

static CURLcode set_body(CURL *easy, const struct http_request *request)
{
    bool sends = request->body != NULL || strcmp(request->method, "POST") == 0 ||
                 strcmp(request->method, "PUT") == 0 || strcmp(request->method, "PATCH") == 0;
    CURLcode r;

    r = curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L); /* forgets the last request's */
    if (r == CURLE_OK && sends) {
        r = curl_easy_setopt(easy, CURLOPT_POST, 1L);
    }
    if (r == CURLE_OK) {
        r = curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                             (curl_off_t)(request->body != NULL ? request->body_length : 0));
    }
    if (r == CURLE_OK) {
        r = curl_easy_setopt(easy, CURLOPT_POSTFIELDS, !sends ? NULL : request->body != NULL ? request->body : "");
    }
    if (r == CURLE_OK && !sends) {
        r = curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    }
    if (r == CURLE_OK && strcmp(request->method, "HEAD") == 0) {
        r = curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    }
    return r == CURLE_OK ? curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) : r;
}

static int prepare(struct exchange *x, struct curl_slist **headers, struct error *err)
{
    struct session *session = x->session;
    CURL *easy = session->easy;
    cleanup_buffer struct buffer url = BUFFER_INIT(HTTP_MAX_HEADERS);
    CURLcode r;

    if (make_headers(session->http, x->request, headers) < 0) {
        return no_memory(err);
    }
    if (buffer_append_string(&url, session->http->origin.url) < 0 ||
        buffer_append_string(&url, x->request->path) < 0 || buffer_text(&url) == NULL) {
        return errno == ENOBUFS ? error_set(err, ERROR_TOO_LARGE, 0, "the request's path is too long")
                                : no_memory(err);
    }
    if ((r = curl_easy_setopt(easy, CURLOPT_URL, buffer_text(&url))) != CURLE_OK ||
        (r = set_body(easy, x->request)) != CURLE_OK ||
        (r = curl_easy_setopt(easy, CURLOPT_USERAGENT, AGENT)) != CURLE_OK ||
        (r = curl_easy_setopt(easy, CURLOPT_HTTPHEADER, *headers)) != CURLE_OK ||
        (r = curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_head)) != CURLE_OK ||
        (r = curl_easy_setopt(easy, CURLOPT_HEADERDATA, x)) != CURLE_OK ||
        (r = curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body)) != CURLE_OK ||
        (r = curl_easy_setopt(easy, CURLOPT_WRITEDATA, x)) != CURLE_OK) {
        return session_error(session, r, err);
    }
    return 0;
}

static int take_facts(struct exchange *x)
{
    CURL *easy = x->session->easy;
    const char *type = NULL;
    curl_off_t after = 0;

    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &x->answer.status);
    (void)curl_easy_getinfo(easy, CURLINFO_CONTENT_TYPE, &type);
    (void)curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &after);
    if (type != NULL) {
        copy_printable(x->answer.content_type, sizeof x->answer.content_type, type, strlen(type));
    }
    x->answer.retry_after_ms = after > 0 ? (uint64_t)after * 1000 : 0;
    for (const char *const *name = x->request->want_headers; name != NULL && *name != NULL; name++) {
        struct curl_header *header;
        bool there = curl_easy_header(easy, *name, 0, CURLH_HEADER, -1, &header) == CURLHE_OK;
        const char *value = there ? header->value : "";

        if (buffer_append(&x->answer.wanted, value, strlen(value) + 1) < 0) {
            return -1;
        }
    }
    return 0;
}

static int exchange_run(struct exchange *x, struct error *err)
{
    const struct http_request *request = x->request;
    struct curl_slist *headers = NULL;
    int r = prepare(x, &headers, err);

    if (r == 0) {
        r = session_run(x->session, request->deadline_ms, request->cancelled, request->arg, err);
    }
    if (r == 0) {
        if (take_facts(x) < 0) {
            r = no_memory(err);
        } else if (!x->whole || x->answer.status < 100 || x->answer.status > 599) {
            r = error_set(err, ERROR_NO_ANSWER, 0, "%s: the answer is no HTTP", x->session->http->name);
        }
    }
    session_detach(x->session);
    (void)curl_easy_setopt(x->session->easy, CURLOPT_HTTPHEADER, NULL);
    curl_slist_free_all(headers);
    return r;
}

int http_perform(struct http *http, const struct http_request *request, struct http_answer *ret,
                 struct error *err)
{
    struct exchange x = {.request = request};
    int r;

    if (http_check_request(request, err) < 0 ||
        http_go_on(http, request->deadline_ms, request->cancelled, request->arg, err) < 0) {
        return -1;
    }
    x.session = http_take_session(http, false, err);
    if (x.session == NULL) {
        return -1;
    }
    http_answer_init(&x.answer);
    x.answer.body.limit = request->limit > 0 ? request->limit : HTTP_DEFAULT_LIMIT;
    r = exchange_run(&x, err);
    http_put_session(x.session);
    if (r < 0) {
        http_answer_release(&x.answer);
        return -1;
    }
    http_answer_release(ret);
    *ret = x.answer;
    return 0;
}
