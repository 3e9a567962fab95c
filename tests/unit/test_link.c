/* The link against a hand that says what the test wants. */
#include "backends/link.h"
#include "tests/unit/phony_hand.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct rig rig;

/* ---- Calls ------------------------------------------------------------------------------------ */

START_TEST(a_call_made_before_the_link_is_up_is_sent_after_the_welcome)
{
    struct answer answer;
    struct wire_reply reply = a_file(42);
    uint64_t id;

    rig_open(&rig, 0, LINK_PLACE_STREAM);
    start_getattr(&rig, "a/b", 0, &answer);
    hand_accept(&rig);
    ck_assert(hand_hears_nothing(&rig));
    ck_assert_ptr_null(link_peer(rig.link));
    hand_welcome(&rig, 1);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    hand_reply(&rig, id, WIRE_GETATTR, &reply);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_NONE);
    ck_assert_uint_eq(answer.reply.attr.size, 42);
    ck_assert_int_eq(link_state(rig.link), LINK_UP);
    ck_assert_uint_eq(link_peer(rig.link)->uid, 4711);
    ck_assert_str_eq(link_peer(rig.link)->version, "phony 1");
    ck_assert(!link_peer(rig.link)->in_process);
    rig_close(&rig);
    ck_assert_uint_eq(answer.times, 1);
}
END_TEST

START_TEST(replies_find_their_calls_in_any_order)
{
    enum { CALLS = 100 };
    static struct answer answers[CALLS];
    uint64_t ids[CALLS];

    rig_up(&rig, 0);
    for (unsigned i = 0; i < CALLS; i++) {
        start_getattr(&rig, "x", 0, &answers[i]);
    }
    for (unsigned i = 0; i < CALLS; i++) {
        hand_hear_call(&rig, WIRE_GETATTR, &ids[i]);
    }
    for (unsigned i = CALLS; i-- > 0;) {
        struct wire_reply reply = a_file(i);

        hand_reply(&rig, ids[i], WIRE_GETATTR, &reply);
    }
    for (unsigned i = 0; i < CALLS; i++) {
        RIG_UNTIL(&rig, answers[i].times > 0);
        ck_assert_uint_eq(answers[i].reply.attr.size, i);
    }
    rig_close(&rig);
}
END_TEST

START_TEST(a_reply_that_comes_byte_by_byte_is_whole)
{
    struct answer answer;
    struct wire_reply reply = a_file(7);
    struct buffer frame = BUFFER_INIT(4096);
    uint64_t id;
    size_t at;

    rig_up(&rig, 0);
    start_getattr(&rig, "", 0, &answer);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    at = wire_begin_frame(&frame, WIRE_RESULT, id);
    ck_assert_int_eq(wire_put_reply(&frame, WIRE_GETATTR, &reply), 0);
    wire_end_frame(&frame, at);
    for (size_t i = 0; i < frame.length; i++) {
        ck_assert_uint_eq(answer.times, 0);
        hand_send(&rig, frame.data + i, 1);
        rig_turn(&rig);
    }
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_uint_eq(answer.reply.attr.size, 7);
    buffer_release(&frame);
    rig_close(&rig);
}
END_TEST

START_TEST(an_error_of_the_hand_is_told_as_it_is)
{
    struct answer answer;
    struct wire_reply reply = {
        .code = ERROR_ERRNO, .os_errno = ENOSPC, .message = {"disk full", 9}};
    uint64_t id;

    rig_up(&rig, 0);
    start_getattr(&rig, "a", 0, &answer);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    hand_reply(&rig, id, WIRE_GETATTR, &reply);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(error_errno(&answer.err), ENOSPC);
    ck_assert_str_eq(answer.err.message, "disk full");
    rig_close(&rig);
}
END_TEST

START_TEST(a_hand_cannot_say_that_the_sandbox_is_gone)
{
    struct answer answer;
    struct wire_reply reply = {.code = ERROR_SANDBOX_GONE, .message = {"ha", 2}};
    uint64_t id;

    rig_up(&rig, 0);
    start_getattr(&rig, "a", 0, &answer);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    hand_reply(&rig, id, WIRE_GETATTR, &reply);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_IO);
    ck_assert_int_eq(link_state(rig.link), LINK_UP);
    rig_close(&rig);
}
END_TEST

START_TEST(names_that_no_file_can_have_are_refused_here)
{
    static const char *const paths[] = {"/a", "a//b", "a/", "..", "a/../b", "."};
    struct answer answer;
    struct wire_call call = {.op = WIRE_LOOKUP, .name = {"x/y", 3}};
    static char long_name[300];

    rig_up(&rig, 0);
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        start_getattr(&rig, paths[i], 0, &answer);
        ck_assert_uint_eq(answer.times, 0); /* never from inside */
        RIG_UNTIL(&rig, answer.times > 0);
        ck_assert_int_eq(answer.err.code, ERROR_BAD_REQUEST);
    }
    answer = (struct answer){0};
    link_call(rig.link, &call, 0, note_answer, &answer);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_BAD_REQUEST);
    memset(long_name, 'n', sizeof long_name);
    call.name = (struct wire_text){long_name, sizeof long_name};
    answer = (struct answer){0};
    link_call(rig.link, &call, 0, note_answer, &answer);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(error_errno(&answer.err), ENAMETOOLONG);
    ck_assert(hand_hears_nothing(&rig));
    rig_close(&rig);
}
END_TEST

START_TEST(one_call_too_many_is_refused_and_the_others_go_on)
{
    static struct answer answers[LINK_MAX_CALLS + 1];
    struct wire_reply reply = a_file(1);
    uint64_t id;

    rig_up(&rig, 0);
    for (unsigned i = 0; i <= LINK_MAX_CALLS; i++) {
        start_getattr(&rig, "x", 0, &answers[i]);
    }
    RIG_UNTIL(&rig, answers[LINK_MAX_CALLS].times > 0);
    ck_assert_int_eq(answers[LINK_MAX_CALLS].err.code, ERROR_NO_MEMORY);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    hand_reply(&rig, id, WIRE_GETATTR, &reply);
    RIG_UNTIL(&rig, answers[0].times > 0);
    ck_assert_int_eq(answers[0].err.code, ERROR_NONE);
    rig_close(&rig);
    for (unsigned i = 1; i < LINK_MAX_CALLS; i++) {
        ck_assert_uint_eq(answers[i].times, 1);
        ck_assert_int_eq(answers[i].err.code, ERROR_CANCELLED);
    }
}
END_TEST

START_TEST(a_cancelled_call_answers_once_and_what_it_opened_is_released)
{
    struct wire_call open_call = {.op = WIRE_OPEN, .ref = {.path = {"f", 1}}};
    struct wire_call release;
    struct answer answer = {0};
    struct wire_reply reply = a_file(1);
    struct heard_frame f;
    struct call *call;
    uint64_t id;
    uint64_t release_id;

    reply.handle = 77;
    rig_up(&rig, 0);
    call = link_call(rig.link, &open_call, 0, note_answer, &answer);
    hand_hear_call(&rig, WIRE_OPEN, &id);
    call_cancel(call);
    ck_assert_uint_eq(answer.times, 0);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_CANCELLED);
    f = hand_hear(&rig, WIRE_CANCEL);
    ck_assert_uint_eq(f.header.id, id);
    hand_reply(&rig, id, WIRE_OPEN, &reply);
    release = hand_hear_call(&rig, WIRE_RELEASE, &release_id);
    ck_assert_uint_eq(release.ref.handle, 77);
    rig_close(&rig);
    ck_assert_uint_eq(answer.times, 1);
}
END_TEST

/* ---- Silence ---------------------------------------------------------------------------------- */

START_TEST(after_a_deadline_in_silence_calls_fail_at_once_until_the_hand_is_heard)
{
    struct answer answer;
    struct wire_reply reply = a_file(3);
    uint64_t id;
    uint64_t before;

    rig_up(&rig, 0);
    start_getattr(&rig, "a", 100, &answer);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_NO_ANSWER);
    ck_assert_int_eq(link_state(rig.link), LINK_SILENT);
    ck_assert_ptr_nonnull(link_peer(rig.link));

    before = uv_hrtime();
    start_getattr(&rig, "b", 60000, &answer);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_NO_ANSWER);
    ck_assert_uint_lt(uv_hrtime() - before, UINT64_C(20000000000)); /* of the 60 s that it was given */

    hand_hear(&rig, WIRE_CANCEL);
    hand_hear(&rig, WIRE_PING);
    hand_hear(&rig, WIRE_PING); /* one a second */
    ck_assert_uint_ge(uv_hrtime() - before, UINT64_C(800000000));
    hand_send_empty(&rig, WIRE_PONG, 0);
    RIG_UNTIL(&rig, link_state(rig.link) == LINK_UP);
    start_getattr(&rig, "c", 0, &answer);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    hand_reply(&rig, id, WIRE_GETATTR, &reply);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_NONE);
    rig_close(&rig);
}
END_TEST

START_TEST(a_slow_call_at_a_hand_that_answers_pings_is_no_silence)
{
    struct answer answer;
    struct answer other;
    uint64_t id;

    rig_up(&rig, 0);
    start_getattr(&rig, "a", 1500, &answer);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    hand_hear(&rig, WIRE_PING);
    hand_send_empty(&rig, WIRE_PONG, 0);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_NO_ANSWER);
    ck_assert_int_eq(link_state(rig.link), LINK_UP);
    hand_hear(&rig, WIRE_CANCEL);
    start_getattr(&rig, "b", 0, &other);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    rig_close(&rig);
}
END_TEST

START_TEST(an_idle_link_wakes_nobody)
{
    struct answer answer;
    struct wire_reply reply = a_file(3);
    uint64_t id;

    rig_up(&rig, 0);
    start_getattr(&rig, "a", 0, &answer);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    hand_reply(&rig, id, WIRE_GETATTR, &reply);
    RIG_UNTIL(&rig, answer.times > 0);
    RIG_UNTIL(&rig, uv_backend_timeout(&rig.loop) == -1);
    rig_close(&rig);
}
END_TEST

/* ---- Connecting ------------------------------------------------------------------------------- */

START_TEST(a_broken_stream_fails_what_was_sent_and_is_connected_anew_as_the_same_client)
{
    struct answer sent;
    struct answer later;
    struct wire_reply reply = a_file(9);
    uint8_t client[WIRE_ID_BYTES];
    uint64_t id;

    rig_up(&rig, 0);
    memcpy(client, rig.client, sizeof client);
    start_getattr(&rig, "a", 0, &sent);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    hand_hang_up(&rig);
    RIG_UNTIL(&rig, sent.times > 0);
    ck_assert_int_eq(sent.err.code, ERROR_IO);
    start_getattr(&rig, "b", 0, &later);
    hand_accept(&rig);
    ck_assert_mem_eq(client, rig.client, sizeof client);
    hand_welcome(&rig, 1);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    hand_reply(&rig, id, WIRE_GETATTR, &reply);
    RIG_UNTIL(&rig, later.times > 0);
    ck_assert_int_eq(later.err.code, ERROR_NONE);
    rig_close(&rig);
}
END_TEST

START_TEST(a_sandbox_that_is_gone_is_known_to_be)
{
    struct answer answer;
    struct answer sent;
    unsigned connects;
    uint64_t id;

    rig_up(&rig, 0);
    start_getattr(&rig, "a", 0, &sent);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    rig_set_mode(&rig, PHONY_GONE);
    hand_hang_up(&rig);
    RIG_UNTIL(&rig, sent.times > 0);
    ck_assert_int_eq(sent.err.code, ERROR_SANDBOX_GONE);
    RIG_UNTIL(&rig, rig.state_count > 0 && rig.states[rig.state_count - 1] == LINK_GONE);
    connects = rig_connects(&rig);
    rig_set_mode(&rig, PHONY_CONNECTS);
    start_getattr(&rig, "a", 0, &answer);
    ck_assert_uint_eq(answer.times, 0);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_SANDBOX_GONE);
    ck_assert_str_eq(answer.err.message, "no such sandbox");
    RIG_UNTIL(&rig, uv_backend_timeout(&rig.loop) == -1);
    ck_assert_uint_eq(rig_connects(&rig), connects);
    ck_assert_int_eq(link_state(rig.link), LINK_GONE);
    ck_assert_ptr_null(link_peer(rig.link));
    rig_close(&rig);
}
END_TEST

START_TEST(an_idle_link_finds_out_by_itself)
{
    rig_up(&rig, 0);
    rig_set_mode(&rig, PHONY_GONE);
    hand_hang_up(&rig);
    RIG_UNTIL(&rig, rig.state_count > 0 && rig.states[rig.state_count - 1] == LINK_GONE);
    rig_close(&rig);
}
END_TEST

START_TEST(another_hand_at_the_other_end_is_another_sandbox)
{
    struct answer answer;

    rig_up(&rig, 0);
    hand_hang_up(&rig);
    RIG_UNTIL(&rig, link_state(rig.link) != LINK_UP);
    start_getattr(&rig, "a", 0, &answer);
    hand_accept(&rig);
    hand_welcome(&rig, 2);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_SANDBOX_GONE);
    ck_assert_int_eq(link_state(rig.link), LINK_GONE);
    rig_close(&rig);
}
END_TEST

START_TEST(an_ill_engine_is_asked_again_while_a_caller_waits_and_no_longer)
{
    struct answer answer;

    rig_open(&rig, 300, LINK_PLACE_STREAM);
    hand_accept(&rig);
    rig_set_mode(&rig, PHONY_BROKEN);
    hand_hang_up(&rig);
    start_getattr(&rig, "a", 0, &answer);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_NO_ANSWER);
    ck_assert_uint_gt(rig_connects(&rig), 2);
    ck_assert_int_eq(link_state(rig.link), LINK_SILENT);
    rig_set_mode(&rig, PHONY_CONNECTS);
    hand_accept(&rig);
    hand_welcome(&rig, 1);
    RIG_UNTIL(&rig, link_state(rig.link) == LINK_UP);
    rig_close(&rig);
}
END_TEST

START_TEST(an_adopted_sandbox_takes_calls_and_knows_no_handle_of_the_old_one)
{
    struct wire_call open_call = {.op = WIRE_OPEN, .ref = {.path = {"f", 1}}};
    struct wire_call read_call = {.op = WIRE_READ, .size = 10};
    struct sandbox next;
    struct answer answer = {0};
    struct wire_reply reply = a_file(1);
    uint64_t id;

    reply.handle = 5;
    rig_up(&rig, 0);
    link_call(rig.link, &open_call, 0, note_answer, &answer);
    hand_hear_call(&rig, WIRE_OPEN, &id);
    hand_reply(&rig, id, WIRE_OPEN, &reply);
    RIG_UNTIL(&rig, answer.times > 0);
    read_call.ref.handle = answer.reply.handle;
    rig_set_mode(&rig, PHONY_GONE);
    hand_hang_up(&rig);
    RIG_UNTIL(&rig, link_state(rig.link) == LINK_GONE);

    rig_set_mode(&rig, PHONY_CONNECTS);
    next = rig_sandbox(&rig, "sandbox-2");
    link_adopt(rig.link, &next);
    ck_assert_str_eq(link_sandbox(rig.link)->id, "sandbox-2");
    answer = (struct answer){0};
    link_call(rig.link, &read_call, 0, note_answer, &answer);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(error_errno(&answer.err), ESTALE);
    hand_accept(&rig);
    hand_welcome(&rig, 2);
    RIG_UNTIL(&rig, link_state(rig.link) == LINK_UP);

    answer = (struct answer){0};
    link_call(rig.link, &open_call, 0, note_answer, &answer);
    hand_hear_call(&rig, WIRE_OPEN, &id);
    hand_reply(&rig, id, WIRE_OPEN, &reply);
    RIG_UNTIL(&rig, answer.times > 0);
    read_call.ref.handle = answer.reply.handle;
    link_call(rig.link, &read_call, 0, note_answer, &answer);
    ck_assert_uint_eq(hand_hear_call(&rig, WIRE_READ, &id).ref.handle, 5);
    rig_close(&rig);
}
END_TEST

START_TEST(adopting_fails_what_waits_for_the_old_one_and_what_is_in_flight)
{
    struct sandbox next;
    struct answer waiting;
    struct answer sent;
    uint64_t id;

    rig_open(&rig, 0, LINK_PLACE_STREAM);
    start_getattr(&rig, "a", 0, &waiting);
    next = rig_sandbox(&rig, "sandbox-1"); /* the very same: nothing happens */
    link_adopt(rig.link, &next);
    while (rig_connects(&rig) == 0) { /* the first attempt is made, and the loop has not heard of it */
        poll(NULL, 0, 1);
    }
    next = rig_sandbox(&rig, "sandbox-2");
    link_adopt(rig.link, &next);
    RIG_UNTIL(&rig, waiting.times > 0);
    ck_assert_int_eq(waiting.err.code, ERROR_SANDBOX_GONE);
    RIG_UNTIL(&rig, rig_connects(&rig) == 2);
    hand_accept(&rig);
    hand_welcome(&rig, 1);
    start_getattr(&rig, "b", 0, &sent);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    next = rig_sandbox(&rig, "sandbox-3");
    link_adopt(rig.link, &next);
    RIG_UNTIL(&rig, sent.times > 0);
    ck_assert_int_eq(sent.err.code, ERROR_SANDBOX_GONE);
    hand_accept(&rig);
    hand_welcome(&rig, 3);
    RIG_UNTIL(&rig, link_state(rig.link) == LINK_UP);
    rig_close(&rig);
}
END_TEST

START_TEST(closing_answers_everything_and_leaves_nothing_on_the_loop)
{
    struct answer sent;
    struct answer refused;
    uint64_t id;

    rig_up(&rig, 0);
    start_getattr(&rig, "a", 0, &sent);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    start_getattr(&rig, "/", 0, &refused);
    rig_close(&rig);
    ck_assert_int_eq(sent.err.code, ERROR_CANCELLED);
    ck_assert_uint_eq(sent.times, 1);
    ck_assert_uint_eq(refused.times, 1);
    rig_open(&rig, 0, LINK_PLACE_STREAM); /* and while it still connects */
    start_getattr(&rig, "a", 0, &sent);
    rig_close(&rig);
    ck_assert_int_eq(sent.err.code, ERROR_CANCELLED);
}
END_TEST

/* ---- Hostile hands ---------------------------------------------------------------------------- */

/* Each says something that breaks the rules while the call `id` (a GETATTR) is in flight. */
static void say_no_frame(uint64_t id)
{
    (void)id;
    hand_send(&rig, "SSH-2.0-OpenSSH_9.2p1\r\n", 23);
}

static void say_host_frame(uint64_t id)
{
    hand_send_empty(&rig, WIRE_EXEC_KILL, id);
}

static void say_too_long(uint64_t id)
{
    static const uint8_t header[WIRE_HEADER_BYTES] = {0xff, 0xff, 0xff, 0x7f, WIRE_RESULT};

    (void)id;
    hand_send(&rig, header, sizeof header);
}

static void say_huge_exec(uint64_t id)
{
    static const uint8_t header[WIRE_HEADER_BYTES] = {0, 0, 0x80, 0, WIRE_EXEC};

    (void)id;
    hand_send(&rig, header, sizeof header);
}

static void say_unknown_id(uint64_t id)
{
    struct wire_reply reply = a_file(1);

    hand_reply(&rig, id + 1, WIRE_GETATTR, &reply);
}

static void say_id_of_no_slot(uint64_t id)
{
    struct wire_reply reply = a_file(1);

    hand_reply(&rig, id | (LINK_MAX_CALLS - 1), WIRE_GETATTR, &reply);
}

static void say_garbage_attr(uint64_t id)
{
    struct wire_reply reply = a_file(1);

    reply.attr.mode = 0644; /* of no type */
    hand_reply(&rig, id, WIRE_GETATTR, &reply);
}

static void say_other_reply(uint64_t id)
{
    struct wire_reply reply = {.data = {"text", 4}};

    hand_reply(&rig, id, WIRE_READLINK, &reply);
}

static void say_loud_pong(uint64_t id)
{
    struct buffer payload = BUFFER_INIT(16);

    (void)id;
    ck_assert_int_eq(buffer_append(&payload, "x", 1), 0);
    hand_send_frame(&rig, WIRE_PONG, 0, &payload);
    buffer_release(&payload);
}

static void say_welcome_again(uint64_t id)
{
    (void)id;
    hand_welcome(&rig, 1);
}

static void say_refuse(uint64_t id)
{
    (void)id;
    hand_send_empty(&rig, WIRE_REFUSE, 0);
}

static void say_half_a_frame(uint64_t id)
{
    (void)id;
    hand_send(&rig, "\x10\0\0\0\x44\0\0\0\1\0", 10);
    hand_hang_up(&rig);
}

static void say_unknown_execution(uint64_t id)
{
    (void)id;
    hand_send_empty(&rig, WIRE_EXEC_EXIT, 12);
}

static void (*const breaches[])(uint64_t id) = {
    say_no_frame,     say_host_frame,    say_too_long,     say_huge_exec,
    say_unknown_id,   say_id_of_no_slot, say_garbage_attr, say_other_reply,
    say_loud_pong,    say_welcome_again, say_refuse,       say_half_a_frame,
    say_unknown_execution,
};

START_TEST(a_hand_that_breaks_the_rules_is_hung_up_on_and_its_calls_fail)
{
    struct answer answer;
    struct wire_reply reply = a_file(1);
    uint64_t id;

    rig_up(&rig, 0);
    start_getattr(&rig, "a", 0, &answer);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    breaches[_i](id);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_IO);
    hand_accept(&rig); /* anew, and that works */
    hand_welcome(&rig, 1);
    start_getattr(&rig, "b", 0, &answer);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    hand_reply(&rig, id, WIRE_GETATTR, &reply);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_NONE);
    rig_close(&rig);
}
END_TEST

START_TEST(a_reply_given_twice_is_a_breach)
{
    struct answer answer;
    struct answer other;
    struct wire_reply reply = a_file(1);
    uint64_t id;
    uint64_t other_id;

    rig_up(&rig, 0);
    start_getattr(&rig, "a", 0, &answer);
    start_getattr(&rig, "b", 0, &other);
    hand_hear_call(&rig, WIRE_GETATTR, &id);
    hand_hear_call(&rig, WIRE_GETATTR, &other_id);
    hand_reply(&rig, id, WIRE_GETATTR, &reply);
    hand_reply(&rig, id, WIRE_GETATTR, &reply);
    RIG_UNTIL(&rig, other.times > 0);
    ck_assert_uint_eq(answer.times, 1);
    ck_assert_int_eq(answer.err.code, ERROR_NONE);
    ck_assert_int_eq(other.err.code, ERROR_IO);
    rig_close(&rig);
}
END_TEST

START_TEST(a_greeting_that_makes_no_sense_is_not_taken)
{
    struct answer answer;

    rig_open(&rig, 0, LINK_PLACE_STREAM);
    start_getattr(&rig, "a", 0, &answer);
    hand_accept(&rig);
    hand_send_empty(&rig, _i == 0 ? WIRE_WELCOME : WIRE_PONG, 0);
    hand_accept(&rig);
    hand_welcome(&rig, 1);
    RIG_UNTIL(&rig, link_state(rig.link) == LINK_UP);
    ck_assert_uint_eq(answer.times, 0);
    rig_close(&rig);
}
END_TEST

START_TEST(a_handle_out_of_range_is_refused)
{
    struct wire_call open_call = {.op = WIRE_OPEN, .ref = {.path = {"f", 1}}};
    struct answer answer = {0};
    struct wire_reply reply = a_file(1);
    uint64_t id;

    reply.handle = UINT64_MAX;
    rig_up(&rig, 0);
    link_call(rig.link, &open_call, 0, note_answer, &answer);
    hand_hear_call(&rig, WIRE_OPEN, &id);
    hand_reply(&rig, id, WIRE_OPEN, &reply);
    RIG_UNTIL(&rig, answer.times > 0);
    ck_assert_int_eq(answer.err.code, ERROR_IO);
    rig_close(&rig);
}
END_TEST

UNIT_SUITE(link)
{
    tcase_add_test(tcase, a_call_made_before_the_link_is_up_is_sent_after_the_welcome);
    tcase_add_test(tcase, replies_find_their_calls_in_any_order);
    tcase_add_test(tcase, a_reply_that_comes_byte_by_byte_is_whole);
    tcase_add_test(tcase, an_error_of_the_hand_is_told_as_it_is);
    tcase_add_test(tcase, a_hand_cannot_say_that_the_sandbox_is_gone);
    tcase_add_test(tcase, names_that_no_file_can_have_are_refused_here);
    tcase_add_test(tcase, one_call_too_many_is_refused_and_the_others_go_on);
    tcase_add_test(tcase, a_cancelled_call_answers_once_and_what_it_opened_is_released);
    tcase_add_test(tcase, after_a_deadline_in_silence_calls_fail_at_once_until_the_hand_is_heard);
    tcase_add_test(tcase, a_slow_call_at_a_hand_that_answers_pings_is_no_silence);
    tcase_add_test(tcase, an_idle_link_wakes_nobody);
    tcase_add_test(tcase,
                   a_broken_stream_fails_what_was_sent_and_is_connected_anew_as_the_same_client);
    tcase_add_test(tcase, a_sandbox_that_is_gone_is_known_to_be);
    tcase_add_test(tcase, an_idle_link_finds_out_by_itself);
    tcase_add_test(tcase, another_hand_at_the_other_end_is_another_sandbox);
    tcase_add_test(tcase, an_ill_engine_is_asked_again_while_a_caller_waits_and_no_longer);
    tcase_add_test(tcase, an_adopted_sandbox_takes_calls_and_knows_no_handle_of_the_old_one);
    tcase_add_test(tcase, adopting_fails_what_waits_for_the_old_one_and_what_is_in_flight);
    tcase_add_test(tcase, closing_answers_everything_and_leaves_nothing_on_the_loop);
    tcase_add_loop_test(tcase, a_hand_that_breaks_the_rules_is_hung_up_on_and_its_calls_fail, 0,
                        sizeof breaches / sizeof breaches[0]);
    tcase_add_test(tcase, a_reply_given_twice_is_a_breach);
    tcase_add_loop_test(tcase, a_greeting_that_makes_no_sense_is_not_taken, 0, 2);
    tcase_add_test(tcase, a_handle_out_of_range_is_refused);
}
