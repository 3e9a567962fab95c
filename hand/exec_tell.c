/* What the host is told of an execution: the frames follow from the record alone, so that after a
 * reconnect it is enough to set back what counts as told. */
#include <string.h>

#include "hand/exec.h"

static int tell_started(struct execution *e, struct buffer *out)
{
    size_t frame = wire_begin_frame(out, WIRE_EXEC_STARTED, e->id);

    if (frame == SIZE_MAX || wire_put_u32(out, (uint32_t)e->command) < 0) {
        return -1;
    }
    wire_end_frame(out, frame);
    e->told_started = true;
    return 1;
}

static int tell_failed(struct execution *e, struct buffer *out)
{
    size_t frame = wire_begin_frame(out, WIRE_EXEC_FAILED, e->id);

    if (frame == SIZE_MAX || wire_put_u16(out, (uint16_t)e->failure.code) < 0 ||
        wire_put_u32(out, (uint32_t)e->failure.os_errno) < 0 ||
        wire_put_bytes(out, e->failure.message, strlen(e->failure.message)) < 0) {
        return -1;
    }
    wire_end_frame(out, frame);
    e->told_exit = true;
    return 1;
}

static int tell_want(struct execution *e, struct buffer *out)
{
    uint64_t want = e->input.done + EXEC_INPUT_WINDOW;
    size_t frame;

    if (!e->has_stdin || e->settled || want < e->input.told + EXEC_INPUT_WINDOW / 4) {
        return 0;
    }
    frame = wire_begin_frame(out, WIRE_EXEC_WANT, e->id);
    if (frame == SIZE_MAX || wire_put_u64(out, want) < 0) {
        return -1;
    }
    wire_end_frame(out, frame);
    e->input.told = want;
    return 1;
}

static int tell_output(struct execution *e, unsigned index, struct buffer *out)
{
    struct stream *s = &e->streams[index];
    uint64_t waiting = stream_end(s) - s->sent;
    size_t length = waiting < EXEC_CHUNK_BYTES ? (size_t)waiting : EXEC_CHUNK_BYTES;
    size_t frame;

    if (length == 0) {
        return 0;
    }
    frame = wire_begin_frame(out, WIRE_EXEC_OUTPUT, e->id);
    if (frame == SIZE_MAX || wire_put_u8(out, (uint8_t)(WIRE_STDOUT + index)) < 0 ||
        wire_put_u64(out, s->sent) < 0 ||
        wire_put_bytes(out, s->kept.data + (s->sent - s->base), length) < 0) {
        return -1;
    }
    wire_end_frame(out, frame);
    s->sent += length;
    e->turn = index ^ 1;
    return 1;
}

static int tell_exit(struct execution *e, struct buffer *out)
{
    size_t frame;

    if (!e->settled || e->kill_waits || e->told_exit) {
        return 0;
    }
    frame = wire_begin_frame(out, WIRE_EXEC_EXIT, e->id);
    if (frame == SIZE_MAX || wire_put_exit(out, &e->exit) < 0) {
        return -1;
    }
    wire_end_frame(out, frame);
    e->told_exit = true;
    return 1;
}

int execution_tell(struct execution *e, struct buffer *out)
{
    int r;

    if (e->quiet) {
        return 0;
    }
    if (e->state == EXECUTION_FAILED) {
        return e->kill_waits || e->told_exit ? 0 : tell_failed(e, out);
    }
    if (e->state == EXECUTION_STARTING) {
        return 0;
    }
    if (!e->told_started) {
        return tell_started(e, out);
    }
    r = tell_want(e, out);
    if (r == 0) {
        r = tell_output(e, e->turn, out);
    }
    if (r == 0) {
        r = tell_output(e, e->turn ^ 1, out);
    }
    return r == 0 ? tell_exit(e, out) : r;
}

int execution_credit(struct execution *e, unsigned stream, uint64_t total)
{
    struct stream *s;

    if (stream != WIRE_STDOUT && stream != WIRE_STDERR) {
        return -1;
    }
    s = &e->streams[stream - WIRE_STDOUT];
    if (total > s->sent) {
        return -1;
    }
    stream_credit(s, total);
    /* Not for a few bytes: what stays behind is moved. */
    if (total > s->base && (total - s->base >= s->kept.length / 2)) {
        buffer_consume(&s->kept, (size_t)(total - s->base));
        s->base = total;
    }
    if (s->kept.length == 0) {
        buffer_release(&s->kept);
    }
    return 0;
}

int execution_attach(struct execution *e, uint64_t out, uint64_t err)
{
    const uint64_t received[2] = {out, err};

    for (unsigned i = 0; i < 2; i++) {
        if (received[i] < e->streams[i].base || received[i] > stream_end(&e->streams[i])) {
            return -1;
        }
    }
    for (unsigned i = 0; i < 2; i++) {
        e->streams[i].sent = received[i];
    }
    e->input.told = 0;
    e->quiet = e->told_started = e->told_exit = false;
    execution_changed(e);
    return 0;
}
