/* The gateway's other end. What is to be sent waits in a queue, what came in lies in a buffer until its line
 * is whole; nothing blocks but client_call(), which is a poll(2) loop around the rest. */
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

#define READ_BYTES (64u << 10)
#define SMALL_BYTES (1u << 20) /* a larger buffer is not kept for what comes next */

struct client {
    int fd;
    struct buffer in;
    size_t taken;  /* bytes of `in` that were given out */
    size_t looked; /* bytes of `in` that have no newline */
    struct buffer out;
    size_t sent;   /* bytes of `out` */
    bool deaf;     /* the gateway reads no more; it may still have said why */
    bool confused; /* it sent what is no message; nothing after that can be trusted */
    json_int_t last_id;
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

int client_new(struct client **ret, int fd, struct error *err)
{
    struct client *client = calloc(1, sizeof *client);

    if (client == NULL) {
        close(fd);
        return error_set_errno(err, ENOMEM, "a client");
    }
    client->fd = fd;
    buffer_init(&client->in, CLIENT_MAX_MESSAGE);
    buffer_init(&client->out, CLIENT_MAX_UNSENT);
    *ret = client;
    return 0;
}

int client_connect(struct client **ret, const char *socket_path, uint64_t timeout_ms, struct error *err)
{
    int fd;

    return connect_to(socket_path, timeout_ms, &fd, err) < 0 ? -1 : client_new(ret, fd, err);
}

void client_close(struct client *client)
{
    if (client != NULL) {
        close(client->fd);
        buffer_release(&client->in);
        buffer_release(&client->out);
        free(client);
    }
}

int client_fd(const struct client *client)
{
    return client->fd;
}

/* ---- Out ---- */

static int queue(struct client *client, json_t *request, struct error *err)
{
    int r = request != NULL ? rpc_write(&client->out, request) : -1;
    int error = request != NULL ? errno : ENOMEM;

    json_decref(request);
    if (r == 0) {
        return 0;
    }
    return error == ENOBUFS
               ? error_set(err, ERROR_TOO_LARGE, 0, "more than %u bytes would wait for the gateway",
                           CLIENT_MAX_UNSENT)
               : error_set(err, ERROR_NO_MEMORY, 0, "no memory for the request");
}

int client_send(struct client *client, const char *method, json_t *params, json_int_t *ret_id,
                struct error *err)
{
    json_int_t id = ++client->last_id;

    *ret_id = id;
    return queue(client,
                 json_pack("{s:s, s:I, s:s, s:O*}", "jsonrpc", "2.0", "id", id, "method", method,
                           "params", params),
                 err);
}

int client_notify(struct client *client, const char *method, json_t *params, struct error *err)
{
    return queue(client,
                 json_pack("{s:s, s:s, s:O*}", "jsonrpc", "2.0", "method", method, "params", params),
                 err);
}

bool client_has_unsent(const struct client *client)
{
    return client->sent < client->out.length;
}

/* Forgets what was sent; a large buffer that is empty is given back. */
static void drop_sent(struct client *client)
{
    if (client->sent == client->out.length) {
        buffer_clear(&client->out);
        client->sent = 0;
        if (client->out.capacity > SMALL_BYTES) {
            buffer_release(&client->out);
        }
    } else if (client->sent > client->out.length / 2) {
        buffer_consume(&client->out, client->sent);
        client->sent = 0;
    }
}

int client_flush(struct client *client, struct error *err)
{
    while (client_has_unsent(client) && !client->deaf) {
        ssize_t n = send(client->fd, client->out.data + client->sent,
                         client->out.length - client->sent, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n >= 0) {
            client->sent += (size_t)n;
        } else if (errno == EPIPE || errno == ECONNRESET) {
            client->deaf = true;
        } else if (errno == EAGAIN) {
            break;
        } else if (errno != EINTR) {
            return error_set_errno(err, errno, "sending to the gateway");
        }
    }
    if (client->deaf) {
        client->sent = client->out.length;
    }
    drop_sent(client);
    return 0;
}

/* ---- In ---- */

/* Reads what there is, one piece of it. 1: something came; 0: nothing yet. */
static int fill(struct client *client, struct error *err)
{
    size_t room = CLIENT_MAX_MESSAGE - client->in.length;
    uint8_t *to;
    ssize_t n;

    room = room < READ_BYTES ? room : READ_BYTES;
    if (room == 0) {
        return error_set(err, ERROR_TOO_LARGE, 0, "the answer is longer than %u bytes",
                         CLIENT_MAX_MESSAGE);
    }
    to = buffer_reserve(&client->in, room);
    if (to == NULL) {
        return error_set_errno(err, ENOMEM, "the answer");
    }
    do {
        n = recv(client->fd, to, room, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) {
        return 0;
    }
    if (n <= 0) {
        return error_set(err, ERROR_IO, n < 0 ? errno : 0, "the gateway hung up");
    }
    buffer_commit(&client->in, (size_t)n);
    return 1;
}

/* The end of the first line that was not given out yet, or NULL. */
static const uint8_t *find_newline(struct client *client)
{
    size_t from = client->looked > client->taken ? client->looked : client->taken;
    const uint8_t *newline = NULL;

    if (from < client->in.length) {
        newline = memchr(client->in.data + from, '\n', client->in.length - from);
    }
    client->looked = newline != NULL ? (size_t)(newline - client->in.data) : client->in.length;
    return newline;
}

/* Moves what is left to the buffer's start: once for all the lines that one piece brought. */
static void drop_taken(struct client *client)
{
    buffer_consume(&client->in, client->taken);
    client->looked -= client->looked < client->taken ? client->looked : client->taken;
    client->taken = 0;
    if (client->in.length == 0 && client->in.capacity > SMALL_BYTES) {
        buffer_release(&client->in);
    }
}

int client_receive(struct client *client, json_t **ret, struct error *err)
{
    const uint8_t *newline;
    json_error_t why;

    if (client->confused) {
        return error_set(err, ERROR_IO, 0, "the connection to the gateway is broken");
    }
    while ((newline = find_newline(client)) == NULL) {
        int r;

        drop_taken(client);
        r = fill(client, err);
        if (r <= 0) {
            return r;
        }
    }
    *ret = json_loadb((const char *)client->in.data + client->taken,
                      (size_t)(newline - client->in.data) - client->taken, JSON_ALLOW_NUL, &why);
    client->taken = (size_t)(newline - client->in.data) + 1;
    if (*ret == NULL) {
        client->confused = true;
        return error_set(err, ERROR_IO, 0, "the gateway's answer is not JSON: %s", why.text);
    }
    return 1;
}

json_int_t client_id(const json_t *message)
{
    const json_t *id = json_object_get(message, "id");

    if (json_is_integer(id)) {
        return json_integer_value(id);
    }
    return json_is_null(id) && json_object_get(message, "error") != NULL ? -1 : 0;
}

int client_result(const json_t *message, json_t **ret_result, struct error *err)
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

/* ---- One call, blocking ---- */

/* Waits until there is something to do; `deadline_ms` 0 stands for no end. */
static int wait_for(const struct client *client, uint64_t deadline_ms, struct error *err)
{
    struct pollfd fd = {.fd = client->fd,
                        .events = (short)(client_has_unsent(client) ? POLLIN | POLLOUT : POLLIN)};
    uint64_t now = clock_now_ms();
    int timeout = -1;
    int n;

    if (deadline_ms > 0) {
        uint64_t left = deadline_ms > now ? deadline_ms - now : 0;

        timeout = left < 1000000 ? (int)left : 1000000;
    }
    n = poll(&fd, 1, timeout);
    if (n < 0 && errno != EINTR) {
        return error_set_errno(err, errno, "poll");
    }
    if (n == 0 && deadline_ms > 0 && clock_now_ms() >= deadline_ms) {
        return error_set(err, ERROR_NO_ANSWER, 0, "the gateway did not answer in time");
    }
    return 0;
}

int client_call(struct client *client, const char *method, json_t *params, uint64_t timeout_ms,
                json_t **ret_result, struct error *err)
{
    uint64_t deadline_ms = timeout_ms > 0 ? clock_now_ms() + timeout_ms : 0;
    json_int_t id;

    if (client_send(client, method, params, &id, err) < 0) {
        return -1;
    }
    for (;;) {
        json_t *message = NULL;
        int r = client_flush(client, err) < 0 ? -1 : client_receive(client, &message, err);
        json_int_t of = r == 1 ? client_id(message) : 0;

        if (r == 1 && (of == id || of == -1)) { /* an error of no request: there is only this one */
            r = client_result(message, ret_result, err);
            json_decref(message);
            return r;
        }
        json_decref(message);
        if (r < 0 || (r == 0 && wait_for(client, deadline_ms, err) < 0)) {
            return -1;
        }
    }
}
