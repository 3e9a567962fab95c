/* The streams of an exec: WebSocket messages whose first byte says which (v4.channel.k8s.io and v5, see
 * k8s.io/apimachinery/pkg/util/remotecommand). Knows no connection, so that it can be fed with anything. */
#ifndef HANDSFS_BACKENDS_K8S_CHANNELS_H
#define HANDSFS_BACKENDS_K8S_CHANNELS_H

#include "backends/k8s_client.h"
#include "backends/websocket.h"

enum k8s_channel {
    K8S_STDIN,
    K8S_STDOUT,
    K8S_STDERR,
    K8S_ERROR, /* a Status object when the program has ended */
    K8S_RESIZE,
    K8S_CLOSE = 255, /* v5: the channel that is the message's one byte is at its end */
};

#define K8S_MAX_STATUS (64u << 10)   /* bytes of the Status object */
#define K8S_KEPT_ERRORS 4096         /* bytes of stderr; the rest is dropped */
#define K8S_INPUT_PIECE (32u << 10)  /* bytes of stdin in one message */

struct k8s_channels {
    struct websocket *websocket;
    bool v5;
    bool begun;             /* `channel` is that of the message at hand */
    uint8_t channel;
    struct buffer *output;  /* stdout goes here while bytes are taken */
    uint64_t received;      /* bytes of stdout so far */
    struct buffer errors;   /* stderr's beginning */
    struct buffer status;
};

/* Release also after a failure. */
int k8s_channels_init(struct k8s_channels *ret, bool v5, struct error *err)
    __attribute__((nonnull, warn_unused_result));
void k8s_channels_release(struct k8s_channels *channels) __attribute__((nonnull));

/* Takes bytes of the server: the program's output is appended to `output`, what must be answered to
 * `outer`. ERROR_NO_ANSWER, ERROR_TOO_LARGE (a buffer is full). */
int k8s_channels_take(struct k8s_channels *channels, const uint8_t *data, size_t length,
                      struct buffer *output, struct buffer *outer, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Appends bytes for the program's stdin. */
int k8s_channels_put_input(struct k8s_channels *channels, const uint8_t *data, size_t length,
                           struct buffer *outer, struct error *err)
    __attribute__((nonnull(1, 4, 5), warn_unused_result));

/* Appends what says that stdin is at its end, where the protocol can say so (v5), else nothing. */
int k8s_channels_put_end(struct k8s_channels *channels, struct buffer *outer, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Appends a sign of life that counts everywhere between here and the kubelet: a ping, for what looks at
 * bytes; and a message without any byte. The kubelet's and the runtime's idle timeouts
 * (streamingConnectionIdleTimeout) begin anew with a whole message and never with a ping; one that names no channel is
 * then dropped, so the program does not see it. */
int k8s_channels_put_life(struct k8s_channels *channels, struct buffer *outer, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* How the program ended, as the Status says: 0 with *ret_exit; -1 with an error where it was not run, or
 * where no Status came (ERROR_NO_ANSWER). With a code other than 0 `err` is set too, to the beginning of stderr. */
int k8s_channels_exit(const struct k8s_channels *channels, int *ret_exit, struct error *err)
    __attribute__((nonnull, warn_unused_result));

/* Opens the exec: the upgrade with the client's credentials. 0 with *ret and `channels` initialised, or with *ret NULL
 * and `refused` filled; release the channels in any case. */
int k8s_exec_open(struct k8s_client *client, const struct k8s_exec *exec, bool with_input,
                  struct k8s_channels *channels, struct http_stream **ret, struct k8s_reply *refused,
                  struct error *err) __attribute__((nonnull, warn_unused_result));

#endif
