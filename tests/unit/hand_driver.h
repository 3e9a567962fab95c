/* A real hand (the built program, $HANDSFS_HAND) and a host's end of its wire, for tests. Everything
 * fails the test when something is not there in DRIVER_WAIT_MS. */
#ifndef HANDSFS_TESTS_UNIT_HAND_DRIVER_H
#define HANDSFS_TESTS_UNIT_HAND_DRIVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "hand/wire.h"
#include "sandbox/buffer.h"

#define DRIVER_WAIT_MS 20000

struct hand {
    pid_t pid;         /* in our numbering */
    char folder[64];   /* of its own, with `work` and `socket` in it */
    char workdir[80];
    char socket[80];
    bool is_init;      /* it is PID 1 of a namespace */
    const char *linger_ms; /* before the start: what it is told; NULL for what it is by default */
    const char *apart_ms;  /* likewise */
};

/* Starts one (born zeroed); as PID 1 of a new PID namespace where `is_init`. False where that is not permitted here. */
bool hand_start(struct hand *hand, bool is_init);
/* SIGTERM; returns the wait status. */
int hand_stop(struct hand *hand);

/* A host. */
struct host {
    int fd;
    uint8_t client[WIRE_ID_BYTES];
    struct buffer in;
    size_t used; /* of it, by the frame that was given last */
};

struct frame {
    struct wire_header header;
    const uint8_t *payload; /* valid until the next frame is asked for */
    struct wire_reader reader;
};

/* Connects and says HELLO as this client (a number stands for the id); checks the WELCOME. */
void host_open(struct host *host, const struct hand *hand, uint8_t client);
/* The same through a socket that leads there, which is taken over. */
void host_open_at(struct host *host, const struct hand *hand, uint8_t client, int fd);
void host_close(struct host *host);
/* Connects without a word. */
int host_connect(const struct hand *hand);

void host_send(struct host *host, const struct buffer *frames);
void host_send_empty(struct host *host, enum wire_type type, uint64_t id);
void host_send_u32(struct host *host, enum wire_type type, uint64_t id, uint32_t v);
void host_send_exec(struct host *host, uint64_t id, const struct wire_exec *exec);
void host_send_input(struct host *host, uint64_t id, uint64_t offset, const void *data, size_t length);
void host_send_credit(struct host *host, uint64_t id, enum wire_stream stream, uint64_t total);
void host_send_attach(struct host *host, uint64_t id, uint64_t out, uint64_t err);

/* The next frame of any kind. */
struct frame host_next(struct host *host);
/* True when the hand has closed the connection; what comes before that is dropped. */
bool host_sees_end(struct host *host);

/* What became of a command. */
struct outcome {
    bool failed;
    enum error_code code; /* where it failed */
    char message[ERROR_MESSAGE_MAX];
    uint32_t pid;
    struct buffer out[2];
    uint64_t want; /* the last credit for stdin */
    struct wire_exit exit;
};

void outcome_init(struct outcome *o);
void outcome_release(struct outcome *o);
/* Takes one frame into account; true when it was the last of the execution. */
bool outcome_take(struct outcome *o, const struct frame *frame);
/* Takes frames until the execution `id` is over (other executions' frames fail the test), forgets it. */
void host_finish(struct host *host, uint64_t id, struct outcome *o);
/* Runs a command without stdin to its end; keeps 1 MiB. */
void host_run(struct host *host, const char *command, struct outcome *o);

/* Whether a process with this text in its command line lives, in the numbering of who asks. */
bool process_lives(const char *text);
/* Waits for one to live, or for all of them to be gone; false after DRIVER_WAIT_MS. */
bool process_comes(const char *text);
bool process_goes(const char *text);

#endif
