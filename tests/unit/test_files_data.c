/* The file server's opens, reads and writes. */
#include "tests/unit/files_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/sandbox.h"

static int open_file(const char *path, int flags, uint64_t limit)
{
    return serve((struct wire_call){
        .op = WIRE_OPEN, .ref = at(path), .flags = (uint32_t)flags, .limit = limit});
}

static int create(const char *name, int flags)
{
    return serve((struct wire_call){.op = WIRE_CREATE, .ref = at(""), .name = text(name),
                                    .flags = (uint32_t)flags, .mode = 0640});
}

static int write_at(uint64_t handle, uint64_t offset, const char *data, uint64_t limit)
{
    return serve((struct wire_call){
        .op = WIRE_WRITE, .ref = by(handle), .offset = offset, .limit = limit, .data = text(data)});
}

static void expect_read(struct wire_ref ref, uint64_t offset, uint64_t size, const char *expected)
{
    served((struct wire_call){.op = WIRE_READ, .ref = ref, .offset = offset, .size = size});
    ck_assert_uint_eq(bed.reply.data.length, strlen(expected));
    ck_assert_mem_eq(bed.reply.data.data, expected, strlen(expected));
}

/* ---- Opening ---------------------------------------------------------------------------------- */

static void plant_specials(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    ck_assert_int_eq(mkfifoat(bed.workdir, "fifo", 0666), 0);
    ck_assert_int_eq(symlinkat("file", bed.workdir, "link"), 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s/workspace/socket", bed.folder);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    put_text("file", "x");
}

START_TEST(a_planted_fifo_socket_or_link_is_refused_and_not_opened)
{
    static const char *const names[] = {"fifo", "socket", "link"};
    static const int flags[] = {O_RDONLY, O_WRONLY, O_RDWR, O_WRONLY | O_TRUNC};

    plant_specials();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        for (size_t j = 0; j < sizeof flags / sizeof flags[0]; j++) {
            ck_assert_int_eq(open_file(names[i], flags[j], 0), ENXIO);
            ck_assert_int_eq(bed.reply.code, ERROR_NOT_REGULAR);
            ck_assert_int_eq(create(names[i], flags[j]), ENXIO);
            ck_assert_int_eq(create(names[i], flags[j] | O_EXCL), EEXIST);
        }
        ck_assert_int_eq(serve((struct wire_call){.op = WIRE_READ, .ref = at(names[i]), .size = 1}),
                         ENXIO);
        ck_assert_int_eq(serve((struct wire_call){.op = WIRE_FSYNC, .ref = at(names[i])}), EINVAL);
    }
    expect_text("file", "x");
}
END_TEST

START_TEST(a_device_is_never_opened)
{
    if (mknodat(bed.workdir, "null", S_IFCHR | 0666, makedev(1, 3)) < 0) {
        return; /* not root */
    }
    ck_assert_int_eq(open_file("null", O_RDONLY, 0), ENXIO);
    ck_assert_int_eq(create("null", O_WRONLY), ENXIO);
}
END_TEST

START_TEST(a_directory_is_no_file)
{
    ck_assert_int_eq(mkdirat(bed.workdir, "dir", 0755), 0);
    ck_assert_int_eq(open_file("dir", O_RDONLY, 0), EISDIR);
    ck_assert_int_eq(create("dir", O_RDWR), EISDIR);
    ck_assert_int_eq(open_file("none", O_RDONLY, 0), ENOENT);
}
END_TEST

START_TEST(a_file_over_the_limit_is_opened_for_writing_only)
{
    put_file("file", NULL, 0);
    served((struct wire_call){
        .op = WIRE_SETATTR, .ref = at("file"), .mask = WIRE_SET_SIZE, .size = MAX_FILE_BYTES});
    ck_assert_int_eq(open_file("file", O_RDONLY, MAX_FILE_BYTES), 0);
    served((struct wire_call){
        .op = WIRE_SETATTR, .ref = at("file"), .mask = WIRE_SET_SIZE, .size = MAX_FILE_BYTES + 1});
    ck_assert_int_eq(open_file("file", O_RDONLY, MAX_FILE_BYTES), EFBIG);
    ck_assert_int_eq(open_file("file", O_RDWR, MAX_FILE_BYTES), EFBIG);
    ck_assert_int_eq(open_file("file", O_RDONLY, 0), 0);
    ck_assert_int_eq(open_file("file", O_WRONLY, MAX_FILE_BYTES), 0);
    ck_assert_uint_eq(bed.reply.attr.size, MAX_FILE_BYTES + 1);
    ck_assert_int_eq(open_file("file", O_RDWR | O_TRUNC, MAX_FILE_BYTES), 0);
    ck_assert_uint_eq(bed.reply.attr.size, 0);
}
END_TEST

START_TEST(flags_that_are_not_the_callers_are_ignored)
{
    uint64_t handle;

    put_text("file", "x");
    ck_assert_int_eq(open_file("file", O_RDONLY | O_DIRECTORY | O_PATH | O_CREAT | O_EXCL, 0), 0);
    handle = bed.reply.handle;
    expect_read(by(handle), 0, 10, "x");
    ck_assert_int_eq(write_at(handle, 0, "y", 0), EBADF);
    ck_assert_int_eq(open_file("file", O_WRONLY, 0), 0);
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_READ, .ref = by(bed.reply.handle), .size = 1}),
                     EBADF);
}
END_TEST

START_TEST(creating_makes_a_file_or_opens_the_one_that_is_there)
{
    ck_assert_int_eq(create("file", O_RDWR | O_EXCL), 0);
    ck_assert_uint_eq(bed.reply.attr.mode, S_IFREG | 0640);
    ck_assert_int_eq(write_at(bed.reply.handle, 0, "abc", 0), 0);
    ck_assert_int_eq(create("file", O_RDWR | O_EXCL), EEXIST);
    ck_assert_int_eq(create("file", O_RDWR), 0);
    ck_assert_uint_eq(bed.reply.attr.size, 3);
    ck_assert_int_eq(create("file", O_RDWR | O_TRUNC), 0);
    ck_assert_uint_eq(bed.reply.attr.size, 0);
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_CREATE, .ref = at("file"), .name = text("x"),
                                              .flags = O_RDWR}),
                     ENOTDIR);
}
END_TEST

START_TEST(a_handle_that_was_released_is_never_anothers)
{
    uint64_t handle;

    put_text("file", "x");
    handle = opened("file", O_RDONLY);
    released(handle);
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_RELEASE, .ref = by(handle)}), EBADF);
    for (int i = 0; i < 100; i++) {
        ck_assert_uint_ne(opened("file", O_RDONLY), handle);
        ck_assert_int_eq(serve((struct wire_call){.op = WIRE_READ, .ref = by(handle), .size = 1}),
                         EBADF);
        released(bed.reply.handle != 0 ? bed.reply.handle : opened("file", O_RDONLY));
    }
}
END_TEST

/* ---- Reading and writing ------------------------------------------------------------------------ */

START_TEST(bytes_are_read_where_they_are)
{
    uint64_t handle;

    put_text("file", "0123456789");
    handle = opened("file", O_RDONLY);
    expect_read(by(handle), 0, 4, "0123");
    expect_read(by(handle), 8, 100, "89");
    expect_read(by(handle), 10, 100, "");
    expect_read(by(handle), 1 << 20, 100, "");
    expect_read(at("file"), 3, 2, "34");
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_READ, .ref = by(handle),
                                              .offset = UINT64_MAX, .size = 1}),
                     EINVAL);
}
END_TEST

START_TEST(one_reply_carries_a_mebibyte_at_most)
{
    size_t size = WIRE_MAX_DATA + 10;
    cleanup_free char *data = calloc(1, size);

    put_file("file", data, size);
    served((struct wire_call){.op = WIRE_READ, .ref = at("file"), .size = UINT64_MAX});
    ck_assert_uint_eq(bed.reply.data.length, WIRE_MAX_DATA);
    served((struct wire_call){
        .op = WIRE_READ, .ref = at("file"), .offset = WIRE_MAX_DATA, .size = UINT64_MAX});
    ck_assert_uint_eq(bed.reply.data.length, 10);
}
END_TEST

START_TEST(a_write_that_would_pass_the_limit_writes_nothing)
{
    uint64_t handle;

    put_text("file", "0123");
    handle = opened("file", O_RDWR);
    ck_assert_int_eq(write_at(handle, 8, "xy", 10), 0);
    ck_assert_uint_eq(bed.reply.size, 2);
    ck_assert_uint_eq(bed.reply.offset, 8);
    ck_assert_uint_eq(bed.reply.attr.size, 10);
    ck_assert_int_eq(write_at(handle, 9, "xy", 10), EFBIG);
    ck_assert_int_eq(bed.reply.code, ERROR_TOO_LARGE);
    ck_assert_int_eq(write_at(handle, UINT64_MAX, "xy", 0), EFBIG);
    ck_assert_uint_eq(attr_of("file").size, 10);
}
END_TEST

START_TEST(an_appending_write_says_where_it_went)
{
    uint64_t handle;
    cleanup_fd int fd = -1;

    put_text("file", "0123");
    handle = opened("file", O_WRONLY | O_APPEND);
    ck_assert_int_eq(write_at(handle, 0, "ab", 0), 0);
    ck_assert_uint_eq(bed.reply.offset, 4);
    fd = openat(bed.workdir, "file", O_WRONLY | O_APPEND);
    ck_assert_int_eq(write(fd, "inside", 6), 6);
    ck_assert_int_eq(write_at(handle, 0, "cd", 14), 0);
    ck_assert_uint_eq(bed.reply.offset, 12);
    ck_assert_uint_eq(bed.reply.attr.size, 14);
    ck_assert_int_eq(write_at(handle, 0, "e", 14), EFBIG);
    expect_text("file", "0123abinsidecd");
}
END_TEST

static void *append_many(void *arg)
{
    uint64_t handle = *(uint64_t *)arg;
    struct wire_call call = {.op = WIRE_WRITE, .ref = by(handle), .data = text("0123456789abcde\n")};
    cleanup_buffer struct buffer bytes = BUFFER_INIT(WIRE_MAX_PAYLOAD);
    cleanup_buffer struct buffer out = BUFFER_INIT(WIRE_MAX_PAYLOAD);
    struct wire_reply reply;
    uint64_t sum = 0;

    if (wire_put_call(&bytes, &call) < 0) {
        return NULL;
    }
    for (int i = 0; i < 200; i++) {
        buffer_clear(&out);
        if (files_serve(bed.files, bytes.data, bytes.length, &out) < 0 ||
            wire_get_reply(out.data, out.length, WIRE_WRITE, &reply) < 0) {
            return NULL;
        }
        sum += reply.offset / 16;
    }
    *(uint64_t *)arg = sum;
    return arg;
}

START_TEST(threads_that_append_at_once_are_each_told_their_own_place)
{
    enum { THREADS = 4, TOTAL = THREADS * 200 };
    pthread_t threads[THREADS];
    uint64_t sums[THREADS];
    uint64_t handle, sum = 0;

    put_text("file", "");
    handle = opened("file", O_WRONLY | O_APPEND);
    for (int i = 0; i < THREADS; i++) {
        sums[i] = handle;
        ck_assert_int_eq(pthread_create(&threads[i], NULL, append_many, &sums[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(threads[i], NULL), 0);
        sum += sums[i];
    }
    ck_assert_uint_eq(attr_of("file").size, TOTAL * 16);
    ck_assert_uint_eq(sum, TOTAL * (TOTAL - 1) / 2);
}
END_TEST

/* Opens, reads and releases; handles of other threads, too. */
static void *churn(void *arg)
{
    cleanup_buffer struct buffer bytes = BUFFER_INIT(WIRE_MAX_PAYLOAD);
    cleanup_buffer struct buffer out = BUFFER_INIT(WIRE_MAX_PAYLOAD);
    struct wire_call calls[] = {
        {.op = WIRE_OPEN, .ref = at("file")},
        {.op = WIRE_READ, .size = 4},
        {.op = WIRE_RELEASE},
    };

    for (unsigned i = 0; i < 600; i++) {
        struct wire_call *call = &calls[i % 3];

        buffer_clear(&bytes);
        buffer_clear(&out);
        if (i % 3 != 0) {
            call->ref = by((uint64_t)(1 + i / 3) << 14 | (i / 3) % 4);
        }
        if (wire_put_call(&bytes, call) < 0 ||
            files_serve(bed.files, bytes.data, bytes.length, &out) < 0) {
            return NULL;
        }
    }
    return arg;
}

START_TEST(a_release_during_a_read_does_no_harm)
{
    pthread_t threads[4];

    put_text("file", "data");
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, churn, &bed), 0);
    }
    for (int i = 0; i < 4; i++) {
        void *result;

        ck_assert_int_eq(pthread_join(threads[i], &result), 0);
        ck_assert_ptr_nonnull(result);
    }
}
END_TEST

/* ---- Space ------------------------------------------------------------------------------------- */

START_TEST(a_sparse_file_keeps_its_holes)
{
    struct wire_call seek = {.op = WIRE_LSEEK, .flags = SEEK_DATA};
    struct wire_call punch = {.op = WIRE_FALLOCATE, .size = 1 << 20,
                              .mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE};

    ck_assert_int_eq(create("file", O_RDWR), 0);
    seek.ref = by(bed.reply.handle);
    punch.ref = seek.ref;
    ck_assert_int_eq(write_at(bed.reply.handle, 1 << 20, "data", 0), 0);
    ck_assert_uint_lt(attr_of("file").blocks, (1 << 20) / 512);
    served(seek);
    ck_assert_uint_eq(bed.reply.offset, 1 << 20);
    seek.flags = SEEK_HOLE;
    served(seek);
    ck_assert_uint_eq(bed.reply.offset, 0);
    seek.offset = 2 << 20;
    ck_assert_int_eq(serve(seek), ENXIO);
    seek.flags = SEEK_SET;
    ck_assert_int_eq(serve(seek), EINVAL);
    served(punch);
}
END_TEST

START_TEST(allocation_keeps_to_the_limit)
{
    struct wire_call call = {.op = WIRE_FALLOCATE, .ref = at("file"), .offset = 50, .size = 51,
                             .limit = 100};

    put_text("file", "x");
    ck_assert_int_eq(serve(call), EFBIG);
    call.mode = FALLOC_FL_KEEP_SIZE;
    served(call);
    ck_assert_uint_eq(attr_of("file").size, 1);
    call.mode = 0;
    call.size = 50;
    served(call);
    ck_assert_uint_eq(attr_of("file").size, 100);
    call.mode = FALLOC_FL_INSERT_RANGE;
    ck_assert_int_eq(serve(call), EFBIG);
    call.size = UINT64_MAX;
    ck_assert_int_eq(serve(call), EFBIG);
}
END_TEST

START_TEST(a_range_is_copied_inside)
{
    struct wire_call call = {.op = WIRE_COPY_RANGE, .ref = at("a"), .offset = 2, .ref2 = at("b"),
                             .offset2 = 1, .size = 100};

    put_text("a", "0123456789");
    put_text("b", "abcdefghijklm");
    served(call);
    ck_assert_uint_eq(bed.reply.size, 8);
    expect_text("b", "a23456789jklm");
    call.offset = 10;
    served(call);
    ck_assert_uint_eq(bed.reply.size, 0);
    call.offset = 0;
    call.limit = 10;
    ck_assert_int_eq(serve(call), EFBIG);
    call.limit = 11;
    served(call);
    call.ref2 = at("a");
    ck_assert_int_eq(serve(call), EINVAL);
    call.ref2 = at("");
    ck_assert_int_eq(serve(call), EISDIR);
}
END_TEST

START_TEST(files_and_directories_are_synced)
{
    put_text("file", "x");
    served((struct wire_call){.op = WIRE_FSYNC, .ref = at("file")});
    served((struct wire_call){.op = WIRE_FSYNC, .ref = at("file"), .flags = 1});
    served((struct wire_call){.op = WIRE_FSYNC, .ref = at("")});
    served((struct wire_call){.op = WIRE_FSYNC, .ref = by(opened("file", O_WRONLY))});
    served((struct wire_call){.op = WIRE_OPENDIR, .ref = at("")});
    served((struct wire_call){.op = WIRE_FSYNC, .ref = by(bed.reply.handle)});
}
END_TEST

/* ---- Rights ------------------------------------------------------------------------------------ */

static uint64_t effective(void)
{
    char line[256];
    unsigned long long value = 0;
    cleanup_file FILE *f = fopen("/proc/thread-self/status", "r");

    while (f != NULL && fgets(line, sizeof line, f) != NULL) {
        if (sscanf(line, "CapEff: %llx", &value) == 1) {
            break;
        }
    }
    return value;
}

static void *limited(void *arg)
{
    const uint64_t fsetid = UINT64_C(1) << 4;
    uint64_t all = effective();

    if (files_limit_thread(UINT64_MAX) < 0 || effective() != (all & ~fsetid) ||
        files_limit_thread(3) < 0 || effective() != (all & 3) || files_limit_thread(3) < 0 ||
        files_limit_thread(12) < 0 || effective() != (all & 12) || files_limit_thread(0) < 0 ||
        effective() != 0) {
        return NULL;
    }
    return arg;
}

START_TEST(a_thread_is_limited_and_no_other)
{
    uint64_t before = effective();
    pthread_t thread;
    void *result;

    ck_assert_int_eq(pthread_create(&thread, NULL, limited, &bed), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_nonnull(result);
    ck_assert_uint_eq(effective(), before);
}
END_TEST

/* A file that `arg` names, made and read as another user; the thread is itself again afterwards. */
static void *as_another_user(void *arg)
{
    const struct sandbox_rights rights = {
        .known = true, .uid = 4321, .gid = 8765, .groups = {77}, .group_count = 1};
    uint64_t all = effective() & ~(UINT64_C(1) << 4);
    struct stat st;
    int fd;

    if (files_act_as(&rights) < 0 || files_act_as(&rights) < 0 || effective() != 0 ||
        open("/etc/shadow", O_RDONLY) >= 0 || errno != EACCES) {
        return NULL;
    }
    fd = open(arg, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_uid != 4321 || st.st_gid != 8765) {
        return NULL;
    }
    if (fchown(fd, (uid_t)-1, 77) < 0 || fchown(fd, 0, (gid_t)-1) == 0) { /* its group; not its to give */
        return NULL;
    }
    close(fd);
    if (files_limit_thread(UINT64_MAX) < 0 || effective() != all || setfsuid((uid_t)-1) != 0 ||
        setfsgid((gid_t)-1) != 0) {
        return NULL;
    }
    fd = open("/etc/shadow", O_RDONLY);
    return fd >= 0 && close(fd) == 0 ? arg : NULL;
}

START_TEST(a_thread_acts_as_another_user_and_no_other_does)
{
    char dir[] = "/tmp/test-rights.XXXXXX";
    char path[64];
    pthread_t thread;
    void *result;

    if (geteuid() != 0) {
        return; /* who is not root cannot be somebody else */
    }
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(chmod(dir, 0777), 0);
    snprintf(path, sizeof path, "%s/file", dir);
    ck_assert_int_eq(pthread_create(&thread, NULL, as_another_user, path), 0);
    ck_assert_int_eq(pthread_join(thread, &result), 0);
    ck_assert_ptr_nonnull(result);
    ck_assert_int_eq(setfsuid((uid_t)-1), 0);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

UNIT_SUITE(files_data)
{
    tcase_add_checked_fixture(tcase, files_bed_open, files_bed_close);
    tcase_add_test(tcase, a_planted_fifo_socket_or_link_is_refused_and_not_opened);
    tcase_add_test(tcase, a_device_is_never_opened);
    tcase_add_test(tcase, a_directory_is_no_file);
    tcase_add_test(tcase, a_file_over_the_limit_is_opened_for_writing_only);
    tcase_add_test(tcase, flags_that_are_not_the_callers_are_ignored);
    tcase_add_test(tcase, creating_makes_a_file_or_opens_the_one_that_is_there);
    tcase_add_test(tcase, a_handle_that_was_released_is_never_anothers);
    tcase_add_test(tcase, bytes_are_read_where_they_are);
    tcase_add_test(tcase, one_reply_carries_a_mebibyte_at_most);
    tcase_add_test(tcase, a_write_that_would_pass_the_limit_writes_nothing);
    tcase_add_test(tcase, an_appending_write_says_where_it_went);
    tcase_add_test(tcase, threads_that_append_at_once_are_each_told_their_own_place);
    tcase_add_test(tcase, a_release_during_a_read_does_no_harm);
    tcase_add_test(tcase, a_sparse_file_keeps_its_holes);
    tcase_add_test(tcase, allocation_keeps_to_the_limit);
    tcase_add_test(tcase, a_range_is_copied_inside);
    tcase_add_test(tcase, files_and_directories_are_synced);
    tcase_add_test(tcase, a_thread_is_limited_and_no_other);
    tcase_add_test(tcase, a_thread_acts_as_another_user_and_no_other_does);
}
