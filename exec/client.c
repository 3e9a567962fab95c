/* The gateway's other end. One request at a time: what is not the answer to it is left aside, such as
 * the late answer to one that timed out. */
#include "exec/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "exec/rpc.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

#define MAX_REPLY (64u << 20)   /* bytes of an answer's line: GATEWAY_MAX_UNSENT */
#define MAX_REQUEST (64u << 20) /* the gateway takes less, and says so */
#define READ_BYTES (64u << 10)
#define SMALL_BYTES (1u << 20)  /* a larger buffer is not kept for the next answer */

struct client {
    int fd;
    struct buffer in;
    json_int_t last_id;
    bool broken; /* a request was left half sent, or an answer half understood */
};

/* Blocking for at most `timeout_ms`: a non-blocking connect(2) to a full queue cannot be waited for. */
static int open_socket(int *ret_fd, uint64_t timeout_ms, struct error *err)
{
    struct timeval timeout = {.tv_sec = (time_t)(timeout_ms / 1000),
                              .tv_usec = (suseconds_t)(timeout_ms % 1000 * 1000)};
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (timeout_ms == 0) {
        timeout.tv_usec = 1000; /* zero would stand for no end */
    }
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) < 0) {
        return error_set_errno(err, errno, "socket");
    }
    *ret_fd = take_fd(&fd);
    return 0;
}

/* Connects to the file that was opened, so that its path may be longer than an address. */
static int connect_to(const char *path, uint64_t timeout_ms, int *ret_fd, struct error *err)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    cleanup_fd int file = open(path, O_PATH | O_CLOEXEC);
    cleanup_fd int fd = -1;
    struct stat st;

    if (file < 0 || fstat(file, &st) < 0) {
        return error_set_errno(err, errno, "%s", path);
    }
    if (!S_ISSOCK(st.st_mode)) {
        return error_set(err, ERROR_NO_SUCH_FILE, 0, "%s: not a socket", path);
    }
    if (open_socket(&fd, timeout_ms, err) < 0) {
        return -1;
    }
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", file);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        if (errno == ECONNREFUSED) {
            return error_set(err, ERROR_SANDBOX_GONE, errno, "%s: nobody listens there any more", path);
        }
        if (errno == EAGAIN) {
            return error_set(err, ERROR_NO_ANSWER, errno, "%s: not accepted in time", path);
        }
        return error_set_errno(err, errno, "%s", path);
    }
    *ret_fd = take_fd(&fd);
    return 0;
}

int client_connect(struct client **ret, const char *socket_path, uint64_t timeout_ms, struct error *err)
{
    cleanup_fd int fd = -1;
    struct client *client;

    if (connect_to(socket_path, timeout_ms, &fd, err) < 0) {
        return -1;
    }
    client = calloc(1, sizeof *client);
    if (client == NULL) {
        return error_set_errno(err, ENOMEM, "%s", socket_path);
    }
    client->fd = take_fd(&fd);
    buffer_init(&client->in, MAX_REPLY);
    *ret = client;
    return 0;
}

void client_close(struct client *client)
{
    if (client != NULL) {
        close(client->fd);
        buffer_release(&client->in);
        free(client);
    }
}

/* Waits until the socket can do one of `events`; `deadline_ms` 0 stands for no end. */
static int wait_for(const struct client *client, short events, uint64_t deadline_ms, struct error *err)
{
    for (;;) {
        struct pollfd fd = {.fd = client->fd, .events = events};
        uint64_t now = clock_now_ms();
        int timeout = -1;
        int n;

        if (deadline_ms > 0) {
            uint64_t left = deadline_ms > now ? deadline_ms - now : 0;

            timeout = left < 1000000 ? (int)left : 1000000;
        }
        n = poll(&fd, 1, timeout);
        if (n > 0) {
            return 0;
        }
        if (n < 0 && errno != EINTR) {
            return error_set_errno(err, errno, "poll");
        }
        if (n == 0 && deadline_ms > 0 && clock_now_ms() >= deadline_ms) {
            return error_set(err, ERROR_NO_ANSWER, 0, "the gateway did not answer in time");
        }
    }
}

/* A gateway that closes without reading may have said why: then the answer is looked for all the same. */
static int send_request(struct client *client, const struct buffer *line, uint64_t deadline_ms,
                        struct error *err)
{
    size_t sent = 0;

    while (sent < line->length) {
        ssize_t n = send(client->fd, line->data + sent, line->length - sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n >= 0) {
            sent += (size_t)n;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            return 0;
        } else if (errno != EAGAIN && errno != EINTR) {
            return error_set_errno(err, errno, "sending to the gateway");
        } else if (wait_for(client, POLLOUT, deadline_ms, err) < 0) {
            return -1;
        }
    }
    return 0;
}

static int receive(struct client *client, uint64_t deadline_ms, struct error *err)
{
    size_t room = MAX_REPLY - client->in.length;
    uint8_t *to;
    ssize_t n;

    room = room < READ_BYTES ? room : READ_BYTES;
    if (room == 0) {
        return error_set(err, ERROR_TOO_LARGE, 0, "the answer is longer than %u bytes", MAX_REPLY);
    }
    to = buffer_reserve(&client->in, room);
    if (to == NULL) {
        return error_set_errno(err, ENOMEM, "the answer");
    }
    do {
        if (wait_for(client, POLLIN, deadline_ms, err) < 0) {
            return -1;
        }
        n = recv(client->fd, to, room, MSG_DONTWAIT);
    } while (n < 0 && (errno == EAGAIN || errno == EINTR));
    if (n <= 0) {
        return error_set(err, ERROR_IO, n < 0 ? errno : 0, "the gateway hung up");
    }
    buffer_commit(&client->in, (size_t)n);
    return 0;
}

/* The next line of the gateway's, as JSON. */
static int next_message(struct client *client, uint64_t deadline_ms, json_t **ret, struct error *err)
{
    size_t looked = 0;
    const uint8_t *newline = NULL;
    json_error_t why;
    size_t length;

    for (;;) {
        if (client->in.length > looked) {
            newline = memchr(client->in.data + looked, '\n', client->in.length - looked);
        }
        if (newline != NULL) {
            break;
        }
        looked = client->in.length;
        if (receive(client, deadline_ms, err) < 0) {
            return -1;
        }
    }
    length = (size_t)(newline - client->in.data);
    *ret = json_loadb((const char *)client->in.data, length, JSON_ALLOW_NUL, &why);
    buffer_consume(&client->in, length + 1);
    if (client->in.length == 0 && client->in.capacity > SMALL_BYTES) {
        buffer_release(&client->in);
    }
    if (*ret == NULL) {
        client->broken = true;
        return error_set(err, ERROR_IO, 0, "the gateway's answer is not JSON: %s", why.text);
    }
    return 0;
}

/* Whether the message answers request `id`. An error without an id is about the line or the connection
 * as a whole, and there is only one request. */
static bool answers(const json_t *message, json_int_t id)
{
    const json_t *its = json_object_get(message, "id");

    if (json_is_null(its)) {
        return json_object_get(message, "error") != NULL;
    }
    return json_is_integer(its) && json_integer_value(its) == id;
}

static int take_answer(const json_t *message, json_t **ret_result, struct error *err)
{
    const json_t *error = json_object_get(message, "error");
    json_t *result = json_object_get(message, "result");

    if (error != NULL) {
        rpc_read_error(error, err);
        return -1;
    }
    if (result == NULL) {
        return error_set(err, ERROR_IO, 0, "the gateway's answer has no result");
    }
    *ret_result = json_incref(result);
    return 0;
}

static int write_request(struct buffer *line, const char *method, json_t *params, json_int_t id,
                         struct error *err)
{
    json_t *request = json_pack("{s:s, s:I, s:s, s:O*}", "jsonrpc", "2.0", "id", id, "method", method,
                                "params", params);
    int r = request != NULL ? rpc_write(line, request) : -1;

    json_decref(request);
    return r < 0 ? error_set(err, ERROR_NO_MEMORY, 0, "no memory for the request") : 0;
}

int client_call(struct client *client, const char *method, json_t *params, uint64_t timeout_ms,
                json_t **ret_result, struct error *err)
{
    uint64_t deadline_ms = timeout_ms > 0 ? clock_now_ms() + timeout_ms : 0;
    cleanup_buffer struct buffer line = BUFFER_INIT(MAX_REQUEST);
    json_int_t id = ++client->last_id;

    if (client->broken) {
        return error_set(err, ERROR_IO, 0, "the connection to the gateway is broken");
    }
    if (write_request(&line, method, params, id, err) < 0) {
        return -1;
    }
    client->broken = true; /* until all of it is out */
    if (send_request(client, &line, deadline_ms, err) < 0) {
        return -1;
    }
    client->broken = false;
    for (;;) {
        json_t *message;
        int r;

        if (next_message(client, deadline_ms, &message, err) < 0) {
            return -1;
        }
        if (answers(message, id)) {
            r = take_answer(message, ret_result, err);
            json_decref(message);
            return r;
        }
        json_decref(message);
    }
}
