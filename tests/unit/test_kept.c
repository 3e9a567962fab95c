/* Files that are given to other files inside between a program's look at the name and what it does then. */
#include "tests/unit/mount_bed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fs/face.h"
#include "sandbox/cleanup.h"

/* ---- In the serving process ----------------------------------------------------------------------- */

static atomic_uint version; /* of what is called "a" inside */

/* A file of a length and content of its own takes the name "a". */
static void replace_file(void)
{
    unsigned n = atomic_fetch_add(&version, 1) + 1;
    char text[64];
    int fd = open(inner("new"), O_WRONLY | O_CREAT | O_EXCL, 0644);
    int length = snprintf(text, sizeof text, "%u%*s.", n, (int)(n % 7), "");

    if (write(fd, text, (size_t)length) != length || close(fd) < 0 ||
        rename(inner("new"), inner("a")) < 0) {
        abort();
    }
}

static void replace_link(void)
{
    char text[64];

    snprintf(text, sizeof text, "to-%u", atomic_fetch_add(&version, 1) + 1);
    if (symlink(text, inner("new")) < 0 || rename(inner("new"), inner("a")) < 0) {
        abort();
    }
}

static void exchange_directories(void)
{
    if (syscall(SYS_renameat2, AT_FDCWD, inner("d"), AT_FDCWD, inner("e"), RENAME_EXCHANGE) < 0) {
        abort();
    }
}

struct trap {
    enum wire_op op;
    void (*what)(void);
};

static void set_trap(void *arg)
{
    struct trap trap;

    memcpy(&trap, arg, sizeof trap);
    files_link_before(mount_bed.link, trap.op, trap.what);
}

/* From now on `what` happens before each such call is served. */
static void before(enum wire_op op, void (*what)(void))
{
    struct trap trap;

    memset(&trap, 0, sizeof trap); /* its padding, too, goes over a socket */
    trap.op = op;
    trap.what = what;
    on_loop(set_trap, &trap, sizeof trap);
}

static void set_kept_ms(void *arg)
{
    memcpy(&mount_bed.fs->kept_ms, arg, sizeof mount_bed.fs->kept_ms);
}

/* How long something is kept, and after how long nothing is kept any more. */
static void keep_for(uint64_t ms)
{
    on_loop(set_kept_ms, &ms, sizeof ms);
}

static void begin(void *arg __attribute__((unused)))
{
    kept_begin(mount_bed.fs);
}

static atomic_uint holds; /* lookups that kept something */

static void count_hold(void)
{
    atomic_fetch_add(&holds, 1);
}

static void has_held(void *arg)
{
    bool held = atomic_load(&holds) > 0;

    memcpy(arg, &held, sizeof held);
}

static unsigned count_descriptors(void)
{
    DIR *listing = opendir("/proc/self/fd");
    unsigned n = 0;

    while (readdir(listing) != NULL) {
        n++;
    }
    closedir(listing);
    return n;
}

static void count_for_test(void *arg)
{
    unsigned n = count_descriptors();

    memcpy(arg, &n, sizeof n);
}

static unsigned descriptors(void)
{
    unsigned n = 0;

    on_loop(count_for_test, &n, sizeof n);
    return n;
}

/* ---- Tests ---------------------------------------------------------------------------------------- */

START_TEST(an_open_gets_a_whole_file_though_each_is_replaced_before_it)
{
    write_text(inner("a"), "0.");
    before(WIRE_OPEN, replace_file);
    for (int i = 0; i < 50; i++) {
        cleanup_fd int fd = open(outer("a"), O_RDONLY | O_CLOEXEC);
        char text[64] = "";
        unsigned n;
        int spaces = -1;

        ck_assert_msg(fd >= 0, "round %d: %s", i, strerror(errno));
        ck_assert_int_gt(read(fd, text, sizeof text - 1), 0);
        n = (unsigned)strtoul(text, NULL, 10);
        spaces = (int)(strchr(text, '.') - strpbrk(text, " ."));
        ck_assert_msg(spaces == (int)(n % 7), "\"%s\"", text);
    }
}
END_TEST

START_TEST(a_link_is_read_though_each_is_replaced_before_it)
{
    ck_assert_int_eq(symlink("to-0", inner("a")), 0);
    before(WIRE_READLINK, replace_link);
    for (int i = 0; i < 20; i++) {
        char text[64] = "";

        ck_assert_msg(readlink(outer("a"), text, sizeof text - 1) > 0, "round %d: %s", i,
                      strerror(errno));
        ck_assert_int_eq(strncmp(text, "to-", 3), 0);
    }
}
END_TEST

START_TEST(a_directory_is_listed_though_it_is_exchanged_before_each_opening)
{
    ck_assert_int_eq(mkdir(inner("d"), 0755), 0);
    ck_assert_int_eq(mkdir(inner("e"), 0755), 0);
    write_text(inner("d/x"), "");
    write_text(inner("e/x"), "");
    before(WIRE_OPENDIR, exchange_directories);
    for (int i = 0; i < 20; i++) {
        cleanup_fd int fd = open(outer("d"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        ck_assert_msg(fd >= 0, "round %d: %s", i, strerror(errno));
    }
}
END_TEST

/* The first one has the kernel look at the name again; what that finds is what is opened. */
static void open_with_trap(void)
{
    write_text(inner("a"), "0.");
    before(WIRE_OPEN, replace_file);
    ck_assert_int_eq(open_errno(outer("a"), O_RDONLY), 0);
    before(WIRE_OPEN, NULL);
}

static void look_at_many(unsigned count)
{
    struct stat st;
    char name[32];

    for (unsigned i = 0; i < count; i++) {
        snprintf(name, sizeof name, "many-%u", i);
        write_text(inner(name), "");
        ck_assert_int_eq(lstat(outer(name), &st), 0);
    }
}

START_TEST(what_is_kept_is_bounded_and_gone_after_a_command)
{
    unsigned at_first = descriptors();
    unsigned most;

    keep_for(BED_OP_TIMEOUT_MS);
    open_with_trap();
    look_at_many(3 * KEPT_MAX);
    most = descriptors();
    ck_assert_uint_ge(most, at_first + KEPT_MAX);
    ck_assert_uint_le(most, at_first + KEPT_MAX + 8); /* some are being closed */
    barrier_after();
    while (descriptors() > at_first) {
        usleep(1000);
    }
}
END_TEST

START_TEST(what_is_kept_is_gone_after_a_while)
{
    unsigned at_first = descriptors();
    bool held = false;

    keep_for(200);
    before(WIRE_HOLD, count_hold);
    for (unsigned i = 0; !held; i++) {
        char name[32];

        snprintf(name, sizeof name, "look-%u", i);
        write_text(inner(name), "");
        on_loop(begin, NULL, 0);
        ck_assert_int_eq(access(outer(name), F_OK), 0);
        on_loop(has_held, &held, sizeof held);
    }
    while (descriptors() > at_first) { /* or the test does not end in time */
        usleep(10000);
    }
}
END_TEST

START_TEST(nothing_is_kept_where_nobody_was_told_that_a_file_is_stale)
{
    unsigned at_first = descriptors();

    look_at_many(20);
    ck_assert_uint_le(descriptors(), at_first);
}
END_TEST

START_TEST(a_file_that_was_opened_once_is_the_new_one_at_the_next_open)
{
    open_with_trap();
    write_text(inner("b"), "the last");
    ck_assert_int_eq(rename(inner("b"), inner("a")), 0);
    expect_content(outer("a"), "the last");
}
END_TEST

UNIT_SUITE(kept)
{
    if (!mount_bed_possible()) {
        return;
    }
    tcase_add_checked_fixture(tcase, mount_bed_default, mount_bed_close);
    tcase_add_test(tcase, an_open_gets_a_whole_file_though_each_is_replaced_before_it);
    tcase_add_test(tcase, a_link_is_read_though_each_is_replaced_before_it);
    tcase_add_test(tcase, a_directory_is_listed_though_it_is_exchanged_before_each_opening);
    tcase_add_test(tcase, what_is_kept_is_bounded_and_gone_after_a_command);
    tcase_add_test(tcase, what_is_kept_is_gone_after_a_while);
    tcase_add_test(tcase, nothing_is_kept_where_nobody_was_told_that_a_file_is_stale);
    tcase_add_test(tcase, a_file_that_was_opened_once_is_the_new_one_at_the_next_open);
}
