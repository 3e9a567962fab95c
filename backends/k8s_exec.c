/* Programs run over an exec stream. Reading and writing go on side by side: a program that is given
 * much and answers much must never wait for us while we wait for it. */
#include "backends/k8s_channels.h"
#include "backends/k8s_client_internal.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/pump.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "sandbox/log.h"

#define MAX_PATH (1u << 20)     /* of an exec: its arguments are in it */
#define OUTER_BYTES (256u << 10)
#define PIECE (64u << 10)
#define LIFE_MS 10000           /* between signs of life */
#define SILENT_BEATS 6          /* so many without a byte of the server, and the stream is dead */
#define AFTER_STATUS_MS 5000    /* for the close after the program's end was told */

static const char *const protocols[] = {"v5.channel.k8s.io", "v4.channel.k8s.io", NULL};

static int put_path(struct buffer *path, const struct k8s_exec *exec, bool with_input)
{
    if (k8s_put_pod_path(path, exec->namespace_, exec->pod) < 0 || buffer_append_string(path, "/exec") < 0 ||
        (exec->container != NULL && http_put_query(path, "container", exec->container) < 0) ||
        (with_input && http_put_query(path, "stdin", "true") < 0) ||
        http_put_query(path, "stdout", "true") < 0 || http_put_query(path, "stderr", "true") < 0) {
        return -1;
    }
    for (const char *const *arg = exec->argv; *arg != NULL; arg++) {
        if (http_put_query(path, "command", *arg) < 0) {
            return -1;
        }
    }
    return buffer_text(path) != NULL ? 0 : -1;
}

/* 1: the credentials were refused, and others may do. */
static int try_open(struct k8s_client *client, const struct k8s_exec *exec, const char *path,
                    struct http_stream **ret, size_t *ret_protocol, struct k8s_reply *refused,
                    struct error *err)
{
    cleanup_http_answer struct http_answer answer = {0};
    struct k8s_access access;
    int r;

    http_answer_init(&answer);
    if (k8s_access_take(client, exec->deadline_ms, &access, err) < 0) {
        return -1;
    }
    r = websocket_connect(access.transport->http,
                          &(struct http_request){.method = "GET",
                                                 .path = path,
                                                 .headers = (const char *const *)access.ticket.headers,
                                                 .deadline_ms = exec->deadline_ms},
                          protocols, ret, ret_protocol, &answer, err);
    if (r == 0 && *ret == NULL && answer.status == 401 &&
        k8s_credentials_refused(&client->credentials, access.ticket.generation)) {
        r = 1;
    }
    k8s_access_put(client, &access);
    if (r < 0 || *ret != NULL) {
        return r;
    }
    if (answer.status < 400) { /* a redirect, or an answer to something else */
        return error_set(err, ERROR_NO_ANSWER, 0, "the API server answers an exec with status %ld",
                         answer.status);
    }
    return k8s_reply_fill(refused, &answer, err) < 0 ? -1 : r;
}

int k8s_exec_open(struct k8s_client *client, const struct k8s_exec *exec, bool with_input,
                  struct k8s_channels *channels, struct http_stream **ret, struct k8s_reply *refused,
                  struct error *err)
{
    cleanup_buffer struct buffer path = BUFFER_INIT(MAX_PATH);
    size_t protocol = 0;
    int r;

    *channels = (struct k8s_channels){0};
    *ret = NULL;
    if (put_path(&path, exec, with_input) < 0) {
        return error_set(err, ERROR_BAD_REQUEST, errno, "a command of over %u bytes", MAX_PATH);
    }
    r = try_open(client, exec, (const char *)path.data, ret, &protocol, refused, err);
    if (r == 1) {
        r = try_open(client, exec, (const char *)path.data, ret, &protocol, refused, err);
    }
    if (r < 0) {
        return -1;
    }
    if (*ret != NULL && k8s_channels_init(channels, protocol == 0, err) < 0) {
        http_stream_close(*ret);
        *ret = NULL;
        return -1;
    }
    return 0;
}

/* ---- To its end ------------------------------------------------------------------------------- */

struct run {
    struct http_stream *stream;
    struct k8s_channels channels;
    const uint8_t *input;
    size_t left;            /* of the input: not yet in `outer` */
    struct buffer outer;
    struct buffer *output;
    uint64_t deadline_ms;
    uint64_t life_ms;       /* when the next sign of life is due */
    bool ended;             /* the server's side is at its end */
    bool deaf;              /* it takes nothing more */
    uint8_t piece[PIECE];
};

/* All that is there. */
static int read_all(struct run *run, struct error *err)
{
    while (!run->ended) {
        ssize_t n = http_stream_recv(run->stream, run->piece, sizeof run->piece, err);

        if (n == HTTP_AGAIN) {
            return 0;
        }
        if (n < 0) {
            return -1;
        }
        if (n == 0) {
            run->ended = true;
            return 0;
        }
        if (k8s_channels_take(&run->channels, run->piece, (size_t)n, run->output, &run->outer, err) < 0) {
            return -1;
        }
        run->ended = websocket_close_code(run->channels.websocket) != 0;
    }
    return 0;
}

/* As much as the connection takes. A program may end without having read all: what it said before is still
 * there to be read, so that the server takes no more is no error here. */
static int write_all(struct run *run, struct error *err)
{
    struct error why;

    while (!run->deaf) {
        ssize_t n;

        if (run->left > 0 && run->outer.length < PIECE) {
            size_t more = run->left < K8S_INPUT_PIECE ? run->left : K8S_INPUT_PIECE;

            if (k8s_channels_put_input(&run->channels, run->input, more, &run->outer, err) < 0) {
                return -1;
            }
            run->input += more;
            run->left -= more;
        }
        if (run->outer.length == 0) {
            return 0;
        }
        n = http_stream_send(run->stream, run->outer.data, run->outer.length, &why);
        if (n == HTTP_AGAIN) {
            return 0;
        }
        if (n < 0) {
            run->deaf = true;
            return 0;
        }
        buffer_consume(&run->outer, (size_t)n);
    }
    return 0;
}

static int live(struct run *run, uint64_t now, struct error *err)
{
    if (now < run->life_ms) {
        return 0;
    }
    run->life_ms = now + LIFE_MS;
    /* While the server does not take what there is, it knows that we live. */
    return run->deaf || run->outer.length > PIECE ? 0
                                     : k8s_channels_put_life(&run->channels, &run->outer, err);
}

static int turn(struct run *run, struct error *err)
{
    uint64_t now = clock_now_ms();
    struct pollfd p = {.fd = http_stream_fd(run->stream), .events = POLLIN};
    uint64_t until;

    if (now >= run->deadline_ms) {
        return error_set(err, ERROR_NO_ANSWER, 0, "the program did not end in time");
    }
    if (live(run, now, err) < 0 || write_all(run, err) < 0 || read_all(run, err) < 0) {
        return -1;
    }
    if (run->ended) {
        return 0;
    }
    if (!run->deaf && (run->outer.length > 0 || run->left > 0)) {
        p.events |= POLLOUT;
    }
    until = run->life_ms < run->deadline_ms ? run->life_ms : run->deadline_ms;
    poll(&p, 1, until <= now ? 0 : until - now < INT_MAX ? (int)(until - now) : INT_MAX);
    return 0;
}

/* Whether the program's end was told, and the rest is a courtesy. */
static bool told(const struct run *run)
{
    const struct buffer *status = &run->channels.status;
    json_t *json =
        status->length > 0 ? json_loadb((const char *)status->data, status->length, 0, NULL) : NULL;
    bool whole = json != NULL;

    json_decref(json);
    return whole;
}

static int run_to_end(struct run *run, int *ret_exit, struct error *err)
{
    bool was_told = false;
    struct error why;

    while (!run->ended) {
        if (turn(run, &why) < 0) {
            if (told(run) && why.code == ERROR_NO_ANSWER) {
                break; /* broken off, but after all was said */
            }
            *err = why;
            return -1;
        }
        if (!was_told && told(run)) {
            uint64_t latest = clock_now_ms() + AFTER_STATUS_MS;

            was_told = true;
            run->deadline_ms = latest < run->deadline_ms ? latest : run->deadline_ms;
        }
    }
    return k8s_channels_exit(&run->channels, ret_exit, err);
}

int k8s_exec_run(struct k8s_client *client, const struct k8s_exec *exec, const void *input,
                 size_t length, struct buffer *output, int *ret_exit, struct error *err)
{
    cleanup_k8s_reply struct k8s_reply refused = {0};
    struct run *run = calloc(1, sizeof *run);
    int r;

    if (run == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to run a program");
    }
    buffer_init(&run->outer, OUTER_BYTES);
    run->input = input;
    run->left = length;
    run->output = output;
    run->deadline_ms = exec->deadline_ms;
    run->life_ms = clock_now_ms() + LIFE_MS;
    r = k8s_exec_open(client, exec, length > 0, &run->channels, &run->stream, &refused, err);
    if (r == 0) {
        r = run->stream == NULL
                ? k8s_refused(&refused, err, "%s cannot be run in Pod %s", exec->argv[0], exec->pod)
                : run_to_end(run, ret_exit, err);
    }
    http_stream_close(run->stream);
    k8s_channels_release(&run->channels);
    buffer_release(&run->outer);
    free(run);
    return r;
}

/* ---- As a stream ------------------------------------------------------------------------------ */

struct piped {
    struct k8s_channels channels;
    unsigned silent; /* beats since the server was heard */
    char name[128];
};

static int decode(void *state, const uint8_t *data, size_t length, struct buffer *inner,
                  struct buffer *outer, struct error *err)
{
    struct piped *piped = state;
    int code;

    piped->silent = 0;
    if (k8s_channels_take(&piped->channels, data, length, inner, outer, err) < 0) {
        return -1;
    }
    if (websocket_close_code(piped->channels.websocket) == 0) {
        return 0;
    }
    return k8s_channels_exit(&piped->channels, &code, err) < 0
               ? -1
               : error_set(err, ERROR_NO_ANSWER, 0, "the program has ended with %d", code);
}

static int encode(void *state, const uint8_t *data, size_t length, struct buffer *outer,
                  struct error *err)
{
    struct piped *piped = state;

    return k8s_channels_put_input(&piped->channels, data, length, outer, err);
}

static int finish(void *state, struct buffer *outer, struct error *err)
{
    struct piped *piped = state;

    return k8s_channels_put_end(&piped->channels, outer, err);
}

/* Counted in beats, not by the clock: a process that was stopped has not seen the server be silent. */
static int beat(void *state, struct buffer *outer, struct error *err)
{
    struct piped *piped = state;

    if (++piped->silent > SILENT_BEATS) {
        return error_set(err, ERROR_NO_ANSWER, 0, "the server is silent");
    }
    return outer->length > PIECE ? 0 : k8s_channels_put_life(&piped->channels, outer, err);
}

static void ended(void *state, const struct error *err)
{
    struct piped *piped = state;

    log_trace("the stream of %s: %s after %llu bytes%s%.*s", piped->name,
              err != NULL ? err->message : "at its end", (unsigned long long)piped->channels.received,
              piped->channels.errors.length > 0 ? "; its stderr: " : "",
              (int)piped->channels.errors.length, (const char *)piped->channels.errors.data);
    k8s_channels_release(&piped->channels);
    free(piped);
}

static const struct pump_codec exec_codec = {
    .decode = decode,
    .encode = encode,
    .finish = finish,
    .tick = beat,
    .tick_ms = LIFE_MS,
    .ended = ended,
};

int k8s_exec_stream(struct k8s_client *client, const struct k8s_exec *exec, int *ret_fd,
                    struct k8s_reply *refused, struct error *err)
{
    struct piped *piped = calloc(1, sizeof *piped);
    struct http_stream *stream = NULL;
    int r;

    *ret_fd = -1;
    if (piped == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory for a stream");
    }
    snprintf(piped->name, sizeof piped->name, "Pod %s", exec->pod);
    r = k8s_exec_open(client, exec, true, &piped->channels, &stream, refused, err);
    if (r < 0 || stream == NULL) {
        k8s_channels_release(&piped->channels);
        free(piped);
        return r;
    }
    return pump_start(stream, &exec_codec, piped, ret_fd, err);
}
