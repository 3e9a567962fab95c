#include "sandbox/sandbox.h"

#include <assert.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "sandbox/log.h"

/* Traces the outcome of a front-door call and checks the promise about errors. */
static int outcome(const char *verb, const char *session, int r, const struct error *err)
{
    assert(r == 0 || (r == -1 && err->code != ERROR_NONE && err->code < ERROR_CODES));
    if (r == 0) {
        log_trace("%s %s: ok", verb, session);
    } else {
        log_trace("%s %s: %s: %s", verb, session, error_name(err->code), err->message);
    }
    return r;
}

/* What provision and attach promise of a handle. */
static void check_handle(const struct sandbox *sandbox, const struct backend *backend,
                         const char *session)
{
    assert(sandbox->backend == backend);
    assert(sandbox->id != NULL && sandbox->id[0] != '\0');
    assert(strcmp(sandbox->session, session) == 0);
    assert(sandbox->workdir != NULL && sandbox->workdir[0] == '/');
    (void)sandbox;
    (void)backend;
    (void)session;
}

int sandbox_provision(const struct backend *backend, const struct sandbox_spec *spec,
                      uint64_t deadline_ms, struct sandbox *ret, struct error *err)
{
    int r;

    assert(spec->session != NULL); /* a checked spec */
    assert(spec->workdir != NULL || spec->attach != NULL);
    r = backend->ops->provision(spec, deadline_ms, ret, err);
    if (r == 0) {
        check_handle(ret, backend, spec->session);
    }
    return outcome("provision", spec->session, r, err);
}

int sandbox_attach(const struct backend *backend, const char *session, uint64_t deadline_ms,
                   struct sandbox *ret, struct error *err)
{
    int r;

    if (session_name_check(session, err) < 0) {
        return -1;
    }
    r = backend->ops->attach(session, deadline_ms, ret, err);
    if (r == 0) {
        check_handle(ret, backend, session);
        assert(!ret->created);
    }
    return outcome("attach", session, r, err);
}

int sandbox_list(const struct backend *backend, void (*found)(void *arg, const char *session), void *arg,
                 struct error *err)
{
    return outcome("list", "", backend->ops->list(found, arg, err), err);
}

int sandbox_destroy(const struct backend *backend, const char *session, uint64_t deadline_ms,
                    struct error *err)
{
    if (session_name_check(session, err) < 0) {
        return -1;
    }
    return outcome("destroy", session, backend->ops->destroy(session, deadline_ms, err), err);
}

int sandbox_connect(struct sandbox *sandbox, uint64_t deadline_ms, int *ret_fd, struct error *err)
{
    int r = sandbox->backend->ops->connect(sandbox, deadline_ms, ret_fd, err);

    if (r == 0) {
        assert(*ret_fd >= 0);
        assert((fcntl(*ret_fd, F_GETFL) & O_NONBLOCK) != 0);
    }
    return outcome("connect", sandbox->session, r, err);
}

int sandbox_open_root(struct sandbox *sandbox, int *ret_fd, struct error *err)
{
    if (sandbox->backend->ops->open_root == NULL) {
        *ret_fd = -1;
        return 0;
    }
    return outcome("open_root", sandbox->session,
                   sandbox->backend->ops->open_root(sandbox, ret_fd, err), err);
}

int sandbox_status(struct sandbox *sandbox, void (*say)(void *arg, const char *key, const char *value),
                   void *arg, struct error *err)
{
    return outcome("status", sandbox->session, sandbox->backend->ops->status(sandbox, say, arg, err),
                   err);
}

void sandbox_doctor(const struct backend *backend, doctor_report report, void *arg)
{
    backend->ops->doctor(report, arg);
}

void sandbox_release(struct sandbox *sandbox)
{
    if (sandbox->backend != NULL) {
        sandbox->backend->ops->release(sandbox);
    }
    free(sandbox->session);
    free(sandbox->id);
    free(sandbox->workdir);
    *sandbox = (struct sandbox){0};
}
