/* Parts of the local backend that need no sandbox: the record, the removal of trees, who one is inside. */
#include "backends/local_bwrap.h"
#include "backends/local_identity.h"
#include "backends/local_record.h"
#include "backends/local_remove.h"
#include "backends/local_state.h"
#include "sandbox/capability.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64];
static int directory_fd = -1;

static void open_directory(void)
{
    snprintf(directory, sizeof directory, "/tmp/handsfs-parts-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(directory_fd, 0);
}

static void close_directory(void)
{
    struct error err = {0};

    close(directory_fd);
    ck_assert_int_eq(local_remove_tree(AT_FDCWD, directory, clock_now_ms() + 10000, &err), 0);
    ck_assert_int_eq(access(directory, F_OK), -1);
}

static void make_record(struct local_record *record)
{
    struct error err = {0};

    record->spec.session = strdup("s1");
    record->spec.workdir = strdup("/caf\xe9 \xff/\"quoted\"");
    record->spec.user = strdup("7:8");
    record->spec.network = NETWORK_FULL;
    record->spec.read_only_root = true;
    record->spec.memory_bytes = UINT64_C(1) << 62;
    record->spec.cpu_millis = 1500;
    record->spec.pids = 64;
    record->spec.cap_drop = calloc(2, sizeof *record->spec.cap_drop);
    record->spec.cap_drop[0] = strdup("CHOWN");
    record->cgroups[0] = strdup("/sys/fs/cgroup/x");
    ck_assert_int_eq(env_list_set(&record->spec.env, "A=\xc3\xa9 text", &err), 0);
    ck_assert_int_eq(env_list_set(&record->spec.env, "B=\xff\x01\n{\"hex\":\"00\"}", &err), 0);
    ck_assert_int_eq(local_record_renew(record, &err), 0);
}

START_TEST(a_record_is_read_back_as_it_was_written_byte_for_byte)
{
    cleanup_record struct local_record wrote = {.created = 0};
    cleanup_record struct local_record read = {.created = 0};
    struct error err = {0};
    struct stat st;

    make_record(&wrote);
    ck_assert_int_eq(local_record_write(directory_fd, &wrote, &err), 0);
    ck_assert_int_eq(fstatat(directory_fd, "spec.json", &st, 0), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0600);
    ck_assert_int_eq(local_record_read(directory_fd, &read, &err), 0);
    ck_assert_str_eq(read.id, wrote.id);
    ck_assert_int_eq(read.created, wrote.created);
    ck_assert_str_eq(read.spec.session, "s1");
    ck_assert_str_eq(read.spec.workdir, wrote.spec.workdir);
    ck_assert_str_eq(read.spec.user, "7:8");
    ck_assert_int_eq(read.spec.network, NETWORK_FULL);
    ck_assert(read.spec.read_only_root);
    ck_assert_uint_eq(read.spec.memory_bytes, UINT64_C(1) << 62);
    ck_assert_uint_eq(read.spec.cpu_millis, 1500);
    ck_assert_uint_eq(read.spec.pids, 64);
    ck_assert_str_eq(read.spec.cap_drop[0], "CHOWN");
    ck_assert_ptr_null(read.spec.cap_drop[1]);
    ck_assert_str_eq(read.cgroups[0], "/sys/fs/cgroup/x");
    ck_assert_uint_eq(read.spec.env.count, 2);
    ck_assert_str_eq(read.spec.env.entries[0], wrote.spec.env.entries[0]);
    ck_assert_str_eq(read.spec.env.entries[1], wrote.spec.env.entries[1]);
}
END_TEST

START_TEST(no_record_is_no_sandbox)
{
    cleanup_record struct local_record record = {.created = 0};
    struct error err = {0};

    ck_assert_int_eq(local_record_read(directory_fd, &record, &err), -1);
    ck_assert_int_eq(err.code, ERROR_SANDBOX_GONE);
}
END_TEST

START_TEST(a_record_that_makes_no_sense_is_an_error_and_nothing_else)
{
    static const char *const texts[] = {"", "{", "[]", "{\"version\":1}", "null", "\xff\xfe"};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        cleanup_record struct local_record record = {.created = 0};
        struct error err = {0};
        int fd = openat(directory_fd, "spec.json", O_WRONLY | O_CREAT | O_TRUNC, 0600);

        ck_assert_int_eq(write(fd, texts[i], strlen(texts[i])), (ssize_t)strlen(texts[i]));
        close(fd);
        ck_assert_int_eq(local_record_read(directory_fd, &record, &err), -1);
        ck_assert_int_eq(err.code, ERROR_IO);
        ck_assert_ptr_null(record.spec.session);
    }
}
END_TEST

START_TEST(no_two_ids_are_the_same)
{
    struct local_record a = {.created = 0};
    struct local_record b = {.created = 0};
    struct error err = {0};

    ck_assert_int_eq(local_record_renew(&a, &err), 0);
    ck_assert_int_eq(local_record_renew(&b, &err), 0);
    ck_assert_uint_eq(strlen(a.id), LOCAL_ID_LENGTH);
    ck_assert_str_ne(a.id, b.id);
}
END_TEST

START_TEST(removing_a_tree_follows_no_link)
{
    struct error err = {0};

    ck_assert_int_eq(mkdirat(directory_fd, "keep", 0700), 0);
    close(openat(directory_fd, "keep/file", O_CREAT | O_WRONLY, 0600));
    ck_assert_int_eq(mkdirat(directory_fd, "tree", 0700), 0);
    ck_assert_int_eq(mkdirat(directory_fd, "tree/a", 0), 0);
    ck_assert_int_eq(symlinkat("../keep", directory_fd, "tree/link"), 0);
    ck_assert_int_eq(local_remove_tree(directory_fd, "tree", clock_now_ms() + 10000, &err), 0);
    ck_assert_int_eq(faccessat(directory_fd, "tree", F_OK, 0), -1);
    ck_assert_int_eq(faccessat(directory_fd, "keep/file", F_OK, 0), 0);
    ck_assert_int_eq(symlinkat("keep", directory_fd, "alias"), 0);
    ck_assert_int_eq(local_remove_tree(directory_fd, "alias", clock_now_ms() + 10000, &err), -1);
    ck_assert_int_eq(faccessat(directory_fd, "keep/file", F_OK, 0), 0);
    ck_assert_int_eq(local_remove_tree(directory_fd, "never", clock_now_ms() + 10000, &err), 0);
}
END_TEST

START_TEST(removing_keeps_to_its_deadline_and_goes_on_later)
{
    struct error err = {0};

    ck_assert_int_eq(mkdirat(directory_fd, "tree", 0700), 0);
    ck_assert_int_eq(mkdirat(directory_fd, "tree/a", 0700), 0);
    ck_assert_int_eq(mkdirat(directory_fd, "tree/a/b", 0700), 0);
    ck_assert_int_eq(local_remove_tree(directory_fd, "tree", 0, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    ck_assert_int_eq(local_remove_tree(directory_fd, "tree", clock_now_ms() + 10000, &err), 0);
}
END_TEST

START_TEST(a_lock_that_was_removed_is_nobody_s)
{
    struct error err = {0};
    int first = -1;
    int second = -1;

    ck_assert_int_eq(local_lock(directory_fd, "s", clock_now_ms() + 1000, &first, &err), 0);
    ck_assert_int_eq(local_lock(directory_fd, "s", clock_now_ms() + 30, &second, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    local_lock_remove(directory_fd, "s");
    ck_assert_int_eq(local_lock(directory_fd, "s", clock_now_ms() + 1000, &second, &err), 0);
    close(first);
    ck_assert_int_eq(local_lock(directory_fd, "s", clock_now_ms() + 30, &first, &err), -1);
    close(second);
}
END_TEST

static int identity(const char *user, const char *drop, struct local_identity *ret)
{
    char *drops[] = {(char *)drop, NULL};
    struct sandbox_spec spec = {.user = (char *)user, .cap_drop = drop != NULL ? drops : NULL};
    struct error err = {0};

    return local_identity_of(&spec, ret, &err);
}

START_TEST(a_user_is_a_number_or_two)
{
    static const char *const wrong[] = {"root", "-1", "1:", ":1", "1:2:3", " 1", "4294967295", "1x", "0x1"};
    struct local_identity who;

    ck_assert_int_eq(identity(NULL, NULL, &who), 0);
    ck_assert_uint_eq(who.uid, geteuid());
    ck_assert_int_eq(identity("12", NULL, &who), 0);
    ck_assert(who.uid == 12 && who.gid == 12 && !who.range && who.capabilities == 0);
    ck_assert_int_eq(identity("12:0", NULL, &who), 0);
    ck_assert(who.uid == 12 && who.gid == 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ck_assert_int_eq(identity(wrong[i], NULL, &who), -1);
    }
}
END_TEST

START_TEST(capabilities_never_reach_the_hand_or_the_mounts)
{
    struct local_identity all, some, none;

    ck_assert_int_eq(identity("0", NULL, &all), 0);
    for (unsigned i = 0; capability_name(i) != NULL; i++) {
        const char *name = capability_name(i);

        if (strcmp(name, "CAP_SYS_PTRACE") == 0 || strcmp(name, "CAP_SYS_ADMIN") == 0) {
            ck_assert_uint_eq(all.capabilities >> i & 1, 0);
        }
    }
    ck_assert_int_eq(identity("0", "chown", &some), 0);
    ck_assert_int_eq(identity("0", "ALL", &none), 0);
    ck_assert_uint_eq(none.capabilities, 0);
    ck_assert_uint_eq(all.capabilities & ~some.capabilities, all.capabilities & 1);
    ck_assert_int_eq(identity("0", "", &none), -1);
}
END_TEST

START_TEST(a_workdir_over_the_programs_is_refused)
{
    struct error err = {0};

    ck_assert_int_eq(local_workdir_check("/bin", &err), -1);
    ck_assert_int_eq(local_workdir_check("/lib64/x", &err), -1);
    ck_assert_int_eq(local_workdir_check("/run", &err), -1);
    ck_assert_int_eq(local_workdir_check("/library", &err), 0);
    ck_assert_int_eq(local_workdir_check("/run/x", &err), 0);
}
END_TEST

UNIT_SUITE(local_parts)
{
    tcase_add_checked_fixture(tcase, open_directory, close_directory);
    tcase_add_test(tcase, a_record_is_read_back_as_it_was_written_byte_for_byte);
    tcase_add_test(tcase, no_record_is_no_sandbox);
    tcase_add_test(tcase, a_record_that_makes_no_sense_is_an_error_and_nothing_else);
    tcase_add_test(tcase, no_two_ids_are_the_same);
    tcase_add_test(tcase, removing_a_tree_follows_no_link);
    tcase_add_test(tcase, removing_keeps_to_its_deadline_and_goes_on_later);
    tcase_add_test(tcase, a_lock_that_was_removed_is_nobody_s);
    tcase_add_test(tcase, a_user_is_a_number_or_two);
    tcase_add_test(tcase, capabilities_never_reach_the_hand_or_the_mounts);
    tcase_add_test(tcase, a_workdir_over_the_programs_is_refused);
}
