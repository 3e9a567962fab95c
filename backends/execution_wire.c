/* What travels about executions. The hand's numbers are checked against ours: output comes without a gap or
 * an overlap and never beyond what is kept, and the end says the same count. */
#include "backends/execution_internal.h"

#include <string.h>

/* ---- To the hand ------------------------------------------------------------------------------ */

static int put_env(struct buffer *out, const char *const *env, uint32_t *ret_count)
{
    uint32_t count = 0;

    for (; env != NULL && env[count] != NULL; count++) {
        if (count >= WIRE_MAX_EXEC_ENV || wire_put_bytes(out, env[count], strlen(env[count])) < 0) {
            return -1;
        }
    }
    *ret_count = count;
    return 0;
}

static int put_exec(struct execution *x, const struct execution_request *request, struct buffer *env)
{
    const char *cwd = request->cwd != NULL ? request->cwd : "";
    const char *tool = request->tool != NULL ? request->tool : "";
    const char *shell = request->shell != NULL ? request->shell : "";
    struct wire_exec exec = {
        .tool = {tool, strlen(tool)},
        .command = {request->command, request->command_length},
        .cwd = {cwd, strlen(cwd)},
        .has_stdin = request->has_stdin,
        .keep = x->output != NULL ? EXECUTION_WINDOW : x->keep,
        .flow = x->output != NULL,
        .terminal = x->terminal,
        .rows = x->rows,
        .columns = x->columns,
        .shell = {shell, strlen(shell)},
        .shell_reset = request->shell_reset,
    };
    size_t frame = wire_begin_frame(&x->frame, WIRE_EXEC, x->id);

    if (frame == SIZE_MAX || put_env(env, request->env, &exec.env_count) < 0) {
        return -1;
    }
    exec.env = env->data;
    exec.env_length = env->length;
    if (wire_put_exec(&x->frame, &exec) < 0) {
        return -1;
    }
    wire_end_frame(&x->frame, frame);
    return 0;
}

int execution_encode(struct execution *x, const struct execution_request *request, struct error *err)
{
    struct buffer env = BUFFER_INIT(WIRE_MAX_EXEC_PAYLOAD);
    struct wire_exec checked;
    int r = put_exec(x, request, &env);

    buffer_release(&env);
    if (r < 0 || request->command_length > MAX_COMMAND_BYTES) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the command or its environment is too large");
    }
    if (wire_get_exec(x->frame.data + WIRE_HEADER_BYTES, x->frame.length - WIRE_HEADER_BYTES,
                      &checked) < 0) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "a NUL in the command or its directory, an environment entry that is not "
                         "NAME=VALUE, or a name that no shell has");
    }
    return 0;
}

static void put_simple(const struct execution *x, enum wire_type type)
{
    struct buffer *out = link_out(x->link);

    if (out != NULL && x->sent) {
        (void)!wire_put_empty(out, type, x->id);
    }
}

void execution_send_kill(struct execution *x)
{
    x->killed = true;
    put_simple(x, WIRE_EXEC_KILL);
}

void execution_send_forget(struct execution *x)
{
    put_simple(x, WIRE_EXEC_FORGET);
}

/* One frame with one or two fields, or nothing of it. */
static int put_numbers(struct buffer *out, enum wire_type type, uint64_t id, const uint64_t *numbers,
                       size_t count)
{
    size_t frame = wire_begin_frame(out, type, id);

    if (frame == SIZE_MAX) {
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        if (wire_put_u64(out, numbers[i]) < 0) {
            out->length = frame;
            return -1;
        }
    }
    wire_end_frame(out, frame);
    return 0;
}

void execution_send_signals(struct execution *x)
{
    struct buffer *out = link_out(x->link);

    if (out == NULL || !x->sent) {
        return;
    }
    for (unsigned signal = 1; x->signals != 0; signal++) {
        uint64_t bit = UINT64_C(1) << (signal - 1);
        size_t frame;

        if ((x->signals & bit) == 0) {
            continue;
        }
        frame = wire_begin_frame(out, WIRE_EXEC_SIGNAL, x->id);
        if (frame == SIZE_MAX) {
            return;
        }
        if (wire_put_u32(out, signal) < 0) {
            out->length = frame;
            return;
        }
        wire_end_frame(out, frame);
        x->signals &= ~bit;
    }
}

void execution_send_size(struct execution *x)
{
    struct buffer *out = link_out(x->link);
    size_t frame;

    if (out == NULL || !x->sent || !x->resized) {
        return;
    }
    frame = wire_begin_frame(out, WIRE_EXEC_RESIZE, x->id);
    if (frame == SIZE_MAX) {
        return;
    }
    if (wire_put_u16(out, x->rows) < 0 || wire_put_u16(out, x->columns) < 0) {
        out->length = frame;
        return;
    }
    wire_end_frame(out, frame);
    x->resized = false;
}

static void attach(struct execution *x, struct buffer *out)
{
    if (put_numbers(out, WIRE_EXEC_ATTACH, x->id, x->received, 2) < 0) {
        return;
    }
    x->attached = true;
    x->credited[0] = x->credited[1] = 0; /* what was said last may be lost */
    x->link->credit_due = true;
    if (x->killed) {
        execution_send_kill(x);
    }
}

/* Whether the request may be made again: no word of it was heard, and the hand cannot have forgotten it
 * since. It takes an id that it knows for the same command, which is not run twice. */
static bool may_ask_again(const struct execution *x)
{
    const struct link *link = x->link;

    return !x->started && !x->killed && x->frame.length > 0 &&
           uv_now(link->loop) - link->heard_before_ms < EXECUTION_ASK_AGAIN_MS;
}

void execution_tell(struct execution *x)
{
    struct buffer *out = link_out(x->link);

    if (out == NULL) {
        return;
    }
    x->in_want = 0; /* is said anew; what was sent last may be lost, and is sent again */
    x->in_sent = x->in_start;
    x->eof_sent = false;
    if (x->sent && !may_ask_again(x)) {
        attach(x, out);
    } else if (buffer_append(out, x->frame.data, x->frame.length) == 0) {
        x->sent = true; /* the frame is kept until it is known to have arrived */
    } else {
        execution_fail(x, ERROR_NO_MEMORY, 0, "too much waits to be sent");
        execution_settle(x);
        return;
    }
    execution_send_signals(x);
    execution_send_size(x);
    execution_pump(x);
}

static int put_input(struct execution *x, struct buffer *out, size_t length)
{
    size_t frame = wire_begin_frame(out, WIRE_EXEC_INPUT, x->id);

    if (frame == SIZE_MAX) {
        return -1;
    }
    if (wire_put_u64(out, x->in_sent) < 0 ||
        wire_put_bytes(out, fifo_data(&x->in) + (x->in_sent - x->in_start), length) < 0) {
        out->length = frame;
        return -1;
    }
    wire_end_frame(out, frame);
    x->in_sent += length;
    return 0;
}

void execution_pump(struct execution *x)
{
    struct buffer *out = link_out(x->link);
    uint64_t end = x->in_start + fifo_length(&x->in);

    if (out == NULL || x->over || !x->sent || !x->has_stdin) {
        return;
    }
    while (x->in_sent < end && x->in_sent < x->in_want &&
           fifo_length(&x->link->stream->out) < EXECUTION_INPUT_UNSENT) {
        uint64_t length = end < x->in_want ? end - x->in_sent : x->in_want - x->in_sent;

        if (length > EXECUTION_INPUT_BYTES) {
            length = EXECUTION_INPUT_BYTES;
        }
        if (put_input(x, out, (size_t)length) < 0) {
            return;
        }
    }
    if (x->room_wanted && execution_unread(x) < EXECUTION_ROOM) {
        x->room_wanted = false;
        x->room_due = true;
        link_defer(x->link);
    }
    if (x->eof && !x->eof_sent && x->in_sent == end &&
        wire_put_empty(out, WIRE_EXEC_EOF, x->id) == 0) {
        x->eof_sent = true;
    }
}

void executions_drained(struct link *link)
{
    struct execution *x;

    TAILQ_FOREACH(x, &link->executions, listed) {
        execution_pump(x);
    }
}

static int put_credit(struct execution *x, struct buffer *out, unsigned i)
{
    size_t frame = wire_begin_frame(out, WIRE_EXEC_CREDIT, x->id);

    if (frame == SIZE_MAX) {
        return -1;
    }
    if (wire_put_u8(out, (uint8_t)(i == 0 ? WIRE_STDOUT : WIRE_STDERR)) < 0 ||
        wire_put_u64(out, x->taken[i]) < 0) {
        out->length = frame;
        return -1;
    }
    wire_end_frame(out, frame);
    x->credited[i] = x->taken[i];
    return 0;
}

void executions_credit(struct link *link)
{
    struct buffer *out = link_out(link);
    struct execution *x;

    link->credit_due = false;
    if (out == NULL) {
        return;
    }
    TAILQ_FOREACH(x, &link->executions, listed) {
        for (unsigned i = 0; i < 2; i++) {
            if (x->taken[i] != x->credited[i] && put_credit(x, out, i) < 0) {
                link->credit_due = true;
                return;
            }
        }
    }
}

/* ---- From the hand ---------------------------------------------------------------------------- */

static void mark_started(struct execution *x)
{
    if (!x->started && x->in_shell) {
        execution_turn(x);
    }
    x->started = true;
    buffer_release(&x->frame);
}

static int take_started(struct execution *x, struct wire_reader *r)
{
    (void)wire_get_u32(r);
    if (wire_end(r) < 0) {
        return -1;
    }
    mark_started(x);
    return 0;
}

/* Of the codes that a hand may give for a command, those that a caller can do something about. */
static enum error_code believable(const struct execution *x, unsigned code)
{
    switch (code) {
    case ERROR_NO_SUCH_FILE:
    case ERROR_IS_DIRECTORY:
    case ERROR_NOT_DIRECTORY:
    case ERROR_NOT_WRITABLE:
    case ERROR_TOO_LARGE:
    case ERROR_BAD_REQUEST:
    case ERROR_NO_MEMORY:
    case ERROR_ERRNO:
        return (enum error_code)code;
    case ERROR_CANCELLED: /* its shell was begun anew while it waited for its turn */
        return x->in_shell ? ERROR_CANCELLED : ERROR_IO;
    default:
        return ERROR_IO;
    }
}

static int take_failed(struct execution *x, struct wire_reader *r)
{
    unsigned code = wire_get_u16(r);
    uint32_t os_errno = wire_get_u32(r);
    size_t length;
    const uint8_t *text = wire_get_bytes(r, ERROR_MESSAGE_MAX, &length);
    struct error err;

    if (wire_end(r) < 0 || (x->started && !x->attached) || os_errno > 4095 ||
        (code == ERROR_ERRNO && os_errno == 0)) {
        return -1;
    }
    if (!x->over && x->attached && believable(x, code) == ERROR_IO) {
        execution_fail(x, ERROR_IO, 0, "the command was lost with the stream to the sandbox");
    } else if (!x->over) {
        error_set(&err, believable(x, code), (int)os_errno, "%.*s", (int)length, (const char *)text);
        execution_fail(x, err.code, err.os_errno, err.message);
    }
    execution_settle(x);
    return 0;
}

/* How many bytes more may come of a stream. */
static uint64_t output_room(const struct execution *x, unsigned i)
{
    return x->output != NULL ? EXECUTION_MAX_UNTAKEN - (x->received[i] - x->taken[i])
                             : x->keep - x->received[i];
}

/* Keeps what is within the cap and hands on what is asked for. */
static void give_output(struct execution *x, unsigned i, const uint8_t *data, size_t length)
{
    struct buffer *kept = &x->result.out[i];
    uint64_t room = x->keep - kept->length;

    if (buffer_append(kept, data, length < room ? length : (size_t)room) < 0) {
        execution_send_kill(x);
        execution_fail(x, ERROR_NO_MEMORY, 0, "out of memory for the command's output");
    } else if (x->output != NULL) {
        x->output(x->arg, i, data, length);
    } else {
        x->taken[i] = x->received[i];
    }
}

static int take_output(struct execution *x, struct wire_reader *r)
{
    unsigned stream = wire_get_u8(r);
    uint64_t offset = wire_get_u64(r);
    size_t length;
    const uint8_t *data = wire_get_bytes(r, WIRE_MAX_DATA, &length);
    unsigned i = stream == WIRE_STDOUT ? 0 : 1;

    if (wire_end(r) < 0 || (stream != WIRE_STDOUT && stream != WIRE_STDERR) || length == 0 ||
        offset != x->received[i] || length > output_room(x, i)) {
        return -1;
    }
    mark_started(x);
    x->received[i] += length;
    x->link->credit_due = true;
    if (x->over) {
        x->taken[i] = x->received[i];
    } else {
        give_output(x, i, data, length);
    }
    return 0;
}

/* Lets go of what the hand has taken for certain: its credit less what it buffers. */
static void trim_input(struct execution *x)
{
    uint64_t taken = x->in_want > x->in_window ? x->in_want - x->in_window : 0;

    if (taken > x->in_sent) {
        taken = x->in_sent;
    }
    if (taken > x->in_start) {
        fifo_consume(&x->in, (size_t)(taken - x->in_start));
        x->in_start = taken;
    }
}

static int take_want(struct execution *x, struct wire_reader *r)
{
    uint64_t want = wire_get_u64(r);

    if (wire_end(r) < 0 || !x->has_stdin) {
        return -1;
    }
    mark_started(x);
    if (x->in_window == 0) {
        x->in_window = want < EXECUTION_MAX_WINDOW ? want : EXECUTION_MAX_WINDOW;
    }
    if (x->over || want < x->in_want) {
        return 0;
    }
    x->in_want = want;
    trim_input(x);
    execution_pump(x);
    return 0;
}

static int take_exit(struct execution *x, const uint8_t *payload, size_t length)
{
    struct wire_exit e;

    if (wire_get_exit(payload, length, &e) < 0 || e.sent[0] != x->received[0] ||
        e.sent[1] != x->received[1]) {
        return -1;
    }
    if (!x->over) {
        execution_exited(x, &e);
    }
    if (x->in_shell && x->result.timed_out && !x->killed) {
        execution_send_kill(x); /* what it has left in its shell is not wanted */
    }
    execution_send_forget(x);
    execution_settle(x);
    return 0;
}

static int take(struct execution *x, const struct wire_header *header, const uint8_t *payload)
{
    struct wire_reader r = {payload, header->length, false};

    switch (header->type) {
    case WIRE_EXEC_STARTED:
        return take_started(x, &r);
    case WIRE_EXEC_FAILED:
        return take_failed(x, &r);
    case WIRE_EXEC_OUTPUT:
        return take_output(x, &r);
    case WIRE_EXEC_WANT:
        return take_want(x, &r);
    case WIRE_EXEC_EXIT:
        return take_exit(x, payload, header->length);
    default:
        return -1;
    }
}

int executions_frame(struct link *link, const struct wire_header *header, const uint8_t *payload)
{
    struct execution *x;

    TAILQ_FOREACH(x, &link->executions, listed) {
        if (x->id == header->id) {
            break;
        }
    }
    if (x == NULL) { /* of one that has just ended, a few may be under way */
        bool known = header->id >= 1 && header->id <= link->execution_serial;

        return known && (header->type == WIRE_EXEC_WANT || header->type == WIRE_EXEC_FAILED) ? 0 : -1;
    }
    if (x->sent && take(x, header, payload) == 0) {
        return 0;
    }
    x->killed = true; /* what it runs is not to be believed; said when there is a stream again */
    if (!x->over) {
        execution_fail(x, ERROR_IO, 0, "the hand broke the rules of the wire");
    }
    return -1;
}
