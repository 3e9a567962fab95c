#include "mount/session_client.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "backends/registry.h"
#include "exec/gateway.h"
#include "mount/attached.h"
#include "mount/verbs.h"
#include "sandbox/cleanup.h"

/* The gateway of this process. What is in here belongs to the thread once it runs, but for `stop`. */
struct own_gateway {
    struct attached attached;
    struct gateway *gateway;
    uv_async_t stop; /* also keeps the loop going */
    pthread_t thread;
};

struct session_client {
    struct client *client;
    struct mount_entry entry; /* of the mount, where there is one */
    struct own_gateway *own;  /* else */
};

/* ---- The thread ----------------------------------------------------------------------------- */

static void link_ended(void *arg)
{
    struct own_gateway *own = arg;

    uv_close((uv_handle_t *)&own->stop, NULL);
}

static void gateway_ended(void *arg)
{
    struct own_gateway *own = arg;

    link_close(take_ptr(own->attached.link), link_ended, own);
}

/* The gateway first: it waits until its commands are dead. */
static void stop(uv_async_t *handle)
{
    struct own_gateway *own = handle->data;

    if (own->gateway != NULL) {
        gateway_close(take_ptr(own->gateway), gateway_ended, own);
    }
}

static void *run_thread(void *arg)
{
    struct own_gateway *own = arg;

    uv_run(&own->attached.loop, UV_RUN_DEFAULT);
    return NULL;
}

/* ---- Beginning and end ---------------------------------------------------------------------- */

/* Runs the loop, where something is left in it, until nothing is. */
static void run_to_the_end(struct own_gateway *own)
{
    int r;

    uv_run(&own->attached.loop, UV_RUN_DEFAULT);
    r = uv_loop_close(&own->attached.loop);
    assert(r == 0);
    (void)r;
}

static void stop_here(struct own_gateway *own)
{
    if (own->gateway != NULL) {
        stop(&own->stop);
    } else {
        gateway_ended(own);
    }
    run_to_the_end(own);
}

static void own_gateway_close(struct own_gateway *own)
{
    uv_async_send(&own->stop);
    pthread_join(own->thread, NULL);
    run_to_the_end(own);
    free(own);
}

/* Opens the gateway with one connection and starts the thread. `fd` is taken. */
static int serve(struct own_gateway *own, int fd, struct error *err)
{
    static const struct gateway_host nobody = {.silent = true};
    int r = gateway_open(&own->gateway, &own->attached.loop, own->attached.link, NULL, &nobody, err);

    if (r < 0) {
        own->gateway = NULL;
        close(fd);
        return -1;
    }
    if (gateway_serve(own->gateway, fd, err) < 0) {
        return -1;
    }
    r = pthread_create(&own->thread, NULL, run_thread, own);
    return r != 0 ? error_set_errno(err, r, "cannot start a thread") : 0;
}

static int own_gateway_open(struct own_gateway **ret, const struct backend *backend,
                            const char *session, int fd, struct error *err)
{
    cleanup_free struct own_gateway *own = calloc(1, sizeof *own);
    cleanup_fd int taken = fd;
    sigset_t all, before;
    int r;

    if (own == NULL) {
        return error_set_errno(err, ENOMEM, "a gateway");
    }
    if (attached_open(&own->attached, backend, session, err) < 0) {
        return -1;
    }
    r = uv_async_init(&own->attached.loop, &own->stop, stop);
    if (r < 0) {
        attached_close(&own->attached);
        return error_set_errno(err, -r, "cannot make a way to the event loop");
    }
    own->stop.data = own;
    /* Signals are the verb's: none for the thread, nor for those that it starts. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = serve(own, take_fd(&taken), err);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r < 0) {
        stop_here(own);
        return -1;
    }
    *ret = take_ptr(own);
    return 0;
}

/* A gateway of our own with a client of it. */
static int open_own(struct session_client *sc, const struct options *options, const char *session,
                    struct error *err)
{
    const struct backend *backend = NULL;
    int pair[2];

    if (backend_find(options->backend, &backend, err) < 0) {
        return -1;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        return error_set_errno(err, errno, "socketpair");
    }
    if (own_gateway_open(&sc->own, backend, session, pair[1], err) < 0) {
        sc->own = NULL;
        close(pair[0]);
        return -1;
    }
    return client_new(&sc->client, pair[0], err);
}

int session_client_open(struct session_client **ret, const struct options *options,
                        const char *session, struct error *err)
{
    cleanup_session_client struct session_client *sc = calloc(1, sizeof *sc);

    if (sc == NULL) {
        return error_set_errno(err, ENOMEM, "a client");
    }
    if (verb_client(options, session, &sc->client, &sc->entry, err) < 0) {
        sc->client = NULL;
        return -1;
    }
    if (sc->client == NULL && open_own(sc, options, session, err) < 0) {
        sc->client = NULL;
        return -1;
    }
    *ret = take_ptr(sc);
    return 0;
}

struct client *session_client_get(struct session_client *sc)
{
    return sc->client;
}

const char *session_client_mountpoint(const struct session_client *sc)
{
    return sc->own == NULL ? sc->entry.mountpoint : NULL;
}

void session_client_close(struct session_client *sc)
{
    if (sc == NULL) {
        return;
    }
    client_close(sc->client);
    if (sc->own != NULL) {
        own_gateway_close(sc->own);
    }
    mount_entry_release(&sc->entry);
    free(sc);
}
