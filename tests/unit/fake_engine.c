#include "tests/unit/fake_engine.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox/buffer.h"

#define MAX_CONNECTIONS 512
#define CHUNK 7
#define VERSION_REQUEST "GET /version"
#define PING_REQUEST "GET /_ping"

struct connection {
    struct fake_engine *fake;
    int fd;
    pthread_t thread;
    bool over; /* the descriptor is closed */
};

struct used_step {
    struct fake_step step;
    unsigned uses;
};

struct fake_engine {
    char folder[64];
    char path[96];
    int listener;
    int quit[2]; /* the first end is readable (at its end) once the server is to stop */
    pthread_t thread;
    pthread_mutex_t lock; /* protects all below */
    struct used_step steps[FAKE_MAX_STEPS];
    unsigned step_count;
    struct fake_heard *heard[FAKE_MAX_HEARD];
    unsigned heard_count;
    struct connection *connections[MAX_CONNECTIONS];
    unsigned connection_count;
    char unexpected[1024];
};

/* ---- Answers ---------------------------------------------------------------------------------- */

static int send_all(int fd, const void *data, size_t length)
{
    const char *at = data;

    while (length > 0) {
        ssize_t n = send(fd, at, length, MSG_NOSIGNAL);

        if (n < 0 && errno != EINTR) {
            return -1;
        }
        at += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* True where the server is not to stop before that. */
static bool wait_ms(struct fake_engine *fake, int ms)
{
    struct pollfd p = {.fd = fake->quit[0], .events = POLLIN};

    return poll(&p, 1, ms) == 0;
}

static void put(struct buffer *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct buffer *b, const char *format, ...)
{
    char text[4096];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (buffer_append_string(b, text) < 0) {
        abort();
    }
}

static void put_bytes(struct buffer *b, const void *data, size_t length)
{
    if (length > 0 && buffer_append(b, data, length) < 0) {
        abort();
    }
}

static void put_chunks(struct buffer *b, const char *body, size_t length)
{
    for (size_t at = 0, n; at < length; at += n) {
        n = length - at < CHUNK ? length - at : CHUNK;
        put(b, "%zx;why=not\r\n", n);
        put_bytes(b, body + at, n);
        put(b, "\r\n");
    }
    put(b, "0\r\nX-Trailer: yes\r\n\r\n");
}

/* Gives whether the connection may serve another request. */
static bool answer(struct fake_engine *fake, int fd, const struct fake_step *step)
{
    struct buffer out = BUFFER_INIT(FAKE_MAX_BODY * 4);
    size_t length = step->length > 0 ? step->length : step->body != NULL ? strlen(step->body) : 0;
    bool hijack = step->how == FAKE_HIJACK;
    int status = step->status != 0 ? step->status : hijack ? 101 : 200;
    const char *headers = step->headers != NULL ? step->headers
                          : hijack              ? "Connection: Upgrade\r\nUpgrade: tcp\r\n"
                                                : "Content-Type: application/json\r\n";
    bool part = step->how == FAKE_TRUNCATE || step->how == FAKE_STALL;
    bool sent;

    put(&out, "HTTP/1.1 %d Such\r\nX-From: fake\r\n%s", status, headers);
    if (step->how == FAKE_CHUNKED) {
        put(&out, "Transfer-Encoding: chunked\r\n\r\n");
        put_chunks(&out, step->body, length);
    } else {
        if (step->how == FAKE_TO_END || hijack) {
            put(&out, "\r\n");
        } else {
            put(&out, "Content-Length: %zu\r\n\r\n", length);
        }
        put_bytes(&out, step->body, part ? length / 2 : length);
    }
    sent = send_all(fd, out.data, out.length) == 0;
    buffer_release(&out);
    if (sent && step->how == FAKE_STALL) {
        (void)wait_ms(fake, -1);
    }
    if (sent && hijack) {
        char scrap[4096];

        if (step->hijack != NULL) {
            step->hijack(fd, step->arg);
        } else {
            while (recv(fd, scrap, sizeof scrap, 0) > 0) {
            }
        }
    }
    return sent && (step->how == FAKE_ANSWER || step->how == FAKE_CHUNKED);
}

static bool play(struct fake_engine *fake, int fd, const struct fake_step *step)
{
    if (step->delay_ms > 0 && !wait_ms(fake, (int)step->delay_ms)) {
        return false;
    }
    switch (step->how) {
    case FAKE_CLOSE:
        return false;
    case FAKE_HANG:
        (void)wait_ms(fake, -1);
        return false;
    case FAKE_RAW:
        (void)send_all(fd, step->body, step->length > 0 ? step->length : strlen(step->body));
        return false;
    default:
        return answer(fake, fd, step);
    }
}

/* ---- Requests --------------------------------------------------------------------------------- */

/* Notes the request and finds what answers it. */
static struct fake_step take_step(struct fake_engine *fake, struct fake_heard *heard)
{
    struct fake_step found = {.status = 500, .body = "{\"message\":\"the test expects no such request\"}"};
    bool ping = strcmp(heard->line, PING_REQUEST) == 0;
    bool fits = false;

    pthread_mutex_lock(&fake->lock);
    for (unsigned i = 0; i < fake->step_count && !fits; i++) {
        struct used_step *s = &fake->steps[i];

        if (s->uses < s->step.times && fnmatch(s->step.request, heard->line, 0) == 0) {
            s->uses++;
            found = s->step;
            fits = true;
        }
    }
    if (!fits && ping) {
        found = (struct fake_step){.status = 200, .headers = "", .body = "OK"};
    } else if (!fits && fake->unexpected[0] == '\0') {
        snprintf(fake->unexpected, sizeof fake->unexpected, "%s", heard->line);
    }
    if (!ping && strcmp(heard->line, VERSION_REQUEST) != 0 && fake->heard_count < FAKE_MAX_HEARD) {
        fake->heard[fake->heard_count++] = heard;
        heard = NULL;
    }
    pthread_mutex_unlock(&fake->lock);
    if (heard != NULL) {
        free(heard->body);
        free(heard);
    }
    return found;
}

static size_t content_length(const char *head)
{
    const char *field = strcasestr(head, "\r\nContent-Length:");

    return field != NULL ? strtoull(field + strlen("\r\nContent-Length:"), NULL, 10) : 0;
}

/* Reads one request; what came behind it stays in `in`. NULL where the client hung up. */
static struct fake_heard *hear(int fd, struct buffer *in)
{
    struct fake_heard *heard = NULL;
    const char *end = NULL;
    size_t head = 0, body = 0;
    char piece[16384];

    for (;;) {
        ssize_t n;

        if (end == NULL && in->length > 0 && (end = strstr(buffer_text(in), "\r\n\r\n")) != NULL) {
            head = (size_t)(end - (const char *)in->data) + 4;
            body = content_length((const char *)in->data);
        }
        if (end != NULL && in->length >= head + body) {
            break;
        }
        n = recv(fd, piece, sizeof piece, 0);
        if (n <= 0 || buffer_append(in, piece, (size_t)n) < 0) {
            return NULL;
        }
    }
    heard = calloc(1, sizeof *heard);
    heard->body = calloc(1, body + 1);
    heard->length = body;
    memcpy(heard->body, in->data + head, body);
    snprintf(heard->head, sizeof heard->head, "%.*s", (int)head, (const char *)in->data);
    snprintf(heard->line, sizeof heard->line, "%.*s",
             (int)(strstr(heard->head, " HTTP/") != NULL ? strstr(heard->head, " HTTP/") - heard->head : 0),
             heard->head);
    buffer_consume(in, head + body);
    return heard;
}

static void *serve(void *arg)
{
    struct connection *connection = arg;
    struct fake_engine *fake = connection->fake;
    struct buffer in = BUFFER_INIT(FAKE_MAX_BODY + (64u << 10));
    bool more = true;

    while (more) {
        struct fake_heard *heard = hear(connection->fd, &in);
        struct fake_step step;

        if (heard == NULL) {
            break;
        }
        step = take_step(fake, heard);
        more = play(fake, connection->fd, &step);
    }
    buffer_release(&in);
    pthread_mutex_lock(&fake->lock);
    connection->over = true;
    close(connection->fd);
    pthread_mutex_unlock(&fake->lock);
    return NULL;
}

/* For threads: what libcheck is told from one may meet it between two tests. */
static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

static void add_connection(struct fake_engine *fake, int fd)
{
    struct connection *connection = calloc(1, sizeof *connection);

    pthread_mutex_lock(&fake->lock);
    must(fake->connection_count < MAX_CONNECTIONS);
    connection->fake = fake;
    connection->fd = fd;
    fake->connections[fake->connection_count++] = connection;
    must(pthread_create(&connection->thread, NULL, serve, connection) == 0);
    pthread_mutex_unlock(&fake->lock);
}

/* A request that was sent before the server is to stop has come, however slow this thread is. */
static void *accept_all(void *arg)
{
    struct fake_engine *fake = arg;
    struct pollfd fds[] = {{.fd = fake->listener, .events = POLLIN}, {.fd = fake->quit[0], .events = POLLIN}};

    while (poll(fds, 2, -1) >= 0 && (fds[0].revents != 0 || fds[1].revents == 0)) {
        int fd = accept4(fake->listener, NULL, NULL, SOCK_CLOEXEC);

        if (fd >= 0) {
            add_connection(fake, fd);
        }
    }
    return NULL;
}

/* ---- The test's side -------------------------------------------------------------------------- */

struct fake_engine *fake_engine_start(void)
{
    struct fake_engine *fake = calloc(1, sizeof *fake);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    ck_assert_ptr_nonnull(fake);
    snprintf(fake->folder, sizeof fake->folder, "/tmp/handsfs-fake.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(fake->folder));
    snprintf(fake->path, sizeof fake->path, "%s/socket", fake->folder);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", fake->path);
    fake->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ck_assert_int_ge(fake->listener, 0);
    ck_assert_int_eq(bind(fake->listener, (const struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fake->listener, 64), 0);
    ck_assert_int_eq(pipe2(fake->quit, O_CLOEXEC), 0);
    pthread_mutex_init(&fake->lock, NULL);
    ck_assert_int_eq(pthread_create(&fake->thread, NULL, accept_all, fake), 0);
    return fake;
}

static void end_connections(struct fake_engine *fake)
{
    close(fake->quit[1]);
    pthread_join(fake->thread, NULL);
    pthread_mutex_lock(&fake->lock);
    for (unsigned i = 0; i < fake->connection_count; i++) {
        if (!fake->connections[i]->over) {
            shutdown(fake->connections[i]->fd, SHUT_RDWR);
        }
    }
    pthread_mutex_unlock(&fake->lock);
    for (unsigned i = 0; i < fake->connection_count; i++) {
        pthread_join(fake->connections[i]->thread, NULL);
        free(fake->connections[i]);
    }
    close(fake->quit[0]);
    close(fake->listener);
    unlink(fake->path);
    rmdir(fake->folder);
}

void fake_engine_stop(struct fake_engine *fake)
{
    char unused[256] = "", unexpected[1024];

    end_connections(fake);
    for (unsigned i = 0; i < fake->step_count; i++) {
        const struct used_step *s = &fake->steps[i];

        if (s->step.times != FAKE_ALWAYS && s->uses < s->step.times) {
            snprintf(unused, sizeof unused, "%s", s->step.request);
        }
    }
    for (unsigned i = 0; i < fake->heard_count; i++) {
        free(fake->heard[i]->body);
        free(fake->heard[i]);
    }
    memcpy(unexpected, fake->unexpected, sizeof unexpected);
    pthread_mutex_destroy(&fake->lock);
    free(fake);
    ck_assert_msg(unexpected[0] == '\0', "a request that was not expected: %s", unexpected);
    ck_assert_msg(unused[0] == '\0', "a request that did not come: %s", unused);
}

const char *fake_engine_socket(const struct fake_engine *fake)
{
    return fake->path;
}

void fake_engine_script(struct fake_engine *fake, const struct fake_step *step)
{
    struct used_step *s;

    pthread_mutex_lock(&fake->lock);
    ck_assert_uint_lt(fake->step_count, FAKE_MAX_STEPS);
    s = &fake->steps[fake->step_count++];
    s->step = *step;
    s->step.times = step->times > 0 ? step->times : 1;
    pthread_mutex_unlock(&fake->lock);
}

void fake_engine_answer(struct fake_engine *fake, const char *request, int status, const char *body)
{
    fake_engine_script(fake, &(struct fake_step){.request = request, .status = status, .body = body});
}

void fake_engine_be_docker(struct fake_engine *fake)
{
    char host[128];

    fake_engine_script(fake, &(struct fake_step){
                                 .request = VERSION_REQUEST,
                                 .times = FAKE_ALWAYS,
                                 .body = "{\"Version\":\"20.10.24\",\"ApiVersion\":\"1.41\","
                                         "\"MinAPIVersion\":\"1.12\",\"Os\":\"linux\",\"Arch\":\"amd64\"}"});
    snprintf(host, sizeof host, "unix://%s", fake->path);
    setenv("DOCKER_HOST", host, 1);
    unsetenv("DOCKER_CONTEXT");
}

unsigned fake_engine_count(struct fake_engine *fake)
{
    unsigned n;

    pthread_mutex_lock(&fake->lock);
    n = fake->heard_count;
    pthread_mutex_unlock(&fake->lock);
    return n;
}

unsigned fake_engine_connections(struct fake_engine *fake)
{
    unsigned n;

    pthread_mutex_lock(&fake->lock);
    n = fake->connection_count;
    pthread_mutex_unlock(&fake->lock);
    return n;
}

const struct fake_heard *fake_engine_heard(struct fake_engine *fake, unsigned number)
{
    const struct fake_heard *heard;

    pthread_mutex_lock(&fake->lock);
    ck_assert_uint_lt(number, fake->heard_count);
    heard = fake->heard[number];
    pthread_mutex_unlock(&fake->lock);
    return heard;
}
