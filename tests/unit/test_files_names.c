/* The file server's operations on names, attributes and listings. */
#include "tests/unit/files_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* A call about the name in the workdir. */
static struct wire_call on(enum wire_op op, const char *name)
{
    return (struct wire_call){.op = op, .ref = at(""), .name = text(name)};
}

static int make_node(const char *name, mode_t mode)
{
    struct wire_call call = on(WIRE_MKNOD, name);

    call.mode = (uint32_t)mode;
    return serve(call);
}

START_TEST(nodes_are_made_with_the_mode_that_was_asked_for)
{
    struct wire_call call = on(WIRE_MKDIR, "dir");

    call.mode = 01775;
    served(call);
    ck_assert_uint_eq(bed.reply.attr.mode, S_IFDIR | 01775);
    ck_assert_int_eq(make_node("file", S_IFREG | 0666), 0);
    ck_assert_uint_eq(bed.reply.attr.mode, S_IFREG | 0666);
    ck_assert_int_eq(make_node("fifo", S_IFIFO | 0600), 0);
    ck_assert_uint_eq(bed.reply.attr.mode, S_IFIFO | 0600);
    ck_assert_int_eq(make_node("socket", S_IFSOCK | 0600), 0);
    ck_assert_int_eq(make_node("file", S_IFREG | 0666), EEXIST);
    ck_assert_int_eq(serve(call), EEXIST);
}
END_TEST

START_TEST(no_device_is_ever_made)
{
    ck_assert_int_eq(make_node("dev", S_IFCHR | 0666), EPERM);
    ck_assert_int_eq(make_node("dev", S_IFBLK | 0666), EPERM);
    ck_assert_int_eq(make_node("dev", S_IFLNK | 0666), EPERM);
    ck_assert(!exists("dev"));
}
END_TEST

START_TEST(a_link_keeps_its_text_verbatim)
{
    struct wire_call call = on(WIRE_SYMLINK, "link");
    char longest[4097];

    call.data = text("/some where/\xff\n..");
    served(call);
    ck_assert(S_ISLNK(bed.reply.attr.mode));
    served((struct wire_call){.op = WIRE_READLINK, .ref = at("link")});
    ck_assert_uint_eq(bed.reply.data.length, call.data.length);
    ck_assert_mem_eq(bed.reply.data.data, call.data.data, call.data.length);
    call.name = text("other");
    call.data = (struct wire_text){"a\0b", 3};
    ck_assert_int_eq(serve(call), EINVAL);
    call.data = (struct wire_text){longest, sizeof longest - 1};
    memset(longest, 'x', sizeof longest);
    ck_assert_int_eq(serve(call), ENAMETOOLONG);
    call.data.length--;
    served(call);
    served((struct wire_call){.op = WIRE_READLINK, .ref = at("other")});
    ck_assert_uint_eq(bed.reply.data.length, 4095);
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_READLINK, .ref = at("")}), EINVAL);
}
END_TEST

static int link_as(struct wire_ref from, const char *name)
{
    return serve((struct wire_call){.op = WIRE_LINK, .ref = from, .ref2 = at(""), .name = text(name)});
}

START_TEST(a_hard_link_is_one_inode_with_two_names)
{
    uint64_t ino;

    put_text("a", "x");
    ino = attr_of("a").ino;
    ck_assert_int_eq(link_as(at("a"), "b"), 0);
    ck_assert_uint_eq(bed.reply.attr.ino, ino);
    ck_assert_uint_eq(bed.reply.attr.nlink, 2);
    ck_assert_int_eq(link_as(at("a"), "b"), EEXIST);
    ck_assert_int_eq(link_as(at(""), "c"), EPERM);
    ck_assert_int_eq(symlinkat("a", bed.workdir, "s"), 0);
    ck_assert_int_eq(link_as(at("s"), "t"), 0);
    ck_assert(S_ISLNK(bed.reply.attr.mode));
    served(on(WIRE_UNLINK, "a"));
    ck_assert_uint_eq(attr_of("b").nlink, 1);
}
END_TEST

START_TEST(an_open_file_is_linked_by_its_handle_until_it_has_no_name)
{
    uint64_t handle;

    put_text("a", "x");
    handle = opened("a", O_RDONLY);
    ck_assert_int_eq(link_as(by(handle), "b"), 0);
    served(on(WIRE_UNLINK, "a"));
    served(on(WIRE_UNLINK, "b"));
    ck_assert_int_eq(link_as(by(handle), "c"), ENOENT);
}
END_TEST

START_TEST(removing_says_what_the_kernel_says)
{
    ck_assert_int_eq(mkdirat(bed.workdir, "dir", 0755), 0);
    put_text("dir/file", "");
    ck_assert_int_eq(serve(on(WIRE_RMDIR, "dir")), ENOTEMPTY);
    ck_assert_int_eq(serve(on(WIRE_UNLINK, "dir")), EISDIR);
    served((struct wire_call){.op = WIRE_UNLINK, .ref = at("dir"), .name = text("file")});
    ck_assert_int_eq(
        serve((struct wire_call){.op = WIRE_UNLINK, .ref = at("dir"), .name = text("file")}), ENOENT);
    served(on(WIRE_RMDIR, "dir"));
    ck_assert(!exists("dir"));
    put_text("file", "");
    ck_assert_int_eq(serve(on(WIRE_RMDIR, "file")), ENOTDIR);
}
END_TEST

static int rename_as(const char *name, const char *name2, unsigned flags)
{
    struct wire_call call = on(WIRE_RENAME, name);

    call.ref2 = at("");
    call.name2 = text(name2);
    call.flags = flags;
    return serve(call);
}

START_TEST(a_rename_replaces_spares_or_exchanges)
{
    put_text("a", "a");
    put_text("b", "b");
    ck_assert_int_eq(rename_as("a", "b", RENAME_NOREPLACE), EEXIST);
    ck_assert_int_eq(rename_as("a", "b", RENAME_EXCHANGE), 0);
    expect_text("a", "b");
    expect_text("b", "a");
    ck_assert_int_eq(rename_as("a", "b", 0), 0);
    expect_text("b", "b");
    ck_assert(!exists("a"));
    ck_assert_int_eq(rename_as("a", "b", 0), ENOENT);
    ck_assert_int_eq(rename_as("b", "a", RENAME_WHITEOUT), EINVAL);
    ck_assert_int_eq(rename_as("b", "a", RENAME_NOREPLACE), 0);
}
END_TEST

/* ---- Attributes ------------------------------------------------------------------------------ */

START_TEST(attributes_are_those_of_stat)
{
    struct wire_attr a;
    struct stat st;

    put_text("file", "four");
    a = attr_of("file");
    ck_assert_int_eq(fstatat(bed.workdir, "file", &st, 0), 0);
    ck_assert_uint_eq(a.dev, (uint64_t)st.st_dev);
    ck_assert_uint_eq(a.ino, (uint64_t)st.st_ino);
    ck_assert_uint_eq(a.size, 4);
    ck_assert_uint_eq(a.mode, (uint32_t)st.st_mode);
    ck_assert_uint_eq(a.blocks, (uint64_t)st.st_blocks);
    ck_assert_int_eq(a.mtime.seconds, (int64_t)st.st_mtim.tv_sec);
    ck_assert_uint_eq(a.mtime.nanoseconds, (uint32_t)st.st_mtim.tv_nsec);
}
END_TEST

START_TEST(attributes_are_set_one_by_one)
{
    struct wire_call call = {.op = WIRE_SETATTR, .ref = at("file")};
    struct wire_attr before;

    put_text("file", "0123456789");
    before = attr_of("file");
    call.mask = WIRE_SET_MODE;
    call.mode = 04711;
    served(call);
    ck_assert_uint_eq(bed.reply.attr.mode, S_IFREG | 04711);
    ck_assert_int_eq(bed.reply.attr.mtime.seconds, before.mtime.seconds);
    call.mask = WIRE_SET_SIZE;
    call.size = 4;
    served(call);
    ck_assert_uint_eq(bed.reply.attr.size, 4);
    expect_text("file", "0123");
    call.mask = WIRE_SET_MTIME | WIRE_SET_ATIME;
    call.atime = (struct wire_time){-5, 123456789};
    call.mtime = (struct wire_time){1, 999999999};
    served(call);
    ck_assert_int_eq(bed.reply.attr.atime.seconds, -5);
    ck_assert_uint_eq(bed.reply.attr.atime.nanoseconds, 123456789);
    ck_assert_uint_eq(bed.reply.attr.mtime.nanoseconds, 999999999);
    call.mask = WIRE_SET_MTIME_NOW;
    served(call);
    ck_assert_int_eq(bed.reply.attr.atime.seconds, -5);
    ck_assert_int_ge(bed.reply.attr.mtime.seconds, before.mtime.seconds);
    call.mask = WIRE_SET_UID | WIRE_SET_GID;
    call.uid = (uint32_t)geteuid();
    call.gid = (uint32_t)getegid();
    served(call);
}
END_TEST

START_TEST(a_size_over_the_limit_is_refused)
{
    struct wire_call call = {.op = WIRE_SETATTR, .ref = at("file"), .mask = WIRE_SET_SIZE,
                             .limit = 100, .size = 101};

    put_text("file", "old");
    ck_assert_int_eq(serve(call), EFBIG);
    expect_text("file", "old");
    call.size = 100;
    served(call);
    call.limit = 0;
    call.size = (uint64_t)INT64_MAX + 1;
    ck_assert_int_eq(serve(call), EFBIG);
    call.ref = at("");
    call.size = 0;
    ck_assert_int_eq(serve(call), EISDIR);
    ck_assert_int_eq(mkfifoat(bed.workdir, "fifo", 0600), 0);
    call.ref = at("fifo");
    ck_assert_int_eq(serve(call), EINVAL);
}
END_TEST

START_TEST(the_times_of_a_link_can_be_set_and_its_mode_cannot)
{
    struct wire_call call = {.op = WIRE_SETATTR, .ref = at("link"), .mask = WIRE_SET_MTIME,
                             .mtime = {7, 8}};

    put_text("file", "");
    ck_assert_int_eq(symlinkat("file", bed.workdir, "link"), 0);
    served(call);
    ck_assert_int_eq(bed.reply.attr.mtime.seconds, 7);
    ck_assert_int_ne(attr_of("file").mtime.seconds, 7);
    call.mask = WIRE_SET_MODE;
    ck_assert_int_eq(serve(call), EOPNOTSUPP);
}
END_TEST

START_TEST(an_unlinked_file_lives_on_in_its_handle)
{
    struct wire_call call = {.op = WIRE_SETATTR, .mask = WIRE_SET_SIZE | WIRE_SET_MODE, .size = 2,
                             .mode = 0600};
    uint64_t handle;

    put_text("file", "abc");
    handle = opened("file", O_RDONLY);
    ck_assert_int_eq(unlinkat(bed.workdir, "file", 0), 0);
    call.ref = by(handle);
    served(call);
    ck_assert_uint_eq(bed.reply.attr.size, 2);
    ck_assert_uint_eq(bed.reply.attr.mode, S_IFREG | 0600);
    ck_assert_uint_eq(bed.reply.attr.nlink, 0);
    served((struct wire_call){.op = WIRE_GETATTR, .ref = by(handle)});
}
END_TEST

START_TEST(a_file_system_tells_its_limits)
{
    served((struct wire_call){.op = WIRE_STATFS, .ref = at("")});
    ck_assert_uint_gt(bed.reply.statfs.blocks, 0);
    ck_assert_uint_gt(bed.reply.statfs.bsize, 0);
    ck_assert_uint_gt(bed.reply.statfs.frsize, 0);
    ck_assert_uint_eq(bed.reply.statfs.namelen, 255);
}
END_TEST

START_TEST(extended_attributes_come_back_as_they_were_set)
{
    struct wire_call call = {.op = WIRE_SETXATTR, .ref = at("file"), .name = text("user.a"),
                             .data = {"v\0w", 3}};
    struct wire_call get = {.op = WIRE_GETXATTR, .ref = at("file"), .name = text("user.a")};

    put_text("file", "");
    served(call);
    call.flags = XATTR_CREATE;
    ck_assert_int_eq(serve(call), EEXIST);
    served(get);
    ck_assert_uint_eq(bed.reply.size, 3);
    ck_assert_uint_eq(bed.reply.data.length, 0);
    get.size = 2;
    ck_assert_int_eq(serve(get), ERANGE);
    get.size = 1u << 30;
    served(get);
    ck_assert_uint_eq(bed.reply.data.length, 3);
    ck_assert_mem_eq(bed.reply.data.data, "v\0w", 3);
    get.ref = by(opened("file", O_RDONLY));
    served(get);
    ck_assert_mem_eq(bed.reply.data.data, "v\0w", 3);
    served((struct wire_call){.op = WIRE_LISTXATTR, .ref = at("file"), .size = 100});
    ck_assert_uint_eq(bed.reply.data.length, 7);
    ck_assert_mem_eq(bed.reply.data.data, "user.a", 7);
    call.op = WIRE_REMOVEXATTR;
    served(call);
    ck_assert_int_eq(serve(get), ENODATA);
    ck_assert_int_eq(serve(call), ENODATA);
}
END_TEST

/* ---- Listings ---------------------------------------------------------------------------------- */

/* Lists with replies of `size` bytes; counts how often each "f%d" below `count` is met in `seen`. */
static void list(uint64_t handle, uint64_t size, bool with_attr, unsigned char *seen, unsigned count)
{
    struct wire_call call = {.op = WIRE_READDIR, .ref = by(handle), .size = size,
                             .flags = with_attr};

    for (;;) {
        struct wire_reader r;
        struct wire_entry e;
        int more = 0;

        served(call);
        ck_assert_uint_le(bed.reply.data.length, size);
        r = (struct wire_reader){(const uint8_t *)bed.reply.data.data, bed.reply.data.length, false};
        while (wire_get_entry(&r, &e) > 0) {
            char name[WIRE_MAX_NAME + 1];
            unsigned i;

            snprintf(name, sizeof name, "%.*s", (int)e.name.length, e.name.data);
            if (sscanf(name, "f%u", &i) == 1 && i < count) {
                seen[i]++;
                ck_assert(e.has_attr == with_attr);
                ck_assert(!with_attr || e.attr.ino == e.ino);
            }
            call.offset = e.next;
            more = 1;
        }
        ck_assert(!r.bad);
        if (!more) {
            return;
        }
    }
}

START_TEST(a_listing_loses_no_entry_however_small_the_replies)
{
    static const uint64_t sizes[] = {400, 777, 4096, 1 << 20, UINT64_MAX};
    enum { COUNT = 700 };
    uint64_t handle;

    ck_assert_int_eq(mkdirat(bed.workdir, "dir", 0755), 0);
    for (int i = 0; i < COUNT; i++) {
        char name[32];

        snprintf(name, sizeof name, "dir/f%d", i);
        put_text(name, "");
    }
    served((struct wire_call){.op = WIRE_OPENDIR, .ref = at("dir")});
    handle = bed.reply.handle;
    for (size_t s = 0; s < 2 * sizeof sizes / sizeof sizes[0]; s++) {
        unsigned char seen[COUNT] = {0};

        list(handle, sizes[s / 2], s % 2 != 0, seen, COUNT);
        for (int i = 0; i < COUNT; i++) {
            ck_assert_msg(seen[i] == 1, "f%d is listed %d times", i, seen[i]);
        }
    }
}
END_TEST

START_TEST(a_listing_from_the_start_sees_what_was_made_since)
{
    unsigned char seen[2] = {0};
    uint64_t handle;

    put_text("f0", "");
    served((struct wire_call){.op = WIRE_OPENDIR, .ref = at("")});
    handle = bed.reply.handle;
    list(handle, 4096, true, seen, 2);
    ck_assert_int_eq(seen[0], 1);
    ck_assert_int_eq(seen[1], 0);
    put_text("f1", "");
    list(handle, 4096, true, seen, 2);
    ck_assert_int_eq(seen[0], 2);
    ck_assert_int_eq(seen[1], 1);
}
END_TEST

START_TEST(a_listing_without_room_for_one_entry_is_an_error_and_no_end)
{
    served((struct wire_call){.op = WIRE_OPENDIR, .ref = at("")});
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_READDIR, .ref = by(bed.reply.handle),
                                              .size = 10}),
                     EINVAL);
}
END_TEST

START_TEST(only_a_directory_is_listed)
{
    put_text("file", "");
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_OPENDIR, .ref = at("file")}), ENOTDIR);
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_READDIR, .ref = at(""), .size = 4096}),
                     EBADF);
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_READDIR, .ref = by(opened("file", 0)),
                                              .size = 4096}),
                     ENOTDIR);
    served((struct wire_call){.op = WIRE_OPENDIR, .ref = at("")});
    ck_assert_int_eq(
        serve((struct wire_call){.op = WIRE_READ, .ref = by(bed.reply.handle), .size = 10}), EISDIR);
}
END_TEST

START_TEST(a_removed_directory_lists_nothing)
{
    ck_assert_int_eq(mkdirat(bed.workdir, "dir", 0755), 0);
    served((struct wire_call){.op = WIRE_OPENDIR, .ref = at("dir")});
    ck_assert_int_eq(unlinkat(bed.workdir, "dir", AT_REMOVEDIR), 0);
    served((struct wire_call){.op = WIRE_READDIR, .ref = by(bed.reply.handle), .size = 4096});
    ck_assert_uint_eq(bed.reply.data.length, 0);
}
END_TEST

UNIT_SUITE(files_names)
{
    tcase_add_checked_fixture(tcase, files_bed_open, files_bed_close);
    tcase_add_test(tcase, nodes_are_made_with_the_mode_that_was_asked_for);
    tcase_add_test(tcase, no_device_is_ever_made);
    tcase_add_test(tcase, a_link_keeps_its_text_verbatim);
    tcase_add_test(tcase, a_hard_link_is_one_inode_with_two_names);
    tcase_add_test(tcase, an_open_file_is_linked_by_its_handle_until_it_has_no_name);
    tcase_add_test(tcase, removing_says_what_the_kernel_says);
    tcase_add_test(tcase, a_rename_replaces_spares_or_exchanges);
    tcase_add_test(tcase, attributes_are_those_of_stat);
    tcase_add_test(tcase, attributes_are_set_one_by_one);
    tcase_add_test(tcase, a_size_over_the_limit_is_refused);
    tcase_add_test(tcase, the_times_of_a_link_can_be_set_and_its_mode_cannot);
    tcase_add_test(tcase, an_unlinked_file_lives_on_in_its_handle);
    tcase_add_test(tcase, a_file_system_tells_its_limits);
    tcase_add_test(tcase, extended_attributes_come_back_as_they_were_set);
    tcase_add_test(tcase, a_listing_loses_no_entry_however_small_the_replies);
    tcase_add_test(tcase, a_listing_from_the_start_sees_what_was_made_since);
    tcase_add_test(tcase, a_listing_without_room_for_one_entry_is_an_error_and_no_end);
    tcase_add_test(tcase, only_a_directory_is_listed);
    tcase_add_test(tcase, a_removed_directory_lists_nothing);
}
