/* The MCP server's connection to the session's gateway.
 *
 * To open it may take minutes (an image that is pulled), and the peer wants answers meanwhile: so that is
 * done in a thread, which owns its struct mcp_opening until it says that it is done. Where the peer leaves
 * first and the thread does not come to its end soon, it is left alone and frees it itself. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "exec/mcp_internal.h"
#include "sandbox/cleanup.h"
#include "sandbox/log.h"

/* Who comes second to its end cleans up. */
enum opening_end { NEITHER, THREAD_IS_DONE, LOOP_HAS_LEFT };

struct mcp_opening {
    _Atomic enum opening_end end;
    int (*open)(void *ctx, struct client **ret, struct error *err);
    void *ctx;
    pthread_t thread;
    int done; /* an eventfd(2): readable once the rest is the loop's */
    struct client *client;
    struct error err;
};

static void free_opening(struct mcp_opening *opening)
{
    close(opening->done);
    free(opening);
}

static void *open_session(void *arg)
{
    struct mcp_opening *opening = arg;

    if (opening->open(opening->ctx, &opening->client, &opening->err) < 0) {
        opening->client = NULL;
    }
    eventfd_write(opening->done, 1);
    if (atomic_exchange(&opening->end, THREAD_IS_DONE) == LOOP_HAS_LEFT) {
        free_opening(opening);
    }
    return NULL;
}

static int start_opening(struct mcp *mcp, struct error *err)
{
    struct mcp_opening *opening = calloc(1, sizeof *opening);
    int r;

    if (opening == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    opening->open = mcp->host->open;
    opening->ctx = mcp->host->ctx;
    opening->done = eventfd(0, EFD_CLOEXEC);
    if (opening->done < 0) {
        free(opening);
        return error_set_errno(err, errno, "eventfd");
    }
    r = pthread_create(&opening->thread, NULL, open_session, opening);
    if (r != 0) {
        free_opening(opening);
        return error_set_errno(err, r, "cannot start a thread");
    }
    mcp->opening = opening;
    return 0;
}

/* Whether a call of the gateway's is in flight, and its answer still comes over this connection. */
static bool in_use(const struct mcp *mcp)
{
    const struct mcp_call *call;

    TAILQ_FOREACH (call, &mcp->calls, in_flight) {
        if (call->sent != 0) {
            return true;
        }
    }
    return false;
}

bool mcp_session_want(struct mcp *mcp)
{
    struct error err;

    if (mcp->lost && !in_use(mcp)) {
        mcp->client = NULL; /* still the host's, who opens anew */
    }
    if (mcp->client != NULL) {
        return true;
    }
    if (mcp->opening == NULL && start_opening(mcp, &err) < 0) {
        mcp_calls_fail(mcp, true, &err);
    }
    return false;
}

int mcp_session_wakes(const struct mcp *mcp)
{
    return mcp->opening != NULL ? mcp->opening->done : -1;
}

/* Gives the thread back. */
static struct client *end_opening(struct mcp *mcp, struct error *err)
{
    struct mcp_opening *opening = take_ptr(mcp->opening);
    struct client *client;

    pthread_join(opening->thread, NULL); /* only now the rest is ours */
    client = opening->client;
    *err = opening->err;
    free_opening(opening);
    return client;
}

void mcp_session_opened(struct mcp *mcp)
{
    struct error err;

    mcp->client = end_opening(mcp, &err);
    if (mcp->client != NULL) {
        mcp->lost = false;
        mcp_calls_send(mcp);
        return;
    }
    log_error("mcp: %s", err.message);
    mcp_calls_fail(mcp, true, &err);
}

/* The connection is of no use any more. What became of the calls nobody knows. */
static void lose_session(struct mcp *mcp, struct error *err)
{
    error_prefix(err, "the connection to the session is lost, and calls in flight with it");
    log_error("mcp: %s", err->message);
    mcp->client = NULL;
    mcp_calls_fail(mcp, false, err);
}

void mcp_session_turn(struct mcp *mcp)
{
    struct error err;
    json_t *message;
    int r = 0;

    if (mcp->client == NULL) {
        return;
    }
    if (client_flush(mcp->client, &err) < 0) {
        r = -1;
    }
    while (r == 0 && mcp->output.length - mcp->written <= MCP_MAX_BEHIND) {
        r = client_receive(mcp->client, &message, &err);
        if (r <= 0) {
            break;
        }
        mcp_calls_take(mcp, message);
        json_decref(message);
        r = 0;
    }
    if (r < 0) {
        lose_session(mcp, &err);
    }
}

bool mcp_session_close(struct mcp *mcp)
{
    struct error err;

    mcp->client = NULL;
    if (mcp->opening != NULL) {
        struct pollfd fd = {.fd = mcp->opening->done, .events = POLLIN};

        if (poll(&fd, 1, MCP_ENDING_MS) <= 0) {
            pthread_t thread = mcp->opening->thread;

            if (atomic_exchange(&mcp->opening->end, LOOP_HAS_LEFT) == NEITHER) {
                pthread_detach(thread);
                return false;
            }
        }
        end_opening(mcp, &err);
    }
    mcp->host->hang_up(mcp->host->ctx);
    return true;
}
