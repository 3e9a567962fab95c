/* A mount as programs see it, and as it is while the sandbox is silent or gone. */
#include "tests/unit/mount_bed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"

static struct stat stat_of(const char *path)
{
    struct stat st;

    ck_assert_msg(lstat(path, &st) == 0, "%s: %s", path, strerror(errno));
    return st;
}

static int stat_errno(const char *path)
{
    struct stat st;

    return lstat(path, &st) == 0 ? 0 : errno;
}

static bool is_listed(const char *dir, const char *name)
{
    DIR *listing = opendir(dir);
    const struct dirent *entry;
    bool found = false;

    ck_assert_ptr_nonnull(listing);
    while ((entry = readdir(listing)) != NULL) {
        found |= strcmp(entry->d_name, name) == 0;
    }
    closedir(listing);
    return found;
}

static int link_errno(const char *path)
{
    char text[4096];

    return readlink(path, text, sizeof text) >= 0 ? 0 : errno;
}

static void expect_link(const char *path, const char *text)
{
    char got[4096] = "";
    ssize_t n = readlink(path, got, sizeof got - 1);

    ck_assert_msg(n >= 0, "%s: %s", path, strerror(errno));
    ck_assert_str_eq(got, text);
}

static bool is_waiting(void)
{
    return files_link_waits_for(mount_bed.link, WIRE_LOOKUP);
}

/* Freezes the sandbox and has a child look up a name in it. */
static pid_t child_in_lookup(int (*what)(void))
{
    pid_t child;

    stat_of(mount_bed.mount); /* so that the root need not be asked for first */
    set_mode(FILES_LINK_FROZEN);
    child = in_child(what);
    wait_until(is_waiting);
    return child;
}

/* ---- Files -------------------------------------------------------------------------------------- */

START_TEST(what_is_written_is_inside_at_once)
{
    write_text(outer("a"), "hello");
    expect_content(inner("a"), "hello");
    ck_assert_uint_eq(stat_of(outer("a")).st_ino, stat_of(inner("a")).st_ino);
}
END_TEST

START_TEST(the_first_read_after_a_change_inside_is_whole)
{
    char text[3000];

    write_text(inner("a"), "x");
    expect_content(outer("a"), "x");
    for (int i = 0; i < 50; i++) {
        size_t n = (size_t)(i * 59) % sizeof text;

        memset(text, 'a' + i % 26, n);
        text[n] = '\0';
        write_text(inner("a"), text);
        expect_content(outer("a"), text);
    }
}
END_TEST

START_TEST(a_file_replaced_inside_is_the_new_one_at_the_next_open)
{
    write_text(outer("a"), "old");
    write_text(inner("b"), "new one");
    ck_assert_int_eq(rename(inner("b"), inner("a")), 0);
    expect_content(outer("a"), "new one");
}
END_TEST

START_TEST(an_append_goes_behind_what_was_appended_inside)
{
    cleanup_fd int fd = open(outer("a"), O_WRONLY | O_APPEND | O_CREAT, 0644);
    cleanup_fd int other = open(inner("a"), O_WRONLY | O_APPEND);

    ck_assert_int_eq(write(fd, "1", 1), 1);
    ck_assert_int_eq(write(other, "22", 2), 2);
    ck_assert_int_eq(write(fd, "3", 1), 1);
    ck_assert_int_eq(stat_of(outer("a")).st_size, 4);
    expect_content(outer("a"), "1223");
}
END_TEST

START_TEST(an_unlinked_open_file_keeps_its_data_and_leaves_no_trace)
{
    cleanup_fd int fd = open(outer("a"), O_RDWR | O_CREAT, 0644);
    char data[8] = "";
    struct stat st;

    ck_assert_int_eq(write(fd, "data", 4), 4);
    ck_assert_int_eq(unlink(outer("a")), 0);
    ck_assert_int_eq(rmdir(mount_bed.inside) < 0 ? errno : 0, 0);
    ck_assert_int_eq(pread(fd, data, sizeof data, 0), 4);
    ck_assert_str_eq(data, "data");
    ck_assert_int_eq(ftruncate(fd, 2), 0);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(st.st_size, 2);
    ck_assert_uint_eq(st.st_nlink, 0);
    ck_assert_int_eq(mkdir(mount_bed.inside, 0755), 0);
}
END_TEST

START_TEST(hard_links_are_one_file)
{
    write_text(outer("a"), "1");
    ck_assert_int_eq(mkdir(outer("d"), 0755), 0);
    ck_assert_int_eq(link(outer("a"), outer("d/b")), 0);
    ck_assert_uint_eq(stat_of(outer("a")).st_nlink, 2);
    ck_assert_uint_eq(stat_of(outer("a")).st_ino, stat_of(outer("d/b")).st_ino);
    ck_assert_int_eq(unlink(outer("a")), 0);
    expect_content(outer("d/b"), "1");
    ck_assert_uint_eq(stat_of(outer("d/b")).st_nlink, 1);
}
END_TEST

START_TEST(rename_knows_its_flags)
{
    write_text(outer("a"), "1");
    write_text(outer("b"), "2");
    ck_assert_int_eq(renameat2(AT_FDCWD, outer("a"), AT_FDCWD, outer("b"), RENAME_NOREPLACE), -1);
    ck_assert_int_eq(errno, EEXIST);
    ck_assert_int_eq(renameat2(AT_FDCWD, outer("a"), AT_FDCWD, outer("b"), RENAME_EXCHANGE), 0);
    expect_content(outer("a"), "2");
    expect_content(outer("b"), "1");
}
END_TEST

START_TEST(a_file_over_the_cap_can_be_seen_and_not_read)
{
    off_t cap = (off_t)MAX_FILE_BYTES;

    write_text(inner("big"), "");
    ck_assert_int_eq(truncate(inner("big"), cap + 1), 0);
    ck_assert_int_eq(stat_of(outer("big")).st_size, cap + 1);
    ck_assert_int_eq(open_errno(outer("big"), O_RDONLY), EFBIG);
    ck_assert_int_eq(open_errno(outer("big"), O_RDWR), EFBIG);
    ck_assert_int_eq(truncate(outer("big"), cap), 0);
    ck_assert_int_eq(open_errno(outer("big"), O_RDONLY), 0);
    ck_assert_int_eq(truncate(outer("big"), cap + 1), -1);
    ck_assert_int_eq(errno, EFBIG);
}
END_TEST

START_TEST(a_fifo_is_refused_at_once)
{
    ck_assert_int_eq(mkfifo(inner("p"), 0644), 0);
    ck_assert(S_ISSOCK(stat_of(outer("p")).st_mode));
    ck_assert_int_eq(open_errno(outer("p"), O_RDONLY), ENXIO);
    ck_assert_int_eq(mkfifo(outer("q"), 0644), 0);
    ck_assert(S_ISFIFO(stat_of(inner("q")).st_mode));
    ck_assert_int_eq(open_errno(outer("q"), O_RDONLY), ENXIO);
}
END_TEST

START_TEST(a_link_that_leaves_shows_nothing)
{
    ck_assert_int_eq(mkdir(inner("d"), 0755), 0);
    ck_assert_int_eq(symlink("/etc/passwd", inner("d/out")), 0);
    ck_assert_int_eq(symlink("../../etc", inner("d/up")), 0);
    ck_assert_int_eq(symlink("x/../../../etc/passwd", inner("d/round")), 0);
    ck_assert_int_eq(link_errno(outer("d/out")), EPERM);
    ck_assert_int_eq(open_errno(outer("d/out"), O_RDONLY), EPERM);
    ck_assert_int_eq(open_errno(outer("d/up/passwd"), O_RDONLY), EPERM);
    ck_assert_int_eq(open_errno(outer("d/round"), O_RDONLY), EPERM);
}
END_TEST

START_TEST(a_link_that_stays_works)
{
    ck_assert_int_eq(mkdir(inner("d"), 0755), 0);
    write_text(inner("a"), "1");
    ck_assert_int_eq(symlink("../a", inner("d/verbatim")), 0);
    ck_assert_int_eq(symlink("/inside/a", inner("d/absolute")), 0);
    ck_assert_int_eq(symlink("../d/../a", inner("d/round")), 0);
    expect_link(outer("d/verbatim"), "../a");
    expect_link(outer("d/absolute"), "../a");
    expect_link(outer("d/round"), "../a");
    expect_content(outer("d/round"), "1");
}
END_TEST

START_TEST(a_directory_moved_inside_does_not_take_its_links_out)
{
    ck_assert_int_eq(mkdir(inner("a"), 0755), 0);
    ck_assert_int_eq(mkdir(inner("a/b"), 0755), 0);
    ck_assert_int_eq(symlink("../../x", inner("a/b/l")), 0);
    expect_link(outer("a/b/l"), "../../x");
    ck_assert_int_eq(rename(inner("a/b"), inner("b")), 0);
    barrier_after();
    ck_assert_int_eq(link_errno(outer("b/l")), EPERM);
    ck_assert_int_eq(stat_errno(outer("a/b")), ENOENT);
}
END_TEST

/* ---- The barrier -------------------------------------------------------------------------------- */

START_TEST(after_a_command_every_change_shows)
{
    cleanup_fd int fd = -1;
    struct stat st;
    char data[8] = "";

    write_text(inner("old"), "1");
    write_text(inner("grown"), "1");
    fd = open(outer("grown"), O_RDONLY);
    ck_assert_int_eq(pread(fd, data, 8, 0), 1);
    ck_assert_int_eq(stat_errno(outer("old")), 0);
    ck_assert_int_eq(stat_errno(outer("new")), ENOENT);
    barrier_before();
    write_text(inner("new"), "1");
    write_text(inner("grown"), "222");
    ck_assert_int_eq(unlink(inner("old")), 0);
    barrier_after();
    ck_assert_int_eq(stat_errno(outer("new")), 0);
    ck_assert_int_eq(stat_errno(outer("old")), ENOENT);
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(st.st_size, 3);
    ck_assert_int_eq(pread(fd, data, 8, 0), 3);
    ck_assert_str_eq(data, "222");
}
END_TEST

START_TEST(an_open_file_has_its_new_size_after_a_command_that_cut_it)
{
    cleanup_fd int fd = -1;
    char data[8] = "";

    write_text(outer("a"), "long text");
    fd = open(outer("a"), O_RDWR);
    ck_assert_int_eq(pread(fd, data, 4, 0), 4);
    write_text(inner("a"), "cut");
    barrier_after();
    ck_assert_int_eq(lseek(fd, 0, SEEK_END), 3);
    ck_assert_int_eq(pread(fd, data, 8, 0), 3);
    ck_assert_int_eq(pread(fd, data, 8, 4), 0);
}
END_TEST

START_TEST(before_a_command_shared_memory_goes_inside)
{
    cleanup_fd int fd = open(outer("a"), O_RDWR | O_CREAT, 0644);
    char *memory;

    ck_assert_int_eq(ftruncate(fd, 4096), 0);
    memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    memcpy(memory, "mapped", 7);
    barrier_before();
    expect_content(inner("a"), "mapped");
    munmap(memory, 4096);
}
END_TEST

static int stat_slowly(void)
{
    return stat_errno(outer("slow"));
}

START_TEST(what_was_asked_before_a_command_is_not_believed_after_it)
{
    pid_t child;

    write_text(inner("slow"), "1");
    child = child_in_lookup(stat_slowly);
    barrier_after();
    set_mode(FILES_LINK_UP);
    ck_assert_int_eq(end_of_child(child), 0);
    write_text(inner("slow"), "22");
    ck_assert_int_eq(stat_of(outer("slow")).st_size, 2);
}
END_TEST

START_TEST(a_barrier_passes_in_time_while_the_sandbox_is_silent)
{
    uint64_t start;

    write_text(outer("a"), "1");
    set_mode(FILES_LINK_FROZEN);
    start = clock_now_ms();
    barrier_before();
    barrier_after();
    ck_assert_uint_lt(clock_now_ms() - start, BED_PATIENCE_MS);
    set_mode(FILES_LINK_UP);
}
END_TEST

/* ---- A sandbox in trouble ------------------------------------------------------------------------ */

static int stat_root(void)
{
    return stat_errno(mount_bed.mount);
}

static int stat_missing(void)
{
    return stat_errno(outer("missing"));
}

/* Opens the bed by itself. */
START_TEST(a_silent_sandbox_is_a_time_out)
{
    struct fs_options options;

    fs_options_init(&options);
    options.op_timeout_ms = 300;
    mount_bed_open(&options);
    set_mode(FILES_LINK_FROZEN);
    ck_assert_int_eq(stat_errno(outer("a")), ETIMEDOUT);
    ck_assert_int_eq(open_errno(outer("b"), O_WRONLY | O_CREAT), ETIMEDOUT);
    mount_bed_close();
}
END_TEST

START_TEST(a_sandbox_that_is_gone_is_a_host_down)
{
    write_text(outer("a"), "1");
    set_mode(FILES_LINK_GONE);
    barrier_after();
    ck_assert_int_eq(stat_errno(mount_bed.mount), EHOSTDOWN);
    ck_assert_int_eq(stat_errno(outer("a")), EHOSTDOWN);
    ck_assert_int_eq(open_errno(outer("b"), O_WRONLY | O_CREAT), EHOSTDOWN);
}
END_TEST

START_TEST(a_caller_that_is_killed_ends_though_the_sandbox_is_silent)
{
    pid_t child;

    child = child_in_lookup(stat_missing);
    ck_assert_int_eq(kill(child, SIGKILL), 0);
    ck_assert(WIFSIGNALED(end_of_child(child)));
}
END_TEST

static void nothing(int number __attribute__((unused)))
{
}

static int stat_through_signals(void)
{
    struct sigaction action = {.sa_handler = nothing};

    sigaction(SIGUSR1, &action, NULL);
    return stat_errno(outer("a"));
}

START_TEST(a_signal_that_does_not_kill_fails_no_operation)
{
    pid_t child;

    write_text(inner("a"), "1");
    child = child_in_lookup(stat_through_signals);
    ck_assert_int_eq(kill(child, SIGUSR1), 0);
    set_mode(FILES_LINK_UP);
    ck_assert_int_eq(end_of_child(child), 0);
}
END_TEST

static void another_sandbox(void *arg __attribute__((unused)))
{
    fs_sandbox_changed(mount_bed.fs);
}

START_TEST(after_another_sandbox_came_its_files_are_shown)
{
    write_text(outer("a"), "1");
    on_loop(another_sandbox, NULL, 0);
    barrier_after();
    write_text(inner("a"), "22");
    expect_content(outer("a"), "22");
    ck_assert(is_listed(mount_bed.mount, "a"));
}
END_TEST

/* ---- The end ------------------------------------------------------------------------------------- */

START_TEST(a_busy_mount_can_be_closed)
{
    cleanup_fd int fd = open(outer("a"), O_RDWR | O_CREAT, 0644);

    mount_bed_unmount();
    ck_assert_int_eq(write(fd, "x", 1), -1);
    ck_assert(!is_listed(mount_bed.mount, "a"));
}
END_TEST

START_TEST(closing_answers_who_waits)
{
    pid_t child;

    write_text(inner("a"), "1");
    set_mode(FILES_LINK_FROZEN);
    child = in_child(stat_root);
    mount_bed_unmount();
    ck_assert_int_ne(end_of_child(child), -1);
}
END_TEST

START_TEST(what_is_in_shared_memory_is_inside_after_closing)
{
    cleanup_fd int fd = open(outer("a"), O_RDWR | O_CREAT, 0644);
    char *memory;

    ck_assert_int_eq(ftruncate(fd, 4096), 0);
    memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    memcpy(memory, "mapped", 7);
    mount_bed_unmount();
    munmap(memory, 4096);
    expect_content(inner("a"), "mapped");
}
END_TEST

static bool has_ended(void)
{
    return mount_bed.ended;
}

START_TEST(an_unmount_by_somebody_else_is_told)
{
    ck_assert_int_eq(umount2(mount_bed.mount, UMOUNT_NOFOLLOW), 0);
    wait_until(has_ended);
}
END_TEST

UNIT_SUITE(mount)
{
    TCase *bare;

    if (!mount_bed_possible()) {
        return;
    }
    bare = tcase_create("mount without a fixture");
    tcase_add_checked_fixture(tcase, mount_bed_default, mount_bed_close);
    tcase_add_test(bare, a_silent_sandbox_is_a_time_out);
    suite_add_tcase(suite, bare);
    tcase_add_test(tcase, what_is_written_is_inside_at_once);
    tcase_add_test(tcase, the_first_read_after_a_change_inside_is_whole);
    tcase_add_test(tcase, a_file_replaced_inside_is_the_new_one_at_the_next_open);
    tcase_add_test(tcase, an_append_goes_behind_what_was_appended_inside);
    tcase_add_test(tcase, an_unlinked_open_file_keeps_its_data_and_leaves_no_trace);
    tcase_add_test(tcase, hard_links_are_one_file);
    tcase_add_test(tcase, rename_knows_its_flags);
    tcase_add_test(tcase, a_file_over_the_cap_can_be_seen_and_not_read);
    tcase_add_test(tcase, a_fifo_is_refused_at_once);
    tcase_add_test(tcase, a_link_that_leaves_shows_nothing);
    tcase_add_test(tcase, a_link_that_stays_works);
    tcase_add_test(tcase, a_directory_moved_inside_does_not_take_its_links_out);
    tcase_add_test(tcase, after_a_command_every_change_shows);
    tcase_add_test(tcase, an_open_file_has_its_new_size_after_a_command_that_cut_it);
    tcase_add_test(tcase, before_a_command_shared_memory_goes_inside);
    tcase_add_test(tcase, what_was_asked_before_a_command_is_not_believed_after_it);
    tcase_add_test(tcase, a_barrier_passes_in_time_while_the_sandbox_is_silent);
    tcase_add_test(tcase, a_sandbox_that_is_gone_is_a_host_down);
    tcase_add_test(tcase, a_caller_that_is_killed_ends_though_the_sandbox_is_silent);
    tcase_add_test(tcase, a_signal_that_does_not_kill_fails_no_operation);
    tcase_add_test(tcase, after_another_sandbox_came_its_files_are_shown);
    tcase_add_test(tcase, a_busy_mount_can_be_closed);
    tcase_add_test(tcase, closing_answers_who_waits);
    tcase_add_test(tcase, what_is_in_shared_memory_is_inside_after_closing);
    tcase_add_test(tcase, an_unmount_by_somebody_else_is_told);
}
