#include "mount/session_client.h"

#include <errno.h>
#include <stdlib.h>

#include "backends/registry.h"
#include "mount/own_gateway.h"
#include "mount/verbs.h"
#include "sandbox/cleanup.h"

struct session_client {
    struct client *client;
    struct mount_entry entry; /* of the mount, where there is one */
    bool is_own;              /* else */
    struct own_gateway own;
};

/* A gateway of our own with a client of it. */
static int open_own(struct session_client *sc, const struct options *options, const char *session,
                    struct error *err)
{
    const struct backend *backend = NULL;
    int fd;

    if (backend_find(options->backend, &backend, err) < 0 ||
        own_gateway_open(&sc->own, backend, session, &fd, err) < 0) {
        return -1;
    }
    sc->is_own = true;
    return client_new(&sc->client, fd, err);
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
    return sc->is_own ? NULL : sc->entry.mountpoint;
}

void session_client_close(struct session_client *sc)
{
    if (sc == NULL) {
        return;
    }
    client_close(sc->client);
    if (sc->is_own) {
        own_gateway_close(&sc->own);
    }
    mount_entry_release(&sc->entry);
    free(sc);
}
