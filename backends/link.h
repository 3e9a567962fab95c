/* The link: the host's end of the wire to one sandbox's hand, on a libuv loop.
 *
 * All functions are called on the loop's thread and none blocks. File calls go over the byte stream to
 * the hand, or, where this host's kernel can see the sandbox's files, through the same code in this
 * process (hand/files.h) on the loop's thread pool; the caller cannot tell. Executions always go to the
 * hand. Every call has a deadline, and everything answers exactly once, from the loop, never from inside
 * the function that started it.
 *
 * The link connects by itself, with back-off, for as long as it is open:
 *  - A stream that breaks while the sandbox lives is connected anew with the same client id; executions go
 *    on where they were, calls in flight fail with ERROR_IO.
 *  - A sandbox that is gone (no such sandbox, or its hand is another one) fails everything with
 *    ERROR_SANDBOX_GONE at once. link_adopt() gives the link the session's next sandbox.
 *  - A hand that is silent: each call waits for its own deadline (ERROR_NO_ANSWER). Once one has passed
 *    without any sign of life, further calls fail at once, until the hand is heard again (a ping goes out
 *    every second while it is silent, and only then).
 *  - In-process calls keep to the same rules: one that starts more than LINK_LEASE_MS after the last sign
 *    of life first waits for a ping's answer, so a frozen or destroyed sandbox never seems to work. */
#ifndef HANDSFS_BACKENDS_LINK_H
#define HANDSFS_BACKENDS_LINK_H

#include <uv.h>

#include "hand/wire.h"
#include "sandbox/sandbox.h"

#define LINK_LEASE_MS 500          /* how long a sign of life counts for in-process calls */
#define LINK_MAX_CALLS 4096        /* calls in flight, then ERROR_NO_MEMORY (EAGAIN is not an answer) */
#define LINK_MAX_EXECUTIONS 256    /* running at once; then ERROR_BAD_REQUEST "too many" */
#define LINK_CONNECT_TIMEOUT_MS 5000
#define LINK_DEFAULT_TIMEOUT_MS 30000

enum link_placement {
    LINK_PLACE_AUTO,   /* in-process where possible */
    LINK_PLACE_STREAM, /* always through the hand */
};

enum link_state { LINK_CONNECTING, LINK_UP, LINK_SILENT, LINK_GONE };

struct link_options {
    enum link_placement placement;
    uint64_t timeout_ms; /* a call's deadline from its start; 0: LINK_DEFAULT_TIMEOUT_MS */
    /* May be NULL: told on every change of state, from the loop. */
    void (*state_changed)(void *arg, enum link_state state, const struct error *why);
    void *arg;
};

struct link;

/* Takes over `sandbox` (which is left zeroed) and starts connecting; calls made before it is up wait for
 * it within their deadlines. Ends with link_close(). */
int link_open(struct link **ret, uv_loop_t *loop, struct sandbox *sandbox,
              const struct link_options *options, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Answers everything in flight with ERROR_CANCELLED, kills the executions that are still running, and
 * frees the link; `closed` (may be NULL) is called from the loop when no handle of it is left there. */
void link_close(struct link *link, void (*closed)(void *arg), void *arg);

enum link_state link_state(const struct link *link);

/* The sandbox that the link speaks to: its strings are valid until the next turn of the loop. */
const struct sandbox *link_sandbox(const struct link *link);

/* Gives the link another sandbox of the same session (as provision returns it), which is taken over. Open
 * handles of the old one answer ESTALE from then on. */
void link_adopt(struct link *link, struct sandbox *sandbox);

/* What the hand said of itself; only in state LINK_UP and LINK_SILENT (else NULL). uid and gid here are in
 * the numbering in which file calls give owners (the host's numbering when they run in this process). */
struct link_peer {
    uint32_t uid, gid;
    char version[64];
    char machine[64];
    bool in_process; /* file calls run in this process */
};
const struct link_peer *link_peer(const struct link *link);

/* ---- File calls ---- */

struct call;

/* `err` is NULL on success, and then `reply` holds the fields that the op has, pointing into memory that
 * is the link's: valid during the call. Otherwise `err` says why, and `reply` is NULL. */
typedef void (*call_done)(void *arg, const struct error *err, const struct wire_reply *reply);

/* Starts a call. `call`, all texts in it included, is encoded before this returns; paths that the wire does
 * not take are answered ERROR_BAD_REQUEST (a name that is too long: ENAMETOOLONG). `timeout_ms` 0 stands
 * for the link's. Never NULL: when memory runs out `done` says so (from the loop). */
struct call *link_call(struct link *link, const struct wire_call *call, uint64_t timeout_ms,
                       call_done done, void *arg) __attribute__((nonnull(1, 2, 4)));

/* `done` is called with ERROR_CANCELLED, from the loop. A handle that a cancelled or late call opens is
 * released again. Not after `done` was called. */
void call_cancel(struct call *call) __attribute__((nonnull));

/* ---- Whole files: the contract's ReadFile and WriteFile ---- */

/* `data` is the content (valid during the call). */
typedef void (*read_file_done)(void *arg, const struct error *err, const uint8_t *data, size_t length);
typedef void (*write_file_done)(void *arg, const struct error *err);

/* `path` absolute, or relative to the workdir; "." and ".." and double slashes are resolved as text first.
 * ReadFile: refuses over `limit` bytes before anything is allocated. WriteFile: `data` is copied. */
void link_read_file(struct link *link, const char *path, uint64_t limit, uint64_t timeout_ms,
                    read_file_done done, void *arg) __attribute__((nonnull(1, 2, 5)));
void link_write_file(struct link *link, const char *path, const void *data, size_t length,
                     uint64_t timeout_ms, write_file_done done, void *arg)
    __attribute__((nonnull(1, 2, 6)));

#endif
