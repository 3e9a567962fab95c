/* How verbs find who serves a session, and how a session's mounts are told about its next sandbox. */
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "backends/registry.h"
#include "exec/client.h"
#include "mount/progress.h"
#include "mount/verbs.h"
#include "sandbox/clock.h"
#include "sandbox/log.h"

int verb_client(const struct options *options, const char *session, struct client **ret,
                struct mount_entry *ret_entry, struct error *err)
{
    const struct backend *backend = NULL;
    struct error why = {0};
    bool found = false;

    *ret = NULL;
    if (session_name_check(session, err) < 0 || backend_find(options->backend, &backend, err) < 0) {
        return -1;
    }
    /* Without a registry there is no mount of ours; the session may be there all the same. */
    if (mounts_find_session(session, options->backend != NULL ? backend->name : NULL, backend->name,
                            ret_entry, &found, &why) < 0) {
        log_trace("%s", why.message);
        return 0;
    }
    if (!found) {
        return 0;
    }
    if (client_connect(ret, ret_entry->socket, SOCKET_TIMEOUT_MS, &why) < 0) {
        log_trace("%s: %s", ret_entry->socket, why.message);
        mount_entry_release(ret_entry);
        *ret = NULL;
    }
    return 0;
}

static void tell_mount(const struct mount_entry *entry)
{
    struct client *client = NULL;
    struct error err = {0};
    json_t *result = NULL;

    if (client_connect(&client, entry->socket, SOCKET_TIMEOUT_MS, &err) < 0 ||
        client_call(client, "provision", NULL, REPLY_TIMEOUT_MS, &result, &err) < 0) {
        log_trace("%s: %s", entry->mountpoint, err.message);
    }
    json_decref(result);
    client_close(client);
}

void tell_mounts(const char *session, const char *backend, const char *except)
{
    cleanup_mount_list struct mount_list list = {0};
    struct error err = {0};

    if (mounts_list(&list, &err) < 0) {
        log_trace("%s", err.message);
        return;
    }
    for (size_t i = 0; i < list.count; i++) {
        const struct mount_entry *entry = &list.entries[i];

        if (entry->alive && strcmp(entry->session, session) == 0 &&
            strcmp(entry->backend, backend) == 0 &&
            (except == NULL || strcmp(entry->mountpoint, except) != 0)) {
            tell_mount(entry);
        }
    }
}

int verb_provision_session(struct options *options, const char *session, struct sandbox *ret,
                           struct error *err)
{
    const struct backend *backend = NULL;
    struct progress progress;
    int r;

    if (options_spec(options, session, err) < 0 ||
        backend_find(options->backend, &backend, err) < 0) {
        return -1;
    }
    progress_begin(&progress, STDERR_FILENO);
    options->spec.progress = &progress.sandbox;
    r = sandbox_provision(backend, &options->spec, clock_now_ms() + PROVISION_TIMEOUT_MS, ret, err);
    options->spec.progress = NULL; /* a daemon takes the options over and has no terminal */
    progress_end(&progress);
    if (r == 0) {
        tell_mounts(session, backend->name, NULL);
    }
    return r;
}
