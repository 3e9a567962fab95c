/* The host's side of the wire: the input is what a hand says. Its first byte chooses: 0 for the stream from
 * the greeting on, else what follows a welcome, while calls of every kind of reply, whole files and commands
 * are in flight. Their ids are the same each time, so that an input can name them: calls from 0x1000 on, in
 * the order of `ops`, each 0x1001 more; commands 1 and 2. Whatever comes, each is answered exactly once, and
 * nothing is left. */
#include "backends/execution.h"
#include "backends/link.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_BYTES (1u << 20)
#define PATIENCE_NS (UINT64_C(20) * 1000000000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const enum wire_op ops[] = {WIRE_GETATTR, WIRE_OPEN,     WIRE_READLINK, WIRE_READDIR, WIRE_STATFS,
                                   WIRE_WRITE,   WIRE_GETXATTR, WIRE_LSEEK,    WIRE_UNLINK};

#define OPS (sizeof ops / sizeof ops[0])
#define ANSWERS (OPS + 2 + 2) /* and two whole files, and two commands */

static struct {
    uv_loop_t loop;
    struct link *link;
    int ends[2];
    bool connected; /* the backend gives one stream and is gone then */
    unsigned answers[ANSWERS];
    bool closed;
} bed;

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

/* ---- The backend ------------------------------------------------------------------------------ */

static int one_stream(struct sandbox *sandbox, uint64_t deadline_ms, int *ret_fd, struct error *err)
{
    (void)sandbox;
    (void)deadline_ms;
    if (bed.connected) {
        return error_set(err, ERROR_SANDBOX_GONE, 0, "there is but one");
    }
    bed.connected = true;
    *ret_fd = bed.ends[0];
    return 0;
}

static void nothing_to_release(struct sandbox *sandbox)
{
    (void)sandbox;
}

static const struct backend_ops backend_ops = {
    .connect = one_stream,
    .release = nothing_to_release,
};

static const struct backend backend = {"fuzz", &backend_ops};

/* ---- What is in flight ------------------------------------------------------------------------ */

static void look_at_entries(const struct wire_text *data)
{
    struct wire_reader r = {(const uint8_t *)data->data, data->length, false};
    struct wire_entry entry;

    while (wire_get_entry(&r, &entry) > 0) {
        must(entry.name.length <= WIRE_MAX_NAME);
        must(memchr(entry.name.data, '/', entry.name.length) == NULL);
    }
}

static void called(void *arg, const struct error *err, const struct wire_reply *reply)
{
    unsigned *answer = arg;

    ++*answer;
    must((err == NULL) != (reply == NULL));
    if (err == NULL && answer == &bed.answers[3]) {
        look_at_entries(&reply->data);
    }
}

static void have_read(void *arg, const struct error *err, const uint8_t *data, size_t length)
{
    ++*(unsigned *)arg;
    must(err != NULL || (data != NULL && length <= 1000));
}

static void have_written(void *arg, const struct error *err)
{
    (void)err;
    ++*(unsigned *)arg;
}

static void ended(void *arg, const struct error *err, struct execution_result *result)
{
    ++*(unsigned *)arg;
    must((err == NULL) != (result == NULL));
    if (result != NULL) {
        must(result->out[0].length <= 1000 && result->out[1].length <= 1000);
        must((result->exit_code == -1) == (result->signal != 0));
        must(!result->timed_out);
    }
}

static void start_everything(void)
{
    struct execution_request request = {.command = "true", .command_length = 4, .keep = 1000};
    struct execution *x;
    struct error err;

    for (unsigned i = 0; i < OPS; i++) {
        struct wire_call call = {.op = ops[i], .ref = {.path = {"a/b", 3}}, .name = {"n", 1}};

        link_call(bed.link, &call, 0, called, &bed.answers[i]);
    }
    link_read_file(bed.link, "f", 1000, 0, have_read, &bed.answers[OPS]);
    link_write_file(bed.link, "f", "content", 7, 0, have_written, &bed.answers[OPS + 1]);
    execution_start(bed.link, &request, ended, &bed.answers[OPS + 2]);
    request.has_stdin = true;
    x = execution_start(bed.link, &request, ended, &bed.answers[OPS + 3]);
    must(execution_write(x, "some input", 10, true, &err) == 0);
}

/* ---- The hand --------------------------------------------------------------------------------- */

/* What the link sends is of no interest, but must not fill the socket. */
static void turn(void)
{
    char scrap[4096];

    uv_run(&bed.loop, UV_RUN_NOWAIT);
    while (recv(bed.ends[1], scrap, sizeof scrap, MSG_DONTWAIT) > 0) {
    }
}

static void say(const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t n = send(bed.ends[1], data, size, MSG_NOSIGNAL | MSG_DONTWAIT);

        if (n < 0 && link_state(bed.link) == LINK_GONE) {
            return;
        }
        if (n > 0) {
            data += n;
            size -= (size_t)n;
        }
        turn();
    }
}

static void welcome(void)
{
    struct wire_welcome w = {.workdir = {"/w", 2}, .version = {"1", 1}, .machine = {"m", 1}};
    struct buffer out = BUFFER_INIT(4096);
    size_t frame = wire_begin_frame(&out, WIRE_WELCOME, 0);

    must(frame != SIZE_MAX && wire_put_welcome(&out, &w) == 0);
    wire_end_frame(&out, frame);
    say(out.data, out.length);
    buffer_release(&out);
}

static void note_closed(void *arg)
{
    (void)arg;
    bed.closed = true;
}

/* Hangs up, and sees to it that everything comes to an end. */
static void finish(void)
{
    uint64_t start = uv_hrtime();

    shutdown(bed.ends[1], SHUT_WR);
    while (link_state(bed.link) != LINK_GONE) {
        turn();
        must(uv_hrtime() - start < PATIENCE_NS);
    }
    link_close(bed.link, note_closed, NULL);
    uv_run(&bed.loop, UV_RUN_DEFAULT);
    must(bed.closed);
    must(uv_loop_close(&bed.loop) == 0);
    close(bed.ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct link_options options = {.placement = LINK_PLACE_STREAM};
    struct sandbox sandbox = {
        .backend = &backend, .session = strdup("s"), .id = strdup("i"), .workdir = strdup("/w")};
    struct error err;

    if (size > MAX_BYTES) {
        sandbox_release(&sandbox);
        return 0;
    }
    memset(&bed, 0, sizeof bed);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, bed.ends) == 0);
    must(uv_loop_init(&bed.loop) == 0);
    must(link_open(&bed.link, &bed.loop, &sandbox, &options, &err) == 0);
    start_everything();
    if (size > 0 && data[0] != 0) {
        welcome();
    }
    if (size > 0) {
        say(data + 1, size - 1);
    }
    finish();
    for (unsigned i = 0; i < ANSWERS; i++) {
        must(bed.answers[i] == 1);
    }
    return 0;
}
