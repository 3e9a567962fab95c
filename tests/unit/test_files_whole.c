/* The contract's ReadFile and WriteFile, as the file server does them. */
#include "tests/unit/files_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/sandbox.h"

/* ---- ReadFile ---------------------------------------------------------------------------------- */

static int read_file(const char *path, uint64_t limit)
{
    return serve((struct wire_call){.op = WIRE_READ_FILE, .ref = in_root(path), .limit = limit});
}

static void expect_refused(int got, int expected, enum error_code code, const char *path)
{
    ck_assert_int_eq(got, expected);
    ck_assert_int_eq(bed.reply.code, code);
    ck_assert_msg(memmem(bed.reply.message.data, bed.reply.message.length, path, strlen(path)) != NULL,
                  "the message names the path: %.*s", (int)bed.reply.message.length,
                  bed.reply.message.data);
}

START_TEST(what_is_no_regular_file_is_not_read)
{
    put_text("file", "x");
    ck_assert_int_eq(mkfifoat(bed.workdir, "fifo", 0666), 0);
    ck_assert_int_eq(symlinkat("file", bed.workdir, "link"), 0);
    expect_refused(read_file("workspace/none", 0), ENOENT, ERROR_NO_SUCH_FILE, "/workspace/none");
    expect_refused(read_file("workspace", 0), EISDIR, ERROR_IS_DIRECTORY, "/workspace");
    expect_refused(read_file("", 0), EISDIR, ERROR_IS_DIRECTORY, "/");
    expect_refused(read_file("workspace/fifo", 0), ENXIO, ERROR_NOT_REGULAR, "/workspace/fifo");
    expect_refused(read_file("workspace/link", 0), ENXIO, ERROR_NOT_REGULAR, "/workspace/link");
    expect_refused(read_file("workspace/file/a", 0), ENOTDIR, ERROR_NOT_DIRECTORY, "file/a");
    expect_refused(read_file("workspace/file/a/b", 0), ENOTDIR, ERROR_NOT_DIRECTORY, "file/a/b");
}
END_TEST

START_TEST(a_file_of_the_limit_is_read_and_one_byte_more_is_not)
{
    size_t size = MAX_FILE_BYTES;
    cleanup_free char *data = calloc(1, size + 1);
    uint64_t handle;

    put_file("file", data, size);
    ck_assert_int_eq(read_file("workspace/file", MAX_FILE_BYTES), 0);
    ck_assert_uint_eq(bed.reply.attr.size, MAX_FILE_BYTES);
    handle = bed.reply.handle;
    put_file("file", data, size + 1);
    expect_refused(read_file("workspace/file", MAX_FILE_BYTES), EFBIG, ERROR_TOO_LARGE, "file");
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_READ, .ref = by(handle),
                                              .offset = MAX_FILE_BYTES, .size = 10}),
                     EFBIG);
    served((struct wire_call){.op = WIRE_READ, .ref = by(handle), .size = WIRE_MAX_DATA});
    put_text("file", "");
    ck_assert_int_eq(read_file("workspace/file", MAX_FILE_BYTES), 0);
    ck_assert_uint_eq(bed.reply.attr.size, 0);
}
END_TEST

START_TEST(a_file_that_does_not_know_its_size_is_read_as_a_whole)
{
    struct files *files = bed.files;
    cleanup_fd int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct error err;
    uint64_t size;

    ck_assert_int_eq(files_new(&bed.files, root, "/proc", &err), 0);
    ck_assert_int_eq(read_file("proc/cpuinfo", MAX_FILE_BYTES), 0);
    size = bed.reply.attr.size;
    ck_assert_uint_gt(size, 10);
    served((struct wire_call){.op = WIRE_READ, .ref = by(bed.reply.handle), .size = WIRE_MAX_DATA});
    ck_assert_uint_eq(bed.reply.data.length, size < WIRE_MAX_DATA ? size : WIRE_MAX_DATA);
    expect_refused(read_file("proc/cpuinfo", 10), EFBIG, ERROR_TOO_LARGE, "/proc/cpuinfo");
    ck_assert_int_eq(read_file("proc/self/root/etc/passwd", 0), ELOOP);
    ck_assert_int_eq(read_file("proc/1/fd/0", 0) == 0, 0);
    files_free(bed.files);
    bed.files = files;
}
END_TEST

/* ---- WriteFile --------------------------------------------------------------------------------- */

static int begin(const char *path, uint64_t size)
{
    return serve((struct wire_call){.op = WIRE_WRITE_FILE, .ref = in_root(path), .size = size});
}

static int put(uint64_t handle, uint64_t offset, const void *data, size_t length)
{
    return serve((struct wire_call){
        .op = WIRE_WRITE, .ref = by(handle), .offset = offset, .data = {data, length}});
}

static int commit(uint64_t handle)
{
    return serve((struct wire_call){.op = WIRE_COMMIT, .ref = by(handle)});
}

/* The whole of it. */
static int write_file(const char *path, const char *content)
{
    int r = begin(path, strlen(content));
    uint64_t handle = bed.reply.handle;

    if (r != 0) {
        return r;
    }
    ck_assert_int_eq(put(handle, 0, content, strlen(content)), 0);
    r = commit(handle);
    if (r == 0) {
        ck_assert_uint_eq(bed.reply.attr.size, strlen(content));
        released(handle);
    }
    return r;
}

START_TEST(a_file_is_written_with_its_parents)
{
    umask(077);
    ck_assert_int_eq(write_file("workspace/a/b/c/file", "content"), 0);
    umask(0);
    expect_text("a/b/c/file", "content");
    ck_assert_uint_eq(mode_of("a/b/c/file"), 0644);
    ck_assert_uint_eq(mode_of("a"), 0755);
    ck_assert_uint_eq(mode_of("a/b/c"), 0755);
    ck_assert_uint_eq(count_entries("a/b/c"), 1);
    ck_assert_int_eq(write_file("workspace/a/b/c/file", ""), 0);
    expect_text("a/b/c/file", "");
    ck_assert_int_eq(write_file("top", "x"), 0);
    expect_text("../top", "x");
}
END_TEST

START_TEST(chunks_may_come_in_any_order)
{
    uint64_t handle;

    ck_assert_int_eq(begin("workspace/file", 6), 0);
    handle = bed.reply.handle;
    ck_assert(!exists("file"));
    ck_assert_int_eq(put(handle, 3, "def", 3), 0);
    ck_assert_int_eq(put(handle, 0, "abc", 3), 0);
    ck_assert_int_eq(commit(handle), 0);
    expect_text("file", "abcdef");
    ck_assert_int_eq(commit(handle), EINVAL);
    ck_assert_int_eq(put(handle, 0, "x", 1), EINVAL);
    released(handle);
    expect_text("file", "abcdef");
}
END_TEST

START_TEST(another_size_than_announced_changes_nothing)
{
    uint64_t handle;

    put_text("file", "old");
    ck_assert_int_eq(begin("workspace/file", 100), 0);
    handle = bed.reply.handle;
    ck_assert_int_eq(put(handle, 0, "ab", 2), 0);
    ck_assert_int_eq(commit(handle), EINVAL);
    expect_text("file", "old");
    ck_assert_uint_eq(count_entries("."), 1);
    released(handle);
    ck_assert_int_eq(begin("workspace/file", 1), 0);
    handle = bed.reply.handle;
    ck_assert_int_eq(put(handle, 0, "ab", 2), EFBIG);
    ck_assert_int_eq(put(handle, UINT64_MAX, "a", 1), EFBIG);
    ck_assert_int_eq(begin("workspace/other", UINT64_MAX), EINVAL);
    ck_assert(!exists("other"));
}
END_TEST

START_TEST(what_was_not_committed_leaves_no_trace)
{
    put_text("file", "old");
    ck_assert_int_eq(begin("workspace/file", 3), 0);
    ck_assert_uint_eq(count_entries("."), 2);
    ck_assert_int_eq(put(bed.reply.handle, 0, "new", 3), 0);
    ck_assert_int_eq(begin("workspace/a/b/file", 3), 0);
    released(bed.reply.handle);
    ck_assert(!exists("a"));
    ck_assert_int_eq(begin("workspace/c/d/file", 3), 0);
    put_text("c/other", "");
    files_free(bed.files);
    bed.files = NULL;
    ck_assert(exists("c/other"));
    ck_assert(!exists("c/d"));
    ck_assert_uint_eq(count_entries("."), 2);
    expect_text("file", "old");
}
END_TEST

START_TEST(the_mode_owner_and_attributes_of_the_target_are_kept)
{
    struct stat st;
    char value[8];

    put_text("file", "old");
    ck_assert_int_eq(fchmodat(bed.workdir, "file", 0751, 0), 0);
    if (geteuid() == 0) {
        ck_assert_int_eq(fchownat(bed.workdir, "file", 1234, 5678, 0), 0);
    }
    served((struct wire_call){.op = WIRE_SETXATTR, .ref = at("file"), .name = text("user.note"),
                              .data = text("kept")});
    ck_assert_int_eq(write_file("workspace/file", "new"), 0);
    expect_text("file", "new");
    ck_assert_uint_eq(mode_of("file"), 0751);
    ck_assert_int_eq(fstatat(bed.workdir, "file", &st, 0), 0);
    if (geteuid() == 0) {
        ck_assert_uint_eq(st.st_uid, 1234);
        ck_assert_uint_eq(st.st_gid, 5678);
    }
    served((struct wire_call){.op = WIRE_GETXATTR, .ref = at("file"), .name = text("user.note"),
                              .size = sizeof value});
    ck_assert_mem_eq(bed.reply.data.data, "kept", 4);
}
END_TEST

START_TEST(a_target_that_cannot_be_replaced_is_refused)
{
    put_text("file", "x");
    ck_assert_int_eq(mkdirat(bed.workdir, "dir", 0755), 0);
    put_text("dir/inside", "x");
    ck_assert_int_eq(mkfifoat(bed.workdir, "fifo", 0666), 0);
    expect_refused(write_file("workspace/dir", "n"), EISDIR, ERROR_IS_DIRECTORY, "/workspace/dir");
    expect_refused(write_file("", "n"), EISDIR, ERROR_IS_DIRECTORY, "/");
    expect_refused(write_file("workspace/fifo", "n"), ENXIO, ERROR_NOT_REGULAR, "fifo");
    expect_refused(write_file("workspace/file/a", "n"), ENOTDIR, ERROR_NOT_DIRECTORY, "file/a");
    expect_refused(write_file("workspace/file/a/b", "n"), ENOTDIR, ERROR_NOT_DIRECTORY, "a/b");
    if (mknodat(bed.workdir, "null", S_IFCHR | 0666, makedev(1, 3)) == 0) {
        expect_refused(write_file("workspace/null", "n"), EBUSY, ERROR_NOT_REPLACEABLE, "null");
        ck_assert_uint_eq(count_entries("."), 4);
    }
    expect_text("file", "x");
    expect_text("dir/inside", "x");
}
END_TEST

START_TEST(a_link_is_replaced_and_what_it_leads_to_is_left_alone)
{
    put_text("secret", "x");
    ck_assert_int_eq(fchmodat(bed.workdir, "secret", 0600, 0), 0);
    ck_assert_int_eq(symlinkat("secret", bed.workdir, "link"), 0);
    ck_assert_int_eq(symlinkat("/nowhere", bed.workdir, "dangling"), 0);
    ck_assert_int_eq(symlinkat("/workspace", bed.workdir, "here"), 0);
    ck_assert_int_eq(write_file("workspace/link", "new"), 0);
    expect_text("link", "new");
    ck_assert_uint_eq(mode_of("link"), 0644);
    expect_text("secret", "x");
    ck_assert_uint_eq(mode_of("secret"), 0600);
    ck_assert_int_eq(write_file("workspace/dangling", "new"), 0);
    expect_text("dangling", "new");
    ck_assert_int_eq(write_file("workspace/here", "new"), EISDIR);
    ck_assert_int_eq(write_file("workspace/here/through", "new"), 0);
    expect_text("through", "new");
}
END_TEST

START_TEST(a_link_that_leads_nowhere_is_no_parent)
{
    ck_assert_int_eq(symlinkat("/nowhere", bed.workdir, "dangling"), 0);
    ck_assert_int_eq(write_file("workspace/dangling/a/file", "x"), ENOTDIR);
    ck_assert_uint_eq(count_entries("."), 1);
}
END_TEST

START_TEST(a_directory_that_appears_before_the_commit_is_spared)
{
    uint64_t handle;

    ck_assert_int_eq(begin("workspace/file", 1), 0);
    handle = bed.reply.handle;
    ck_assert_int_eq(put(handle, 0, "x", 1), 0);
    ck_assert_int_eq(mkdirat(bed.workdir, "file", 0755), 0);
    ck_assert_int_eq(commit(handle), EISDIR);
    ck_assert_uint_eq(count_entries("."), 1);
    ck_assert_uint_eq(count_entries("file"), 0);
}
END_TEST

START_TEST(a_default_acl_of_the_parent_does_not_decide_the_mode)
{
    /* Version 2; user::rwx, group::---, other::--- */
    static const uint8_t acl[] = {2, 0, 0, 0,                             /* the version */
                                  1, 0, 7, 0, 0xff, 0xff, 0xff, 0xff,     /* the owner: rwx */
                                  4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,     /* the group: nothing */
                                  0x20, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}; /* others: nothing */

    if (fsetxattr(bed.workdir, "system.posix_acl_default", acl, sizeof acl, 0) < 0) {
        return; /* not on this file system */
    }
    ck_assert_int_eq(write_file("workspace/a/file", "x"), 0);
    ck_assert_uint_eq(mode_of("a/file"), 0644);
    ck_assert_uint_eq(mode_of("a"), 0755);
}
END_TEST

START_TEST(a_path_of_too_many_new_directories_leaves_nothing)
{
    char path[1024];
    size_t used = (size_t)snprintf(path, sizeof path, "workspace/new");

    for (int i = 0; i < 300; i++) {
        used += (size_t)snprintf(path + used, sizeof path - used, "/d");
    }
    ck_assert_int_eq(write_file(path, "x"), ENAMETOOLONG);
    ck_assert(!exists("new"));
}
END_TEST

/* ---- With rights of root: mounts --------------------------------------------------------------- */

/* A small file system of its own on the workdir's directory `name`; false where that is not allowed. */
static bool mount_tmpfs(const char *name, char *path, size_t size, const char *options)
{
    snprintf(path, size, "%s/workspace/%s", bed.folder, name);
    return mkdir(path, 0755) == 0 && mount("none", path, "tmpfs", 0, options) == 0;
}

START_TEST(a_mount_point_is_not_replaced)
{
    char path[128];
    char source[160];
    char target[160];

    if (!mount_tmpfs("a b", path, sizeof path, "size=64k")) {
        return;
    }
    put_text("a b/source", "x");
    put_text("a b/target", "y");
    snprintf(target, sizeof target, "%s/target", path);
    snprintf(source, sizeof source, "%s/source", path);
    ck_assert_int_eq(mount(source, target, "", MS_BIND, ""), 0);
    expect_refused(write_file("workspace/a b/target", "n"), EBUSY, ERROR_NOT_REPLACEABLE, "target");
    expect_text("a b/target", "x");
    ck_assert_uint_eq(count_entries("a b"), 2);
    ck_assert_int_eq(umount2(target, MNT_DETACH), 0);
    ck_assert_int_eq(umount2(path, MNT_DETACH), 0);
}
END_TEST

START_TEST(a_full_file_system_is_told_and_keeps_the_old_file)
{
    enum { SIZE = 256 << 10 };
    char path[128];
    cleanup_free char *data = calloc(1, SIZE);
    uint64_t handle, written = 0;
    int r = 0;

    if (!mount_tmpfs("small", path, sizeof path, "size=64k")) {
        return;
    }
    put_text("small/file", "old");
    ck_assert_int_eq(begin("workspace/small/file", SIZE), 0);
    handle = bed.reply.handle;
    while (r == 0 && written < SIZE) {
        r = put(handle, written, data, SIZE - written);
        written += r == 0 ? bed.reply.size : 0;
    }
    ck_assert_int_eq(r, ENOSPC);
    ck_assert_uint_lt(written, SIZE);
    ck_assert_int_eq(commit(handle), EINVAL);
    released(handle);
    expect_text("small/file", "old");
    ck_assert_uint_eq(count_entries("small"), 1);
    ck_assert_int_eq(umount2(path, MNT_DETACH), 0);
}
END_TEST

START_TEST(what_is_read_only_is_not_writable)
{
    char path[128];

    if (!mount_tmpfs("fixed", path, sizeof path, NULL)) {
        return;
    }
    put_text("fixed/file", "old");
    ck_assert_int_eq(mount("none", path, "", MS_REMOUNT | MS_RDONLY, NULL), 0);
    expect_refused(write_file("workspace/fixed/file", "n"), EACCES, ERROR_NOT_WRITABLE, "fixed/file");
    expect_refused(write_file("workspace/fixed/new", "n"), EACCES, ERROR_NOT_WRITABLE, "Read-only");
    expect_refused(write_file("workspace/fixed/a/new", "n"), EACCES, ERROR_NOT_WRITABLE, "a/new");
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_UNLINK, .ref = at("fixed"),
                                              .name = text("file")}),
                     EROFS);
    ck_assert_int_eq(umount2(path, MNT_DETACH), 0);
}
END_TEST

START_TEST(one_without_rights_is_told_that_it_is_not_writable)
{
    ck_assert_int_eq(mkdirat(bed.workdir, "closed", 0555), 0);
    if (geteuid() == 0) {
        ck_assert_int_eq(setegid(65534), 0);
        ck_assert_int_eq(fchmodat(bed.root, ".", 0755, 0), 0);
        ck_assert_int_eq(seteuid(65534), 0);
    }
    expect_refused(write_file("workspace/closed/new", "n"), EACCES, ERROR_NOT_WRITABLE,
                   "Permission denied");
    expect_refused(write_file("workspace/closed/a/new", "n"), EACCES, ERROR_NOT_WRITABLE, "a/new");
    if (getuid() == 0) {
        ck_assert_int_eq(seteuid(0), 0);
        ck_assert_int_eq(setegid(0), 0);
    }
}
END_TEST

UNIT_SUITE(files_whole)
{
    tcase_add_checked_fixture(tcase, files_bed_open, files_bed_close);
    tcase_add_test(tcase, what_is_no_regular_file_is_not_read);
    tcase_add_test(tcase, a_file_of_the_limit_is_read_and_one_byte_more_is_not);
    tcase_add_test(tcase, a_file_that_does_not_know_its_size_is_read_as_a_whole);
    tcase_add_test(tcase, a_file_is_written_with_its_parents);
    tcase_add_test(tcase, chunks_may_come_in_any_order);
    tcase_add_test(tcase, another_size_than_announced_changes_nothing);
    tcase_add_test(tcase, what_was_not_committed_leaves_no_trace);
    tcase_add_test(tcase, the_mode_owner_and_attributes_of_the_target_are_kept);
    tcase_add_test(tcase, a_target_that_cannot_be_replaced_is_refused);
    tcase_add_test(tcase, a_link_is_replaced_and_what_it_leads_to_is_left_alone);
    tcase_add_test(tcase, a_link_that_leads_nowhere_is_no_parent);
    tcase_add_test(tcase, a_directory_that_appears_before_the_commit_is_spared);
    tcase_add_test(tcase, a_default_acl_of_the_parent_does_not_decide_the_mode);
    tcase_add_test(tcase, a_path_of_too_many_new_directories_leaves_nothing);
    tcase_add_test(tcase, a_mount_point_is_not_replaced);
    tcase_add_test(tcase, a_full_file_system_is_told_and_keeps_the_old_file);
    tcase_add_test(tcase, what_is_read_only_is_not_writable);
    tcase_add_test(tcase, one_without_rights_is_told_that_it_is_not_writable);
}
