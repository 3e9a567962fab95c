/* Owners and types, as the host sees them. */
#include "fs/attr.h"
#include "tests/unit/unit.h"

static const struct attr_rules mapping = {
    .map_owner = true,
    .inside_uid = 1000,
    .inside_gid = 1001,
    .uid = 5000,
    .gid = 5001,
    .special_as_socket = true,
};

static struct wire_attr file(uint32_t mode)
{
    return (struct wire_attr){
        .dev = 7,
        .ino = 42,
        .size = 4097,
        .blocks = 16,
        .mode = mode,
        .nlink = 3,
        .uid = 1000,
        .gid = 1001,
        .block_size = 4096,
        .rdev = 0x701,
        .mtime = {1700000000, 123456789},
    };
}

START_TEST(what_belongs_to_the_sandboxs_user_is_the_mounting_users)
{
    struct wire_attr attr = file(S_IFREG | 0640);
    struct stat st;

    ck_assert_int_eq(attr_to_stat(&mapping, &attr, &st), 0);
    ck_assert_uint_eq(st.st_uid, 5000);
    ck_assert_uint_eq(st.st_gid, 5001);
    ck_assert_uint_eq(attr_uid_inside(&mapping, 5000), 1000);
    ck_assert_uint_eq(attr_gid_inside(&mapping, 5001), 1001);
}
END_TEST

START_TEST(another_owner_stays_who_he_is)
{
    struct wire_attr attr = file(S_IFREG | 0640);
    struct stat st;

    attr.uid = 0;
    attr.gid = 33;
    ck_assert_int_eq(attr_to_stat(&mapping, &attr, &st), 0);
    ck_assert_uint_eq(st.st_uid, 0);
    ck_assert_uint_eq(st.st_gid, 33);
    ck_assert_uint_eq(attr_uid_inside(&mapping, 0), 0);
}
END_TEST

START_TEST(without_a_map_owners_are_verbatim)
{
    struct attr_rules rules = mapping;
    struct wire_attr attr = file(S_IFREG | 0640);
    struct stat st;

    rules.map_owner = false;
    ck_assert_int_eq(attr_to_stat(&rules, &attr, &st), 0);
    ck_assert_uint_eq(st.st_uid, 1000);
    ck_assert_uint_eq(attr_uid_inside(&rules, 5000), 5000);
}
END_TEST

START_TEST(every_number_of_a_file_is_its_own)
{
    struct wire_attr attr = file(S_IFREG | 04755);
    struct stat st;

    ck_assert_int_eq(attr_to_stat(&mapping, &attr, &st), 0);
    ck_assert_uint_eq(st.st_ino, 42);
    ck_assert_uint_eq(st.st_mode, S_IFREG | 04755);
    ck_assert_uint_eq(st.st_nlink, 3);
    ck_assert_int_eq(st.st_size, 4097);
    ck_assert_int_eq(st.st_blocks, 16);
    ck_assert_int_eq(st.st_mtim.tv_sec, 1700000000);
    ck_assert_int_eq(st.st_mtim.tv_nsec, 123456789);
    ck_assert_uint_eq(st.st_rdev, 0);
}
END_TEST

START_TEST(special_files_are_sockets_unless_asked_otherwise)
{
    static const uint32_t types[] = {S_IFIFO, S_IFSOCK, S_IFCHR, S_IFBLK};
    struct attr_rules real = mapping;

    real.special_as_socket = false;
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++) {
        struct wire_attr attr = file(types[i] | 0600);
        struct stat st;

        ck_assert_int_eq(attr_to_stat(&mapping, &attr, &st), 0);
        ck_assert_uint_eq(st.st_mode, S_IFSOCK | 0600);
        ck_assert_uint_eq(st.st_rdev, 0);
        ck_assert_int_eq(attr_to_stat(&real, &attr, &st), 0);
        ck_assert_uint_eq(st.st_mode, types[i] | 0600);
    }
    ck_assert_uint_eq(attr_type(&mapping, S_IFDIR), S_IFDIR);
    ck_assert_uint_eq(attr_type(&mapping, 0), 0);
}
END_TEST

START_TEST(numbers_that_no_file_has_are_refused)
{
    struct wire_attr attr = file(S_IFREG | 0644);
    struct stat st;

    attr.size = UINT64_C(1) << 63;
    ck_assert_int_eq(attr_to_stat(&mapping, &attr, &st), -1);
    attr = file(S_IFREG | 0644);
    attr.blocks = UINT64_MAX;
    ck_assert_int_eq(attr_to_stat(&mapping, &attr, &st), -1);
    attr = file(S_IFREG | 0644);
    attr.uid = UINT32_MAX;
    ck_assert_int_eq(attr_to_stat(&mapping, &attr, &st), -1);
}
END_TEST

UNIT_SUITE(attr)
{
    tcase_add_test(tcase, what_belongs_to_the_sandboxs_user_is_the_mounting_users);
    tcase_add_test(tcase, another_owner_stays_who_he_is);
    tcase_add_test(tcase, without_a_map_owners_are_verbatim);
    tcase_add_test(tcase, every_number_of_a_file_is_its_own);
    tcase_add_test(tcase, special_files_are_sockets_unless_asked_otherwise);
    tcase_add_test(tcase, numbers_that_no_file_has_are_refused);
}
