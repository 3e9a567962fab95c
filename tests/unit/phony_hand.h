/* A hand that says what the test wants: the other end of a socketpair that a scripted backend hands to the
 * link. Everything runs in the test's thread (but for the backend's functions); whoever waits turns the
 * loop until what it waits for is there, or fails after RIG_PATIENCE_MS. */
#ifndef HANDSFS_TESTS_UNIT_PHONY_HAND_H
#define HANDSFS_TESTS_UNIT_PHONY_HAND_H

#include <pthread.h>

#include "backends/link.h"

#define RIG_PATIENCE_MS 10000

enum phony_mode {
    PHONY_CONNECTS, /* a new stream each time */
    PHONY_GONE,     /* ERROR_SANDBOX_GONE */
    PHONY_BROKEN,   /* ERROR_IO */
};

struct rig {
    uv_loop_t loop;
    struct link *link;
    pthread_mutex_t lock; /* of the next four, which the backend's functions use */
    enum phony_mode mode;
    int hand_fd; /* the end of the newest stream that was not accepted yet */
    unsigned connects;
    char root[64]; /* what open_root opens, or "" */
    int hand;      /* the end that the helpers below speak over */
    struct buffer heard;
    uint8_t client[WIRE_ID_BYTES];
    bool closed;
    enum link_state states[64]; /* as told */
    unsigned state_count;
};

/* What one call or other was answered. */
struct answer {
    unsigned times;
    struct error err;        /* code ERROR_NONE for success */
    struct wire_reply reply; /* its texts are gone */
    char data[64];           /* the first bytes of its data */
};

/* One frame that the link sent. */
struct heard_frame {
    struct wire_header header;
    uint8_t *payload; /* until the next one */
};

/* A rig with a link; not connected yet. */
void rig_open(struct rig *rig, uint64_t timeout_ms, enum link_placement placement);
/* Another sandbox for link_adopt(). */
struct sandbox rig_sandbox(struct rig *rig, const char *id);
/* Closes the link and checks that nothing is left on the loop. */
void rig_close(struct rig *rig);
void rig_set_mode(struct rig *rig, enum phony_mode mode);
unsigned rig_connects(struct rig *rig);
void rig_turn(struct rig *rig);

/* Turns the loop until the condition holds. */
#define RIG_UNTIL(rig, condition)                                                                  \
    do {                                                                                           \
        uint64_t start_ = uv_hrtime();                                                             \
        while (!(condition)) {                                                                     \
            ck_assert_msg(uv_hrtime() - start_ < RIG_PATIENCE_MS * UINT64_C(1000000),              \
                          "waited in vain for: %s", #condition);                                   \
            rig_turn(rig);                                                                         \
        }                                                                                          \
    } while (0)

/* Waits for the link to connect and to say hello. */
void hand_accept(struct rig *rig);
/* Welcomes it as the hand whose instance is all `instance`. */
void hand_welcome(struct rig *rig, uint8_t instance);
/* rig_open, hand_accept, hand_welcome, and the link is up. */
void rig_up(struct rig *rig, uint64_t timeout_ms);
/* The next frame that is no PING; WIRE_PING too where that is what is expected. */
struct heard_frame hand_hear(struct rig *rig, enum wire_type expected);
/* True where nothing but PINGs has come. */
bool hand_hears_nothing(struct rig *rig);
void hand_send(struct rig *rig, const void *bytes, size_t length);
void hand_send_frame(struct rig *rig, enum wire_type type, uint64_t id,
                     const struct buffer *payload);
void hand_send_empty(struct rig *rig, enum wire_type type, uint64_t id);
void hand_reply(struct rig *rig, uint64_t id, enum wire_op op, const struct wire_reply *reply);
void hand_hang_up(struct rig *rig);
/* Hears a CALL of this op and decodes it. */
struct wire_call hand_hear_call(struct rig *rig, enum wire_op op, uint64_t *ret_id);

/* Frames about executions, heard (and checked) and said. hear_exec() gives the id. */
uint64_t hear_exec(struct rig *rig);
void say_started(struct rig *rig, uint64_t id);
void say_output(struct rig *rig, uint64_t id, unsigned stream, uint64_t offset, const char *text);
void say_exit(struct rig *rig, uint64_t id, const struct wire_exit *e);
void say_failed(struct rig *rig, uint64_t id, enum error_code code, const char *text);
void say_want(struct rig *rig, uint64_t id, uint64_t want);
void hear_input(struct rig *rig, uint64_t offset, size_t length, char first);
void hear_credit(struct rig *rig, unsigned stream, uint64_t total);
void hear_attach(struct rig *rig, uint64_t out, uint64_t err);

/* A call_done that fills in a struct answer. */
void note_answer(void *arg, const struct error *err, const struct wire_reply *reply);
struct call *start_getattr(struct rig *rig, const char *path, uint64_t timeout_ms,
                           struct answer *answer);
struct wire_reply a_file(uint64_t size);

#endif
