/* The contract's rows about WriteFile. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sandbox/cleanup.h"
#include "tests/contract/session.h"

static void write_ok(const char *path, const void *data, size_t length)
{
    struct error err;

    assert_ok(session_write(&S, path, data, length, &err), err);
}

static void refused(const char *path, size_t length, enum error_code code)
{
    cleanup_free uint8_t *bytes = noise(length, 9);
    struct error err = {0};

    assert_fault(session_write(&S, path, bytes, length, &err), err, code);
}

/* No temporary name of ours stays anywhere below the workdir. */
static void no_residue(void)
{
    ck_assert_str_eq(session_output(&S, "find / -xdev -name '.handsfs-*' 2>/dev/null; "
                                        "find . -name '.handsfs-*'"),
                     "");
}

START_TEST(parents_are_made_and_a_file_is_overwritten)
{
    write_ok("/workspace/a/b/c", "longer content", 14);
    write_ok("/workspace/a/b/c", "short", 5);
    ck_assert_str_eq(session_output(&S, "cat a/b/c; stat -c %a a a/b"), "short755\n755\n");
    write_ok("/workspace/empty", "", 0);
    ck_assert_str_eq(session_output(&S, "stat -c %s empty"), "0\n");
    no_residue();
}
END_TEST

START_TEST(a_mebibyte_of_noise_survives_the_round_trip)
{
    size_t length = 1u << 20;
    cleanup_free uint8_t *bytes = noise(length, 1);
    struct buffer content;
    struct error err;

    write_ok("/workspace/noise", bytes, length);
    assert_ok(session_read(&S, "/workspace/noise", MAX_FILE_BYTES, &content, &err), err);
    assert_bytes(&content, bytes, length);
}
END_TEST

START_TEST(a_blocked_path_is_not_a_directory_and_the_blocker_is_untouched)
{
    static const char *const rows[] = {"/workspace/f/a", "/workspace/f/a/b"};

    session_output(&S, "echo blocker >f");
    refused(rows[_i], 10, ERROR_NOT_DIRECTORY);
    refused(rows[_i], 256 * 1024, ERROR_NOT_DIRECTORY);
    ck_assert_str_eq(session_output(&S, "cat f"), "blocker\n");
    no_residue();
}
END_TEST

START_TEST(a_directory_is_not_replaced)
{
    session_output(&S, "mkdir d; echo x >d/inside; mkdir t; ln -s t tl");
    refused("/workspace/d", 10, ERROR_IS_DIRECTORY);
    refused("/workspace/tl", 10, ERROR_IS_DIRECTORY);
    ck_assert_str_eq(session_output(&S, "cat d/inside; ls t; readlink tl"), "x\nt\n");
    no_residue();
}
END_TEST

START_TEST(a_mount_point_is_not_replaced)
{
    const char *before = session_output(&S, "cksum /etc/hosts");

    refused("/etc/hosts", 1, ERROR_NOT_REPLACEABLE);
    refused("/etc/hosts", 256 * 1024, ERROR_NOT_REPLACEABLE);
    ck_assert_str_eq(session_output(&S, "cksum /etc/hosts"), before);
    no_residue();
}
END_TEST

START_TEST(a_device_is_not_replaced)
{
    refused("/dev/null", 1, ERROR_NOT_REPLACEABLE);
    refused("/dev/null", 256 * 1024, ERROR_NOT_REPLACEABLE);
    ck_assert_str_eq(session_output(&S, "test -c /dev/null && echo device"), "device\n");
}
END_TEST

START_TEST(a_fifo_is_refused_not_hung)
{
    session_output(&S, "mkfifo p");
    refused("/workspace/p", 100, ERROR_NOT_REGULAR);
    ck_assert_str_eq(session_output(&S, "test -p p && echo fifo"), "fifo\n");
}
END_TEST

START_TEST(a_link_s_name_is_replaced_and_its_target_is_not_touched)
{
    session_output(&S, "echo secret >t; chmod 600 t; ln -s t l");
    write_ok("/workspace/l", "new", 3);
    ck_assert_str_eq(session_output(&S, "cat t; stat -c '%a %F' t l; cat l"),
                     "secret\n600 regular file\n644 regular file\nnew");
}
END_TEST

START_TEST(modes_are_0644_when_new_and_kept_when_not)
{
    session_output(&S, "umask 077; echo old >x; chmod 755 x; mkdir private");
    write_ok("/workspace/x", "#!/bin/sh\necho ran\n", 19);
    write_ok("/workspace/private/new", "n", 1);
    ck_assert_str_eq(session_output(&S, "stat -c %a x private/new; ./x"), "755\n644\nran\n");
}
END_TEST

START_TEST(a_parent_s_default_acl_does_not_decide_the_mode)
{
    struct run run = session_exec(&S, "mkdir d && setfacl -d -m u::rw,g::---,o::--- d", 10000);

    assert_ran(run);
    if (run.result.exit_code != 0) {
        return; /* no setfacl, or no ACLs, in this sandbox: nothing to prove */
    }
    write_ok("/workspace/d/f", "x", 1);
    ck_assert_str_eq(session_output(&S, "stat -c %a d/f"), "644\n");
}
END_TEST

START_TEST(a_read_only_place_is_not_writable)
{
    /* Engines give a sandbox a root that can be written to. */
    refused(fixture.is_local ? "/usr/x" : "/sys/x", 10, ERROR_NOT_WRITABLE);
    refused(fixture.is_local ? "/usr/newdir/x" : "/sys/newdir/x", 256 * 1024, ERROR_NOT_WRITABLE);
    refused("/proc/x", 10, ERROR_NO_SUCH_FILE);
}
END_TEST

START_TEST(a_file_system_error_keeps_the_old_content)
{
    struct error err = {0};
    cleanup_free char *path = NULL;

    session_output(&S, "echo old >kept");
    ck_assert_int_gt(asprintf(&path, "/workspace/%0300d", 1), 0);
    ck_assert_int_eq(session_write(&S, path, "x", 1, &err), -1);
    ck_assert_int_eq(error_errno(&err), ENAMETOOLONG);
    ck_assert_str_eq(session_output(&S, "cat kept; ls -A"), "old\nkept\n");
}
END_TEST

START_TEST(twenty_four_files_at_once_all_land)
{
    size_t large = 1u << 20;
    cleanup_free uint8_t *bytes = noise(large, 3);
    struct written files[24];
    char paths[24][64];

    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 24; i++) {
            snprintf(paths[i], sizeof paths[i], "/workspace/many/%u/deep/%u", i % 5, i);
            files[i] = (struct written){paths[i], bytes + round, i == 0 ? 0 : i == 1 ? large - 1 : i * 100u,
                                        ERROR_NONE, {0}};
        }
        session_write_all(&S, files, 24);
        for (unsigned i = 0; i < 24; i++) {
            struct buffer content;
            struct error err;

            ck_assert_msg(files[i].code == ERROR_NONE, "%s", files[i].err.message);
            assert_ok(session_read(&S, paths[i], MAX_FILE_BYTES, &content, &err), err);
            assert_bytes(&content, files[i].data, files[i].length);
        }
    }
    ck_assert_str_eq(session_output(&S, "find many -type f ! -perm 644 -o -type d ! -perm 755"), "");
    no_residue();
}
END_TEST

START_TEST(a_failure_names_the_file)
{
    struct error err = {0};

    session_output(&S, "mkdir here");
    assert_fault(session_write(&S, "/workspace/here", "x", 1, &err), err, ERROR_IS_DIRECTORY);
    ck_assert_ptr_nonnull(strstr(err.message, "here"));
}
END_TEST

START_TEST(writers_of_one_file_leave_one_whole_content)
{
    enum { WRITERS = 8, LENGTH = 300000 };
    struct written files[WRITERS];
    uint8_t *bytes[WRITERS];
    struct buffer content;
    struct error err;
    unsigned same = 0;

    for (unsigned i = 0; i < WRITERS; i++) {
        bytes[i] = noise(LENGTH, 100 + i);
        files[i] = (struct written){"/workspace/one", bytes[i], LENGTH, ERROR_NONE, {0}};
    }
    session_write_all(&S, files, WRITERS);
    assert_ok(session_read(&S, "/workspace/one", MAX_FILE_BYTES, &content, &err), err);
    ck_assert_uint_eq(content.length, LENGTH);
    for (unsigned i = 0; i < WRITERS; i++) {
        ck_assert_int_eq(files[i].code, ERROR_NONE);
        same += memcmp(content.data, bytes[i], LENGTH) == 0;
        free(bytes[i]);
    }
    ck_assert_uint_eq(same, 1);
    no_residue();
}
END_TEST

START_TEST(a_reader_inside_never_sees_half_a_file)
{
    static uint8_t a[200000];
    static uint8_t b[200000];
    struct error err;

    memset(a, 'a', sizeof a);
    memset(b, 'b', sizeof b);
    write_ok("/workspace/flip", a, sizeof a);
    session_output(&S, "(while [ ! -e stop ]; do c=$(tr -s 'ab' <flip); "
                       "case $c in a|b) ;; *) echo \"torn:$c\" >>torn;; esac; done) >/dev/null 2>&1 &");
    for (unsigned i = 0; i < 100; i++) {
        assert_ok(session_write(&S, "/workspace/flip", i % 2 ? a : b, sizeof a, &err), err);
    }
    ck_assert_str_eq(session_output(&S, "touch stop; cat torn 2>/dev/null || true"), "");
}
END_TEST

START_TEST(an_owner_is_kept)
{
    session_output(&S, "echo x >f");
    write_ok("/workspace/f", "y", 1);
    ck_assert_str_eq(session_output(&S, "test -O f && echo mine"), "mine\n");
    write_ok("/workspace/g", "y", 1);
    ck_assert_str_eq(session_output(&S, "test -O g && echo mine"), "mine\n");
}
END_TEST

TCase *case_write(void)
{
    TCase *tc = tcase_create("write");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup_session, teardown_session);
    tcase_add_test(tc, parents_are_made_and_a_file_is_overwritten);
    tcase_add_test(tc, a_mebibyte_of_noise_survives_the_round_trip);
    tcase_add_loop_test(tc, a_blocked_path_is_not_a_directory_and_the_blocker_is_untouched, 0, 2);
    tcase_add_test(tc, a_directory_is_not_replaced);
    tcase_add_test(tc, a_mount_point_is_not_replaced);
    tcase_add_test(tc, a_device_is_not_replaced);
    tcase_add_test(tc, a_fifo_is_refused_not_hung);
    tcase_add_test(tc, a_link_s_name_is_replaced_and_its_target_is_not_touched);
    tcase_add_test(tc, modes_are_0644_when_new_and_kept_when_not);
    tcase_add_test(tc, a_parent_s_default_acl_does_not_decide_the_mode);
    tcase_add_test(tc, a_read_only_place_is_not_writable);
    tcase_add_test(tc, a_file_system_error_keeps_the_old_content);
    tcase_add_test(tc, twenty_four_files_at_once_all_land);
    tcase_add_test(tc, a_failure_names_the_file);
    tcase_add_test(tc, writers_of_one_file_leave_one_whole_content);
    tcase_add_test(tc, a_reader_inside_never_sees_half_a_file);
    tcase_add_test(tc, an_owner_is_kept);
    return tc;
}
