/* Output while a command runs: exec.output notifications.
 *
 * What comes from the sandbox waits with its command, raw and bounded (EXECUTION_MAX_UNTAKEN), until its
 * connection has little left to send; only then is it made into a message, and only then does the
 * sandbox hear that more may come. So a client that reads slowly slows its own commands and nothing else,
 * and costs no more than that. A character is not cut: its first bytes wait for the rest. */
#include <stdlib.h>

#include "exec/command.h"
#include "exec/result.h"
#include "exec/utf8.h"

/* ---- One message ---- */

/* How many bytes go into the next message: 0 where what there is may be the beginning of a character.
 * Text and what is none go apart as far as that is easily seen. */
static size_t chunk_length(const uint8_t *data, size_t length, bool is_last)
{
    size_t size = length < STREAM_CHUNK_BYTES ? length : STREAM_CHUNK_BYTES;
    size_t whole = utf8_whole(data, size);

    return whole == 0 && is_last ? size : whole;
}

static json_t *message(const struct command *c, unsigned stream, const uint8_t *data, size_t length)
{
    json_t *params = json_pack("{s:O, s:s}", "id", c->request->id, "stream",
                               stream == 0 ? "stdout" : "stderr");

    if (params == NULL || result_put_bytes(params, "data", data, length) < 0) {
        json_decref(params);
        return NULL;
    }
    return json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", "exec.output", "params", params);
}

/* False where nothing is to be sent. */
static bool send_one(struct command *c, unsigned stream, bool is_last)
{
    struct fifo *out = &c->out[stream];
    size_t length = fifo_length(out) == 0
                        ? 0
                        : chunk_length(fifo_data(out), fifo_length(out), is_last);

    if (length == 0) {
        return false;
    }
    connection_send(c->request->connection, message(c, stream, fifo_data(out), length));
    if (c->streams) { /* the connection may have ended just now */
        fifo_consume(out, length);
        if (c->execution != NULL) {
            execution_take(c->execution, stream, length);
        }
    }
    return true;
}

/* ---- All that wait ---- */

/* Sends one message of this command: the one of its streams that has more to say. */
static bool send_some(struct command *c)
{
    unsigned first = fifo_length(&c->out[0]) >= fifo_length(&c->out[1]) ? 0 : 1;

    return send_one(c, first, false) || (c->streams && send_one(c, first ^ 1, false));
}

void connection_stream(struct gateway *gateway, struct connection *connection)
{
    struct command *c = TAILQ_FIRST(&gateway->streams);
    struct command *next;

    for (; c != NULL && connection_unsent(connection) < STREAM_MAX_UNSENT; c = next) {
        next = TAILQ_NEXT(c, streaming);
        if (c->request->connection == connection && send_some(c) && c->streams) {
            /* To the end, so that each of several gets its turn. */
            TAILQ_REMOVE(&gateway->streams, c, streaming);
            TAILQ_INSERT_TAIL(&gateway->streams, c, streaming);
            next = next != NULL ? next : c;
        }
    }
}

void command_output(void *arg, unsigned stream, const void *data, size_t length)
{
    struct request *r = arg;
    struct command *c = r->command;

    if (r->connection == NULL) { /* it has hung up, and the command is being killed */
        execution_take(c->execution, stream, length);
    } else if (buffer_append(&c->out[stream].bytes, data, length) < 0) {
        r->failed = true;
        error_set(&r->error, ERROR_NO_MEMORY, 0, "out of memory for the command's output");
        request_cancel(r);
    } else {
        connection_stream(r->gateway, r->connection);
    }
}

void command_stream_flush(struct command *c)
{
    for (unsigned i = 0; i < 2; i++) {
        while (c->streams && c->request->connection != NULL && send_one(c, i, true)) {
        }
    }
    command_stream_close(c);
}

/* ---- Its life ---- */

void command_stream_open(struct command *c)
{
    c->streams = true;
    TAILQ_INSERT_TAIL(&c->request->gateway->streams, c, streaming);
    for (unsigned i = 0; i < 2; i++) {
        buffer_init(&c->out[i].bytes, 2 * (EXECUTION_MAX_UNTAKEN + FIFO_KEEP_BYTES));
    }
}

void command_stream_close(struct command *c)
{
    if (c->streams) {
        c->streams = false;
        TAILQ_REMOVE(&c->request->gateway->streams, c, streaming);
        buffer_release(&c->out[0].bytes);
        buffer_release(&c->out[1].bytes);
    }
}
