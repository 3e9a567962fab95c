/* `.handsfs/`: conversations through a file. */
#include "tests/unit/mount_bed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/cleanup.h"

static bool has_started(void)
{
    return mount_bed.execs > 0;
}

static bool has_cancelled(void)
{
    return mount_bed.cancels > 0;
}

static void count_execs(void *arg)
{
    memcpy(arg, &mount_bed.execs, sizeof mount_bed.execs);
}

static unsigned execs(void)
{
    unsigned count = 0;

    on_loop(count_execs, &count, sizeof count);
    return count;
}

static int conversation(void)
{
    int fd = open(outer(".handsfs/exec"), O_RDWR | O_CLOEXEC);

    ck_assert_msg(fd >= 0, "%s", strerror(errno));
    return fd;
}

static void say(int fd, const char *text)
{
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* Reads to the end, `piece` bytes at once. */
static void expect_answer(int fd, const char *expected, size_t piece)
{
    char got[4096] = "";
    size_t n = 0;
    ssize_t r;

    while ((r = read(fd, got + n, piece)) > 0) {
        n += (size_t)r;
    }
    ck_assert_int_eq(r, 0);
    got[n] = '\0';
    ck_assert_str_eq(got, expected);
}

START_TEST(a_request_comes_in_pieces_and_so_does_its_answer)
{
    cleanup_fd int fd = conversation();

    say(fd, "uname ");
    say(fd, "-s\n");
    expect_answer(fd, "uname -s\n", 4);
    ck_assert_uint_eq(execs(), 1);
}
END_TEST

START_TEST(one_conversation_has_many_requests)
{
    cleanup_fd int fd = conversation();

    say(fd, "one\n");
    expect_answer(fd, "one\n", 100);
    say(fd, "two\n");
    expect_answer(fd, "two\n", 100);
}
END_TEST

START_TEST(conversations_do_not_hear_each_other)
{
    cleanup_fd int fd = conversation();
    cleanup_fd int other = conversation();

    say(fd, "one\n");
    say(other, "two\n");
    expect_answer(fd, "one\n", 100);
    expect_answer(other, "two\n", 100);
}
END_TEST

START_TEST(who_asks_nothing_is_answered_nothing)
{
    cleanup_fd int fd = conversation();

    expect_answer(fd, "", 100);
    ck_assert_uint_eq(execs(), 0);
}
END_TEST

static int ask_and_hang(void)
{
    int fd = open(outer(".handsfs/exec"), O_RDWR);
    char data[16];

    return write(fd, "hang", 4) == 4 && read(fd, data, sizeof data) < 0 ? errno : 0;
}

START_TEST(a_command_ends_with_who_asked_for_it)
{
    pid_t child = in_child(ask_and_hang);

    wait_until(has_started);
    ck_assert_int_eq(kill(child, SIGTERM), 0);
    ck_assert(WIFSIGNALED(end_of_child(child)));
    wait_until(has_cancelled);
}
END_TEST

START_TEST(closing_the_mount_cancels_a_command)
{
    pid_t child = in_child(ask_and_hang);

    wait_until(has_started);
    mount_bed_unmount();
    ck_assert_int_eq(WEXITSTATUS(end_of_child(child)), ECONNABORTED);
}
END_TEST

START_TEST(a_shell_can_truncate_it)
{
    write_text(outer(".handsfs/exec"), "true\n");
}
END_TEST

START_TEST(the_directory_is_not_listed_and_hides_what_is_named_as_it)
{
    DIR *listing;
    const struct dirent *entry;
    unsigned files = 0;

    ck_assert_int_eq(mkdir(inner(".handsfs"), 0755), 0);
    write_text(inner(".handsfs/evil"), "x");
    listing = opendir(mount_bed.mount);
    ck_assert_ptr_nonnull(listing);
    while ((entry = readdir(listing)) != NULL) {
        ck_assert_str_ne(entry->d_name, ".handsfs");
    }
    closedir(listing);
    listing = opendir(outer(".handsfs"));
    ck_assert_ptr_nonnull(listing);
    while ((entry = readdir(listing)) != NULL) {
        ck_assert_str_ne(entry->d_name, "evil");
        files += entry->d_name[0] != '.';
    }
    closedir(listing);
    ck_assert_uint_eq(files, 2);
}
END_TEST

static int errno_of(int result)
{
    return result == 0 ? 0 : errno;
}

START_TEST(nothing_can_be_made_moved_or_removed_there)
{
    write_text(outer("a"), "1");
    ck_assert_int_eq(open_errno(outer(".handsfs/new"), O_WRONLY | O_CREAT), EPERM);
    ck_assert_int_eq(errno_of(mkdir(outer(".handsfs/new"), 0755)), EPERM);
    ck_assert_int_eq(errno_of(unlink(outer(".handsfs/exec"))), EPERM);
    ck_assert_int_eq(errno_of(rename(outer("a"), outer(".handsfs/a"))), EPERM);
    ck_assert_int_eq(errno_of(rename(outer(".handsfs/exec"), outer("b"))), EPERM);
    ck_assert_int_eq(errno_of(rename(outer(".handsfs"), outer("b"))), EPERM);
    ck_assert_int_eq(errno_of(link(outer(".handsfs/exec"), outer("b"))), EPERM);
    ck_assert_int_eq(errno_of(chmod(outer(".handsfs/exec"), 0666)), EPERM);
}
END_TEST

START_TEST(the_status_can_be_read)
{
    expect_content(outer(".handsfs/status"), "{\"state\": \"up\"}\n");
}
END_TEST

UNIT_SUITE(control_files)
{
    if (!mount_bed_possible()) {
        return;
    }
    tcase_add_checked_fixture(tcase, mount_bed_default, mount_bed_close);
    tcase_add_test(tcase, a_request_comes_in_pieces_and_so_does_its_answer);
    tcase_add_test(tcase, one_conversation_has_many_requests);
    tcase_add_test(tcase, conversations_do_not_hear_each_other);
    tcase_add_test(tcase, who_asks_nothing_is_answered_nothing);
    tcase_add_test(tcase, a_command_ends_with_who_asked_for_it);
    tcase_add_test(tcase, closing_the_mount_cancels_a_command);
    tcase_add_test(tcase, a_shell_can_truncate_it);
    tcase_add_test(tcase, the_directory_is_not_listed_and_hides_what_is_named_as_it);
    tcase_add_test(tcase, nothing_can_be_made_moved_or_removed_there);
    tcase_add_test(tcase, the_status_can_be_read);
}
