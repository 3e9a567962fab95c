/* The registry of live mounts: who is alive, who is believed, and what is cleaned up. */
#include "mount/mountinfo.h"
#include "mount/mounts.h"
#include "sandbox/cleanup.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>

static char folder[] = "/tmp/handsfs-mounts-XXXXXX";
static struct error err;

static void set_up(void)
{
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(setenv("HANDSFS_STATE_DIR", folder, 1), 0);
    err = (struct error){0};
}

static int remove_in(const char *path)
{
    cleanup_dir DIR *dir = opendir(path);
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        unlinkat(dirfd(dir), entry->d_name, 0);
    }
    return rmdir(path);
}

static void tear_down(void)
{
    char path[64];

    snprintf(path, sizeof path, "%s/mounts", folder);
    remove_in(path);
    ck_assert_int_eq(remove_in(folder), 0);
}

static const struct mount_entry example = {
    .session = (char *)"s1",
    .backend = (char *)"local",
    .mountpoint = (char *)"/nowhere/s1",
    .socket = (char *)"/nowhere/s1.sock",
};

static int files_left(void)
{
    char path[64];
    cleanup_dir DIR *dir = NULL;
    int count = 0;

    snprintf(path, sizeof path, "%s/mounts", folder);
    dir = opendir(path);
    while (dir != NULL && readdir(dir) != NULL) {
        count++;
    }
    return count == 0 ? 0 : count - 2;
}

static int claim(const char *mountpoint)
{
    int lock = -1;

    ck_assert_int_eq(mounts_claim(mountpoint, &lock, &err), 0);
    return lock;
}

/* An entry of a process that is gone. */
static void publish_and_die(const struct mount_entry *entry)
{
    pid_t pid = fork();
    int status;

    if (pid == 0) {
        int lock = -1;

        _exit(mounts_claim(entry->mountpoint, &lock, &err) < 0 || mounts_publish(entry, &err) < 0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}

START_TEST(a_published_mount_is_found_by_its_path_and_its_session)
{
    cleanup_mount_entry struct mount_entry by_path = {0};
    cleanup_mount_entry struct mount_entry by_session = {0};
    int lock = claim(example.mountpoint);
    bool found = false;

    ck_assert_int_eq(mounts_publish(&example, &err), 0);
    ck_assert_int_eq(mounts_find(example.mountpoint, &by_path, &found, &err), 0);
    ck_assert(found && by_path.alive);
    ck_assert_str_eq(by_path.session, "s1");
    ck_assert_int_eq(by_path.pid, getpid());
    ck_assert_int_eq(mounts_find_session("s1", NULL, "local", &by_session, &found, &err), 0);
    ck_assert(found);
    ck_assert_str_eq(by_session.socket, "/nowhere/s1.sock");
    mounts_withdraw(example.mountpoint, lock);
    ck_assert_int_eq(files_left(), 0);
}
END_TEST

START_TEST(a_session_is_looked_for_on_the_backend_that_is_asked_for)
{
    struct mount_entry other = example;
    cleanup_mount_entry struct mount_entry first = {0};
    cleanup_mount_entry struct mount_entry second = {0};
    int locks[2];
    bool found = true;

    other.backend = (char *)"docker";
    other.mountpoint = (char *)"/nowhere/a";
    locks[0] = claim(example.mountpoint);
    locks[1] = claim(other.mountpoint);
    ck_assert_int_eq(mounts_publish(&example, &err), 0);
    ck_assert_int_eq(mounts_publish(&other, &err), 0);
    ck_assert_int_eq(mounts_find_session("s1", "k8s", "k8s", &first, &found, &err), 0);
    ck_assert(!found);
    ck_assert_int_eq(mounts_find_session("s1", NULL, "local", &first, &found, &err), 0);
    ck_assert(found);
    ck_assert_str_eq(first.backend, "local");
    ck_assert_int_eq(mounts_find_session("s1", "docker", "docker", &second, &found, &err), 0);
    ck_assert(found);
    ck_assert_str_eq(second.mountpoint, "/nowhere/a");
    mounts_withdraw(example.mountpoint, locks[0]);
    mounts_withdraw(other.mountpoint, locks[1]);
}
END_TEST

START_TEST(a_mountpoint_is_claimed_by_one_at_a_time)
{
    int lock = claim("/nowhere/s1");
    int second;

    ck_assert_int_ge(lock, 0);
    ck_assert_int_eq(claim("/nowhere/s1"), -1);
    mounts_withdraw("/nowhere/s1", lock);
    second = claim("/nowhere/s1");
    ck_assert_int_ge(second, 0);
    mounts_withdraw("/nowhere/s1", second);
}
END_TEST

START_TEST(a_claim_outlives_its_maker_in_whom_it_was_given_to)
{
    int fds[2];
    int lock = claim("/nowhere/s1");
    pid_t pid;
    int status;
    char byte;

    ck_assert_int_eq(pipe(fds), 0);
    pid = fork();
    if (pid == 0) {
        close(fds[1]);
        _exit(read(fds[0], &byte, 1) != 0);
    }
    close(lock);
    ck_assert_int_eq(claim("/nowhere/s1"), -1);
    close(fds[0]);
    close(fds[1]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    lock = claim("/nowhere/s1");
    ck_assert_int_ge(lock, 0);
    mounts_withdraw("/nowhere/s1", lock);
}
END_TEST

START_TEST(what_was_given_back_is_not_given_back_again)
{
    int lock = claim("/nowhere/s1");
    int again = dup(lock);
    int next;

    mounts_withdraw("/nowhere/s1", lock);
    next = claim("/nowhere/s1");
    ck_assert_int_ge(next, 0);
    mounts_withdraw("/nowhere/s1", again); /* the next one's files must stay */
    ck_assert_int_eq(claim("/nowhere/s1"), -1);
    mounts_withdraw("/nowhere/s1", next);
}
END_TEST

START_TEST(an_entry_whose_process_is_gone_counts_for_nothing_and_is_cleaned)
{
    cleanup_mount_list struct mount_list list = {0};
    cleanup_mount_entry struct mount_entry entry = {0};
    bool found = false;

    publish_and_die(&example);
    ck_assert_int_eq(mounts_find(example.mountpoint, &entry, &found, &err), 0);
    ck_assert(found && !entry.alive);
    ck_assert_int_eq(mounts_list(&list, &err), 0);
    ck_assert_uint_eq(list.count, 0);
    ck_assert_int_eq(files_left(), 0);
}
END_TEST

START_TEST(a_process_that_got_the_same_number_later_is_not_taken_for_the_daemon)
{
    cleanup_mount_entry struct mount_entry entry = {0};
    char path[96];
    cleanup_fd int fd = -1;
    const char *name = NULL;
    cleanup_dir DIR *dir = NULL;
    const struct dirent *file;
    bool found = false;
    int lock = claim(example.mountpoint);
    int n;

    ck_assert_int_eq(mounts_publish(&example, &err), 0);
    snprintf(path, sizeof path, "%s/mounts", folder);
    dir = opendir(path);
    while ((file = readdir(dir)) != NULL && (name = strstr(file->d_name, ".json")) == NULL) {
    }
    ck_assert_ptr_nonnull(name);
    fd = openat(dirfd(dir), file->d_name, O_WRONLY | O_TRUNC);
    n = dprintf(fd,
                "{\"session\":\"s1\",\"backend\":\"local\",\"mountpoint\":\"%s\",\"socket\":\"/x\","
                "\"pid\":%d,\"started\":1}",
                example.mountpoint, (int)getpid());
    ck_assert_int_gt(n, 0);
    ck_assert_int_eq(mounts_find(example.mountpoint, &entry, &found, &err), 0);
    ck_assert(found && !entry.alive);
    mounts_withdraw(example.mountpoint, lock);
}
END_TEST

START_TEST(a_file_that_makes_no_sense_is_no_entry)
{
    static const char *const rows[] = {"", "{", "[]", "{}", "{\"session\":1}", "null", "\xff\xfe"};
    cleanup_mount_list struct mount_list list = {0};
    char path[96];
    cleanup_fd int fd = -1;
    int lock = claim("/nowhere/s1");

    snprintf(path, sizeof path, "%s/mounts/0123456789abcdef.json", folder);
    fd = open(path, O_WRONLY | O_CREAT, 0600);
    ck_assert_int_eq(write(fd, rows[_i], strlen(rows[_i])), (ssize_t)strlen(rows[_i]));
    ck_assert_int_eq(mounts_list(&list, &err), 0);
    ck_assert_uint_eq(list.count, 0);
    mounts_withdraw("/nowhere/s1", lock);
}
END_TEST

START_TEST(a_process_that_has_ended_has_no_start)
{
    pid_t pid = fork();
    siginfo_t info;

    if (pid == 0) {
        _exit(0);
    }
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    ck_assert_uint_eq(process_started(pid), 0); /* a zombie */
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    ck_assert_uint_eq(process_started(pid), 0);
    ck_assert_uint_gt(process_started(getpid()), 0);
}
END_TEST

START_TEST(the_kernels_list_tells_what_is_mounted)
{
    ck_assert_int_eq(mounted_at("/proc"), MOUNTED_OTHER);
    ck_assert_int_eq(mounted_at(folder), MOUNTED_NOTHING);
    ck_assert_int_eq(mounted_at("/proc/"), MOUNTED_NOTHING); /* not a clean path */
}
END_TEST

START_TEST(a_path_is_made_absolute_and_its_links_are_followed)
{
    cleanup_free char *path = NULL;
    cleanup_free char *file = NULL;
    char name[64], link[64], inside[80], expected[80];

    snprintf(name, sizeof name, "%s/real", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    snprintf(inside, sizeof inside, "%s/x.sock", link);
    snprintf(expected, sizeof expected, "%s/x.sock", name);
    ck_assert_int_eq(mkdir(name, 0700), 0);
    ck_assert_int_eq(symlink("real", link), 0);
    ck_assert_int_eq(mountpoint_path(link, &path, &err), 0);
    ck_assert_str_eq(path, name);
    ck_assert_int_eq(absolute_path(inside, &file, &err), 0);
    ck_assert_str_eq(file, expected);
    ck_assert_int_eq(rmdir(name), 0);
}
END_TEST

START_TEST(a_directory_that_is_not_there_has_no_path)
{
    char *path = NULL;

    ck_assert_int_eq(mountpoint_path("/nowhere/at/all", &path, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_SUCH_FILE);
    ck_assert_ptr_null(path);
}
END_TEST

START_TEST(only_a_socket_that_nobody_listens_on_is_removed)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    cleanup_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    cleanup_fd int file = -1;
    struct stat st;

    snprintf(address.sun_path, sizeof address.sun_path, "%s/s", folder);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    remove_stale_socket(address.sun_path);
    ck_assert_int_eq(lstat(address.sun_path, &st), 0);
    close(take_fd(&fd));
    remove_stale_socket(address.sun_path);
    ck_assert_int_eq(lstat(address.sun_path, &st), -1);
    file = open(address.sun_path, O_WRONLY | O_CREAT, 0600);
    remove_stale_socket(address.sun_path);
    ck_assert_int_eq(lstat(address.sun_path, &st), 0);
}
END_TEST

UNIT_SUITE(mounts)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_published_mount_is_found_by_its_path_and_its_session);
    tcase_add_test(tcase, a_session_is_looked_for_on_the_backend_that_is_asked_for);
    tcase_add_test(tcase, a_mountpoint_is_claimed_by_one_at_a_time);
    tcase_add_test(tcase, a_claim_outlives_its_maker_in_whom_it_was_given_to);
    tcase_add_test(tcase, what_was_given_back_is_not_given_back_again);
    tcase_add_test(tcase, an_entry_whose_process_is_gone_counts_for_nothing_and_is_cleaned);
    tcase_add_test(tcase, a_process_that_got_the_same_number_later_is_not_taken_for_the_daemon);
    tcase_add_loop_test(tcase, a_file_that_makes_no_sense_is_no_entry, 0, 7);
    tcase_add_test(tcase, a_process_that_has_ended_has_no_start);
    tcase_add_test(tcase, the_kernels_list_tells_what_is_mounted);
    tcase_add_test(tcase, a_path_is_made_absolute_and_its_links_are_followed);
    tcase_add_test(tcase, a_directory_that_is_not_there_has_no_path);
    tcase_add_test(tcase, only_a_socket_that_nobody_listens_on_is_removed);
}
