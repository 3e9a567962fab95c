/* Pumps: an engine's exec stream on one side, a descriptor that carries the bare bytes on the other.
 *
 * A pump has a thread, which sleeps in poll(2) and ends when either side does. It never holds more than
 * PUMP_BUFFER_BYTES a direction: who does not read stops who writes. exit(3) waits until all that was written to
 * the descriptors is sent, as if they were closed (_exit(2) does not). */
#ifndef HANDSFS_BACKENDS_PUMP_H
#define HANDSFS_BACKENDS_PUMP_H

#include "backends/http.h"

#define PUMP_BUFFER_BYTES (512u << 10)
#define PUMP_LINGER_MS 2000 /* to tell the engine the last bytes of a descriptor that was closed */

/* How an engine wraps bytes. All functions run on the pump's thread; -1 (with `err` set) ends the stream,
 * which the other side sees as its end. Buffers have a limit (PUMP_BUFFER_BYTES); there is room for four times the
 * piece before decode and encode are called, which take all of it or fail. */
struct pump_codec {
    /* Is expected to take bytes of the engine, to append what is the program's output to `inner`, and what
     * the engine must be told to `outer`. May be called with pieces of any size. */
    int (*decode)(void *state, const uint8_t *data, size_t length, struct buffer *inner,
                  struct buffer *outer, struct error *err);
    /* Is expected to append `data`, the program's input, as the engine wants it. */
    int (*encode)(void *state, const uint8_t *data, size_t length, struct buffer *outer,
                  struct error *err);
    /* May be NULL: then the connection is shut down for writing where it can be. The descriptor's owner has shut down
     * its writing side: is expected to append how the engine is told so. */
    int (*finish)(void *state, struct buffer *outer, struct error *err);
    /* May be NULL. Called each `tick_ms`: is expected to append a sign of life, or to end a silent stream. */
    int (*tick)(void *state, struct buffer *outer, struct error *err);
    uint64_t tick_ms;
    /* Frees the state; `err` says what ended the stream, NULL for its end. Called once. */
    void (*ended)(void *state, const struct error *err);
};

/* Takes over `stream` and `state` (also on failure). *ret_fd: non-blocking, close-on-exec, the caller's. */
int pump_start(struct http_stream *stream, const struct pump_codec *codec, void *state, int *ret_fd,
               struct error *err) __attribute__((nonnull(1, 2, 4, 5), warn_unused_result));

/* How many run in this process. */
unsigned pump_count(void);

#endif
