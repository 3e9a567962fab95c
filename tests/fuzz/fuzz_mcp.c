/* Both sides of the MCP server: a line is the peer's, and one that begins with ">" is a message of the
 * gateway's. All goes through the real parser, methods and calls; what is sent to the gateway is thrown away. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "exec/mcp_internal.h"
#include "sandbox/log.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(int holds)
{
    if (!holds) {
        abort();
    }
}

static int open_nothing(void *ctx, struct client **ret, struct error *err)
{
    (void)ctx;
    (void)ret;
    return error_set(err, ERROR_SANDBOX_GONE, 0, "there is none");
}

static void close_nothing(void *ctx)
{
    (void)ctx;
}

static void take_line(struct mcp *mcp, const char *line, size_t length)
{
    json_t *message;

    if (length == 0 || line[0] != '>') {
        mcp_line(mcp, line, length);
        return;
    }
    message = json_loadb(line + 1, length - 1, JSON_ALLOW_NUL, NULL);
    if (message != NULL) {
        mcp_calls_take(mcp, message);
        json_decref(message);
    }
    mcp_calls_beat(mcp);
}

/* Each answer is a message of its own, on a line. */
static void check_output(struct mcp *mcp)
{
    const char *at = (const char *)mcp->output.data;
    const char *end = at != NULL ? at + mcp->output.length : at;

    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        json_t *message;

        must(newline != NULL);
        message = json_loadb(at, (size_t)(newline - at), JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, NULL);
        must(json_is_object(message));
        json_decref(message);
        at = newline + 1;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct mcp_host host = {
        .instructions = "none",
        .tools = json_pack("[{s:s}]", "name", "bash"),
        .open = open_nothing,
        .hang_up = close_nothing,
    };
    struct mcp mcp = {.host = &host, .out = -1};
    struct client *client;
    struct error err;
    int fds[2];

    log_set_level(LOG_LEVEL_ERROR);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    must(client_new(&client, fds[0], &err) == 0);
    mcp.client = client;
    buffer_init(&mcp.input, MCP_MAX_LINE);
    buffer_init(&mcp.output, MCP_MAX_OUTPUT);
    TAILQ_INIT(&mcp.calls);
    while (size > 0 && mcp.client != NULL) {
        const uint8_t *newline = memchr(data, '\n', size);
        size_t length = newline != NULL ? (size_t)(newline - data) : size;

        take_line(&mcp, (const char *)data, length);
        length += newline != NULL;
        data += length;
        size -= length;
    }
    must(!mcp.starved);
    check_output(&mcp);
    mcp_calls_drop(&mcp);
    must(mcp.call_count == 0);
    must(mcp_session_close(&mcp));
    client_close(client);
    close(fds[1]);
    buffer_release(&mcp.input);
    buffer_release(&mcp.output);
    json_decref(host.tools);
    return 0;
}
