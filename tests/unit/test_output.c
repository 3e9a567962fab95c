/* Standard output that is never waited for: pipes, sockets, files, terminals, and readers that go away. */
#include "mount/output.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/cleanup.h"

#define WAIT_MS 20000
#define MUCH (1u << 20) /* more than any pipe or socket takes at once here */

static struct output output;
static int ours = -1, theirs = -1; /* what is written to, and what is read from */

static void tear_down(void)
{
    close(ours);
    close(theirs);
}

static void open_pipe(void)
{
    int ends[2];

    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    theirs = ends[0];
    ours = ends[1];
    output_open(&output, ours);
}

static void open_socket(void)
{
    int ends[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    theirs = ends[0];
    ours = ends[1];
    output_open(&output, ours);
}

/* The same bytes at the same places, so that a lost or doubled one is seen. */
static uint8_t byte_at(size_t at)
{
    return (uint8_t)(at * 7 + at / 251);
}

static void put(size_t from, size_t length)
{
    cleanup_free uint8_t *data = malloc(length);

    ck_assert_ptr_nonnull(data);
    for (size_t i = 0; i < length; i++) {
        data[i] = byte_at(from + i);
    }
    ck_assert_int_eq(output_put(&output, data, length), 0);
}

/* Reads and flushes in turns until `length` bytes have come. */
static void take(size_t length)
{
    size_t got = 0;
    size_t wrong = 0;

    while (got < length) {
        uint8_t data[65536];
        struct pollfd p = {.fd = theirs, .events = POLLIN};
        ssize_t n;

        ck_assert_int_eq(output_flush(&output), 0);
        ck_assert_msg(poll(&p, 1, WAIT_MS) == 1, "%zu of %zu bytes came", got, length);
        n = read(theirs, data, sizeof data);
        ck_assert_int_gt(n, 0);
        for (ssize_t i = 0; i < n; i++, got++) {
            wrong += data[i] != byte_at(got);
        }
    }
    ck_assert_uint_eq(wrong, 0);
    ck_assert_int_eq(output_flush(&output), 0);
    ck_assert_uint_eq(output_held(&output), 0);
}

static bool blocks(int fd)
{
    return (fcntl(fd, F_GETFL) & O_NONBLOCK) == 0;
}

/* Puts more than the other side takes, and has it taken. */
static void fill_and_take(void)
{
    put(0, MUCH);
    ck_assert_int_eq(output_flush(&output), 0);
    ck_assert_uint_gt(output_held(&output), 0);
    ck_assert_uint_lt(output_held(&output), MUCH);
    put(MUCH, 1000); /* behind what waits */
    take(MUCH + 1000);
    ck_assert(blocks(ours));
}

START_TEST(what_a_full_pipe_does_not_take_is_held_and_comes_in_its_order)
{
    open_pipe();
    fill_and_take();
    output_close(&output);
}
END_TEST

START_TEST(a_full_socket_too)
{
    open_socket();
    fill_and_take();
    output_close(&output);
}
END_TEST

/* As where the pipe is another user's: then it is written to in pieces for which poll(2) says there is room. */
START_TEST(a_pipe_that_cannot_be_opened_anew_is_not_waited_for_either)
{
    open_pipe();
    close(output.fd);
    output.fd = ours;
    output.is_ours = false;
    output.may_block = true;
    fill_and_take();
    output_close(&output);
}
END_TEST

START_TEST(a_full_terminal_too)
{
    theirs = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(theirs, 0);
    ck_assert_int_eq(grantpt(theirs), 0);
    ck_assert_int_eq(unlockpt(theirs), 0);
    ours = open(ptsname(theirs), O_RDWR | O_NOCTTY | O_CLOEXEC);
    ck_assert_int_ge(ours, 0);
    output_open(&output, ours);
    put(0, MUCH);
    ck_assert_int_eq(output_flush(&output), 0); /* comes back though nobody reads */
    ck_assert_uint_gt(output_held(&output), 0);
    ck_assert(blocks(ours));
    output_close(&output);
}
END_TEST

START_TEST(a_file_is_written_where_its_other_writers_are)
{
    char path[] = "/tmp/test-output.XXXXXX";
    char text[8] = "";

    ours = mkostemp(path, O_CLOEXEC);
    ck_assert_int_ge(ours, 0);
    unlink(path);
    theirs = dup(ours);
    ck_assert_int_eq(write(ours, "a", 1), 1);
    output_open(&output, ours);
    ck_assert_int_eq(output_put(&output, "b", 1), 0);
    ck_assert_int_eq(output_flush(&output), 0);
    ck_assert_int_eq(write(theirs, "c", 1), 1);
    output_close(&output);
    ck_assert_int_eq(pread(ours, text, sizeof text - 1, 0), 3);
    ck_assert_str_eq(text, "abc");
}
END_TEST

START_TEST(no_more_than_the_bound_is_held_and_what_does_not_fit_changes_nothing)
{
    open_pipe();
    put(0, OUTPUT_MAX_HELD);
    ck_assert_int_eq(output_put(&output, "x", 1), -1);
    ck_assert_int_eq(errno, ENOBUFS);
    ck_assert_uint_eq(output_held(&output), OUTPUT_MAX_HELD);
    take(OUTPUT_MAX_HELD);
    ck_assert_uint_eq(output.held.capacity, 0); /* the memory is given back */
    put(0, 10);
    take(10);
    output_close(&output);
}
END_TEST

START_TEST(a_reader_that_went_away_is_an_error_and_no_signal_of_a_socket)
{
    open_socket();
    signal(SIGPIPE, SIG_DFL);
    close(theirs);
    theirs = -1;
    put(0, 10);
    ck_assert_int_eq(output_flush(&output), -1);
    ck_assert_int_eq(errno, EPIPE);
    output_close(&output);
}
END_TEST

START_TEST(a_reader_of_a_pipe_that_went_away_is_an_error)
{
    open_pipe();
    signal(SIGPIPE, SIG_IGN); /* as run_signals.c has it: blocked */
    close(theirs);
    theirs = -1;
    put(0, 10);
    ck_assert_int_eq(output_flush(&output), -1);
    ck_assert_int_eq(errno, EPIPE);
    output_close(&output);
}
END_TEST

START_TEST(what_is_no_descriptor_fails_when_there_is_something_to_write)
{
    output_open(&output, 1000);
    ck_assert_int_eq(output_flush(&output), 0);
    put(0, 1);
    ck_assert_int_eq(output_flush(&output), -1);
    ck_assert_int_eq(errno, EBADF);
    output_close(&output);
}
END_TEST

START_TEST(closing_leaves_the_descriptor_that_was_given)
{
    open_pipe();
    ck_assert_int_ne(output.fd, ours);
    output_close(&output);
    ck_assert_int_eq(fcntl(output.fd, F_GETFD), -1);
    ck_assert_int_ne(fcntl(ours, F_GETFD), -1);
}
END_TEST

UNIT_SUITE(output)
{
    tcase_add_checked_fixture(tcase, NULL, tear_down);
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, what_a_full_pipe_does_not_take_is_held_and_comes_in_its_order);
    tcase_add_test(tcase, a_full_socket_too);
    tcase_add_test(tcase, a_pipe_that_cannot_be_opened_anew_is_not_waited_for_either);
    tcase_add_test(tcase, a_full_terminal_too);
    tcase_add_test(tcase, a_file_is_written_where_its_other_writers_are);
    tcase_add_test(tcase, no_more_than_the_bound_is_held_and_what_does_not_fit_changes_nothing);
    tcase_add_test(tcase, a_reader_that_went_away_is_an_error_and_no_signal_of_a_socket);
    tcase_add_test(tcase, a_reader_of_a_pipe_that_went_away_is_an_error);
    tcase_add_test(tcase, what_is_no_descriptor_fails_when_there_is_something_to_write);
    tcase_add_test(tcase, closing_leaves_the_descriptor_that_was_given);
}
