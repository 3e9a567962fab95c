#include "tests/unit/mcp_bed.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/unit/unit.h"

#define PATIENCE_MS 120000 /* valgrind is slow */

/* ---- Lines ---------------------------------------------------------------------------------- */

static void await(int fd, short events)
{
    struct pollfd p = {.fd = fd, .events = events};

    ck_assert_msg(poll(&p, 1, PATIENCE_MS) == 1, "nothing happens");
}

static json_t *hear(struct ear *ear)
{
    json_error_t why;
    json_t *message;
    char *newline;

    while (ear->length == 0 || (newline = memchr(ear->text, '\n', ear->length)) == NULL) {
        ssize_t n;

        await(ear->fd, POLLIN);
        ear->text = realloc(ear->text, ear->length + 65536);
        ck_assert_ptr_nonnull(ear->text);
        n = read(ear->fd, ear->text + ear->length, 65536);
        ck_assert_msg(n > 0, "the other side has gone");
        ear->length += (size_t)n;
    }
    message = json_loadb(ear->text, (size_t)(newline - ear->text), JSON_ALLOW_NUL, &why);
    ck_assert_msg(message != NULL, "%s: %.*s", why.text, (int)(newline - ear->text), ear->text);
    ear->length -= (size_t)(newline + 1 - ear->text);
    memmove(ear->text, newline + 1, ear->length);
    return message;
}

static void say(int fd, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t n = write(fd, bytes, length);

        ck_assert_msg(n > 0, "the other side has gone");
        bytes += n;
        length -= (size_t)n;
    }
}

/* ---- The host ------------------------------------------------------------------------------- */

static int open_session(void *ctx, struct client **ret, struct error *err)
{
    struct mcp_bed *bed = ctx;
    char byte;
    int fds[2];

    client_close(bed->client);
    bed->client = NULL;
    bed->openings++;
    if (bed->holds && read(bed->hold[0], &byte, 1) < 0) {
        abort();
    }
    if (bed->failures > 0) {
        bed->failures--;
        return error_set(err, ERROR_SANDBOX_GONE, 0, "there is no sandbox");
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0 ||
        client_new(&bed->client, fds[0], err) < 0 ||
        write(bed->opened[1], &fds[1], sizeof fds[1]) != sizeof fds[1]) {
        abort();
    }
    *ret = bed->client;
    return 0;
}

static void close_session(void *ctx)
{
    struct mcp_bed *bed = ctx;

    client_close(bed->client);
    bed->client = NULL;
}

static void *serve(void *arg)
{
    struct mcp_bed *bed = arg;

    bed->result = mcp_serve(bed->in, bed->out, bed->stop[0], &bed->host, &bed->err);
    close(bed->in);
    close(bed->out);
    return NULL;
}

static const char tools_text[] =
    "[{\"name\":\"bash\",\"inputSchema\":{\"type\":\"object\"},\"outputSchema\":{\"required\":[\"exit_code\"]}},{\"name\":\"read\"}]";

void mcp_bed_open(struct mcp_bed *bed)
{
    int in[2], out[2];

    memset(bed, 0, sizeof *bed);
    signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(bed->stop, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(bed->opened, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(bed->hold, O_CLOEXEC), 0);
    bed->in = in[0];
    bed->to = in[1];
    bed->peer.fd = out[0];
    bed->out = out[1];
    bed->gate.fd = -1;
    bed->host = (struct mcp_host){
        .instructions = "be careful",
        .tools = json_loads(tools_text, 0, NULL),
        .open = open_session,
        .hang_up = close_session,
        .ctx = bed,
    };
    ck_assert_int_eq(pthread_create(&bed->thread, NULL, serve, bed), 0);
    bed->running = true;
}

int mcp_bed_end(struct mcp_bed *bed)
{
    if (bed->running) {
        pthread_join(bed->thread, NULL);
        bed->running = false;
    }
    return bed->result;
}

static void shut(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

void mcp_bed_close(struct mcp_bed *bed)
{
    shut(&bed->to);
    mcp_bed_end(bed);
    shut(&bed->peer.fd);
    gate_hang_up(bed);
    for (int i = 0; i < 2; i++) {
        shut(&bed->stop[i]);
        shut(&bed->opened[i]);
        shut(&bed->hold[i]);
    }
    free(bed->peer.text);
    free(bed->gate.text);
    json_decref(bed->host.tools);
}

/* ---- The peer ------------------------------------------------------------------------------- */

void mcp_say_bytes(struct mcp_bed *bed, const char *bytes, size_t length)
{
    say(bed->to, bytes, length);
}

void mcp_say(struct mcp_bed *bed, const char *line)
{
    say(bed->to, line, strlen(line));
    say(bed->to, "\n", 1);
}

json_t *mcp_hear(struct mcp_bed *bed)
{
    json_t *message = hear(&bed->peer);

    ck_assert_str_eq(json_string_value(json_object_get(message, "jsonrpc")), "2.0");
    return message;
}

void mcp_greet(struct mcp_bed *bed)
{
    mcp_say(bed, "{\"jsonrpc\":\"2.0\",\"id\":\"hello\",\"method\":\"initialize\",\"params\":{"
                 "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{}}}");
    json_decref(mcp_hear(bed));
    mcp_say(bed, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}");
}

char *mcp_hear_error(struct mcp_bed *bed, int code, int id)
{
    json_t *message = mcp_hear(bed);
    json_t *error = json_object_get(message, "error");
    char *text = strdup(json_string_value(json_object_get(error, "message")));

    ck_assert_int_eq(json_integer_value(json_object_get(error, "code")), code);
    if (id >= 0) {
        ck_assert_int_eq(json_integer_value(json_object_get(message, "id")), id);
    } else {
        ck_assert_ptr_null(json_object_get(message, "id"));
    }
    json_decref(message);
    return text;
}

void mcp_hear_silence(struct mcp_bed *bed)
{
    json_t *message;

    mcp_say(bed, "{\"jsonrpc\":\"2.0\",\"id\":\"silence\",\"method\":\"ping\"}");
    message = mcp_hear(bed);
    ck_assert_str_eq(json_string_value(json_object_get(message, "id")), "silence");
    ck_assert(json_is_object(json_object_get(message, "result")));
    json_decref(message);
}

/* ---- The gateway ---------------------------------------------------------------------------- */

void gate_wait(struct mcp_bed *bed)
{
    gate_hang_up(bed);
    await(bed->opened[0], POLLIN);
    ck_assert_int_eq(read(bed->opened[0], &bed->gate.fd, sizeof bed->gate.fd), sizeof bed->gate.fd);
}

json_t *gate_hear(struct mcp_bed *bed)
{
    return hear(&bed->gate);
}

void gate_say(struct mcp_bed *bed, const char *format, ...)
{
    char text[1024];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    ck_assert_int_lt(n, sizeof text);
    say(bed->gate.fd, text, (size_t)n);
    say(bed->gate.fd, "\n", 1);
}

json_int_t gate_hear_call(struct mcp_bed *bed, const char *tool)
{
    json_t *message = gate_hear(bed);
    json_t *params = json_object_get(message, "params");
    json_int_t id = json_integer_value(json_object_get(message, "id"));

    ck_assert_str_eq(json_string_value(json_object_get(message, "method")), "tools.call");
    ck_assert_str_eq(json_string_value(json_object_get(params, "name")), tool);
    ck_assert(json_is_object(json_object_get(params, "arguments")));
    json_decref(message);
    return id;
}

void gate_hang_up(struct mcp_bed *bed)
{
    shut(&bed->gate.fd);
    bed->gate.length = 0;
}
