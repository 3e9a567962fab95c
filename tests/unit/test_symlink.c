/* What readlink(2) answers: nothing that leads out. */
#include "fs/symlink.h"
#include "tests/unit/unit.h"

#include <stdio.h>
#include <string.h>

#define WORKDIR "/work space"

struct row {
    const char *text;
    unsigned depth; /* of the link's directory */
    enum symlink_verdict verdict;
    const char *answer; /* or what is to be resolved */
};

static void expect(const struct row *row)
{
    struct buffer out = BUFFER_INIT(65536);
    enum symlink_verdict verdict =
        symlink_judge(row->text, strlen(row->text), row->depth, row->depth, WORKDIR, &out);

    ck_assert_msg(verdict == row->verdict, "%s at %u: verdict %d", row->text, row->depth, verdict);
    if (row->answer != NULL) {
        ck_assert_str_eq(buffer_text(&out), row->answer);
    }
    buffer_release(&out);
}

static void expect_all(const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        expect(&rows[i]);
    }
}

#define EXPECT_ALL(rows) expect_all(rows, sizeof(rows) / sizeof(rows)[0])

START_TEST(text_that_cannot_leave_is_given_as_it_is)
{
    static const struct row rows[] = {
        {"a", 0, SYMLINK_TEXT, "a"},
        {"a/b", 0, SYMLINK_TEXT, "a/b"},
        {".", 0, SYMLINK_TEXT, "."},
        {"./a//b/.", 0, SYMLINK_TEXT, "./a//b/."},
        {"..", 1, SYMLINK_TEXT, ".."},
        {"../a", 1, SYMLINK_TEXT, "../a"},
        {"./.././../a", 2, SYMLINK_TEXT, "./.././../a"},
        {"...", 0, SYMLINK_TEXT, "..."},
        {"..a/b", 0, SYMLINK_TEXT, "..a/b"},
        {" ", 0, SYMLINK_TEXT, " "},
        {"a\xff\n", 0, SYMLINK_TEXT, "a\xff\n"},
    };

    EXPECT_ALL(rows);
}
END_TEST

START_TEST(text_that_climbs_above_the_root_is_refused)
{
    static const struct row rows[] = {
        {"..", 0, SYMLINK_REFUSED, NULL},
        {"../a", 0, SYMLINK_REFUSED, NULL},
        {"../../a", 1, SYMLINK_REFUSED, NULL},
        {"./..//./../a", 1, SYMLINK_REFUSED, NULL},
        {"../../work space/a", 1, SYMLINK_REFUSED, NULL},
        {"../../a/../b", 1, SYMLINK_REFUSED, NULL},
        {"", 0, SYMLINK_REFUSED, NULL},
    };

    EXPECT_ALL(rows);
}
END_TEST

START_TEST(climbing_after_a_name_is_left_to_the_sandbox_to_resolve)
{
    static const struct row rows[] = {
        {"a/..", 0, SYMLINK_RESOLVE, "a/.."},
        {"a/../../etc", 3, SYMLINK_RESOLVE, "a/../../etc"},
        {"../a/../b", 1, SYMLINK_RESOLVE, "../a/../b"},
        {"./a/./..", 0, SYMLINK_RESOLVE, "./a/./.."},
        {WORKDIR "/a/../b", 2, SYMLINK_RESOLVE_ROOT, "a/../b"},
    };

    EXPECT_ALL(rows);
}
END_TEST

START_TEST(an_absolute_target_in_the_workdir_becomes_relative)
{
    static const struct row rows[] = {
        {WORKDIR "/a/b", 0, SYMLINK_TEXT, "a/b"},
        {WORKDIR "/a/b", 2, SYMLINK_TEXT, "../../a/b"},
        {WORKDIR, 0, SYMLINK_TEXT, "."},
        {WORKDIR "/", 1, SYMLINK_TEXT, "../"},
        {"//work space/./a", 0, SYMLINK_TEXT, "./a"},
        {"/./work space//a/", 1, SYMLINK_TEXT, "../a/"},
    };

    EXPECT_ALL(rows);
}
END_TEST

START_TEST(every_other_absolute_target_is_refused)
{
    static const struct row rows[] = {
        {"/", 0, SYMLINK_REFUSED, NULL},
        {"/etc/passwd", 5, SYMLINK_REFUSED, NULL},
        {"/work", 1, SYMLINK_REFUSED, NULL},
        {"/work space2/a", 1, SYMLINK_REFUSED, NULL},
        {"/etc/../work space/a", 1, SYMLINK_REFUSED, NULL},
        {WORKDIR "/../etc/passwd", 4, SYMLINK_REFUSED, NULL},
        {WORKDIR "/./../work space/a", 4, SYMLINK_REFUSED, NULL},
    };

    EXPECT_ALL(rows);
}
END_TEST

START_TEST(a_link_with_names_at_two_depths_climbs_from_the_lesser)
{
    struct buffer out = BUFFER_INIT(65536);

    ck_assert_int_eq(symlink_judge("../a", 4, 1, 3, WORKDIR, &out), SYMLINK_TEXT);
    ck_assert_int_eq(symlink_judge("../../a", 7, 1, 3, WORKDIR, &out), SYMLINK_REFUSED);
    ck_assert_int_eq(symlink_judge(WORKDIR "/a", strlen(WORKDIR "/a"), 1, 3, WORKDIR, &out),
                     SYMLINK_REFUSED);
    buffer_release(&out);
}
END_TEST

START_TEST(a_place_is_told_from_the_links_own_directory)
{
    struct buffer out = BUFFER_INIT(65536);

    ck_assert_int_eq(symlink_to_place("a/b", 3, 2, 2, &out), SYMLINK_TEXT);
    ck_assert_str_eq(buffer_text(&out), "../../a/b");
    ck_assert_int_eq(symlink_to_place("", 0, 0, 0, &out), SYMLINK_TEXT);
    ck_assert_str_eq(buffer_text(&out), ".");
    buffer_release(&out);
}
END_TEST

START_TEST(a_place_that_is_no_clean_path_is_refused)
{
    static const char *const places[] = {"..", "a/..", "../a", "a/../../b", "./.."};
    struct buffer out = BUFFER_INIT(65536);

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        ck_assert_int_eq(symlink_to_place(places[i], strlen(places[i]), 1, 1, &out),
                         SYMLINK_REFUSED);
    }
    /* What looks absolute never becomes so. */
    ck_assert_int_eq(symlink_to_place("/etc", 4, 0, 0, &out), SYMLINK_TEXT);
    ck_assert_str_eq(buffer_text(&out), "etc");
    buffer_release(&out);
}
END_TEST

UNIT_SUITE(symlink)
{
    tcase_add_test(tcase, text_that_cannot_leave_is_given_as_it_is);
    tcase_add_test(tcase, text_that_climbs_above_the_root_is_refused);
    tcase_add_test(tcase, climbing_after_a_name_is_left_to_the_sandbox_to_resolve);
    tcase_add_test(tcase, an_absolute_target_in_the_workdir_becomes_relative);
    tcase_add_test(tcase, every_other_absolute_target_is_refused);
    tcase_add_test(tcase, a_link_with_names_at_two_depths_climbs_from_the_lesser);
    tcase_add_test(tcase, a_place_is_told_from_the_links_own_directory);
    tcase_add_test(tcase, a_place_that_is_no_clean_path_is_refused);
}
