/* An MCP server over two descriptors: newline-delimited JSON-RPC 2.0, as the Model Context Protocol's
 * stdio transport has it. It is a translator: what a tool does is the gateway's, asked for over a client of
 * the control socket's protocol (tools.call, exec.cancel). handsfs-mcp(1) says which revisions of the
 * protocol it speaks. */
#ifndef HANDSFS_EXEC_MCP_H
#define HANDSFS_EXEC_MCP_H

#include <jansson.h>

#include "exec/client.h"
#include "exec/gateway.h"
#include "sandbox/error.h"

/* Bounds. A line is a megabyte shorter than the gateway's, so that it fits there with what is added to it
 * and with its numbers written out. */
#define MCP_MAX_LINE (GATEWAY_MAX_LINE - (1u << 20)) /* bytes of a message's line */
#define MCP_MAX_CALLS 64                             /* tool calls in flight */
#define MCP_MAX_UNREAD (1u << 20) /* bytes that the peer left unread: then nothing is read from it */
#define MCP_MAX_BEHIND (16u << 20) /* then nothing is read from the gateway either */
#define MCP_MAX_OUTPUT (96u << 20) /* with one more answer of the gateway's, no more than this */
#define MCP_MAX_NEWS (64u << 10)   /* progress is left out while so many bytes are unread */

/* Pauses, in milliseconds. */
#define MCP_BEAT_MS 3000  /* a call that takes longer says so, each time that it has taken this long */
#define MCP_NEWS_MS 100   /* between two notifications about one call */
#define MCP_ENDING_MS 2000 /* for the last answers, and for a session that is being opened, at the end */

/* What the program that carries the server does for it. */
struct mcp_host {
    /* What a model is told about the session beforehand; in English, a few sentences. */
    const char *instructions;
    /* The tools, an array as tools.list gives it. Borrowed. */
    json_t *tools;
    /* Is expected to connect to the session's gateway, making the sandbox where that is its job, and to close
     * first what it gave before; *ret stays its own. It runs in a thread, one at a time, and may take its time.
     * It is called when a tool is called for the first time, and again for the first call after the connection
     * broke or the sandbox was gone. */
    int (*open)(void *ctx, struct client **ret, struct error *err);
    /* Is expected to hang up for good, if anything is open. Called once, at the end. */
    void (*hang_up)(void *ctx);
    void *ctx;
};

/* Serves the peer that writes to `in` and reads from `out` until `in` ends, nobody reads `out` any more, or
 * `stop` (-1 for none) becomes readable; then cancels what runs. The descriptors stay the caller's; SIGPIPE
 * has to be ignored. Writes nothing but messages of the protocol to `out`. 0, or 1 where a call of `open`
 * has not returned within MCP_ENDING_MS and is left to itself: then `hang_up` is not called, and `host->ctx` has
 * to stay as it is until the process ends. -1: out of memory, or a descriptor that cannot be used. */
int mcp_serve(int in, int out, int stop, const struct mcp_host *host, struct error *err)
    __attribute__((nonnull, warn_unused_result));

#endif
