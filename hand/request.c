/* What each frame of the host does. A frame that does not decode, or that makes no sense, is answered by
 * the end of its connection. */
#include <string.h>
#include <sys/socket.h>

#include "hand/server.h"

/* ---- Greeting ---------------------------------------------------------------------------------- */

/* The last thing that is said, so it goes out at once or not at all. */
static int refuse(struct connection *c, enum error_code code, const char *why)
{
    struct buffer out = BUFFER_INIT(4096);
    size_t frame = wire_begin_frame(&out, WIRE_REFUSE, 0);

    if (frame != SIZE_MAX && wire_put_u16(&out, (uint16_t)code) == 0 &&
        wire_put_bytes(&out, why, strlen(why)) == 0) {
        wire_end_frame(&out, frame);
        send(c->source.fd, out.data, out.length, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    buffer_release(&out);
    return -1;
}

static int greet(struct connection *c, const uint8_t *payload, size_t length)
{
    struct buffer out = BUFFER_INIT(WIRE_MAX_PAYLOAD);
    struct wire_hello hello;
    struct error err;
    size_t frame;

    if (wire_get_hello(payload, length, &hello) < 0) {
        return refuse(c, ERROR_BAD_REQUEST, "this hand speaks another version of the protocol");
    }
    if (client_join(c, hello.client, &err) < 0) {
        return refuse(c, err.code, err.message);
    }
    loop_disarm(&c->hello);
    frame = wire_begin_frame(&out, WIRE_WELCOME, 0);
    if (frame == SIZE_MAX || wire_put_welcome(&out, &c->server->welcome) < 0) {
        buffer_release(&out);
        return -1;
    }
    wire_end_frame(&out, frame);
    connection_send(c, &out);
    return 0;
}

static int pong(struct connection *c, uint64_t id)
{
    struct buffer out = BUFFER_INIT(WIRE_HEADER_BYTES);

    if (wire_put_empty(&out, WIRE_PONG, id) < 0) {
        return -1;
    }
    connection_send(c, &out);
    return 0;
}

/* ---- Executions -------------------------------------------------------------------------------- */

static int put_failed(struct buffer *out, uint64_t id, const struct error *err)
{
    size_t frame = wire_begin_frame(out, WIRE_EXEC_FAILED, id);

    if (frame == SIZE_MAX || wire_put_u16(out, (uint16_t)err->code) < 0 ||
        wire_put_u32(out, (uint32_t)err->os_errno) < 0 ||
        wire_put_bytes(out, err->message, strlen(err->message)) < 0) {
        return -1;
    }
    wire_end_frame(out, frame);
    return 0;
}

static int send_failed(struct connection *c, uint64_t id, const struct error *err)
{
    struct buffer out = BUFFER_INIT(4096);

    if (put_failed(&out, id, err) < 0) {
        buffer_release(&out);
        return -1;
    }
    connection_send(c, &out);
    return 0;
}

/* A known id is a host that came back and did not hear whether its request had arrived. */
static int exec(struct connection *c, uint64_t id, const uint8_t *payload, size_t length)
{
    struct execution *known = execution_find(&c->client->owner, id);
    struct wire_exec request;
    struct error err;

    if (wire_get_exec(payload, length, &request) < 0) {
        return -1;
    }
    if (known != NULL) {
        return execution_attach(known, 0, 0);
    }
    if (execution_start(&c->server->executions, &c->client->owner, id, &request, &err) < 0) {
        return send_failed(c, id, &err);
    }
    return 0;
}

static int attach(struct connection *c, struct execution *e, uint64_t id, struct wire_reader *r)
{
    uint64_t out = wire_get_u64(r);
    uint64_t err_bytes = wire_get_u64(r);
    struct error err;

    if (wire_end(r) < 0) {
        return -1;
    }
    if (e == NULL) {
        error_set(&err, ERROR_IO, 0, "the sandbox knows nothing of this command");
        return send_failed(c, id, &err);
    }
    return execution_attach(e, out, err_bytes);
}

static int input(struct execution *e, struct wire_reader *r)
{
    uint64_t offset = wire_get_u64(r);
    size_t length;
    const uint8_t *data = wire_get_bytes(r, WIRE_MAX_DATA, &length);

    if (wire_end(r) < 0) {
        return -1;
    }
    return e == NULL ? 0 : execution_input(e, offset, data, length);
}

static int credit(struct execution *e, struct wire_reader *r)
{
    unsigned stream = wire_get_u8(r);
    uint64_t total = wire_get_u64(r);

    if (wire_end(r) < 0) {
        return -1;
    }
    return e == NULL ? 0 : execution_credit(e, stream, total);
}

static int send_signal(struct execution *e, struct wire_reader *r)
{
    uint32_t signal = wire_get_u32(r);

    if (wire_end(r) < 0) {
        return -1;
    }
    if (e != NULL) {
        execution_signal(e, signal);
    }
    return 0;
}

static int resize(struct execution *e, struct wire_reader *r)
{
    uint16_t rows = wire_get_u16(r);
    uint16_t columns = wire_get_u16(r);

    if (wire_end(r) < 0) {
        return -1;
    }
    if (e != NULL) {
        execution_resize(e, rows, columns);
    }
    return 0;
}

/* What has no payload. */
static int command(void (*act)(struct execution *e), struct execution *e, const struct wire_reader *r)
{
    if (wire_end(r) < 0) {
        return -1;
    }
    if (e != NULL) {
        act(e);
    }
    return 0;
}

/* ---- All frames -------------------------------------------------------------------------------- */

static int about_execution(struct connection *c, const struct wire_header *header,
                           struct wire_reader *r)
{
    /* NULL is no fault: the host may not know yet that it is over. */
    struct execution *e = execution_find(&c->client->owner, header->id);

    switch (header->type) {
    case WIRE_EXEC_INPUT:
        return input(e, r);
    case WIRE_EXEC_EOF:
        return command(execution_eof, e, r);
    case WIRE_EXEC_SIGNAL:
        return send_signal(e, r);
    case WIRE_EXEC_KILL:
        return command(execution_kill, e, r);
    case WIRE_EXEC_CREDIT:
        return credit(e, r);
    case WIRE_EXEC_ATTACH:
        return attach(c, e, header->id, r);
    case WIRE_EXEC_RESIZE:
        return resize(e, r);
    case WIRE_EXEC_FORGET:
        return command(execution_forget, e, r);
    default:
        return -1;
    }
}

int request_serve(struct connection *c, const struct wire_header *header, const uint8_t *payload)
{
    struct wire_reader r = {payload, header->length, false};

    if (c->client == NULL) {
        return header->type == WIRE_HELLO ? greet(c, payload, header->length) : -1;
    }
    switch (header->type) {
    case WIRE_PING:
        return wire_end(&r) < 0 ? -1 : pong(c, header->id);
    case WIRE_CALL:
        return client_call(c->client, header->id, payload, header->length);
    case WIRE_CANCEL:
        if (wire_end(&r) < 0) {
            return -1;
        }
        client_cancel(c->client, header->id);
        return 0;
    case WIRE_EXEC:
        return exec(c, header->id, payload, header->length);
    default:
        return about_execution(c, header, &r);
    }
}
