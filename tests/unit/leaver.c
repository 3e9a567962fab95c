/* leaver URL CA NAME TEXT open|closed: leaves while a pump of its own is at work: exits 0 where that ends well.
 * URL is a server of HTTP over TLS with a certificate of the authority in the file CA for NAME; TEXT is written to
 * the pump's descriptor just before the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/http.h"
#include "backends/pump.h"
#include "sandbox/clock.h"

#define PATIENCE_MS 30000
#define WORK_US 200000

static int decode(void *state, const uint8_t *data, size_t length, struct buffer *inner, struct buffer *outer,
                  struct error *err)
{
    (void)state;
    (void)outer;
    return buffer_append(inner, data, length) == 0 ? 0 : error_set(err, ERROR_NO_MEMORY, 0, "full");
}

/* So slow that the process is at its end before the bytes are sent. */
static int encode(void *state, const uint8_t *data, size_t length, struct buffer *outer, struct error *err)
{
    (void)state;
    usleep(WORK_US);
    return buffer_append(outer, data, length) == 0 ? 0 : error_set(err, ERROR_NO_MEMORY, 0, "full");
}

static void ended(void *state, const struct error *err)
{
    (void)state;
    (void)err;
}

/* Called after the pumps' handler and before those of the libraries, which would clean up beneath them. */
static void expect_none(void)
{
    if (pump_count() > 0) {
        static const char text[] = "leaver: a pump is still at work\n";

        (void)!write(STDERR_FILENO, text, sizeof text - 1);
        _exit(3);
    }
}

static int open_pump(struct http *http, int *ret_fd, struct error *err)
{
    static const struct pump_codec codec = {.decode = decode, .encode = encode, .ended = ended};
    static const char *const headers[] = {"Connection: Upgrade", "Upgrade: tcp", NULL};
    const struct http_request request = {
        .method = "GET", .path = "/x", .headers = headers, .deadline_ms = clock_now_ms() + PATIENCE_MS};
    cleanup_http_answer struct http_answer refused = HTTP_ANSWER_INIT;
    struct http_stream *stream = NULL;

    if (http_upgrade(http, &request, &stream, &refused, err) < 0) {
        return -1;
    }
    if (stream == NULL) {
        return error_set(err, ERROR_NO_ANSWER, 0, "refused with %ld", refused.status);
    }
    if (atexit(expect_none) != 0) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    return pump_start(stream, &codec, NULL, ret_fd, err);
}

int main(int argc, char **argv)
{
    struct http_server server;
    struct http *http;
    struct error err;
    int fd;

    if (argc != 6) {
        return 2;
    }
    http_server_init(&server);
    server.url = strdup(argv[1]);
    server.ca_file = strdup(argv[2]);
    server.tls_name = strdup(argv[3]);
    if (http_new(&http, &server, &err) < 0 || open_pump(http, &fd, &err) < 0) {
        fprintf(stderr, "leaver: %s\n", err.message);
        return 1;
    }
    if (send(fd, argv[4], strlen(argv[4]), MSG_NOSIGNAL) != (ssize_t)strlen(argv[4])) {
        return 1;
    }
    if (strcmp(argv[5], "closed") == 0) {
        close(fd);
    }
    http_free(http);
    return 0;
}
