#include "tests/unit/gateway_bed.h"

#include <check.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define WAIT_MS 120000 /* valgrind is slow */
#define LINE_BYTES (80u << 20)

static void woken(uv_async_t *async)
{
    struct bed *bed = async->data;
    void (*job)(struct bed *, void *) = bed->job;

    if (job != NULL) {
        bed->job = NULL;
        job(bed, bed->job_arg);
        sem_post(&bed->done);
    }
}

static void *run_loop(void *arg)
{
    struct bed *bed = arg;

    uv_run(&bed->loop, UV_RUN_DEFAULT);
    return NULL;
}

void bed_open(struct bed *bed)
{
    struct error err;
    const char *tmp = getenv("TMPDIR");

    snprintf(bed->folder, sizeof bed->folder, "%.40s/gateway-XXXXXX", tmp != NULL ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(bed->folder));
    snprintf(bed->path, sizeof bed->path, "%s/m.sock", bed->folder);
    ck_assert_int_eq(uv_loop_init(&bed->loop), 0);
    ck_assert_int_eq(sem_init(&bed->done, 0, 0), 0);
    uv_async_init(&bed->loop, &bed->wake, woken);
    bed->wake.data = bed;
    bed->link = fake_link_new(&bed->loop);
    if (gateway_open(&bed->gateway, &bed->loop, bed->link, bed->path, &bed->host, &err) < 0) {
        ck_abort_msg("gateway_open: %s", err.message);
    }
    ck_assert_int_eq(pthread_create(&bed->thread, NULL, run_loop, bed), 0);
}

void bed_run(struct bed *bed, void (*job)(struct bed *bed, void *arg), void *arg)
{
    bed->job = job;
    bed->job_arg = arg;
    uv_async_send(&bed->wake);
    sem_wait(&bed->done);
}

static void gateway_is_closed(void *arg)
{
    struct bed *bed = arg;

    uv_close((uv_handle_t *)&bed->wake, NULL);
}

static void close_gateway(struct bed *bed, void *arg)
{
    (void)arg;
    gateway_close(bed->gateway, gateway_is_closed, bed);
}

void bed_close(struct bed *bed)
{
    bed_run(bed, close_gateway, NULL);
    pthread_join(bed->thread, NULL);
    ck_assert_int_eq(uv_loop_close(&bed->loop), 0);
    fake_link_free(bed->link);
    sem_destroy(&bed->done);
    ck_assert_msg(access(bed->path, F_OK) < 0, "the socket is still there");
    ck_assert_int_eq(rmdir(bed->folder), 0);
}

static void get_counts(struct bed *bed, void *arg)
{
    *(struct gateway_counts *)arg = gateway_counts(bed->gateway);
}

struct gateway_counts bed_counts(struct bed *bed)
{
    struct gateway_counts counts;

    bed_run(bed, get_counts, &counts);
    return counts;
}

static void get_link_counts(struct bed *bed, void *arg)
{
    *(struct fake_link_counts *)arg = fake_link_counts(bed->link);
}

struct fake_link_counts bed_link_counts(struct bed *bed)
{
    struct fake_link_counts counts;

    bed_run(bed, get_link_counts, &counts);
    return counts;
}

int bed_connect(struct bed *bed)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(address.sun_path, sizeof address.sun_path, "%.100s", bed->path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

void bed_send_bytes(int fd, const void *data, size_t length)
{
    const char *at = data;

    while (length > 0) {
        ssize_t n = send(fd, at, length, MSG_NOSIGNAL);

        ck_assert_msg(n > 0, "send: %s", strerror(errno));
        at += n;
        length -= (size_t)n;
    }
}

void bed_send(int fd, const char *text)
{
    bed_send_bytes(fd, text, strlen(text));
}

/* Waits for a byte or the end: false for the end. */
static bool receive_some(int fd, void *to, size_t room, size_t *ret)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    ssize_t n;

    ck_assert_msg(poll(&p, 1, WAIT_MS) == 1, "no answer");
    n = recv(fd, to, room, 0);
    ck_assert_msg(n >= 0 || errno == ECONNRESET, "recv: %s", strerror(errno));
    *ret = n > 0 ? (size_t)n : 0;
    return n > 0;
}

/* Reads up to the newline and not beyond it: looks first, then takes. */
json_t *bed_receive(int fd)
{
    struct buffer line = BUFFER_INIT(LINE_BYTES);
    json_t *message = NULL;
    bool whole = false;

    while (!whole) {
        char piece[65536];
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ssize_t n;
        size_t got;
        char *newline;

        ck_assert_msg(poll(&p, 1, WAIT_MS) == 1, "no answer");
        n = recv(fd, piece, sizeof piece, MSG_PEEK);
        newline = n > 0 ? memchr(piece, '\n', (size_t)n) : NULL;
        whole = newline != NULL;
        if (n <= 0 || !receive_some(fd, piece, whole ? (size_t)(newline - piece) + 1 : (size_t)n, &got)) {
            break;
        }
        ck_assert_int_eq(buffer_append(&line, piece, got), 0);
    }
    if (whole) {
        json_error_t why;

        message = json_loadb((const char *)line.data, line.length, JSON_ALLOW_NUL, &why);
        ck_assert_msg(message != NULL, "not JSON: %s", why.text);
        ck_assert_str_eq(json_string_value(json_object_get(message, "jsonrpc")), "2.0");
    } else {
        ck_assert_uint_eq(line.length, 0);
    }
    buffer_release(&line);
    return message;
}

void bed_expect_end(int fd)
{
    char c;
    size_t got;

    ck_assert_msg(!receive_some(fd, &c, 1, &got), "an answer, where the end was expected");
}

json_t *bed_call(int fd, const char *method, const char *params)
{
    static int last_id;
    struct buffer line = BUFFER_INIT(LINE_BYTES);
    json_t *message;
    json_t *answer;

    last_id++;
    ck_assert_int_eq(buffer_printf(&line, "{\"jsonrpc\":\"2.0\",\"id\":%d,\"method\":\"%s\",\"params\":%s}\n",
                                   last_id, method, params),
                     0);
    bed_send_bytes(fd, line.data, line.length);
    buffer_release(&line);
    message = bed_receive(fd);
    ck_assert_ptr_nonnull(message);
    ck_assert_int_eq(json_integer_value(json_object_get(message, "id")), last_id);
    answer = json_object_get(message, "result");
    if (answer == NULL) {
        answer = json_object_get(message, "error");
    }
    ck_assert_ptr_nonnull(answer);
    json_incref(answer);
    json_decref(message);
    return answer;
}
