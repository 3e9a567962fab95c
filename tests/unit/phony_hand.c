#include "tests/unit/phony_hand.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/unit.h"

/* ---- The backend ------------------------------------------------------------------------------ */

static int phony_connect(struct sandbox *sandbox, uint64_t deadline_ms, int *ret_fd, struct error *err)
{
    struct rig *rig = sandbox->state;
    enum phony_mode mode;
    int ends[2];

    (void)deadline_ms;
    pthread_mutex_lock(&rig->lock);
    mode = rig->mode;
    rig->connects++;
    if (mode == PHONY_CONNECTS) {
        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) < 0) {
            abort();
        }
        if (rig->hand_fd >= 0) {
            close(rig->hand_fd);
        }
        rig->hand_fd = ends[1];
        *ret_fd = ends[0];
    }
    pthread_mutex_unlock(&rig->lock);
    if (mode == PHONY_GONE) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "no such sandbox");
    }
    return mode == PHONY_BROKEN ? error_set(err, ERROR_IO, 0, "the engine is ill") : 0;
}

static int phony_open_root(struct sandbox *sandbox, int *ret_fd, struct error *err)
{
    struct rig *rig = sandbox->state;

    *ret_fd = -1;
    if (rig->root[0] != '\0') {
        *ret_fd = open(rig->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (*ret_fd < 0) {
            return error_set_errno(err, errno, "%s", rig->root);
        }
    }
    return 0;
}

static void phony_release(struct sandbox *sandbox)
{
    sandbox->state = NULL;
}

static const struct backend_ops phony_ops = {
    .connect = phony_connect,
    .open_root = phony_open_root,
    .release = phony_release,
};

static const struct backend backend_phony = {"phony", &phony_ops};

struct sandbox rig_sandbox(struct rig *rig, const char *id)
{
    return (struct sandbox){
        .backend = &backend_phony,
        .session = strdup("s1"),
        .id = strdup(id),
        .workdir = strdup("/work/dir"),
        .state = rig,
    };
}

/* ---- The rig ---------------------------------------------------------------------------------- */

static void note_state(void *arg, enum link_state state, const struct error *why)
{
    struct rig *rig = arg;

    (void)why;
    if (rig->state_count < sizeof rig->states / sizeof rig->states[0]) {
        rig->states[rig->state_count++] = state;
    }
}

void rig_open(struct rig *rig, uint64_t timeout_ms, enum link_placement placement)
{
    struct link_options options = {
        .placement = placement, .timeout_ms = timeout_ms, .state_changed = note_state, .arg = rig};
    struct sandbox sandbox;
    struct error err;
    char root[sizeof rig->root];

    memcpy(root, rig->root, sizeof root);
    *rig = (struct rig){.hand_fd = -1, .hand = -1};
    memcpy(rig->root, root, sizeof root);
    sandbox = rig_sandbox(rig, "sandbox-1");
    buffer_init(&rig->heard, 64u << 20);
    pthread_mutex_init(&rig->lock, NULL);
    ck_assert_int_eq(uv_loop_init(&rig->loop), 0);
    ck_assert_int_eq(link_open(&rig->link, &rig->loop, &sandbox, &options, &err), 0);
    ck_assert_ptr_null(sandbox.backend);
}

void rig_set_mode(struct rig *rig, enum phony_mode mode)
{
    pthread_mutex_lock(&rig->lock);
    rig->mode = mode;
    pthread_mutex_unlock(&rig->lock);
}

unsigned rig_connects(struct rig *rig)
{
    unsigned connects;

    pthread_mutex_lock(&rig->lock);
    connects = rig->connects;
    pthread_mutex_unlock(&rig->lock);
    return connects;
}

void rig_turn(struct rig *rig)
{
    uv_run(&rig->loop, UV_RUN_NOWAIT);
    if (uv_backend_timeout(&rig->loop) != 0) {
        poll(NULL, 0, 1);
    }
}

static void note_closed(void *arg)
{
    ((struct rig *)arg)->closed = true;
}

void rig_close(struct rig *rig)
{
    link_close(rig->link, note_closed, rig);
    RIG_UNTIL(rig, rig->closed);
    ck_assert_int_eq(uv_loop_close(&rig->loop), 0);
    if (rig->hand >= 0) {
        close(rig->hand);
    }
    if (rig->hand_fd >= 0) {
        close(rig->hand_fd);
    }
    buffer_release(&rig->heard);
    pthread_mutex_destroy(&rig->lock);
}

/* ---- The hand --------------------------------------------------------------------------------- */

static bool take_stream(struct rig *rig)
{
    bool got;

    pthread_mutex_lock(&rig->lock);
    got = rig->hand_fd >= 0;
    if (got) {
        rig->hand = rig->hand_fd;
        rig->hand_fd = -1;
    }
    pthread_mutex_unlock(&rig->lock);
    return got;
}

void hand_accept(struct rig *rig)
{
    struct heard_frame f;
    struct wire_hello hello;

    hand_hang_up(rig);
    RIG_UNTIL(rig, take_stream(rig));
    f = hand_hear(rig, WIRE_HELLO);
    ck_assert_int_eq(wire_get_hello(f.payload, f.header.length, &hello), 0);
    memcpy(rig->client, hello.client, sizeof rig->client);
}

void hand_welcome(struct rig *rig, uint8_t instance)
{
    struct wire_welcome w = {
        .uid = 4711,
        .gid = 4712,
        .capabilities = ~UINT64_C(0),
        .workdir = {"/work/dir", 9},
        .version = {"phony 1", 7},
        .machine = {"x86_64", 6},
    };
    struct buffer payload = BUFFER_INIT(4096);

    memset(w.instance, instance, sizeof w.instance);
    ck_assert_int_eq(wire_put_welcome(&payload, &w), 0);
    hand_send_frame(rig, WIRE_WELCOME, 0, &payload);
    buffer_release(&payload);
}

void rig_up(struct rig *rig, uint64_t timeout_ms)
{
    rig->root[0] = '\0';
    rig_open(rig, timeout_ms, LINK_PLACE_STREAM);
    hand_accept(rig);
    hand_welcome(rig, 1);
    RIG_UNTIL(rig, link_state(rig->link) == LINK_UP);
}

/* Takes what has come into `heard`. */
static void hand_read(struct rig *rig)
{
    uint8_t *to = buffer_reserve(&rig->heard, 65536);
    ssize_t n;

    ck_assert_ptr_nonnull(to);
    n = read(rig->hand, to, 65536);
    if (n > 0) {
        buffer_commit(&rig->heard, (size_t)n);
    }
}

static bool next_frame(struct rig *rig, struct wire_header *header)
{
    hand_read(rig);
    if (rig->heard.length < WIRE_HEADER_BYTES) {
        return false;
    }
    ck_assert_int_eq(wire_decode_header(rig->heard.data, header), 0);
    return rig->heard.length >= WIRE_HEADER_BYTES + header->length;
}

static void drop_frame(struct rig *rig, const struct wire_header *header)
{
    buffer_consume(&rig->heard, WIRE_HEADER_BYTES + header->length);
}

struct heard_frame hand_hear(struct rig *rig, enum wire_type expected)
{
    static uint8_t *kept;
    struct heard_frame f;

    for (;;) {
        RIG_UNTIL(rig, next_frame(rig, &f.header));
        if (f.header.type != WIRE_PING || expected == WIRE_PING) {
            break;
        }
        drop_frame(rig, &f.header);
    }
    ck_assert_int_eq(f.header.type, expected);
    free(kept);
    kept = malloc(f.header.length + 1);
    ck_assert_ptr_nonnull(kept);
    memcpy(kept, rig->heard.data + WIRE_HEADER_BYTES, f.header.length);
    f.payload = kept;
    drop_frame(rig, &f.header);
    return f;
}

bool hand_hears_nothing(struct rig *rig)
{
    struct wire_header header;

    for (unsigned i = 0; i < 5; i++) {
        rig_turn(rig);
    }
    while (next_frame(rig, &header)) {
        if (header.type != WIRE_PING) {
            return false;
        }
        drop_frame(rig, &header);
    }
    return true;
}

void hand_send(struct rig *rig, const void *bytes, size_t length)
{
    const uint8_t *at = bytes;

    while (length > 0) {
        ssize_t n = send(rig->hand, at, length, MSG_NOSIGNAL);

        if (n < 0 && errno == EPIPE) {
            return; /* hung up on: some tests want just that */
        }
        if (n > 0) {
            at += n;
            length -= (size_t)n;
        } else {
            rig_turn(rig);
        }
    }
}

void hand_send_frame(struct rig *rig, enum wire_type type, uint64_t id, const struct buffer *payload)
{
    struct buffer frame = BUFFER_INIT(16u << 20);
    size_t at = wire_begin_frame(&frame, type, id);

    ck_assert_int_eq(buffer_append(&frame, payload->data, payload->length), 0);
    wire_end_frame(&frame, at);
    hand_send(rig, frame.data, frame.length);
    buffer_release(&frame);
}

void hand_send_empty(struct rig *rig, enum wire_type type, uint64_t id)
{
    struct buffer nothing = BUFFER_INIT(0);

    hand_send_frame(rig, type, id, &nothing);
}

void hand_reply(struct rig *rig, uint64_t id, enum wire_op op, const struct wire_reply *reply)
{
    struct buffer payload = BUFFER_INIT(WIRE_MAX_PAYLOAD);

    ck_assert_int_eq(wire_put_reply(&payload, op, reply), 0);
    hand_send_frame(rig, WIRE_RESULT, id, &payload);
    buffer_release(&payload);
}

void hand_hang_up(struct rig *rig)
{
    if (rig->hand >= 0) {
        close(rig->hand);
        rig->hand = -1;
    }
    buffer_clear(&rig->heard);
}

struct wire_call hand_hear_call(struct rig *rig, enum wire_op op, uint64_t *ret_id)
{
    struct heard_frame f = hand_hear(rig, WIRE_CALL);
    struct wire_call call;

    ck_assert_int_eq(wire_get_call(f.payload, f.header.length, &call), 0);
    ck_assert_int_eq(call.op, op);
    *ret_id = f.header.id;
    return call;
}

/* ---- Executions ----------------------------------------------------------------------- */

uint64_t hear_exec(struct rig *rig)
{
    struct heard_frame f = hand_hear(rig, WIRE_EXEC);
    struct wire_exec exec;

    ck_assert_int_eq(wire_get_exec(f.payload, f.header.length, &exec), 0);
    ck_assert_uint_eq(exec.keep, 32);
    return f.header.id;
}

void say_started(struct rig *rig, uint64_t id)
{
    struct buffer payload = BUFFER_INIT(64);

    ck_assert_int_eq(wire_put_u32(&payload, 17), 0);
    hand_send_frame(rig, WIRE_EXEC_STARTED, id, &payload);
    buffer_release(&payload);
}

void say_output(struct rig *rig, uint64_t id, unsigned stream, uint64_t offset, const char *text)
{
    struct buffer payload = BUFFER_INIT(4096);

    ck_assert_int_eq(wire_put_u8(&payload, (uint8_t)stream), 0);
    ck_assert_int_eq(wire_put_u64(&payload, offset), 0);
    ck_assert_int_eq(wire_put_bytes(&payload, text, strlen(text)), 0);
    hand_send_frame(rig, WIRE_EXEC_OUTPUT, id, &payload);
    buffer_release(&payload);
}

void say_exit(struct rig *rig, uint64_t id, const struct wire_exit *e)
{
    struct buffer payload = BUFFER_INIT(4096);

    ck_assert_int_eq(wire_put_exit(&payload, e), 0);
    hand_send_frame(rig, WIRE_EXEC_EXIT, id, &payload);
    buffer_release(&payload);
}

void say_failed(struct rig *rig, uint64_t id, enum error_code code, const char *text)
{
    struct buffer payload = BUFFER_INIT(4096);

    ck_assert_int_eq(wire_put_u16(&payload, (uint16_t)code), 0);
    ck_assert_int_eq(wire_put_u32(&payload, 0), 0);
    ck_assert_int_eq(wire_put_bytes(&payload, text, strlen(text)), 0);
    hand_send_frame(rig, WIRE_EXEC_FAILED, id, &payload);
    buffer_release(&payload);
}

void say_want(struct rig *rig, uint64_t id, uint64_t want)
{
    struct buffer payload = BUFFER_INIT(64);

    ck_assert_int_eq(wire_put_u64(&payload, want), 0);
    hand_send_frame(rig, WIRE_EXEC_WANT, id, &payload);
    buffer_release(&payload);
}

void hear_input(struct rig *rig, uint64_t offset, size_t length, char first)
{
    struct heard_frame f = hand_hear(rig, WIRE_EXEC_INPUT);
    struct wire_reader r = {f.payload, f.header.length, false};
    const uint8_t *data;
    size_t got;

    ck_assert_uint_eq(wire_get_u64(&r), offset);
    data = wire_get_bytes(&r, WIRE_MAX_DATA, &got);
    ck_assert_int_eq(wire_end(&r), 0);
    ck_assert_uint_eq(got, length);
    ck_assert_int_eq(data[0], first);
}

void hear_credit(struct rig *rig, unsigned stream, uint64_t total)
{
    struct heard_frame f = hand_hear(rig, WIRE_EXEC_CREDIT);
    struct wire_reader r = {f.payload, f.header.length, false};

    ck_assert_uint_eq(wire_get_u8(&r), stream);
    ck_assert_uint_eq(wire_get_u64(&r), total);
}

void hear_attach(struct rig *rig, uint64_t out, uint64_t err)
{
    struct heard_frame f = hand_hear(rig, WIRE_EXEC_ATTACH);
    struct wire_reader r = {f.payload, f.header.length, false};

    ck_assert_uint_eq(wire_get_u64(&r), out);
    ck_assert_uint_eq(wire_get_u64(&r), err);
}

/* ---- Calls ------------------------------------------------------------------------------------ */

void note_answer(void *arg, const struct error *err, const struct wire_reply *reply)
{
    struct answer *answer = arg;

    answer->times++;
    ck_assert(err == NULL || err->code != ERROR_NONE);
    ck_assert((err == NULL) != (reply == NULL));
    if (err != NULL) {
        answer->err = *err;
        return;
    }
    answer->err.code = ERROR_NONE;
    answer->reply = *reply;
    if (reply->data.length > 0 && reply->data.length < sizeof answer->data) {
        memcpy(answer->data, reply->data.data, reply->data.length);
    }
}

struct call *start_getattr(struct rig *rig, const char *path, uint64_t timeout_ms,
                           struct answer *answer)
{
    struct wire_call call = {.op = WIRE_GETATTR, .ref = {.path = {path, strlen(path)}}};

    *answer = (struct answer){0};
    return link_call(rig->link, &call, timeout_ms, note_answer, answer);
}

struct wire_reply a_file(uint64_t size)
{
    return (struct wire_reply){
        .attr = {.dev = 1, .ino = 2, .size = size, .mode = S_IFREG | 0644, .nlink = 1}};
}
