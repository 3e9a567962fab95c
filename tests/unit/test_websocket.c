/* Frames of a server that does as it should, and of others. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "backends/websocket.h"

#define FIN 0x80
#define CONTINUATION 0x0
#define TEXT 0x1
#define BINARY 0x2
#define CLOSE 0x8
#define PING 0x9
#define PONG 0xa

static struct websocket *websocket;
static struct buffer outer;
static char got[1024]; /* the messages, with "|" behind each */
static size_t got_length;

static int note(void *arg, bool first, bool last, const uint8_t *data, size_t length, struct error *err)
{
    (void)arg;
    (void)first;
    if (length == 3 && memcmp(data, "bad", 3) == 0) {
        return error_set(err, ERROR_IO, 0, "not this");
    }
    ck_assert_uint_le(got_length + length + 1, sizeof got);
    memcpy(got + got_length, data, length);
    got_length += length;
    if (last) {
        got[got_length++] = '|';
    }
    return 0;
}

static void set_up(void)
{
    struct error err;

    ck_assert_int_eq(websocket_new(&websocket, note, NULL, &err), 0);
    buffer_init(&outer, 4096);
    got_length = 0;
}

static void tear_down(void)
{
    websocket_free(websocket);
    buffer_release(&outer);
}

static int take(const void *data, size_t length, struct error *err)
{
    return websocket_take(websocket, data, length, &outer, err);
}

static void assert_taken(const void *data, size_t length)
{
    struct error err;

    ck_assert_msg(take(data, length, &err) == 0, "%s", err.message);
}

static void assert_got(const char *text)
{
    ck_assert_uint_eq(got_length, strlen(text));
    ck_assert_mem_eq(got, text, got_length);
}

/* The one way that it may be: no memory, no word, no end but an error. */
#define assert_fault(...) \
    do { \
        static const uint8_t bytes_[] = {__VA_ARGS__}; \
        struct error err_ = {0}; \
        ck_assert_int_eq(take(bytes_, sizeof bytes_, &err_), -1); \
        ck_assert_int_eq(err_.code, ERROR_NO_ANSWER); \
        tear_down(); \
        set_up(); \
    } while (0)

/* Takes one masked frame out of `outer`. */
static void assert_sent(uint8_t first, const void *payload, size_t length)
{
    const uint8_t *at = outer.data;
    size_t head = length < 126 ? 2 : 4;

    ck_assert_uint_ge(outer.length, head + 4 + length);
    ck_assert_int_eq(at[0], first);
    ck_assert_int_eq(at[1] & 0x80, 0x80);
    if (head == 2) {
        ck_assert_uint_eq(at[1] & 0x7fu, length);
    } else {
        ck_assert_int_eq(at[1] & 0x7f, 126);
        ck_assert_uint_eq((size_t)at[2] << 8 | at[3], length);
    }
    for (size_t i = 0; i < length; i++) {
        ck_assert_int_eq(at[head + 4 + i] ^ at[head + i % 4], ((const uint8_t *)payload)[i]);
    }
    buffer_consume(&outer, head + 4 + length);
}

START_TEST(a_message_may_come_in_pieces_of_any_size_and_in_many_frames)
{
    static const uint8_t bytes[] = {FIN | BINARY, 2, 'a', 'b', BINARY, 1, 'c', FIN | PING, 1, 'p',
                                    CONTINUATION, 0, FIN | CONTINUATION, 2, 'd', 'e', FIN | TEXT, 0};

    assert_taken(bytes, sizeof bytes);
    assert_got("ab|cde||");
    got_length = 0;
    for (size_t i = 0; i < sizeof bytes; i++) {
        assert_taken(bytes + i, 1);
    }
    assert_got("ab|cde||");
}
END_TEST

START_TEST(a_large_frame_is_handed_on_as_it_comes)
{
    static const uint8_t head[] = {FIN | BINARY, 127, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

    assert_taken(head, sizeof head);
    for (int i = 0; i < 100; i++) {
        assert_taken("xyz", 3);
    }
    ck_assert_uint_eq(got_length, 300);
    ck_assert_uint_eq(outer.length, 0);
}
END_TEST

START_TEST(pings_are_answered_with_their_own_bytes)
{
    static const uint8_t bytes[] = {FIN | PING, 2, 'h', 'i', FIN | PONG, 1, 'x', FIN | PING, 0};

    assert_taken(bytes, sizeof bytes);
    assert_sent(FIN | PONG, "hi", 2);
    assert_sent(FIN | PONG, "", 0);
    ck_assert_uint_eq(outer.length, 0);
}
END_TEST

START_TEST(a_flood_of_pings_is_not_answered_with_one)
{
    uint8_t bytes[2000];

    for (size_t i = 0; i < sizeof bytes; i += 2) {
        bytes[i] = FIN | PING;
        bytes[i + 1] = 0;
    }
    assert_taken(bytes, sizeof bytes);
    ck_assert_uint_eq(outer.length, WEBSOCKET_MAX_PINGS * 6);
}
END_TEST

START_TEST(a_close_is_answered_and_the_rest_is_not_looked_at)
{
    static const uint8_t bytes[] = {FIN | CLOSE, 5, 0x03, 0xe8, 'b', 'y', 'e', 0xff, 0xff, 0xff};

    ck_assert_uint_eq(websocket_close_code(websocket), 0);
    assert_taken(bytes, sizeof bytes);
    ck_assert_uint_eq(websocket_close_code(websocket), 1000);
    assert_sent(FIN | CLOSE, "\x03\xe8", 2);
    assert_taken("\xff\xff", 2);
    ck_assert_uint_eq(outer.length, 0);
}
END_TEST

START_TEST(a_close_without_a_code_is_one_too)
{
    static const uint8_t bytes[] = {FIN | CLOSE, 0};

    assert_taken(bytes, sizeof bytes);
    ck_assert_uint_eq(websocket_close_code(websocket), 1005);
    assert_sent(FIN | CLOSE, "", 0);
}
END_TEST

START_TEST(our_own_close_is_said_once)
{
    static const uint8_t bytes[] = {FIN | CLOSE, 2, 0x03, 0xe8};
    struct error err;

    ck_assert_int_eq(websocket_put_close(websocket, 1001, &outer, &err), 0);
    assert_sent(FIN | CLOSE, "\x03\xe9", 2);
    assert_taken(bytes, sizeof bytes);
    ck_assert_uint_eq(outer.length, 0);
}
END_TEST

START_TEST(what_the_rfc_forbids_ends_the_stream)
{
    assert_fault(FIN | BINARY, 0x81, 1, 2, 3, 4, 'x');        /* masked */
    assert_fault(FIN | BINARY | 0x40, 1, 'x');                /* an extension's bit */
    assert_fault(FIN | 0x3, 1, 'x');                          /* no such opcode */
    assert_fault(FIN | 0xb, 0);                               /* no such control opcode */
    assert_fault(FIN | CONTINUATION, 1, 'x');                 /* of no message */
    assert_fault(BINARY, 1, 'x', FIN | BINARY, 1, 'y');       /* a message within another */
    assert_fault(FIN | BINARY, 1, 'x', CONTINUATION, 1, 'y'); /* after its end */
    assert_fault(PING, 0);                                    /* control frames have no parts */
    assert_fault(FIN | PING, 126, 0, 126);                    /* and are short */
    assert_fault(FIN | BINARY, 126, 0, 5);                    /* a length that should be shorter */
    assert_fault(FIN | BINARY, 127, 0, 0, 0, 0, 0, 0, 0, 5);
    assert_fault(FIN | BINARY, 127, 0x80, 0, 0, 0, 0, 0, 0, 0);
    assert_fault(FIN | CLOSE, 1, 3);                          /* half a code */
    assert_fault(FIN | CLOSE, 2, 0, 7);                       /* a code that there is not */
    assert_fault(FIN | CLOSE, 2, 0x03, 0xed);                 /* 1005, which says that there is none */
}
END_TEST

START_TEST(who_is_handed_a_message_can_refuse_it)
{
    static const uint8_t bytes[] = {FIN | BINARY, 3, 'b', 'a', 'd'};
    struct error err;

    ck_assert_int_eq(take(bytes, sizeof bytes, &err), -1);
    ck_assert_str_eq(err.message, "not this");
}
END_TEST

START_TEST(our_frames_are_masked_and_whole_or_not_there)
{
    static uint8_t big[8192];
    struct error err;

    ck_assert_int_eq(websocket_put_message(websocket, "h", 1, "ello", 4, &outer, &err), 0);
    ck_assert_int_eq(websocket_put_message(websocket, NULL, 0, NULL, 0, &outer, &err), 0);
    ck_assert_int_eq(websocket_put_ping(websocket, &outer, &err), 0);
    assert_sent(FIN | BINARY, "hello", 5);
    assert_sent(FIN | BINARY, "", 0);
    assert_sent(FIN | PING, "", 0);
    ck_assert_int_eq(websocket_put_message(websocket, big, 1, big, sizeof big, &outer, &err), -1);
    ck_assert_uint_eq(outer.length, 0);
    ck_assert_int_eq(websocket_put_message(websocket, "h", 1, big, 3000, &outer, &err), 0);
    ck_assert_uint_eq(outer.length, 4 + 4 + 3001);
}
END_TEST

START_TEST(two_frames_have_two_masks)
{
    struct error err;
    uint8_t first[4];

    ck_assert_int_eq(websocket_put_ping(websocket, &outer, &err), 0);
    memcpy(first, outer.data + 2, 4);
    buffer_clear(&outer);
    ck_assert_int_eq(websocket_put_ping(websocket, &outer, &err), 0);
    ck_assert_mem_ne(first, outer.data + 2, 4);
}
END_TEST

/* The example of RFC 6455, section 1.3. */
START_TEST(the_answer_to_a_key_is_the_one_of_the_rfc)
{
    char accept[32];

    ck_assert_int_eq(websocket_accept_of("dGhlIHNhbXBsZSBub25jZQ==", accept), 0);
    ck_assert_str_eq(accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}
END_TEST

UNIT_SUITE(websocket)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_message_may_come_in_pieces_of_any_size_and_in_many_frames);
    tcase_add_test(tcase, a_large_frame_is_handed_on_as_it_comes);
    tcase_add_test(tcase, pings_are_answered_with_their_own_bytes);
    tcase_add_test(tcase, a_flood_of_pings_is_not_answered_with_one);
    tcase_add_test(tcase, a_close_is_answered_and_the_rest_is_not_looked_at);
    tcase_add_test(tcase, a_close_without_a_code_is_one_too);
    tcase_add_test(tcase, our_own_close_is_said_once);
    tcase_add_test(tcase, what_the_rfc_forbids_ends_the_stream);
    tcase_add_test(tcase, who_is_handed_a_message_can_refuse_it);
    tcase_add_test(tcase, our_frames_are_masked_and_whole_or_not_there);
    tcase_add_test(tcase, two_frames_have_two_masks);
    tcase_add_test(tcase, the_answer_to_a_key_is_the_one_of_the_rfc);
}
