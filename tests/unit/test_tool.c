/* `hand tool`: the program itself, on trees that somebody has made to hurt it. */
#include <fcntl.h>
#include <linux/capability.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "tests/unit/unit.h"

static char dir[] = "/tmp/handsfs-tool-XXXXXX";
static char tree[64];
static char out[1 << 20], said[8192]; /* of the last run */
static size_t out_length;

static void begin(void)
{
    memset(dir + strlen(dir) - 6, 'X', 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(tree, sizeof tree, "%s/t", dir);
    ck_assert_int_eq(mkdir(tree, 0755), 0);
    ck_assert_int_eq(chdir(tree), 0);
}

static void end(void)
{
    pid_t pid;

    ck_assert_int_eq(chdir("/"), 0);
    pid = fork();
    if (pid == 0) {
        execlp("rm", "rm", "-rf", dir, (char *)NULL);
        _exit(127);
    }
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static void put(const char *name, const void *data, size_t length)
{
    FILE *f = fopen(name, "w");

    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(data, 1, length, f), length);
    fclose(f);
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

static size_t get(const char *name, char *to, size_t size)
{
    FILE *f = fopen(name, "r");
    size_t n;

    ck_assert_ptr_nonnull(f);
    n = fread(to, 1, size - 1, f);
    to[n] = '\0';
    fclose(f);
    return n;
}

static void redirect(int fd, const char *name, int flags)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (dup2(open(name[0] == '/' ? name : path, flags, 0600), fd) < 0) {
        _exit(126);
    }
}

static bool without_rights; /* of root's to files of others: what is run is kept from them */

static pid_t start(const char *verb, const char *input, char *arguments)
{
    char *program = getenv("HANDSFS_HAND");
    char *argv[] = {program, (char *)"tool", (char *)verb, arguments, NULL};
    pid_t pid;

    ck_assert_ptr_nonnull(program);
    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        redirect(0, input != NULL ? input : "/dev/null", O_RDONLY);
        redirect(1, "out", O_WRONLY | O_CREAT | O_TRUNC);
        redirect(2, "said", O_WRONLY | O_CREAT | O_TRUNC);
        if (without_rights && geteuid() == 0 &&
            (prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) < 0 ||
             prctl(PR_CAPBSET_DROP, CAP_DAC_READ_SEARCH, 0, 0, 0) < 0)) {
            _exit(126);
        }
        execv(program, argv);
        _exit(127);
    }
    return pid;
}

/* NAME=VALUE arguments up to NULL; the tree is "path" where there is none. */
static char *encode(va_list args)
{
    static char text[65536];
    const char *one;
    size_t used = 0;
    bool has_path = false;

    while ((one = va_arg(args, const char *)) != NULL) {
        has_path = has_path || strncmp(one, "path=", 5) == 0;
        used += (size_t)snprintf(text + used, sizeof text - used, "%zu:%s", strlen(one), one);
    }
    used += (size_t)snprintf(text + used, sizeof text - used, "15:out_max=1000000");
    if (!has_path) {
        snprintf(text + used, sizeof text - used, "%zu:path=%s", strlen(tree) + 5, tree);
    }
    return text;
}

__attribute__((sentinel)) static int run(const char *verb, const char *input, ...)
{
    char path[128];
    va_list args;
    int status = 0;

    va_start(args, input);
    ck_assert_int_gt(waitpid(start(verb, input, encode(args)), &status, 0), 0);
    va_end(args);
    snprintf(path, sizeof path, "%s/out", dir);
    out_length = get(path, out, sizeof out);
    snprintf(path, sizeof path, "%s/said", dir);
    get(path, said, sizeof said);
    ck_assert_msg(WIFEXITED(status), "signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

/* A number that was said; -1 where it was not. */
static long number(const char *name)
{
    char line[64];
    const char *at;

    snprintf(line, sizeof line, "%s ", name);
    at = strncmp(said, line, strlen(line)) == 0 ? said : NULL;
    snprintf(line, sizeof line, "\n%s ", name);
    at = at != NULL ? at : strstr(said, line);
    return at == NULL ? -1 : strtol(strchr(at + 1, ' '), NULL, 10);
}

static void input(const char *text)
{
    char path[128];

    snprintf(path, sizeof path, "%s/in", dir);
    put_text(path, text);
}

/* ---- Trees ---- */

START_TEST(links_in_a_circle_end)
{
    ck_assert_int_eq(mkdir("a", 0755) | mkdir("a/b", 0755), 0);
    ck_assert_int_eq(symlink("..", "a/b/up") | symlink(".", "a/self") | symlink("nowhere", "a/gone"), 0);
    put_text("a/b/f", "needle\n");
    ck_assert_int_eq(run("glob", NULL, "pattern=**/f", "limit=10", NULL), 0);
    ck_assert_int_eq(number("matches"), 1);
    ck_assert_int_eq(run("glob", NULL, "pattern=a/self/self/b/f", "limit=10", NULL), 0);
    ck_assert_int_eq(number("matches"), 1);
    ck_assert_int_eq(run("grep", NULL, "pattern=needle", NULL), 0);
    ck_assert_int_eq(number("matches"), 1);
}
END_TEST

START_TEST(a_fifo_a_device_and_a_socket_are_never_opened)
{
    ck_assert_int_eq(mkfifo("fifo", 0644), 0);
    put_text("plain", "needle\n");
    ck_assert_int_eq(run("grep", NULL, "pattern=.", NULL), 0);
    ck_assert_int_eq(number("matches"), 1);
    ck_assert_int_eq(number("unreadable"), 0);
    ck_assert_int_eq(run("lines", NULL, "path=fifo", "first=1", "last=0", NULL), 1);
    ck_assert_ptr_nonnull(strstr(said, "error not_regular"));
    ck_assert_int_eq(run("lines", NULL, "path=/dev/zero", "first=1", "last=0", NULL), 1);
    ck_assert_int_eq(run("lines", NULL, "path=.", "first=1", "last=0", NULL), 1);
    ck_assert_ptr_nonnull(strstr(said, "error is_a_directory"));
    ck_assert_int_eq(run("grep", NULL, "pattern=.", "path=fifo", NULL), 1);
}
END_TEST

START_TEST(a_tree_deeper_than_the_bound_is_told_of_and_the_rest_found)
{
    int fd = open(".", O_RDONLY | O_DIRECTORY);

    put_text("top", "needle\n");
    for (int i = 0; i < 1100; i++) {
        int inner;

        ck_assert_int_eq(mkdirat(fd, "d", 0755), 0);
        inner = openat(fd, "d", O_RDONLY | O_DIRECTORY);
        close(fd);
        fd = inner;
        ck_assert_int_ge(fd, 0);
    }
    close(fd);
    ck_assert_int_eq(run("grep", NULL, "pattern=needle", NULL), 0);
    ck_assert_int_eq(number("matches"), 1);
    ck_assert_int_gt(number("too_deep") + number("unreadable"), 0); /* where few descriptors are allowed */
    ck_assert_int_eq(run("glob", NULL, "pattern=**/top", "limit=9", NULL), 0);
    ck_assert_int_eq(number("matches"), 1);
}
END_TEST

START_TEST(of_many_files_the_newest_are_shown_and_all_are_counted)
{
    for (int i = 0; i < 3000; i++) {
        struct timespec times[2] = {{1000000000 + i, 0}, {1000000000 + i, i}};
        char name[32];

        snprintf(name, sizeof name, "f%04d", i);
        put(name, "", 0);
        ck_assert_int_eq(utimensat(AT_FDCWD, name, times, 0), 0);
    }
    ck_assert_int_eq(run("glob", NULL, "pattern=f*", "limit=3", NULL), 0);
    ck_assert_int_eq(number("matches"), 3000);
    ck_assert_ptr_nonnull(strstr(out, "/f2999"));
    ck_assert_ptr_nonnull(strstr(out + strlen(out) + 1, "/f2998"));
    ck_assert_uint_eq(out_length, 3 * (strlen(tree) + strlen("/f0000") + 1));
}
END_TEST

START_TEST(a_name_is_one_record_whatever_is_in_it)
{
    put_text("new\nline \xff$(id)", "needle\n");
    ck_assert_int_eq(run("glob", NULL, "pattern=*", "limit=9", NULL), 0);
    ck_assert_int_eq(number("matches"), 1);
    ck_assert_ptr_nonnull(strstr(out, "/new\nline \xff$(id)"));
    ck_assert_int_eq(run("grep", NULL, "pattern=needle", NULL), 0);
    ck_assert_ptr_nonnull(strstr(out, "/new\\nline \xff$(id):1:needle\n"));
}
END_TEST

START_TEST(one_file_that_cannot_be_read_is_counted_and_no_error)
{
    put_text("good", "needle\n");
    put_text("secret", "needle\n");
    ck_assert_int_eq(chmod("secret", 0), 0);
    without_rights = true;
    ck_assert_int_eq(run("grep", NULL, "pattern=needle", NULL), 0);
    ck_assert_int_eq(number("matches"), 1);
    ck_assert_int_eq(number("unreadable"), 1);
}
END_TEST

/* ---- Lines ---- */

START_TEST(a_binary_file_is_passed_over_and_invalid_text_is_not)
{
    put("binary", "needle\0needle\n", 14);
    put("latin", "caf\xe9 needle\n", 12);
    ck_assert_int_eq(run("grep", NULL, "pattern=needle$", NULL), 0);
    ck_assert_int_eq(number("matches"), 1);
    ck_assert_int_eq(number("binary"), 1);
}
END_TEST

START_TEST(a_line_of_megabytes_matches_and_is_shown_cut)
{
    size_t length = 3u << 20;
    char *line = malloc(length);

    memset(line, 'x', length);
    memcpy(line + length - 8, "needle\nz", 8);
    put("long", line, length);
    free(line);
    ck_assert_int_eq(run("grep", NULL, "pattern=needle$", NULL), 0);
    ck_assert_int_eq(number("matches"), 1);
    ck_assert_ptr_nonnull(strstr(out, "bytes more]\n"));
    ck_assert_uint_lt(out_length, 4096);
    ck_assert_int_eq(run("grep", NULL, "pattern=^z$", NULL), 0);
    ck_assert_ptr_nonnull(strstr(out, ":2:z\n"));
}
END_TEST

START_TEST(context_is_shown_once_and_groups_are_apart)
{
    put_text("f", "1\n2 x\n3\n4 x\n5\n6\n7\n8 x");
    ck_assert_int_eq(run("grep", NULL, "pattern=x", "path=f", "before=1", "after=1", NULL), 0);
    ck_assert_str_eq(out, "f-1-1\nf:2:2 x\nf-3-3\nf:4:4 x\nf-5-5\n--\nf-7-7\nf:8:8 x\n");
    ck_assert_int_eq(run("grep", NULL, "pattern=x", "path=f", "mode=count", NULL), 0);
    ck_assert_str_eq(out, "f:3\n");
    ck_assert_int_eq(run("grep", NULL, "pattern=x", "path=f", "limit=2", NULL), 0);
    ck_assert_str_eq(out, "f:2:2 x\nf:4:4 x\n");
    ck_assert_int_eq(number("limit_reached"), 1);
}
END_TEST

START_TEST(filters_and_gitignore_leave_files_out)
{
    ck_assert_int_eq(mkdir(".git", 0755) | mkdir("node_modules", 0755) | mkdir("s", 0755), 0);
    put_text(".git/f.c", "x\n");
    put_text("node_modules/f.c", "x\n");
    put_text("s/f.c", "x\n");
    put_text("s/f.h", "x\n");
    put_text("s/f.log", "x\n");
    put_text(".gitignore", "*.log\n");
    ck_assert_int_eq(run("grep", NULL, "pattern=x", "mode=files", "glob=*.{c,log}", NULL), 0);
    ck_assert_int_eq(number("files"), 2);
    ck_assert_int_eq(run("grep", NULL, "pattern=^x", "glob=!*.c", "gitignore=1", NULL), 0);
    ck_assert_int_eq(number("files"), 1);
    ck_assert_int_eq(run("grep", NULL, "pattern=^x", "all=1", NULL), 0);
    ck_assert_int_eq(number("files"), 5);
    ck_assert_int_eq(run("glob", NULL, "pattern=**/f.*", "gitignore=1", "limit=9", NULL), 0);
    ck_assert_int_eq(number("matches"), 3);
}
END_TEST

START_TEST(a_range_of_lines_is_read_and_no_more)
{
    put_text("f", "1\n2\n3");
    ck_assert_int_eq(run("lines", NULL, "path=f", "first=2", "last=2", "numbers=1", NULL), 0);
    ck_assert_str_eq(out, "     2\t2\n");
    ck_assert_int_eq(run("lines", NULL, "path=f", "first=2", "last=0", NULL), 0);
    ck_assert_str_eq(out, "2\n3");
    ck_assert_int_eq(number("total_lines"), 3);
    ck_assert_int_eq(run("lines", NULL, "path=f", "first=9", "last=10", NULL), 0);
    ck_assert_str_eq(out, "");
}
END_TEST

/* ---- Edits ---- */

START_TEST(an_edit_keeps_the_mode_and_asks_for_what_is_unique)
{
    char text[64], path[80];
    struct stat st;

    put_text("f", "aXbXc");
    ck_assert_int_eq(chmod("f", 0751), 0);
    snprintf(path, sizeof path, "path=%s/f", tree);
    input("Xyy");
    ck_assert_int_eq(run("edit", "in", path, "old=1", "limit=100", NULL), 0);
    ck_assert_int_eq(number("count"), 2);
    ck_assert_int_eq(number("edited"), -1);
    ck_assert_int_eq(run("edit", "in", path, "old=1", "limit=100", "all=1", NULL), 0);
    ck_assert_int_eq(number("edited"), 1);
    get("f", text, sizeof text);
    ck_assert_str_eq(text, "ayybyyc");
    ck_assert_int_eq(stat("f", &st), 0);
    ck_assert_int_eq(st.st_mode & 07777, 0751);
    ck_assert_int_eq(run("edit", "in", path, "old=1", "limit=100", NULL), 0);
    ck_assert_int_eq(number("count"), 0);
    input("ayaaaa");
    ck_assert_int_eq(run("edit", "in", path, "old=2", "limit=8", NULL), 1);
    ck_assert_ptr_nonnull(strstr(said, "error too_large"));
}
END_TEST

START_TEST(an_edit_of_another_state_is_refused)
{
    char path[80], version[160];
    char *start_of, *end_of;

    put_text("f", "one");
    snprintf(path, sizeof path, "path=%s/f", tree);
    ck_assert_int_eq(run("lines", NULL, path, "first=1", "last=0", NULL), 0);
    start_of = strstr(said, "version ");
    ck_assert_ptr_nonnull(start_of);
    end_of = strchr(start_of, '\n');
    snprintf(version, sizeof version, "version=%.*s", (int)(end_of - start_of - 8), start_of + 8);
    input("onetwo");
    ck_assert_int_eq(run("edit", "in", path, "old=3", "limit=100", version, NULL), 0);
    ck_assert_int_eq(number("edited"), 1);
    input("twosix");
    ck_assert_int_eq(run("edit", "in", path, "old=3", "limit=100", version, NULL), 0);
    ck_assert_int_eq(number("conflict"), 1);
    ck_assert_int_eq(run("put", "in", path, version, NULL), 0);
    ck_assert_int_eq(number("conflict"), 1);
}
END_TEST

/* Each adds one letter to the same line; they are as many processes, as of several hosts. */
START_TEST(of_edits_at_once_none_is_lost)
{
    enum { EDITORS = 12 };
    char path[80], arguments[256], text[64];
    pid_t pids[EDITORS];

    put_text("f", "(|)");
    snprintf(path, sizeof path, "path=%s/f", tree);
    snprintf(arguments, sizeof arguments, "%zu:%s5:old=19:limit=10015:out_max=1000000", strlen(path), path);
    input("||x");
    for (int i = 0; i < EDITORS; i++) {
        pids[i] = start("edit", "in", arguments);
    }
    for (int i = 0; i < EDITORS; i++) {
        int status = 1;

        ck_assert_int_eq(waitpid(pids[i], &status, 0), pids[i]);
        ck_assert_int_eq(status, 0);
    }
    get("f", text, sizeof text);
    ck_assert_str_eq(text, "(|xxxxxxxxxxxx)");
}
END_TEST

START_TEST(arguments_that_make_no_sense_are_refused)
{
    static const char *const rows[] = {"", "x", "3:a=", "99999999999999999999:a=b", "1:a", "-3:a=b", "3:a=b3"};
    int status = 0;

    ck_assert_int_gt(waitpid(start("glob", NULL, (char *)rows[_i]), &status, 0), 0);
    ck_assert(WIFEXITED(status));
    ck_assert_int_eq(WEXITSTATUS(status), 1);
}
END_TEST

/* ---- sweep ---- */

/* An output as it is kept: the file's number is its age. */
static const char *put_output(unsigned age, size_t length)
{
    static char name[64];
    const struct timespec times[2] = {{.tv_sec = 1000000 - (time_t)age}, {.tv_sec = 1000000 - (time_t)age}};
    cleanup_free char *data = calloc(1, length + 1);

    ck_assert_ptr_nonnull(data);
    snprintf(name, sizeof name, "grep-%016x.txt", age);
    put(name, data, length);
    ck_assert_int_eq(utimensat(AT_FDCWD, name, times, 0), 0);
    return name;
}

/* Whether the outputs of these ages are there, and those from there to `end` are not. */
static void assert_kept(unsigned begin_age, unsigned gone_from, unsigned end_age)
{
    for (unsigned age = begin_age; age < end_age; age++) {
        char name[64];

        snprintf(name, sizeof name, "grep-%016x.txt", age);
        ck_assert_msg((access(name, F_OK) == 0) == (age < gone_from), "%s", name);
    }
}

START_TEST(the_newest_outputs_stay_and_older_ones_are_removed)
{
    for (unsigned i = 0; i < 20; i++) {
        put_output(i * 7 % 20, 10); /* in no order */
    }
    ck_assert_int_eq(run("sweep", NULL, "files=6", "bytes=1000", NULL), 0);
    ck_assert_int_eq(number("removed"), 14);
    assert_kept(0, 6, 20);
    ck_assert_int_eq(run("sweep", NULL, "files=6", "bytes=1000", NULL), 0);
    ck_assert_int_eq(number("removed"), 0);
    ck_assert_int_eq(run("sweep", NULL, "files=6", "bytes=39", NULL), 0);
    ck_assert_int_eq(number("removed"), 3);
    assert_kept(0, 3, 20);
    put_output(1, 1000); /* what is behind one that is too large is older, and goes with it */
    ck_assert_int_eq(run("sweep", NULL, "files=6", "bytes=39", NULL), 0);
    assert_kept(0, 1, 20);
    ck_assert_int_eq(run("sweep", NULL, "files=0", "bytes=39", NULL), 0);
    assert_kept(0, 0, 20);
}
END_TEST

START_TEST(nothing_but_outputs_is_removed_and_nothing_is_followed)
{
    static const char *const names[] = {"grep-0123456789abcde.txt",   "grep-0123456789abcdef0.txt",
                                        "grep-0123456789ABCDEF.txt",  "-0123456789abcdef.txt",
                                        "grep-0123456789abcdef.txt~", "grep-0123456789abcdef.txt\n",
                                        "Grep-0123456789abcdef.txt",  "abcdefghijklmnopq-0123456789abcdef.txt",
                                        "notes.txt"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        put_text(names[i], "mine");
    }
    put_text("../precious", "mine");
    ck_assert_int_eq(symlink("../precious", "grep-000000000000000a.txt"), 0);
    ck_assert_int_eq(symlink("nowhere", "grep-000000000000000b.txt"), 0);
    ck_assert_int_eq(mkdir("grep-000000000000000c.txt", 0755), 0);
    put_text("grep-000000000000000c.txt/bash-0123456789abcdef.txt", "mine");
    ck_assert_int_eq(mkfifo("grep-000000000000000d.txt", 0644), 0);
    put_output(99, 4);
    ck_assert_int_eq(run("sweep", NULL, "files=0", "bytes=0", NULL), 0);
    ck_assert_int_eq(number("removed"), 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        ck_assert_msg(access(names[i], F_OK) == 0, "%s", names[i]);
    }
    ck_assert_int_eq(access("../precious", F_OK), 0);
    for (char last = 'a'; last <= 'd'; last++) {
        struct stat st;
        char name[64];

        snprintf(name, sizeof name, "grep-000000000000000%c.txt", last);
        ck_assert_msg(lstat(name, &st) == 0, "%s", name);
    }
    ck_assert_int_eq(access("grep-000000000000000c.txt/bash-0123456789abcdef.txt", F_OK), 0);
}
END_TEST

START_TEST(a_folder_that_is_none_is_left_alone)
{
    char path[128];

    put_output(1, 4);
    ck_assert_int_eq(symlink(tree, "../link"), 0);
    snprintf(path, sizeof path, "path=%s/link", dir);
    ck_assert_int_eq(run("sweep", NULL, "files=0", "bytes=0", path, NULL), 1);
    snprintf(path, sizeof path, "path=%s/%s", tree, "grep-0000000000000001.txt");
    ck_assert_int_eq(run("sweep", NULL, "files=0", "bytes=0", path, NULL), 1);
    snprintf(path, sizeof path, "path=%s/none", tree);
    ck_assert_int_eq(run("sweep", NULL, "files=0", "bytes=0", path, NULL), 0);
    assert_kept(1, 2, 2);
}
END_TEST

UNIT_SUITE(tool)
{
    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, the_newest_outputs_stay_and_older_ones_are_removed);
    tcase_add_test(tcase, nothing_but_outputs_is_removed_and_nothing_is_followed);
    tcase_add_test(tcase, a_folder_that_is_none_is_left_alone);
    tcase_add_test(tcase, links_in_a_circle_end);
    tcase_add_test(tcase, a_fifo_a_device_and_a_socket_are_never_opened);
    tcase_add_test(tcase, a_tree_deeper_than_the_bound_is_told_of_and_the_rest_found);
    tcase_add_test(tcase, of_many_files_the_newest_are_shown_and_all_are_counted);
    tcase_add_test(tcase, a_name_is_one_record_whatever_is_in_it);
    tcase_add_test(tcase, one_file_that_cannot_be_read_is_counted_and_no_error);
    tcase_add_test(tcase, a_binary_file_is_passed_over_and_invalid_text_is_not);
    tcase_add_test(tcase, a_line_of_megabytes_matches_and_is_shown_cut);
    tcase_add_test(tcase, context_is_shown_once_and_groups_are_apart);
    tcase_add_test(tcase, filters_and_gitignore_leave_files_out);
    tcase_add_test(tcase, a_range_of_lines_is_read_and_no_more);
    tcase_add_test(tcase, an_edit_keeps_the_mode_and_asks_for_what_is_unique);
    tcase_add_test(tcase, an_edit_of_another_state_is_refused);
    tcase_add_test(tcase, of_edits_at_once_none_is_lost);
    tcase_add_loop_test(tcase, arguments_that_make_no_sense_are_refused, 0, 7);
}
