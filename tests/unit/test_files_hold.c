/* Handles of files that are not open: they mean the same file whatever has its name by then. */
#include "tests/unit/files_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t held(const char *name)
{
    served((struct wire_call){.op = WIRE_HOLD, .ref = at(""), .name = text(name)});
    ck_assert_uint_ne(bed.reply.handle, 0);
    return bed.reply.handle;
}

static void replace(const char *name)
{
    put_text("another", "another file");
    ck_assert_int_eq(renameat(bed.workdir, "another", bed.workdir, name), 0);
}

static void expect_bytes(struct wire_ref ref, const char *bytes)
{
    served((struct wire_call){.op = WIRE_READ, .ref = ref, .size = 100});
    ck_assert_uint_eq(bed.reply.data.length, strlen(bytes));
    ck_assert_mem_eq(bed.reply.data.data, bytes, strlen(bytes));
}

START_TEST(a_file_is_held_as_it_is_looked_up)
{
    struct wire_attr attr;
    uint64_t handle;

    put_text("file", "content");
    attr = attr_of("file");
    handle = held("file");
    ck_assert_uint_eq(bed.reply.attr.ino, attr.ino);
    ck_assert_uint_eq(bed.reply.attr.dev, attr.dev);
    ck_assert_uint_eq(bed.reply.attr.size, 7);
    released(handle);
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_GETATTR, .ref = by(handle)}), EBADF);
    ck_assert_int_eq(
        serve((struct wire_call){.op = WIRE_HOLD, .ref = at(""), .name = text("none")}), ENOENT);
    ck_assert_int_eq(
        serve((struct wire_call){.op = WIRE_HOLD, .ref = at("file"), .name = text("x")}), ENOTDIR);
}
END_TEST

START_TEST(a_held_file_is_opened_though_another_has_its_name)
{
    uint64_t handle;

    put_text("file", "content");
    handle = held("file");
    replace("file");
    served((struct wire_call){.op = WIRE_OPEN, .ref = by(handle), .flags = O_RDWR});
    ck_assert_uint_eq(bed.reply.attr.size, 7);
    expect_bytes(by(bed.reply.handle), "content");
}
END_TEST

START_TEST(calls_by_what_is_held_are_about_that_file)
{
    uint64_t handle;

    put_text("file", "content");
    handle = held("file");
    replace("file");
    expect_bytes(by(handle), "content");
    served((struct wire_call){
        .op = WIRE_WRITE, .ref = by(handle), .offset = 3, .data = text("ROL")});
    expect_bytes(by(handle), "conROLt");
    served((struct wire_call){
        .op = WIRE_SETATTR, .ref = by(handle), .mask = WIRE_SET_SIZE | WIRE_SET_MODE, .size = 3,
        .mode = 0600});
    ck_assert_uint_eq(bed.reply.attr.size, 3);
    ck_assert_uint_eq(bed.reply.attr.mode & 07777, 0600);
    served((struct wire_call){.op = WIRE_FSYNC, .ref = by(handle)});
    served((struct wire_call){
        .op = WIRE_SETXATTR, .ref = by(handle), .name = text("user.a"), .data = text("v")});
    served((struct wire_call){
        .op = WIRE_GETXATTR, .ref = by(handle), .name = text("user.a"), .size = 10});
    ck_assert_uint_eq(bed.reply.size, 1);
    expect_bytes(at("file"), "another file");
    ck_assert_uint_ne(mode_of("file"), 0600);
}
END_TEST

START_TEST(what_is_no_file_is_held_and_still_not_opened)
{
    uint64_t handle;

    ck_assert_int_eq(mkfifoat(bed.workdir, "fifo", 0644), 0);
    ck_assert_int_eq(symlinkat("/etc/passwd", bed.workdir, "link"), 0);
    handle = held("fifo");
    ck_assert_uint_eq(bed.reply.attr.mode & S_IFMT, S_IFIFO);
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_OPEN, .ref = by(handle)}), ENXIO);
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_READ, .ref = by(handle), .size = 1}), ENXIO);
    handle = held("link");
    ck_assert_uint_eq(bed.reply.attr.mode & S_IFMT, S_IFLNK);
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_OPEN, .ref = by(handle)}), ENXIO);
    served((struct wire_call){.op = WIRE_READLINK, .ref = by(handle)});
    ck_assert_mem_eq(bed.reply.data.data, "/etc/passwd", 11);
}
END_TEST

START_TEST(a_held_directory_is_walked_from_wherever_it_was_moved)
{
    uint64_t handle;

    ck_assert_int_eq(mkdirat(bed.workdir, "dir", 0755), 0);
    put_text("dir/file", "");
    handle = held("dir");
    ck_assert_int_eq(renameat(bed.workdir, "dir", bed.workdir, "moved"), 0);
    served((struct wire_call){.op = WIRE_LOOKUP, .ref = by(handle), .name = text("file")});
    served((struct wire_call){.op = WIRE_OPENDIR, .ref = by(handle)});
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_READDIR, .ref = by(handle), .size = 4096}),
                     ENOTDIR);
}
END_TEST

UNIT_SUITE(files_hold)
{
    tcase_add_checked_fixture(tcase, files_bed_open, files_bed_close);
    tcase_add_test(tcase, a_file_is_held_as_it_is_looked_up);
    tcase_add_test(tcase, a_held_file_is_opened_though_another_has_its_name);
    tcase_add_test(tcase, calls_by_what_is_held_are_about_that_file);
    tcase_add_test(tcase, what_is_no_file_is_held_and_still_not_opened);
    tcase_add_test(tcase, a_held_directory_is_walked_from_wherever_it_was_moved);
}
