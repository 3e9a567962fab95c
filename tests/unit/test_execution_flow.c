/* Executions that are listened to, against a hand that says what the test wants. */
#include "backends/execution.h"
#include "tests/unit/phony_hand.h"
#include "tests/unit/unit.h"

#include <string.h>

static struct rig rig;

struct listener {
    struct execution *execution;
    char text[2][64];
    size_t came[2];
    unsigned rooms;
    unsigned ends;
    enum error_code code;
    uint64_t dropped;
    size_t kept;
};

static void note_output(void *arg, unsigned stream, const void *data, size_t length)
{
    struct listener *l = arg;

    if (l->came[stream] + length < sizeof l->text[stream]) {
        memcpy(l->text[stream] + l->came[stream], data, length);
    }
    l->came[stream] += length;
}

static void note_room(void *arg)
{
    ((struct listener *)arg)->rooms++;
}

static void note_end(void *arg, const struct error *err, struct execution_result *result)
{
    struct listener *l = arg;

    l->ends++;
    l->code = err != NULL ? err->code : ERROR_NONE;
    if (result != NULL) {
        l->dropped = result->dropped[0];
        l->kept = result->out[0].length;
    }
}

static void start(struct listener *l, struct execution_request request)
{
    *l = (struct listener){.code = ERROR_CODES};
    request.command = "x";
    request.command_length = 1;
    request.output = note_output;
    request.room = note_room;
    l->execution = execution_start(rig.link, &request, note_end, l);
}

static struct wire_exec hear_request(uint64_t *ret_id)
{
    struct heard_frame f = hand_hear(&rig, WIRE_EXEC);
    struct wire_exec exec;

    ck_assert_int_eq(wire_get_exec(f.payload, f.header.length, &exec), 0);
    *ret_id = f.header.id;
    return exec;
}

/* So many bytes at once, as a frame may hold. */
static void say_much(uint64_t id, uint64_t offset, size_t length)
{
    struct buffer payload = BUFFER_INIT(WIRE_MAX_PAYLOAD);
    static uint8_t zeros[WIRE_MAX_DATA];

    ck_assert_int_eq(wire_put_u8(&payload, WIRE_STDOUT), 0);
    ck_assert_int_eq(wire_put_u64(&payload, offset), 0);
    ck_assert_int_eq(wire_put_bytes(&payload, zeros, length), 0);
    hand_send_frame(&rig, WIRE_EXEC_OUTPUT, id, &payload);
    buffer_release(&payload);
}

START_TEST(output_is_told_as_it_comes_and_credited_as_it_is_taken)
{
    struct wire_exit e = {.total = {5, 3}, .sent = {5, 3}};
    struct listener l;
    struct wire_exec exec;
    uint64_t id;

    rig_up(&rig, 0);
    start(&l, (struct execution_request){.keep = 2});
    exec = hear_request(&id);
    ck_assert(exec.flow);
    ck_assert_uint_eq(exec.keep, EXECUTION_WINDOW);
    say_output(&rig, id, WIRE_STDOUT, 0, "hel");
    say_output(&rig, id, WIRE_STDERR, 0, "err");
    say_output(&rig, id, WIRE_STDOUT, 3, "lo");
    RIG_UNTIL(&rig, l.came[0] == 5);
    ck_assert_str_eq(l.text[0], "hello");
    ck_assert_str_eq(l.text[1], "err");
    ck_assert(hand_hears_nothing(&rig)); /* nothing was taken */
    execution_take(l.execution, 0, 4);
    hear_credit(&rig, WIRE_STDOUT, 4);
    say_exit(&rig, id, &e);
    RIG_UNTIL(&rig, l.ends == 1);
    ck_assert_int_eq(l.code, ERROR_NONE);
    ck_assert_uint_eq(l.kept, 2);
    ck_assert_uint_eq(l.dropped, 3);
    rig_close(&rig);
}
END_TEST

START_TEST(a_hand_that_sends_beyond_its_credit_is_hung_up_on)
{
    struct listener l;
    uint64_t id;

    rig_up(&rig, 0);
    start(&l, (struct execution_request){0});
    hear_request(&id);
    say_much(id, 0, WIRE_MAX_DATA);
    say_much(id, WIRE_MAX_DATA, EXECUTION_WINDOW); /* so much it may, at the end */
    RIG_UNTIL(&rig, l.came[0] == EXECUTION_MAX_UNTAKEN);
    ck_assert_uint_eq(l.ends, 0);
    say_much(id, EXECUTION_MAX_UNTAKEN, 1);
    RIG_UNTIL(&rig, l.ends == 1);
    ck_assert_int_eq(l.code, ERROR_IO);
    ck_assert_uint_eq(l.came[0], EXECUTION_MAX_UNTAKEN);
    rig_close(&rig);
}
END_TEST

START_TEST(credit_is_said_again_after_a_reconnect)
{
    struct listener l;
    uint64_t id;

    rig_up(&rig, 0);
    start(&l, (struct execution_request){0});
    hear_request(&id);
    say_started(&rig, id);
    say_output(&rig, id, WIRE_STDOUT, 0, "hello");
    RIG_UNTIL(&rig, l.came[0] == 5);
    execution_take(l.execution, 0, 3);
    hear_credit(&rig, WIRE_STDOUT, 3);
    hand_accept(&rig);
    hand_welcome(&rig, 1);
    hear_attach(&rig, 5, 0);
    hear_credit(&rig, WIRE_STDOUT, 3);
    execution_take(l.execution, 0, 2);
    hear_credit(&rig, WIRE_STDOUT, 5);
    rig_close(&rig);
    ck_assert_int_eq(l.code, ERROR_CANCELLED);
}
END_TEST

START_TEST(who_wants_room_for_input_is_told_once)
{
    static char data[EXECUTION_ROOM + 10];
    struct listener l;
    struct error err;
    uint64_t id;

    rig_up(&rig, 0);
    start(&l, (struct execution_request){.has_stdin = true});
    hear_request(&id);
    ck_assert_int_eq(execution_write(l.execution, data, sizeof data, false, &err), 0);
    ck_assert_uint_eq(execution_unread(l.execution), sizeof data);
    execution_want_room(l.execution);
    say_want(&rig, id, 10);
    hear_input(&rig, 0, 10, 0);
    ck_assert_uint_eq(l.rooms, 0); /* not less than that yet */
    say_want(&rig, id, 11);
    hear_input(&rig, 10, 1, 0);
    RIG_UNTIL(&rig, l.rooms == 1);
    say_want(&rig, id, 20);
    hear_input(&rig, 11, 9, 0);
    ck_assert(hand_hears_nothing(&rig));
    ck_assert_uint_eq(l.rooms, 1);
    rig_close(&rig);
}
END_TEST

START_TEST(a_terminal_s_size_goes_along_and_may_change)
{
    struct listener l;
    struct heard_frame f;
    struct wire_reader r;
    struct wire_exec exec;
    uint64_t id;

    rig_up(&rig, 0);
    start(&l, (struct execution_request){.terminal = true, .rows = 5});
    exec = hear_request(&id);
    ck_assert(exec.terminal);
    ck_assert_uint_eq(exec.rows, 5);
    ck_assert_uint_eq(exec.columns, 80);
    execution_resize(l.execution, 0, 7); /* none */
    execution_resize(l.execution, 6, 7);
    f = hand_hear(&rig, WIRE_EXEC_RESIZE);
    r = (struct wire_reader){f.payload, f.header.length, false};
    ck_assert_uint_eq(wire_get_u16(&r), 6);
    ck_assert_uint_eq(wire_get_u16(&r), 7);
    ck_assert_int_eq(wire_end(&r), 0);
    rig_close(&rig);
}
END_TEST

UNIT_SUITE(execution_flow)
{
    tcase_add_test(tcase, output_is_told_as_it_comes_and_credited_as_it_is_taken);
    tcase_add_test(tcase, a_hand_that_sends_beyond_its_credit_is_hung_up_on);
    tcase_add_test(tcase, credit_is_said_again_after_a_reconnect);
    tcase_add_test(tcase, who_wants_room_for_input_is_told_once);
    tcase_add_test(tcase, a_terminal_s_size_goes_along_and_may_change);
}
