/* The wire: what is encoded decodes to the same, and what is none is refused. */
#include "hand/wire.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define LIMIT (2 * (size_t)WIRE_MAX_EXEC_PAYLOAD)

static struct wire_text text(const char *s)
{
    return (struct wire_text){s, strlen(s)};
}

static struct wire_call full_call(enum wire_op op)
{
    return (struct wire_call){
        .op = op,
        .ref = {.handle = 7, .base = WIRE_BASE_ROOT, .dev = 8, .ino = 9, .path = text("a/b")},
        .ref2 = {.handle = 0, .base = WIRE_BASE_WORKDIR, .dev = 1, .ino = 2, .path = text("")},
        .name = text("name"),
        .name2 = text("na\nme\xff"),
        .mode = 0644,
        .flags = 0x12345,
        .mask = WIRE_SET_MODE | WIRE_SET_ATIME,
        .uid = 1000,
        .gid = UINT32_MAX,
        .offset = UINT64_C(1) << 60,
        .offset2 = 3,
        .size = 4,
        .limit = 5,
        .atime = {-1, 999999999},
        .mtime = {INT64_MAX, 0},
        .data = {"da\0ta", 5},
    };
}

static struct wire_attr full_attr(void)
{
    return (struct wire_attr){
        .dev = 1, .ino = 2, .size = INT64_MAX, .blocks = 3, .mode = S_IFREG | 0755, .nlink = 4,
        .uid = 5, .gid = 6, .block_size = 4096, .rdev = 7, .atime = {-5, 1}, .mtime = {6, 2},
        .ctime = {7, 999999999},
    };
}

static struct wire_reply full_reply(void)
{
    return (struct wire_reply){
        .handle = 77,
        .size = 78,
        .offset = 79,
        .attr = full_attr(),
        .statfs = {1, 2, 3, 4, 5, 6, 7, 8},
        .data = {"da\0ta", 5},
    };
}

/* ---- Frames --------------------------------------------------------------------------------- */

START_TEST(a_frame_has_its_length_type_and_id)
{
    cleanup_buffer struct buffer b = BUFFER_INIT(LIMIT);
    size_t frame = wire_begin_frame(&b, WIRE_EXEC_WANT, UINT64_C(0x1122334455667788));
    struct wire_header header;

    ck_assert_int_eq(wire_put_u64(&b, 42), 0);
    wire_end_frame(&b, frame);
    ck_assert_int_eq(wire_put_empty(&b, WIRE_PING, 1), 0);
    ck_assert_uint_eq(b.length, 2 * WIRE_HEADER_BYTES + 8);
    ck_assert_int_eq(wire_decode_header(b.data, &header), 0);
    ck_assert_uint_eq(header.length, 8);
    ck_assert_uint_eq(header.type, WIRE_EXEC_WANT);
    ck_assert_uint_eq(header.id, UINT64_C(0x1122334455667788));
    ck_assert_int_eq(wire_decode_header(b.data + WIRE_HEADER_BYTES + 8, &header), 0);
    ck_assert_uint_eq(header.length, 0);
    ck_assert_uint_eq(header.type, WIRE_PING);
}
END_TEST

static int decode_header(uint32_t length, unsigned type, unsigned zero)
{
    uint8_t bytes[WIRE_HEADER_BYTES] = {0};
    struct wire_header header;

    for (unsigned i = 0; i < 4; i++) {
        bytes[i] = (uint8_t)(length >> (8 * i));
    }
    bytes[4] = (uint8_t)type;
    bytes[5] = (uint8_t)(type >> 8);
    bytes[6] = (uint8_t)zero;
    return wire_decode_header(bytes, &header);
}

START_TEST(a_header_of_no_frame_is_refused)
{
    ck_assert_int_eq(decode_header(0, WIRE_CALL, 0), 0);
    ck_assert_int_eq(decode_header(0, 0, 0), -1);
    ck_assert_int_eq(decode_header(0, WIRE_EXEC_RESIZE + 1, 0), -1);
    ck_assert_int_eq(decode_header(0, WIRE_WELCOME - 1, 0), -1);
    ck_assert_int_eq(decode_header(0, WIRE_EXEC_EXIT + 1, 0), -1);
    ck_assert_int_eq(decode_header(0, WIRE_CALL + 256, 0), -1);
    ck_assert_int_eq(decode_header(0, WIRE_CALL, 1), -1);
}
END_TEST

START_TEST(only_a_command_may_be_longer_than_the_rest)
{
    ck_assert_int_eq(decode_header(WIRE_MAX_PAYLOAD, WIRE_CALL, 0), 0);
    ck_assert_int_eq(decode_header(WIRE_MAX_PAYLOAD + 1, WIRE_CALL, 0), -1);
    ck_assert_int_eq(decode_header(WIRE_MAX_EXEC_PAYLOAD, WIRE_EXEC, 0), 0);
    ck_assert_int_eq(decode_header(WIRE_MAX_EXEC_PAYLOAD + 1, WIRE_EXEC, 0), -1);
    ck_assert_int_eq(decode_header(UINT32_MAX, WIRE_RESULT, 0), -1);
}
END_TEST

START_TEST(a_full_buffer_is_told_and_never_overrun)
{
    struct wire_call call = full_call(WIRE_SETATTR);
    struct wire_reply reply = full_reply();
    cleanup_buffer struct buffer whole = BUFFER_INIT(LIMIT);

    ck_assert_int_eq(wire_put_call(&whole, &call), 0);
    for (size_t limit = 0; limit < whole.length; limit++) {
        cleanup_buffer struct buffer b = BUFFER_INIT(limit);

        ck_assert_int_eq(wire_put_call(&b, &call), -1);
        ck_assert_uint_le(b.length, limit);
        buffer_clear(&b);
        if (limit < 6) {
            ck_assert_uint_eq(wire_begin_data_reply(&b), SIZE_MAX);
            ck_assert_int_eq(wire_put_reply(&b, WIRE_GETATTR, &reply), -1);
        }
        if (limit < WIRE_HEADER_BYTES) {
            ck_assert_uint_eq(wire_begin_frame(&b, WIRE_CALL, 1), SIZE_MAX);
        }
    }
}
END_TEST

/* ---- Calls ------------------------------------------------------------------------------------ */

START_TEST(every_call_decodes_to_what_was_encoded)
{
    struct wire_call call = full_call((enum wire_op)_i);
    struct wire_call back;
    cleanup_buffer struct buffer b = BUFFER_INIT(LIMIT);
    cleanup_buffer struct buffer again = BUFFER_INIT(LIMIT);

    ck_assert_int_eq(wire_put_call(&b, &call), 0);
    ck_assert_int_eq(wire_get_call(b.data, b.length, &back), 0);
    ck_assert_uint_eq(back.op, call.op);
    ck_assert_uint_eq(back.ref.handle, 7);
    ck_assert_uint_eq(back.ref.base, WIRE_BASE_ROOT);
    ck_assert_uint_eq(back.ref.dev, 8);
    ck_assert_uint_eq(back.ref.ino, 9);
    ck_assert_mem_eq(back.ref.path.data, "a/b", 3);
    ck_assert_int_eq(wire_put_call(&again, &back), 0);
    ck_assert_uint_eq(again.length, b.length);
    ck_assert_mem_eq(again.data, b.data, b.length);
}
END_TEST

START_TEST(a_call_that_is_cut_short_or_too_long_is_refused)
{
    struct wire_call call = full_call((enum wire_op)_i);
    struct wire_call back;
    cleanup_buffer struct buffer b = BUFFER_INIT(LIMIT);

    ck_assert_int_eq(wire_put_call(&b, &call), 0);
    for (size_t length = 0; length < b.length; length++) {
        ck_assert_int_eq(wire_get_call(b.data, length, &back), -1);
    }
    ck_assert_int_eq(wire_put_u8(&b, 0), 0);
    ck_assert_int_eq(wire_get_call(b.data, b.length, &back), -1);
}
END_TEST

START_TEST(an_unknown_operation_is_refused)
{
    static const uint8_t none[2] = {0, 0};
    static const uint8_t next[2] = {WIRE_OPS, 0};
    static const uint8_t large[2] = {1, 1};
    struct wire_call call;

    ck_assert_int_eq(wire_get_call(none, 2, &call), -1);
    ck_assert_int_eq(wire_get_call(next, 2, &call), -1);
    ck_assert_int_eq(wire_get_call(large, 2, &call), -1);
}
END_TEST

static int decode_with(enum wire_op op, struct wire_text path, struct wire_text name)
{
    struct wire_call call = full_call(op);
    struct wire_call back;
    cleanup_buffer struct buffer b = BUFFER_INIT(LIMIT);

    call.ref.path = path;
    call.name = name;
    ck_assert_int_eq(wire_put_call(&b, &call), 0);
    return wire_get_call(b.data, b.length, &back);
}

START_TEST(a_name_is_one_component_and_nothing_else)
{
    static const char *const bad[] = {"", ".", "..", "/", "a/b", "a/", "/a"};
    char longest[WIRE_MAX_NAME + 1];

    memset(longest, 'x', sizeof longest);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_int_eq(decode_with(WIRE_LOOKUP, text("a"), text(bad[i])), -1);
    }
    ck_assert_int_eq(decode_with(WIRE_LOOKUP, text("a"), (struct wire_text){"a\0b", 3}), -1);
    ck_assert_int_eq(decode_with(WIRE_LOOKUP, text("a"), (struct wire_text){longest, 256}), -1);
    ck_assert_int_eq(decode_with(WIRE_LOOKUP, text("a"), (struct wire_text){longest, 255}), 0);
    ck_assert_int_eq(decode_with(WIRE_LOOKUP, text("a"), text("...")), 0);
    ck_assert_int_eq(decode_with(WIRE_LOOKUP, text("a"), text("-\n\xff \\")), 0);
}
END_TEST

START_TEST(a_path_is_clean_and_relative)
{
    static const char *const bad[] = {"/", "/a", "a/", "a//b", ".", "..", "a/.", "a/..", "./a",
                                      "../a", "a/../b", "a/./b"};
    static const char *const good[] = {"", "a", "a/b", "...", "a/..b", ".a/b.", "a b/\n"};
    static char longest[WIRE_MAX_PATH + 1];

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(decode_with(WIRE_LOOKUP, text(bad[i]), text("n")) == -1, "%s", bad[i]);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(decode_with(WIRE_LOOKUP, text(good[i]), text("n")) == 0, "%s", good[i]);
    }
    memset(longest, 'x', sizeof longest);
    ck_assert_int_eq(decode_with(WIRE_LOOKUP, (struct wire_text){"a\0b", 3}, text("n")), -1);
    ck_assert_int_eq(
        decode_with(WIRE_LOOKUP, (struct wire_text){longest, WIRE_MAX_PATH}, text("n")), 0);
    ck_assert_int_eq(
        decode_with(WIRE_LOOKUP, (struct wire_text){longest, WIRE_MAX_PATH + 1}, text("n")), -1);
}
END_TEST

START_TEST(the_name_of_an_attribute_may_hold_a_slash)
{
    ck_assert_int_eq(decode_with(WIRE_GETXATTR, text("a"), text("user.a/b")), 0);
    ck_assert_int_eq(decode_with(WIRE_GETXATTR, text("a"), text("")), -1);
    ck_assert_int_eq(decode_with(WIRE_GETXATTR, text("a"), (struct wire_text){"a\0b", 3}), -1);
}
END_TEST

START_TEST(a_time_of_too_many_nanoseconds_is_refused)
{
    struct wire_call call = full_call(WIRE_SETATTR);
    struct wire_call back;
    cleanup_buffer struct buffer b = BUFFER_INIT(LIMIT);

    call.mtime.nanoseconds = 1000000000;
    ck_assert_int_eq(wire_put_call(&b, &call), 0);
    ck_assert_int_eq(wire_get_call(b.data, b.length, &back), -1);
}
END_TEST

/* ---- Replies ---------------------------------------------------------------------------------- */

START_TEST(every_reply_decodes_to_what_was_encoded)
{
    enum wire_op op = (enum wire_op)_i;
    struct wire_reply reply = full_reply();
    struct wire_reply back;
    cleanup_buffer struct buffer b = BUFFER_INIT(LIMIT);
    cleanup_buffer struct buffer again = BUFFER_INIT(LIMIT);

    ck_assert_int_eq(wire_put_reply(&b, op, &reply), 0);
    ck_assert_int_eq(wire_get_reply(b.data, b.length, op, &back), 0);
    ck_assert_int_eq(wire_put_reply(&again, op, &back), 0);
    ck_assert_uint_eq(again.length, b.length);
    ck_assert_mem_eq(again.data, b.data, b.length);
    for (size_t length = 0; length < b.length; length++) {
        ck_assert_int_eq(wire_get_reply(b.data, length, op, &back), -1);
    }
    ck_assert_int_eq(wire_put_u8(&b, 0), 0);
    ck_assert_int_eq(wire_get_reply(b.data, b.length, op, &back), -1);
}
END_TEST

START_TEST(an_error_travels_with_its_errno_and_message)
{
    struct error err;
    struct wire_reply reply, back;
    cleanup_buffer struct buffer b = BUFFER_INIT(LIMIT);

    error_set_errno(&err, ENOSPC, "a");
    wire_reply_error(&reply, &err);
    ck_assert_int_eq(wire_put_reply(&b, WIRE_WRITE, &reply), 0);
    ck_assert_int_eq(wire_get_reply(b.data, b.length, WIRE_WRITE, &back), 0);
    ck_assert_int_eq(back.code, ERROR_ERRNO);
    ck_assert_uint_eq(back.os_errno, ENOSPC);
    ck_assert_uint_eq(back.message.length, strlen(err.message));
    ck_assert_mem_eq(back.message.data, err.message, back.message.length);
}
END_TEST

static int decode_reply(enum wire_op op, const struct wire_reply *reply)
{
    struct wire_reply back;
    cleanup_buffer struct buffer b = BUFFER_INIT(LIMIT);

    ck_assert_int_eq(wire_put_reply(&b, op, reply), 0);
    return wire_get_reply(b.data, b.length, op, &back);
}

START_TEST(a_reply_that_makes_no_sense_is_refused)
{
    struct wire_reply r;

    r = (struct wire_reply){.code = ERROR_CODES};
    ck_assert_int_eq(decode_reply(WIRE_UNLINK, &r), -1);
    r = (struct wire_reply){.code = ERROR_ERRNO};
    ck_assert_int_eq(decode_reply(WIRE_UNLINK, &r), -1);
    r = (struct wire_reply){.code = ERROR_ERRNO, .os_errno = 4096};
    ck_assert_int_eq(decode_reply(WIRE_UNLINK, &r), -1);
    r = full_reply();
    r.attr.mode = 0755;
    ck_assert_int_eq(decode_reply(WIRE_GETATTR, &r), -1);
    r = full_reply();
    r.attr.ino = 0;
    ck_assert_int_eq(decode_reply(WIRE_GETATTR, &r), -1);
    r = full_reply();
    r.attr.size = (uint64_t)INT64_MAX + 1;
    ck_assert_int_eq(decode_reply(WIRE_GETATTR, &r), -1);
    r = full_reply();
    r.attr.ctime.nanoseconds = 1000000000;
    ck_assert_int_eq(decode_reply(WIRE_GETATTR, &r), -1);
    r = full_reply();
    r.handle = 0;
    ck_assert_int_eq(decode_reply(WIRE_OPEN, &r), -1);
    ck_assert_int_eq(decode_reply(WIRE_GETATTR, &r), 0);
}
END_TEST

START_TEST(data_may_be_put_into_a_reply_in_place)
{
    struct wire_reply back;
    cleanup_buffer struct buffer b = BUFFER_INIT(LIMIT);
    size_t at;

    ck_assert_int_eq(buffer_append(&b, "before", 6), 0);
    at = wire_begin_data_reply(&b);
    ck_assert_uint_eq(at, 6);
    ck_assert_int_eq(buffer_append(&b, "some\0data", 9), 0);
    wire_end_data_reply(&b, at);
    ck_assert_int_eq(wire_get_reply(b.data + 6, b.length - 6, WIRE_READ, &back), 0);
    ck_assert_uint_eq(back.data.length, 9);
    ck_assert_mem_eq(back.data.data, "some\0data", 9);
}
END_TEST

static int decode_entry(struct wire_text name)
{
    struct wire_entry entry = {.next = 1, .ino = 2, .type = S_IFREG, .name = name}, back;
    cleanup_buffer struct buffer b = BUFFER_INIT(LIMIT);
    struct wire_reader r;

    ck_assert_int_eq(wire_put_entry(&b, &entry), 0);
    r = (struct wire_reader){b.data, b.length, false};
    return wire_get_entry(&r, &back);
}

START_TEST(an_entry_of_a_listing_has_a_name_or_is_dots)
{
    char longest[WIRE_MAX_NAME + 1];

    memset(longest, 'x', sizeof longest);
    ck_assert_int_eq(decode_entry(text("a")), 1);
    ck_assert_int_eq(decode_entry(text(".")), 1);
    ck_assert_int_eq(decode_entry(text("..")), 1);
    ck_assert_int_eq(decode_entry((struct wire_text){longest, 255}), 1);
    ck_assert_int_eq(decode_entry((struct wire_text){longest, 256}), -1);
    ck_assert_int_eq(decode_entry(text("")), -1);
    ck_assert_int_eq(decode_entry(text("a/b")), -1);
    ck_assert_int_eq(decode_entry((struct wire_text){"a\0b", 3}), -1);
}
END_TEST

START_TEST(a_listing_decodes_entry_by_entry)
{
    struct wire_entry a = {.next = 1, .ino = 2, .has_attr = true, .attr = full_attr(),
                           .name = text("a")};
    struct wire_entry b = {.next = 3, .ino = 4, .type = S_IFDIR, .name = text("b")};
    struct wire_entry back;
    cleanup_buffer struct buffer bytes = BUFFER_INIT(LIMIT);
    struct wire_reader r;

    ck_assert_int_eq(wire_put_entry(&bytes, &a), 0);
    ck_assert_int_eq(wire_put_entry(&bytes, &b), 0);
    r = (struct wire_reader){bytes.data, bytes.length, false};
    ck_assert_int_eq(wire_get_entry(&r, &back), 1);
    ck_assert(back.has_attr);
    ck_assert_uint_eq(back.attr.size, INT64_MAX);
    ck_assert_int_eq(wire_get_entry(&r, &back), 1);
    ck_assert(!back.has_attr);
    ck_assert_uint_eq(back.next, 3);
    ck_assert_uint_eq(back.type, S_IFDIR);
    ck_assert_int_eq(wire_get_entry(&r, &back), 0);
    r = (struct wire_reader){bytes.data, bytes.length - 1, false};
    ck_assert_int_eq(wire_get_entry(&r, &back), 1);
    ck_assert_int_eq(wire_get_entry(&r, &back), -1);
}
END_TEST

/* ---- Greeting and execution -------------------------------------------------------------------- */

START_TEST(greetings_of_another_protocol_or_version_are_refused)
{
    struct wire_hello hello = {.client = "0123456789abcde"};
    struct wire_welcome welcome = {.uid = 1, .gid = 2, .capabilities = 3, .workdir = text("/w"),
                                   .version = text("1"), .machine = text("x86_64")};
    struct wire_hello hello2;
    struct wire_welcome welcome2;
    cleanup_buffer struct buffer b = BUFFER_INIT(LIMIT);

    ck_assert_int_eq(wire_put_hello(&b, &hello), 0);
    ck_assert_int_eq(wire_get_hello(b.data, b.length, &hello2), 0);
    ck_assert_mem_eq(hello.client, hello2.client, WIRE_ID_BYTES);
    for (size_t i = 0; i < 6; i++) {
        b.data[i] ^= 1;
        ck_assert_int_eq(wire_get_hello(b.data, b.length, &hello2), -1);
        b.data[i] ^= 1;
    }
    ck_assert_int_eq(wire_get_hello(b.data, b.length - 1, &hello2), -1);
    buffer_clear(&b);
    ck_assert_int_eq(wire_put_welcome(&b, &welcome), 0);
    ck_assert_int_eq(wire_get_welcome(b.data, b.length, &welcome2), 0);
    ck_assert_uint_eq(welcome2.capabilities, 3);
    ck_assert_mem_eq(welcome2.workdir.data, "/w", 2);
    b.data[4] ^= 1;
    ck_assert_int_eq(wire_get_welcome(b.data, b.length, &welcome2), -1);
    buffer_clear(&b);
    welcome.workdir = text("w");
    ck_assert_int_eq(wire_put_welcome(&b, &welcome), 0);
    ck_assert_int_eq(wire_get_welcome(b.data, b.length, &welcome2), -1);
}
END_TEST

static int decode_exec(struct wire_text command, struct wire_text cwd, struct wire_text env,
                       uint32_t count)
{
    cleanup_buffer struct buffer list = BUFFER_INIT(LIMIT);
    cleanup_buffer struct buffer b = BUFFER_INIT(LIMIT);
    struct wire_exec back;
    struct wire_exec exec = {.command = command, .cwd = cwd, .env_count = count};

    ck_assert_int_eq(wire_put_bytes(&list, env.data, env.length), 0);
    exec.env = list.data;
    exec.env_length = list.length;
    ck_assert_int_eq(wire_put_exec(&b, &exec), 0);
    return wire_get_exec(b.data, b.length, &back);
}

START_TEST(an_execution_carries_text_without_nul_and_assignments)
{
    struct wire_text none = {"", 0};

    ck_assert_int_eq(decode_exec(text("true"), none, text("A=b"), 1), 0);
    ck_assert_int_eq(decode_exec(none, none, text("A="), 1), 0);
    ck_assert_int_eq(decode_exec((struct wire_text){"a\0b", 3}, none, text("A=b"), 1), -1);
    ck_assert_int_eq(decode_exec(none, (struct wire_text){"a\0b", 3}, text("A=b"), 1), -1);
    ck_assert_int_eq(decode_exec(none, none, text("Ab"), 1), -1);
    ck_assert_int_eq(decode_exec(none, none, text("=b"), 1), -1);
    ck_assert_int_eq(decode_exec(none, none, (struct wire_text){"A=\0b", 4}, 1), -1);
    ck_assert_int_eq(decode_exec(none, none, text("A=b"), 0), -1);
    ck_assert_int_eq(decode_exec(none, none, text("A=b"), 2), -1);
    ck_assert_int_eq(decode_exec(none, none, text("A=b"), UINT32_MAX), -1);
}
END_TEST

static int decode_exit(struct wire_exit e)
{
    struct wire_exit back;
    cleanup_buffer struct buffer b = BUFFER_INIT(LIMIT);

    ck_assert_int_eq(wire_put_exit(&b, &e), 0);
    return wire_get_exit(b.data, b.length, &back);
}

/* An exit that names one process so. */
static int decode_left(uint32_t left, uint32_t named, const char *name, size_t length)
{
    struct wire_exit e = {.left = left, .named = named};

    for (uint32_t i = 0; i < named; i++) {
        e.background[i] = (struct wire_left){100 + i, {name, length}};
    }
    return decode_exit(e);
}

START_TEST(processes_that_were_left_are_named_within_bounds)
{
    char name[WIRE_MAX_LEFT_NAME + 1];

    memset(name, '/', sizeof name);
    ck_assert_int_eq(decode_left(3, 0, "", 0), 0);
    ck_assert_int_eq(decode_left(3, 2, "", 0), 0);
    ck_assert_int_eq(decode_left(100, WIRE_MAX_LEFT, "\xff\n", 2), 0);
    ck_assert_int_eq(decode_left(1, 2, "x", 1), -1);
    ck_assert_int_eq(decode_left(1, 1, "a\0b", 3), -1);
    ck_assert_int_eq(decode_left(1, 1, name, WIRE_MAX_LEFT_NAME), 0);
    ck_assert_int_eq(decode_left(1, 1, name, WIRE_MAX_LEFT_NAME + 1), -1);
}
END_TEST

START_TEST(an_end_is_either_a_code_or_a_signal)
{
    ck_assert_int_eq(decode_exit((struct wire_exit){.exit_code = 0}), 0);
    ck_assert_int_eq(decode_exit((struct wire_exit){.exit_code = 255, .total = {5}, .sent = {5}}), 0);
    ck_assert_int_eq(decode_exit((struct wire_exit){.exit_code = -1, .signal = 9}), 0);
    ck_assert_int_eq(decode_exit((struct wire_exit){.exit_code = -1}), -1);
    ck_assert_int_eq(decode_exit((struct wire_exit){.exit_code = 1, .signal = 9}), -1);
    ck_assert_int_eq(decode_exit((struct wire_exit){.exit_code = 256}), -1);
    ck_assert_int_eq(decode_exit((struct wire_exit){.exit_code = -2, .signal = 9}), -1);
    ck_assert_int_eq(decode_exit((struct wire_exit){.exit_code = -1, .signal = 65}), -1);
    ck_assert_int_eq(decode_exit((struct wire_exit){.total = {0, 5}, .sent = {0, 6}}), -1);
    ck_assert_int_eq(decode_exit((struct wire_exit){.oom = WIRE_OOM_YES}), 0);
    ck_assert_int_eq(decode_exit((struct wire_exit){.oom = (enum wire_oom)3}), -1);
}
END_TEST

UNIT_SUITE(wire)
{
    tcase_add_test(tcase, a_frame_has_its_length_type_and_id);
    tcase_add_test(tcase, a_header_of_no_frame_is_refused);
    tcase_add_test(tcase, only_a_command_may_be_longer_than_the_rest);
    tcase_add_test(tcase, a_full_buffer_is_told_and_never_overrun);
    tcase_add_loop_test(tcase, every_call_decodes_to_what_was_encoded, 1, WIRE_OPS);
    tcase_add_loop_test(tcase, a_call_that_is_cut_short_or_too_long_is_refused, 1, WIRE_OPS);
    tcase_add_test(tcase, an_unknown_operation_is_refused);
    tcase_add_test(tcase, a_name_is_one_component_and_nothing_else);
    tcase_add_test(tcase, a_path_is_clean_and_relative);
    tcase_add_test(tcase, the_name_of_an_attribute_may_hold_a_slash);
    tcase_add_test(tcase, a_time_of_too_many_nanoseconds_is_refused);
    tcase_add_loop_test(tcase, every_reply_decodes_to_what_was_encoded, 1, WIRE_OPS);
    tcase_add_test(tcase, an_error_travels_with_its_errno_and_message);
    tcase_add_test(tcase, a_reply_that_makes_no_sense_is_refused);
    tcase_add_test(tcase, data_may_be_put_into_a_reply_in_place);
    tcase_add_test(tcase, an_entry_of_a_listing_has_a_name_or_is_dots);
    tcase_add_test(tcase, a_listing_decodes_entry_by_entry);
    tcase_add_test(tcase, greetings_of_another_protocol_or_version_are_refused);
    tcase_add_test(tcase, an_execution_carries_text_without_nul_and_assignments);
    tcase_add_test(tcase, an_end_is_either_a_code_or_a_signal);
    tcase_add_test(tcase, processes_that_were_left_are_named_within_bounds);
}
