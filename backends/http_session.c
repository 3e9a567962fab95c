#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "backends/http_internal.h"
#include "backends/printable.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

/* ---- Sockets ----------------------------------------------------------------------------------
 *
 * A program's connection. libcurl insists on connecting (version 7.88 does so even where it is told that the socket is
 * connected already), so it is given a socket of ours to connect to, which listens for a moment in a folder of its own
 * (under a name without a path libcurl would not use the connection again). What connected to it is accepted only if
 * it is this process, and becomes the program's standard input and output. */

#define DIAL_SOCKET "program" /* for libcurl's eyes: open_dialled() puts another address in its place */
#define DIAL_FOLDER "/tmp/handsfs-XXXXXX"
#define DIAL_NAME "/dial"

static struct dialled *find_dialled(struct session *session, int fd)
{
    for (unsigned i = 0; i < 2; i++) {
        if (session->dialled[i].fd == fd) {
            return &session->dialled[i];
        }
    }
    return NULL;
}

static void dialled_address(const struct dialled *dialled, struct sockaddr_un *ret)
{
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(ret->sun_path, sizeof ret->sun_path, "%s%s", dialled->folder, DIAL_NAME);
}

static void stop_listening(struct dialled *dialled)
{
    struct sockaddr_un address;

    if (dialled->folder[0] != '\0') {
        dialled_address(dialled, &address);
        unlink(address.sun_path);
        rmdir(dialled->folder);
        dialled->folder[0] = '\0';
    }
    cleanup_fd_fn(&dialled->listener);
    dialled->listener = -1;
}

static int start_listening(struct dialled *dialled, struct sockaddr_un *address)
{
    snprintf(dialled->folder, sizeof dialled->folder, "%s", DIAL_FOLDER);
    if (mkdtemp(dialled->folder) == NULL) {
        dialled->folder[0] = '\0';
        return -1;
    }
    dialled_address(dialled, address);
    dialled->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (dialled->listener < 0 ||
        bind(dialled->listener, (const struct sockaddr *)address, sizeof *address) < 0 ||
        listen(dialled->listener, 1) < 0) {
        int saved = errno;

        stop_listening(dialled);
        errno = saved;
        return -1;
    }
    return 0;
}

static curl_socket_t open_dialled(struct session *session, struct curl_sockaddr *address)
{
    struct dialled *dialled = find_dialled(session, -1);
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_un at;

    if (dialled == NULL || fd < 0 || start_listening(dialled, &at) < 0) {
        error_set(&session->failure, ERROR_IO, dialled != NULL ? errno : 0, "%s: no connection can be made",
                  session->http->name);
        return CURL_SOCKET_BAD;
    }
    /* What it would have connected to is of this type as well, so there is room. */
    memcpy((char *)address + offsetof(struct curl_sockaddr, addr), &at, sizeof at);
    address->addrlen = sizeof at;
    session->words[0] = '\0';
    dialled->fd = take_fd(&fd);
    return dialled->fd;
}

/* libcurl's sockets would be handed down to programs that are started meanwhile. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct session *session = arg;

    (void)purpose;
    if (session->http->server.dial != NULL) {
        return open_dialled(session, address);
    }
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static int close_socket(void *arg, curl_socket_t fd)
{
    struct session *session = arg;
    struct dialled *dialled = find_dialled(session, fd);

    if (dialled == NULL) {
        return close(fd);
    }
    close(fd);
    stop_listening(dialled);
    if (dialled->child != NULL) {
        http_child_end(dialled->child, session->words);
    }
    *dialled = (struct dialled){.fd = -1, .listener = -1};
    return 0;
}

static bool is_ours(int fd)
{
    struct ucred peer;
    socklen_t length = sizeof peer;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && peer.pid == getpid();
}

/* Starts the programs of connections that libcurl has made. */
static int serve_dialled(struct session *session, struct error *err)
{
    for (unsigned i = 0; i < 2; i++) {
        struct dialled *dialled = &session->dialled[i];
        int accepted = 0;

        while (dialled->listener >= 0 && accepted >= 0) {
            cleanup_fd int fd = accept4(dialled->listener, NULL, NULL, SOCK_CLOEXEC);

            accepted = fd;
            if (fd >= 0 && is_ours(fd)) {
                stop_listening(dialled);
                if (http_child_start(&dialled->child, session->http->server.dial, fd, err) < 0) {
                    return -1;
                }
            }
        }
    }
    return 0;
}

/* ---- The handle ------------------------------------------------------------------------------- */

/* Remembers the first failure of a row of settings. */
#define SET(option, value)                                                                         \
    do {                                                                                           \
        if (r == CURLE_OK) {                                                                       \
            r = curl_easy_setopt(easy, option, value);                                             \
        }                                                                                          \
    } while (0)

static CURLcode set_blob(CURL *easy, CURLoption option, const struct buffer *pem)
{
    struct curl_blob blob = {.data = pem->data, .len = pem->length, .flags = CURL_BLOB_NOCOPY};

    return pem->length > 0 ? curl_easy_setopt(easy, option, &blob) : CURLE_OK;
}

static CURLcode set_tls(CURL *easy, const struct http_server *server)
{
    CURLcode r = CURLE_OK;

    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (server->insecure) {
        SET(CURLOPT_SSL_VERIFYPEER, 0L);
        SET(CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (server->ca_file != NULL || server->ca_pem.length > 0) {
        SET(CURLOPT_CAPATH, NULL); /* this authority, and not the system's besides */
        SET(CURLOPT_CAINFO, server->ca_file);
        r = r == CURLE_OK ? set_blob(easy, CURLOPT_CAINFO_BLOB, &server->ca_pem) : r;
    }
    SET(CURLOPT_SSLCERT, server->cert_file);
    SET(CURLOPT_SSLKEY, server->key_file);
    r = r == CURLE_OK ? set_blob(easy, CURLOPT_SSLCERT_BLOB, &server->cert_pem) : r;
    return r == CURLE_OK ? set_blob(easy, CURLOPT_SSLKEY_BLOB, &server->key_pem) : r;
}

/* What holds for each request; curl_easy_reset() would forget it. */
static CURLcode set_up(struct session *session)
{
    const struct http *http = session->http;
    const struct http_server *server = &http->server;
    CURL *easy = session->easy;
    CURLcode r = CURLE_OK;

    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_QUICK_EXIT, 1L);
    SET(CURLOPT_ERRORBUFFER, session->text);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PATH_AS_IS, 1L);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_PROXY, server->proxy != NULL ? server->proxy : "");
    SET(CURLOPT_OPENSOCKETFUNCTION, open_socket);
    SET(CURLOPT_OPENSOCKETDATA, session);
    SET(CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    SET(CURLOPT_CLOSESOCKETDATA, session);
    SET(CURLOPT_CONNECT_TO, http->connect_to);
    SET(CURLOPT_UNIX_SOCKET_PATH, server->dial != NULL ? DIAL_SOCKET : server->unix_socket);
    return r == CURLE_OK ? set_tls(easy, server) : r;
}

static struct session *session_new(struct http *http, struct error *err)
{
    struct session *session = calloc(1, sizeof *session);
    CURLcode r;

    if (session != NULL) {
        session->http = http;
        session->dialled[0] = session->dialled[1] = (struct dialled){.fd = -1, .listener = -1};
        session->easy = curl_easy_init();
        session->multi = curl_multi_init();
    }
    if (session == NULL || session->easy == NULL || session->multi == NULL ||
        curl_multi_setopt(session->multi, CURLMOPT_MAXCONNECTS, 1L) != CURLM_OK) {
        r = CURLE_OUT_OF_MEMORY;
    } else {
        r = set_up(session);
    }
    if (r == CURLE_OK) {
        return session;
    }
    error_set(err, r == CURLE_OUT_OF_MEMORY ? ERROR_NO_MEMORY : ERROR_BAD_REQUEST, 0, "%s: %s",
              http->name, curl_easy_strerror(r));
    if (session != NULL) {
        session_free(session);
    }
    return NULL;
}

void session_detach(struct session *session)
{
    if (session->attached) {
        curl_multi_remove_handle(session->multi, session->easy);
        session->attached = false;
    }
}

void session_free(struct session *session)
{
    session_detach(session);
    curl_easy_cleanup(session->easy);
    if (session->multi != NULL) {
        curl_multi_cleanup(session->multi); /* closes the connection that was kept */
    }
    free(session);
}

struct session *http_take_session(struct http *http, bool fresh, struct error *err)
{
    struct session *session = NULL;

    pthread_mutex_lock(&http->lock);
    if (!fresh && http->idle != NULL) {
        session = http->idle;
        http->idle = session->next;
        http->idle_count--;
    }
    http->refs++;
    pthread_mutex_unlock(&http->lock);
    if (session == NULL) {
        session = session_new(http, err);
    }
    if (session == NULL) {
        http_unref(http);
        return NULL;
    }
    session->failure.code = ERROR_NONE;
    session->words[0] = session->text[0] = '\0';
    return session;
}

void http_put_session(struct session *session)
{
    struct http *http = session->http;
    bool kept;

    session_detach(session);
    pthread_mutex_lock(&http->lock);
    kept = http->idle_count < HTTP_IDLE_CONNECTIONS;
    if (kept) {
        session->next = http->idle;
        http->idle = session;
        http->idle_count++;
    }
    pthread_mutex_unlock(&http->lock);
    if (!kept) {
        session_free(session);
    }
    http_unref(http);
}

void http_drop_session(struct session *session)
{
    struct http *http = session->http;

    session_free(session);
    http_unref(http);
}

/* ---- Waits ------------------------------------------------------------------------------------ */

int http_go_on(const struct http *http, uint64_t deadline_ms, bool (*cancelled)(void *arg), void *arg,
               struct error *err)
{
    if (cancelled != NULL && cancelled(arg)) {
        return error_set(err, ERROR_CANCELLED, 0, "cancelled");
    }
    if (clock_now_ms() >= deadline_ms) {
        return error_set(err, ERROR_NO_ANSWER, 0, "%s does not answer in time", http->name);
    }
    return 0;
}

int http_patience(uint64_t deadline_ms, bool asks)
{
    uint64_t now = clock_now_ms();
    uint64_t left = deadline_ms > now ? deadline_ms - now : 0;

    if (asks && left > HTTP_CANCEL_MS) {
        left = HTTP_CANCEL_MS;
    }
    return left < INT_MAX ? (int)left : INT_MAX;
}

int session_run(struct session *session, uint64_t deadline_ms, bool (*cancelled)(void *arg), void *arg,
                struct error *err)
{
    CURLMcode m = curl_multi_add_handle(session->multi, session->easy);
    int running = 1;

    session->attached = m == CURLM_OK;
    while (m == CURLM_OK) {
        CURLMsg *message;
        int left;

        m = curl_multi_perform(session->multi, &running);
        if (serve_dialled(session, err) < 0) {
            session_detach(session);
            return -1;
        }
        message = curl_multi_info_read(session->multi, &left);
        if (message != NULL && message->msg == CURLMSG_DONE) {
            CURLcode code = message->data.result;

            return code == CURLE_OK ? 0 : session_error(session, code, err);
        }
        if (http_go_on(session->http, deadline_ms, cancelled, arg, err) < 0) {
            session_detach(session); /* breaks the connection off */
            if (err->code == ERROR_NO_ANSWER && session->words[0] != '\0') {
                error_set(err, ERROR_NO_ANSWER, 0, "%s does not answer in time: %s",
                          session->http->name, session->words);
            }
            return -1;
        }
        if (m == CURLM_OK) {
            m = curl_multi_poll(session->multi, NULL, 0, http_patience(deadline_ms, cancelled != NULL),
                                NULL);
        }
    }
    session_detach(session);
    return error_set(err, m == CURLM_OUT_OF_MEMORY ? ERROR_NO_MEMORY : ERROR_IO, 0, "%s: %s",
                     session->http->name, curl_multi_strerror(m));
}

/* ---- Errors ----------------------------------------------------------------------------------- */

static enum error_code meaning(CURLcode code)
{
    switch (code) {
    case CURLE_OUT_OF_MEMORY:
        return ERROR_NO_MEMORY;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CLIENTCERT:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
    case CURLE_URL_MALFORMAT:
        return ERROR_BAD_REQUEST;
    default:
        return ERROR_NO_ANSWER;
    }
}

int session_error(struct session *session, CURLcode code, struct error *err)
{
    const char *name = session->http->name;
    char text[CURL_ERROR_SIZE];
    long os_errno = 0;

    (void)curl_easy_getinfo(session->easy, CURLINFO_OS_ERRNO, &os_errno);
    session_detach(session); /* a program's last words come with the end of its connection */
    if (session->failure.code != ERROR_NONE) {
        *err = session->failure;
        return -1;
    }
    if (session->words[0] != '\0') {
        return error_set(err, ERROR_NO_ANSWER, 0, "no connection through %s: %s", name, session->words);
    }
    if (code == CURLE_COULDNT_CONNECT && os_errno != 0) {
        return error_set(err, ERROR_NO_ANSWER, (int)os_errno, "cannot connect to %s: %s", name,
                         strerror((int)os_errno));
    }
    copy_printable(text, sizeof text, session->text[0] != '\0' ? session->text : curl_easy_strerror(code),
                   session->text[0] != '\0' ? strlen(session->text) : strlen(curl_easy_strerror(code)));
    return error_set(err, meaning(code), 0, "%s: %s", name, text);
}
