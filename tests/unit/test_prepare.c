/* `hand prepare`. */
#include "hand/prepare.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/cleanup.h"

static char dir[] = "/tmp/handsfs-prepare-XXXXXX";
static struct error err;

static void begin(void)
{
    memset(dir + strlen(dir) - 6, 'X', 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(chdir(dir), 0);
    err = (struct error){0};
}

static void end(void)
{
    static const char *const names[] = {"d", "from", "to", "socket", "link"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        (void)!remove(names[i]);
    }
    ck_assert_int_eq(chdir("/"), 0);
    ck_assert_int_eq(rmdir(dir), 0);
}

/* One step after the other; texts are copied, since steps are cut. */
static int run(const char *first, const char *second)
{
    cleanup_free char *a = strdup(first);
    cleanup_free char *b = second != NULL ? strdup(second) : NULL;
    char *steps[] = {a, b};

    return prepare_run(second != NULL ? 2 : 1, steps, &err);
}

START_TEST(a_directory_is_made_with_its_mode_whatever_the_umask_is_and_again_is_no_error)
{
    struct stat st;

    umask(077);
    ck_assert_msg(run("make=1777:-:-:d", "make=0750:-:-:d") == 0, "%s", err.message);
    ck_assert_int_eq(stat("d", &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0750);
}
END_TEST

START_TEST(a_directory_gets_its_owner)
{
    struct stat st;

    if (geteuid() != 0) {
        return; /* only root gives things away */
    }
    ck_assert_msg(run("make=0700:1234:5678:d", NULL) == 0, "%s", err.message);
    ck_assert_int_eq(stat("d", &st), 0);
    ck_assert_uint_eq(st.st_uid, 1234);
    ck_assert_uint_eq(st.st_gid, 5678);
}
END_TEST

START_TEST(a_link_is_no_directory_to_be_made)
{
    ck_assert_int_eq(symlink("/tmp", "link"), 0);
    ck_assert_int_eq(run("make=0777:-:-:link", NULL), -1);
}
END_TEST

START_TEST(publish_replaces_what_has_the_name)
{
    cleanup_fd int from = open("from", O_CREAT | O_WRONLY, 0755);
    cleanup_fd int to = open("to", O_CREAT | O_WRONLY, 0600);
    struct stat st;

    ck_assert_int_eq(fchmod(from, 0755), 0); /* whatever the umask is */
    ck_assert_msg(from >= 0 && to >= 0 && run("publish=from:to", NULL) == 0, "%s", err.message);
    ck_assert_int_eq(stat("to", &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0755);
    ck_assert_int_eq(access("from", F_OK), -1);
}
END_TEST

START_TEST(a_socket_listens_or_does_not)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    ck_assert_int_eq(run("listens=socket", NULL), -1);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(run("listens=socket", NULL), -1);
    ck_assert_int_eq(listen(fd, 5), 0);
    ck_assert_msg(run("listens=socket", "await=socket") == 0, "%s", err.message);
}
END_TEST

START_TEST(the_first_step_that_fails_is_the_last)
{
    ck_assert_int_eq(run("publish=nothing:to", "make=0700:-:-:d"), -1);
    ck_assert_int_eq(access("d", F_OK), -1);
}
END_TEST

START_TEST(what_is_no_step_is_refused)
{
    static const char *const rows[] = {"",
                                       "cut-networks",
                                       "make",
                                       "make=0700",
                                       "make=0700:0:0",
                                       "make=8:0:0:d",
                                       "make=-1:0:0:d",
                                       "make=0700:-1:0:d",
                                       "make=0700:4294967296:0:d",
                                       "publish=from",
                                       "awaits=socket"};

    ck_assert_int_eq(run(rows[_i], NULL), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
}
END_TEST

/* In a network of its own, with an interface that is up and a route over it. */
static int cut_a_network(void)
{
    static const char *const set_up[] = {"ip link set lo up", "ip link add h0 type veth peer name h1",
                                         "ip addr add 198.18.99.1/24 dev h0", "ip link set h1 up",
                                         "ip link set h0 up"};
    char line[256];
    int lines = 0;

    if (unshare(CLONE_NEWNET) < 0) {
        return 77;
    }
    for (size_t i = 0; i < sizeof set_up / sizeof set_up[0]; i++) {
        pid_t pid = fork();
        int status;

        if (pid == 0) {
            execl("/bin/sh", "sh", "-c", set_up[i], (char *)NULL);
            _exit(127);
        }
        if (waitpid(pid, &status, 0) < 0 || status != 0) {
            return 77;
        }
    }
    for (int turn = 0; turn < 2; turn++) {
        cleanup_file FILE *routes = fopen("/proc/net/route", "re");

        for (lines = 0; routes != NULL && fgets(line, sizeof line, routes) != NULL;) {
            lines++;
        }
        if (turn == 0 && (lines < 2 || run("cut-network", NULL) < 0)) {
            return lines < 2 ? 77 : 1;
        }
    }
    return lines == 1 ? 0 : 2;
}

START_TEST(a_network_that_was_cut_has_no_route_left)
{
    pid_t pid = fork();
    int status = 0;

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        _exit(cut_a_network());
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_msg(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 77, "%d", status);
}
END_TEST

UNIT_SUITE(prepare)
{
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase,
                   a_directory_is_made_with_its_mode_whatever_the_umask_is_and_again_is_no_error);
    tcase_add_test(tcase, a_directory_gets_its_owner);
    tcase_add_test(tcase, a_link_is_no_directory_to_be_made);
    tcase_add_test(tcase, publish_replaces_what_has_the_name);
    tcase_add_test(tcase, a_socket_listens_or_does_not);
    tcase_add_test(tcase, the_first_step_that_fails_is_the_last);
    tcase_add_loop_test(tcase, what_is_no_step_is_refused, 0, 11);
    tcase_add_test(tcase, a_network_that_was_cut_has_no_route_left);
}
