#include "mount/attached.h"

#include <assert.h>

#include "mount/verbs.h"
#include "sandbox/clock.h"

int attached_open(struct attached *attached, const struct backend *backend, const char *session,
                  struct error *err)
{
    cleanup_sandbox struct sandbox sandbox = {0};
    struct link_options options = {.placement = LINK_PLACE_AUTO};
    int r;

    attached->link = NULL;
    if (sandbox_attach(backend, session, clock_now_ms() + ATTACH_TIMEOUT_MS, &sandbox, err) < 0) {
        return -1;
    }
    r = uv_loop_init(&attached->loop);
    if (r < 0) {
        return error_set_errno(err, -r, "cannot make an event loop");
    }
    if (link_open(&attached->link, &attached->loop, &sandbox, &options, err) < 0) {
        attached->link = NULL;
        uv_loop_close(&attached->loop);
        return -1;
    }
    return 0;
}

void attached_run(struct attached *attached, const bool *done)
{
    while (!*done) {
        uv_run(&attached->loop, UV_RUN_ONCE);
    }
}

void attached_close(struct attached *attached)
{
    int r;

    if (attached->link == NULL) {
        return;
    }
    link_close(attached->link, NULL, NULL);
    attached->link = NULL;
    uv_run(&attached->loop, UV_RUN_DEFAULT);
    r = uv_loop_close(&attached->loop);
    assert(r == 0); /* whoever put a handle there closed it */
    (void)r;
}
