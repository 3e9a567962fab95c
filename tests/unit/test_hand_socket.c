/* The built hand with a socket that it binds itself, `hand connect`, and bytes at random. */
#include "tests/unit/hand_driver.h"
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct hand hand;
static struct host host;
static struct outcome o;

/* Runs the program with `fd` as its standard input and output. */
static pid_t program(int fd, const char *const argv[])
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        dup2(fd, 0);
        dup2(fd, 1);
        execv(getenv("HANDSFS_HAND"), (char *const *)argv);
        _exit(127);
    }
    ck_assert_int_gt(pid, 0);
    close(fd);
    return pid;
}

static void serve(void)
{
    int ends[2];
    char word[7] = "";

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    hand.pid = program(ends[1], (const char *const[]){"hand", "serve", "--workdir", hand.workdir,
                                                      "--socket", hand.socket, "--ready-fd", "1", NULL});
    ck_assert_int_eq(recv(ends[0], word, 6, MSG_WAITALL), 6);
    ck_assert_str_eq(word, "ready\n");
    close(ends[0]);
}

static void setup(void)
{
    hand = (struct hand){.pid = 0};
    snprintf(hand.folder, sizeof hand.folder, "/tmp/test-hand.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(hand.folder));
    snprintf(hand.workdir, sizeof hand.workdir, "%s/work", hand.folder);
    snprintf(hand.socket, sizeof hand.socket, "%s/socket", hand.folder);
    serve();
    outcome_init(&o);
}

static void teardown(void)
{
    outcome_release(&o);
    ck_assert_int_eq(hand_stop(&hand), 0);
}

START_TEST(its_own_socket_is_the_owners_alone)
{
    struct stat st;

    ck_assert_int_eq(lstat(hand.socket, &st), 0);
    ck_assert(S_ISSOCK(st.st_mode));
    ck_assert_int_eq(st.st_mode & 0777, 0600);
    host_open(&host, &hand, 1);
    outcome_release(&o);
    host_run(&host, "umask", &o);
    ck_assert_mem_eq(o.out[0].data, "00", 2);
    ck_assert_uint_gt(o.out[0].length, 4);
    host_close(&host);
}
END_TEST

START_TEST(a_socket_that_is_left_from_an_earlier_one_is_replaced)
{
    ck_assert_int_eq(kill(hand.pid, SIGKILL), 0);
    ck_assert_int_eq(waitpid(hand.pid, NULL, 0), hand.pid);
    ck_assert_int_eq(access(hand.socket, F_OK), 0);
    serve();
    host_open(&host, &hand, 1);
    host_close(&host);
}
END_TEST

START_TEST(a_hand_that_was_told_to_end_leaves_no_socket)
{
    ck_assert_int_eq(kill(hand.pid, SIGTERM), 0);
    ck_assert_int_eq(waitpid(hand.pid, NULL, 0), hand.pid);
    ck_assert_int_ne(access(hand.socket, F_OK), 0);
    serve();
}
END_TEST

static pid_t relay(int *ret_fd)
{
    int ends[2];

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    *ret_fd = ends[0];
    return program(ends[1], (const char *const[]){"hand", "connect", "--socket", hand.socket, NULL});
}

START_TEST(a_relay_carries_both_ways_and_ends_with_its_input)
{
    int fd, status;
    pid_t pid = relay(&fd);

    host_open_at(&host, &hand, 1, fd);
    outcome_release(&o);
    host_run(&host, "head -c 1048576 /dev/urandom | tee sent; sha256sum <sent >&2", &o);
    ck_assert_uint_eq(o.out[0].length, 1u << 20);
    shutdown(host.fd, SHUT_WR);
    ck_assert(host_sees_end(&host));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    host_close(&host);
}
END_TEST

START_TEST(a_relay_ends_with_the_hand)
{
    int fd, status;
    pid_t pid = relay(&fd);

    host_open_at(&host, &hand, 1, fd);
    host_send_empty(&host, WIRE_WELCOME, 1); /* a fault: the hand hangs up */
    ck_assert(host_sees_end(&host));
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    host_close(&host);
}
END_TEST

START_TEST(a_relay_speaks_with_the_process_that_it_was_told_only)
{
    int fd, status;
    int ends[2];
    pid_t pid;
    char byte;

    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    fd = ends[0];
    pid = program(ends[1], (const char *const[]){"hand", "connect", "--socket", hand.socket, "--peer-pid", "1", NULL});
    ck_assert_int_eq(recv(fd, &byte, 1, 0), 0);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_ne(status, 0);
    close(fd);
}
END_TEST

START_TEST(a_relay_without_a_hand_says_so)
{
    int fd, status;
    pid_t pid;

    unlink(hand.socket);
    pid = relay(&fd);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    ck_assert_int_ne(WEXITSTATUS(status), 0);
    close(fd);
}
END_TEST

/* A frame of a random type with a random payload, now and then of a plausible shape. */
static void put_random(struct buffer *out, unsigned *seed)
{
    static const enum wire_type types[] = {
        WIRE_HELLO,       WIRE_PING,        WIRE_CALL,        WIRE_CANCEL,      WIRE_EXEC,
        WIRE_EXEC_INPUT,  WIRE_EXEC_EOF,    WIRE_EXEC_SIGNAL, WIRE_EXEC_KILL,   WIRE_EXEC_CREDIT,
        WIRE_EXEC_ATTACH, WIRE_EXEC_FORGET, WIRE_RESULT,      WIRE_EXEC_OUTPUT, WIRE_CALL};
    enum wire_type type = types[(unsigned)rand_r(seed) % (sizeof types / sizeof types[0])];
    size_t frame = wire_begin_frame(out, type, (unsigned)rand_r(seed) % 4);
    int length = rand_r(seed) % 40;

    if (type == WIRE_EXEC && rand_r(seed) % 2 == 0) {
        struct wire_exec exec = {
            .command = {"cat; sleep 60 & true", 20},
            .cwd = {"", 0},
            .env = (const uint8_t *)"",
            .has_stdin = rand_r(seed) % 2 == 0,
            .keep = (unsigned)rand_r(seed) % 9,
        };

        ck_assert_int_eq(wire_put_exec(out, &exec), 0);
        length = 0;
    }
    for (int i = 0; i < length; i++) {
        ck_assert_int_eq(wire_put_u8(out, rand_r(seed) % 3 != 0 ? 0 : (uint8_t)rand_r(seed)), 0);
    }
    wire_end_frame(out, frame);
}

START_TEST(frames_at_random_do_not_end_the_hand)
{
    unsigned seed = 20;

    for (unsigned i = 0; i < 300; i++) {
        struct host attacker;

        host_open(&attacker, &hand, (uint8_t)(i % 3));
        for (unsigned k = 0; k < 20; k++) {
            cleanup_buffer struct buffer out = BUFFER_INIT(4096);

            put_random(&out, &seed);
            if (send(attacker.fd, out.data, out.length, MSG_NOSIGNAL) < 0) {
                break;
            }
        }
        host_close(&attacker);
    }
    host_open(&host, &hand, 77);
    outcome_release(&o);
    host_run(&host, "echo fine", &o);
    ck_assert_uint_eq(o.out[0].length, 5);
    host_close(&host);
}
END_TEST

UNIT_SUITE(hand_socket)
{
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_add_test(tcase, its_own_socket_is_the_owners_alone);
    tcase_add_test(tcase, a_socket_that_is_left_from_an_earlier_one_is_replaced);
    tcase_add_test(tcase, a_hand_that_was_told_to_end_leaves_no_socket);
    tcase_add_test(tcase, a_relay_carries_both_ways_and_ends_with_its_input);
    tcase_add_test(tcase, a_relay_ends_with_the_hand);
    tcase_add_test(tcase, a_relay_speaks_with_the_process_that_it_was_told_only);
    tcase_add_test(tcase, a_relay_without_a_hand_says_so);
    tcase_add_test(tcase, frames_at_random_do_not_end_the_hand);
}
