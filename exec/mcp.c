/* The loop of the MCP server.
 *
 * Three streams meet here: the peer's messages, ours to it, and the gateway's. Each side can be slow or
 * hostile, so each is held by a bound: a peer that does not read is not read from, and if it falls further
 * behind, the gateway is not read from either, which then holds back its own. A line that is too long is
 * answered and left out. Neither descriptor is made non-blocking, since others may share it: what poll(2)
 * promises is enough, and a pipe with room takes PIPE_BUF bytes at once. */
#include "exec/mcp.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/mcp_internal.h"
#include "sandbox/clock.h"

#define READ_BYTES 65536u
#define IDLE_BYTES (1u << 20) /* a larger buffer is not kept when it is empty */

/* ---- Out ------------------------------------------------------------------------------------ */

static size_t unread(const struct mcp *mcp)
{
    return mcp->output.length - mcp->written;
}

/* Without waiting, whatever the descriptor is. */
static ssize_t write_some(int fd, const uint8_t *data, size_t length)
{
    ssize_t n = send(fd, data, length, MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0 && errno == ENOTSOCK) {
        n = write(fd, data, length < PIPE_BUF ? length : PIPE_BUF);
    }
    return n;
}

static void write_output(struct mcp *mcp)
{
    ssize_t n = write_some(mcp->out, mcp->output.data + mcp->written, unread(mcp));

    if (n < 0) {
        mcp->broken = errno != EAGAIN && errno != EINTR;
        return;
    }
    mcp->written += (size_t)n;
    if (mcp->written == mcp->output.length) {
        mcp->written = 0;
        buffer_clear(&mcp->output);
        if (mcp->output.capacity > IDLE_BYTES) {
            buffer_release(&mcp->output);
        }
    } else if (mcp->written > mcp->output.length / 2) {
        buffer_consume(&mcp->output, mcp->written);
        mcp->written = 0;
    }
}

/* ---- In ------------------------------------------------------------------------------------- */

/* A line that is too long is answered once, and forgotten up to its end. */
static void refuse_line(struct mcp *mcp)
{
    struct error err;

    error_set(&err, ERROR_TOO_LARGE, 0, "the message is longer than %u bytes", MCP_MAX_LINE);
    mcp_refuse(mcp, NULL, rpc_limit_error(RPC_INVALID_REQUEST, "line", MCP_MAX_LINE, &err));
}

static void bound_line(struct mcp *mcp)
{
    if (!mcp->skipping && mcp->input.length > MCP_MAX_LINE) {
        refuse_line(mcp);
        mcp->skipping = true;
    }
    if (mcp->skipping) {
        buffer_clear(&mcp->input);
        mcp->looked = 0;
    }
}

/* Whole lines, as long as their answers are read. */
static void read_lines(struct mcp *mcp)
{
    size_t begin = 0;
    const uint8_t *newline;

    while (mcp->looked < mcp->input.length && unread(mcp) <= MCP_MAX_UNREAD &&
           (newline = memchr(mcp->input.data + mcp->looked, '\n',
                             mcp->input.length - mcp->looked)) != NULL) {
        size_t end = (size_t)(newline - mcp->input.data);

        if (!mcp->skipping && end - begin > MCP_MAX_LINE) {
            refuse_line(mcp);
        } else if (!mcp->skipping) {
            mcp_line(mcp, (const char *)mcp->input.data + begin, end - begin);
        }
        mcp->skipping = false;
        begin = mcp->looked = end + 1;
    }
    buffer_consume(&mcp->input, begin);
    mcp->looked = unread(mcp) <= MCP_MAX_UNREAD ? mcp->input.length : 0;
    if (mcp->looked == mcp->input.length) {
        bound_line(mcp);
    }
    if (mcp->input.length == 0 && mcp->input.capacity > IDLE_BYTES) {
        buffer_release(&mcp->input);
    }
}

/* 0 at the end of the input. */
static int read_input(struct mcp *mcp, int in, struct error *err)
{
    uint8_t *to = buffer_reserve(&mcp->input, READ_BYTES);
    ssize_t n;

    if (to == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "no memory for a message");
    }
    n = read(in, to, READ_BYTES);
    if (n < 0) {
        return errno == EINTR || errno == EAGAIN
                   ? 1
                   : error_set_errno(err, errno, "cannot read the client's messages");
    }
    buffer_commit(&mcp->input, (size_t)n);
    return n > 0;
}

/* ---- The loop ------------------------------------------------------------------------------- */

enum { IN, OUT, STOP, WAKE, GATEWAY, STREAMS };

static void arm(const struct mcp *mcp, int in, int stop, struct pollfd fds[STREAMS])
{
    size_t behind = unread(mcp);
    short gateway = (short)(behind <= MCP_MAX_BEHIND ? POLLIN : 0);

    if (mcp->client != NULL && client_has_unsent(mcp->client)) {
        gateway |= POLLOUT;
    }
    fds[IN] = (struct pollfd){.fd = behind <= MCP_MAX_UNREAD ? in : -1, .events = POLLIN};
    /* Without events a reader that goes away is seen all the same. */
    fds[OUT] = (struct pollfd){.fd = mcp->out, .events = (short)(behind > 0 ? POLLOUT : 0)};
    fds[STOP] = (struct pollfd){.fd = stop, .events = POLLIN};
    fds[WAKE] = (struct pollfd){.fd = mcp_session_wakes(mcp), .events = POLLIN};
    fds[GATEWAY] = (struct pollfd){
        .fd = mcp->client != NULL && gateway != 0 ? client_fd(mcp->client) : -1, .events = gateway};
}

/* One turn: 0 when it is over. */
static int turn(struct mcp *mcp, int in, int stop, struct error *err)
{
    struct pollfd fds[STREAMS];
    int timeout = mcp_calls_beat(mcp);
    int r = 1;

    arm(mcp, in, stop, fds);
    if (poll(fds, STREAMS, timeout) < 0) {
        return errno == EINTR ? 1 : error_set_errno(err, errno, "poll");
    }
    if (fds[WAKE].revents != 0) {
        mcp_session_opened(mcp);
    }
    mcp_session_turn(mcp);
    if ((fds[OUT].revents & POLLOUT) != 0) {
        write_output(mcp);
    } else if ((fds[OUT].revents & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
        mcp->broken = true;
    }
    if (mcp->starved) {
        return error_set(err, ERROR_NO_MEMORY, 0, "no memory for an answer");
    }
    if (mcp->broken || (fds[STOP].revents & (POLLIN | POLLHUP)) != 0) {
        return 0;
    }
    if (fds[IN].revents != 0) {
        r = read_input(mcp, in, err);
    }
    read_lines(mcp); /* also those that waited for the peer to read */
    return r;
}

/* What was answered before the end still gets out, if somebody reads it. */
static void write_rest(struct mcp *mcp)
{
    uint64_t deadline = clock_now_ms() + MCP_ENDING_MS;
    uint64_t now;

    while (!mcp->broken && unread(mcp) > 0 && (now = clock_now_ms()) < deadline) {
        struct pollfd fd = {.fd = mcp->out, .events = POLLOUT};

        if (poll(&fd, 1, (int)(deadline - now)) > 0) {
            write_output(mcp);
        }
    }
}

int mcp_serve(int in, int out, int stop, const struct mcp_host *host, struct error *err)
{
    struct mcp mcp = {
        .host = host,
        .out = out,
        .input = BUFFER_INIT(MCP_MAX_LINE + READ_BYTES),
        .output = BUFFER_INIT(MCP_MAX_OUTPUT),
    };
    bool closed;
    int r;

    TAILQ_INIT(&mcp.calls);
    do {
        r = turn(&mcp, in, stop, err);
    } while (r > 0);
    mcp_calls_drop(&mcp);
    write_rest(&mcp);
    closed = mcp_session_close(&mcp);
    buffer_release(&mcp.input);
    buffer_release(&mcp.output);
    return r < 0 ? -1 : !closed;
}
