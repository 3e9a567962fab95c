/* What glob and grep match with: regular expressions, patterns of paths, .gitignore. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hand/search_ignore.h"
#include "hand/search_pattern.h"
#include "hand/search_regex.h"
#include "sandbox/clock.h"
#include "tests/unit/unit.h"

/* 1 or 0, or -1 where the pattern is refused. */
static int matches(const char *pattern, const char *line, unsigned flags)
{
    struct regex *regex;
    struct error err;
    int r;

    if (regex_new(&regex, pattern, strlen(pattern), flags, &err) < 0) {
        ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
        return -1;
    }
    regex_begin(regex);
    r = regex_feed(regex, (const uint8_t *)line, strlen(line)) || regex_end(regex);
    ck_assert(!regex_failed(regex));
    regex_free(regex);
    return r;
}

static const struct {
    const char *pattern, *line;
    unsigned flags;
    int want;
} expressions[] = {
    {"a.c", "xabcx", 0, 1},
    {"^abc$", "abc", 0, 1},
    {"^abc$", "abcd", 0, 0},
    {"\\bfoo\\b", "a foo b", 0, 1},
    {"\\bfoo\\b", "afoo b", 0, 0},
    {"\\bfoo\\b", "foo", 0, 1},
    {"a\\Bb", "ab", 0, 1},
    {"\\d{3}", "12 34 567", 0, 1},
    {"\\d{3}$", "12 34 567x", 0, 0},
    {"^.{3}$", "\xc3\xa4\xc3\xb6\xc3\xbc", 0, 1},
    {"^.{3}$", "\xc3\xa4\xc3\xb6\xc3\xbcx", 0, 0},
    {"[\xc3\xa4-\xc3\xbc]", "\xc3\xb6", 0, 1},
    {"^[^x]$", "\xf0\x9f\x98\x80", 0, 1},
    {"foo.bar", "foo\xff" "bar", 0, 0},
    {"foo", "\xff" "foo\xc0", 0, 1},
    {"(a|b)*c", "ababc", 0, 1},
    {"^(a|b)*c$", "abxabc", 0, 0},
    {"a||b", "zz", 0, 1},
    {"^$", "", 0, 1},
    {"x*?y+?", "xxy", 0, 1},
    {"a.b*[c", "a.b*[c", REGEX_FIXED, 1},
    {"a.b", "axb", REGEX_FIXED, 0},
    {"straSSe", "STRASSE", REGEX_IGNORE_CASE, 1},
    {"(?i)abc", "ABC", 0, 1},
    {"[a-c]x", "BX", REGEX_IGNORE_CASE, 1},
    {"[^a]", "A", REGEX_IGNORE_CASE, 0},
    {"(?P<n>x)y", "xy", 0, 1},
    {"(?:ab)+$", "xabab", 0, 1},
    {"[[:digit:]]+x", "12x", 0, 1},
    {"[]a]", "]", 0, 1},
    {"[\\d-]", "-", 0, 1},
    {"a{,2}", "a{,2}", 0, 1},
    {"\\x41\\x{e4}", "A\xc3\xa4", 0, 1},
    {"^\\s*$", "  \t", 0, 1},
    {"(?=a)", "a", 0, -1},
    {"(?<!a)b", "b", 0, -1},
    {"(a)\\1", "aa", 0, -1},
    {"a++", "aa", 0, -1},
    {"\\q", "q", 0, -1},
    {"a\nb", "a", 0, -1},
    {"a{1000}{1000}", "a", 0, -1},
    {"a{1001}", "a", 0, -1},
    {"*a", "a", 0, -1},
    {"(", "a", 0, -1},
    {"a)", "a", 0, -1},
    {"[", "a", 0, -1},
    {"[b-a]", "a", 0, -1},
    {"[[:nope:]]", "a", 0, -1},
    {"\\", "a", 0, -1},
    {"\xff", "a", 0, -1},
};

START_TEST(an_expression_matches_what_it_says_and_what_is_none_is_refused)
{
    ck_assert_msg(matches(expressions[_i].pattern, expressions[_i].line, expressions[_i].flags) ==
                      expressions[_i].want,
                  "%s on %s", expressions[_i].pattern, expressions[_i].line);
}
END_TEST

START_TEST(a_line_in_pieces_matches_as_a_whole)
{
    static const char line[] = "x1 caf\xc3\xa9 end";
    struct regex *regex;
    struct error err;
    bool matched = false;

    ck_assert_int_eq(regex_new(&regex, "\\bcaf. end$", 11, 0, &err), 0);
    regex_begin(regex);
    for (size_t i = 0; i < sizeof line - 1; i++) {
        matched = matched || regex_feed(regex, (const uint8_t *)line + i, 1);
    }
    ck_assert(matched || regex_end(regex));
    regex_free(regex);
}
END_TEST

/* What takes a backtracking matcher longer than the universe has. */
START_TEST(a_pattern_made_to_explode_does_not)
{
    static const char *const patterns[] = {"^(a+)+$", "^(a|aa)+$", "^(a?){100}a{100}$", "(x+x+)+y",
                                           "^(([a-z])+.)+[A-Z]([a-z])+$"};
    enum { LENGTH = 20000 };
    char *line = malloc(LENGTH + 1);
    uint64_t before = clock_now_ms();

    memset(line, 'a', LENGTH);
    memcpy(line + LENGTH - 1, "!", 2);
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        ck_assert_int_eq(matches(patterns[i], line, 0), 0);
    }
    ck_assert_uint_lt(clock_now_ms() - before, 20000);
    free(line);
}
END_TEST

START_TEST(groups_in_groups_have_a_bound)
{
    char pattern[2 * (REGEX_MAX_DEPTH + 10) + 1];
    size_t depth = REGEX_MAX_DEPTH + 10;

    memset(pattern, '(', depth);
    memset(pattern + depth, ')', depth);
    pattern[2 * depth] = '\0';
    ck_assert_int_eq(matches(pattern, "x", 0), -1);
    ck_assert_int_eq(matches("((((x))))", "x", 0), 1);
}
END_TEST

/* ---- Paths ---- */

static const struct {
    const char *pattern, *path;
    bool want;
} paths[] = {
    {"*.c", "a.c", true},
    {"*.c", "a/b.c", false},
    {"*.c", ".c", true},
    {"**/*.c", "b.c", true},
    {"**/*.c", "a/.x/b.c", true},
    {"a/**/b", "a/b", true},
    {"a/**/b", "a/x/y/b", true},
    {"a/**", "a", false},
    {"a/**", "a/b/c", true},
    {"a/**/**/b", "a/b", true},
    {"a?c", "a\xc3\xa4" "c", true},
    {"a?c", "a\xff" "c", true},
    {"a?c", "a/c", false},
    {"[!a]b", "cb", true},
    {"[^a]b", "ab", false},
    {"[a-c]x", "bx", true},
    {"[[:digit:]]", "7", true},
    {"[]]", "]", true},
    {"[a", "[a", true},
    {"\\*", "*", true},
    {"\\*", "a", false},
    {"$(id)", "$(id)", true},
    {"a b", "a b", true},
    {"./a//b", "a/b", true},
    {"*a*b*c*", "xxaxxbxxc", true},
    {"*a*b*c*", "xxaxxcxxb", false},
};

START_TEST(a_path_matches_its_pattern_name_by_name)
{
    struct path_pattern pattern;
    struct error err;

    ck_assert_int_eq(path_pattern_new(&pattern, paths[_i].pattern, strlen(paths[_i].pattern), &err), 0);
    ck_assert_msg(path_match(&pattern, paths[_i].path) == paths[_i].want, "%s on %s", paths[_i].pattern,
                  paths[_i].path);
    path_pattern_release(&pattern);
}
END_TEST

START_TEST(stars_without_end_take_no_time)
{
    char name[256], pattern[256];
    uint64_t before = clock_now_ms();

    memset(name, 'a', 255);
    name[255] = '\0';
    for (size_t i = 0; i < 250; i += 2) {
        memcpy(pattern + i, "*a", 2);
    }
    memcpy(pattern + 250, "b", 2);
    for (int i = 0; i < 100; i++) {
        ck_assert(!name_match(pattern, 251, name, 255));
    }
    ck_assert_uint_lt(clock_now_ms() - before, 10000);
}
END_TEST

START_TEST(braces_come_to_their_alternatives)
{
    struct alternatives a;
    struct error err;

    ck_assert_int_eq(alternatives_new(&a, "*.{c,h{pp,}}", &err), 0);
    ck_assert_uint_eq(a.count, 3);
    ck_assert_str_eq(a.texts[0], "*.c");
    ck_assert_str_eq(a.texts[1], "*.hpp");
    ck_assert_str_eq(a.texts[2], "*.h");
    alternatives_release(&a);
    ck_assert_int_eq(alternatives_new(&a, "a{b}\\{c,d}{", &err), 0);
    ck_assert_uint_eq(a.count, 1);
    alternatives_release(&a);
    ck_assert_int_eq(alternatives_new(&a, "{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}{a,b}", &err), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
}
END_TEST

/* ---- .gitignore ---- */

static const char rules[] = "# comment\n\n*.log\n!keep.log\n/build\nsub/x\ndir/\n\\#odd\ntrail   \na/**/z\r\n\xff[\n!";

static const struct {
    const char *path;
    bool is_directory, want;
} ignored[] = {
    {"a.log", false, true},       {"deep/er/a.log", false, true}, {"keep.log", false, false},
    {"build", true, true},        {"x/build", true, false},       {"sub/x", false, true},
    {"y/sub/x", false, false},    {"dir", true, true},            {"dir", false, false},
    {"q/dir", true, true},        {"#odd", false, true},          {"# comment", false, false},
    {"trail", false, true},       {"a/b/c/z", false, true},       {"a/z", false, true},
    {"\xff[", false, true},       {"other", false, false},
};

START_TEST(gitignore_leaves_out_what_git_would)
{
    struct ignore_level level = {0};

    ck_assert_int_eq(ignore_parse(&level, rules, sizeof rules - 1), 0);
    ck_assert_msg(ignore_has(&level, ignored[_i].path, ignored[_i].is_directory) == ignored[_i].want, "%s",
                  ignored[_i].path);
    ignore_release(&level);
}
END_TEST

START_TEST(rules_past_the_bound_are_none)
{
    size_t size = 2 * (IGNORE_MAX_RULES + 1000);
    char *text = malloc(size);
    struct ignore_level level = {0};

    for (size_t i = 0; i < size; i += 2) {
        memcpy(text + i, "a\n", 2);
    }
    ck_assert_int_eq(ignore_parse(&level, text, size), 0);
    ck_assert_uint_eq(level.count, IGNORE_MAX_RULES);
    ignore_release(&level);
    free(text);
}
END_TEST

UNIT_SUITE(search)
{
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, an_expression_matches_what_it_says_and_what_is_none_is_refused, 0,
                        sizeof expressions / sizeof expressions[0]);
    tcase_add_test(tcase, a_line_in_pieces_matches_as_a_whole);
    tcase_add_test(tcase, a_pattern_made_to_explode_does_not);
    tcase_add_test(tcase, groups_in_groups_have_a_bound);
    tcase_add_loop_test(tcase, a_path_matches_its_pattern_name_by_name, 0, sizeof paths / sizeof paths[0]);
    tcase_add_test(tcase, stars_without_end_take_no_time);
    tcase_add_test(tcase, braces_come_to_their_alternatives);
    tcase_add_loop_test(tcase, gitignore_leaves_out_what_git_would, 0, sizeof ignored / sizeof ignored[0]);
    tcase_add_test(tcase, rules_past_the_bound_are_none);
}
