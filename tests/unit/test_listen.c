#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "exec/client.h"
#include "exec/listen.h"

static char folder[64];
static char path[128];
static struct socket_file file;
static struct error err;

static void start(void)
{
    const char *tmp = getenv("TMPDIR");

    snprintf(folder, sizeof folder, "%.40s/listen-XXXXXX", tmp != NULL ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s.sock", folder);
    file = (struct socket_file){.fd = -1, .folder = -1};
}

static void end(void)
{
    socket_file_remove(&file);
    unlink(path);
    ck_assert_msg(rmdir(folder) == 0, "something is left in the folder");
}

static void create(const char *at)
{
    if (socket_file_create(&file, at, &err) < 0) {
        ck_abort_msg("%s", err.message);
    }
}

/* Leaves the socket behind as a process does that was killed. */
static void abandon(void)
{
    close(file.fd);
    close(file.folder);
    free(file.name);
    file = (struct socket_file){.fd = -1, .folder = -1};
}

START_TEST(the_mode_is_0600_whatever_the_umask)
{
    struct stat st;
    mode_t old = umask(0);

    create(path);
    umask(old);
    ck_assert_int_eq(lstat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode, S_IFSOCK | 0600);
}
END_TEST

START_TEST(a_socket_left_behind_is_replaced)
{
    struct client *client;

    create(path);
    abandon();
    create(path);
    ck_assert_int_eq(client_connect(&client, path, 1000, &err), 0);
    client_close(client);
}
END_TEST

START_TEST(a_live_socket_is_refused_and_lives_on)
{
    struct socket_file second;
    struct client *client;

    create(path);
    ck_assert_int_eq(socket_file_create(&second, path, &err), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_int_eq(client_connect(&client, path, 1000, &err), 0);
    client_close(client);
}
END_TEST

START_TEST(anything_but_a_socket_is_left_alone)
{
    struct stat st;
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);

    close(fd);
    ck_assert_int_eq(socket_file_create(&file, path, &err), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_int_eq(lstat(path, &st), 0);
    ck_assert(S_ISREG(st.st_mode));
    unlink(path);
    ck_assert_int_eq(symlink("nowhere", path), 0);
    ck_assert_int_eq(socket_file_create(&file, path, &err), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
}
END_TEST

START_TEST(a_path_that_is_none_is_refused)
{
    char below[160];

    snprintf(below, sizeof below, "%s/none/s.sock", folder);
    ck_assert_int_eq(socket_file_create(&file, below, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_SUCH_FILE);
    snprintf(below, sizeof below, "%s/", folder);
    ck_assert_int_eq(socket_file_create(&file, below, &err), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
}
END_TEST

START_TEST(a_path_longer_than_an_address_works_at_both_ends)
{
    char deep[300];
    char name[200];
    char at[600];
    struct client *client;

    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(deep, sizeof deep, "%s/%s", folder, name);
    ck_assert_int_eq(mkdir(deep, 0700), 0);
    snprintf(at, sizeof at, "%s/%s", deep, name);
    create(at);
    ck_assert_int_eq(client_connect(&client, at, 1000, &err), 0);
    client_close(client);
    socket_file_remove(&file);
    ck_assert_int_eq(rmdir(deep), 0);
}
END_TEST

START_TEST(what_took_its_place_is_not_removed)
{
    int fd;

    create(path);
    unlink(path);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    close(fd);
    socket_file_remove(&file);
    ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

UNIT_SUITE(listen)
{
    tcase_add_checked_fixture(tcase, start, end);
    tcase_add_test(tcase, the_mode_is_0600_whatever_the_umask);
    tcase_add_test(tcase, a_socket_left_behind_is_replaced);
    tcase_add_test(tcase, a_live_socket_is_refused_and_lives_on);
    tcase_add_test(tcase, anything_but_a_socket_is_left_alone);
    tcase_add_test(tcase, a_path_that_is_none_is_refused);
    tcase_add_test(tcase, a_path_longer_than_an_address_works_at_both_ends);
    tcase_add_test(tcase, what_took_its_place_is_not_removed);
}
