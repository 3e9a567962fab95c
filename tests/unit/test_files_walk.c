/* The file server's walks: hostile links, exchanged directories, long paths. */
#include "tests/unit/files_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/cleanup.h"

static int getattr(struct wire_ref ref)
{
    return serve((struct wire_call){.op = WIRE_GETATTR, .ref = ref});
}

static int lookup(struct wire_ref dir, const char *name)
{
    return serve((struct wire_call){.op = WIRE_LOOKUP, .ref = dir, .name = text(name)});
}

START_TEST(bytes_that_are_no_call_are_a_bad_request)
{
    static const uint8_t junk[] = {1, 0, 255, 255};

    ck_assert_int_eq(files_serve(bed.files, junk, sizeof junk, &bed.bytes), 0);
    ck_assert_int_eq(wire_get_reply(bed.bytes.data, bed.bytes.length, WIRE_LOOKUP, &bed.reply), 0);
    ck_assert_int_eq(bed.reply.code, ERROR_BAD_REQUEST);
}
END_TEST

START_TEST(a_reply_follows_what_the_buffer_holds_already)
{
    struct wire_call call = {.op = WIRE_GETATTR, .ref = at("missing")};
    cleanup_buffer struct buffer bytes = BUFFER_INIT(WIRE_MAX_PAYLOAD);

    ck_assert_int_eq(wire_put_call(&bytes, &call), 0);
    ck_assert_int_eq(buffer_append(&bed.bytes, "head", 4), 0);
    ck_assert_int_eq(files_serve(bed.files, bytes.data, bytes.length, &bed.bytes), 0);
    ck_assert_mem_eq(bed.bytes.data, "head", 4);
    ck_assert_int_eq(
        wire_get_reply(bed.bytes.data + 4, bed.bytes.length - 4, WIRE_GETATTR, &bed.reply), 0);
    ck_assert_int_eq(bed.reply.code, ERROR_NO_SUCH_FILE);
}
END_TEST

START_TEST(a_workdir_that_is_missing_or_no_directory_is_an_error)
{
    struct files *files = NULL;
    struct error err;

    ck_assert_int_eq(files_new(&files, bed.root, "/none", &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_SUCH_FILE);
    put_text("file", "");
    ck_assert_int_eq(files_new(&files, bed.root, "/workspace/file", &err), -1);
    ck_assert_int_eq(err.code, ERROR_NOT_DIRECTORY);
    ck_assert_ptr_null(files);
    files_free(NULL);
}
END_TEST

START_TEST(a_link_on_the_way_is_stale_and_never_followed)
{
    ck_assert_int_eq(mkdirat(bed.workdir, "real", 0755), 0);
    put_text("real/file", "x");
    ck_assert_int_eq(symlinkat("real", bed.workdir, "link"), 0);
    ck_assert_int_eq(symlinkat("/etc", bed.workdir, "etc"), 0);
    ck_assert_int_eq(symlinkat("..", bed.workdir, "up"), 0);
    ck_assert_int_eq(getattr(at("real/file")), 0);
    ck_assert_int_eq(getattr(at("link/file")), ESTALE);
    ck_assert_int_eq(getattr(at("etc/passwd")), ESTALE);
    ck_assert_int_eq(getattr(at("up/workspace")), ESTALE);
    ck_assert_int_eq(lookup(at("link"), "file"), ESTALE);
    ck_assert_int_eq(lookup(at("etc"), "passwd"), ESTALE);
    ck_assert_int_eq(
        serve((struct wire_call){.op = WIRE_UNLINK, .ref = at("link"), .name = text("file")}),
        ESTALE);
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_OPENDIR, .ref = at("link")}), ESTALE);
    expect_text("real/file", "x");
}
END_TEST

START_TEST(a_link_at_the_end_is_itself)
{
    ck_assert_int_eq(symlinkat("/etc/passwd", bed.workdir, "link"), 0);
    ck_assert_int_eq(getattr(at("link")), 0);
    ck_assert(S_ISLNK(bed.reply.attr.mode));
    ck_assert_int_eq(lookup(at(""), "link"), 0);
    ck_assert(S_ISLNK(bed.reply.attr.mode));
    ck_assert_int_eq(getattr(in_root("workspace/link")), 0);
    ck_assert(S_ISLNK(bed.reply.attr.mode));
}
END_TEST

START_TEST(from_the_root_links_in_parents_stay_inside)
{
    ck_assert_int_eq(mkdirat(bed.root, "etc", 0755), 0);
    put_text("../etc/passwd", "inside");
    ck_assert_int_eq(symlinkat("/etc", bed.workdir, "abs"), 0);
    ck_assert_int_eq(symlinkat("../../../../etc", bed.workdir, "rel"), 0);
    ck_assert_int_eq(symlinkat("loop", bed.workdir, "loop"), 0);
    ck_assert_int_eq(getattr(in_root("workspace/abs/passwd")), 0);
    ck_assert_uint_eq(bed.reply.attr.size, 6);
    ck_assert_int_eq(getattr(in_root("workspace/rel/passwd")), 0);
    ck_assert_uint_eq(bed.reply.attr.size, 6);
    ck_assert_int_eq(getattr(in_root("workspace/loop/x")), ELOOP);
    ck_assert_int_eq(getattr(in_root("etc/passwd/x")), ENOTDIR);
}
END_TEST

START_TEST(a_file_that_took_the_place_of_another_is_stale)
{
    struct wire_ref ref = at("dir/file");
    struct wire_ref dir = at("dir");
    struct wire_ref whole = at("");
    struct wire_attr attr;

    ck_assert_int_eq(mkdirat(bed.workdir, "dir", 0755), 0);
    put_text("dir/file", "x");
    attr = attr_of("dir/file");
    ref.dev = attr.dev;
    ref.ino = attr.ino;
    ck_assert_int_eq(getattr(ref), 0);
    attr = attr_of("dir");
    dir.dev = attr.dev;
    dir.ino = attr.ino;
    ck_assert_int_eq(lookup(dir, "file"), 0);
    ck_assert_int_eq(renameat(bed.workdir, "dir", bed.workdir, "old"), 0);
    ck_assert_int_eq(mkdirat(bed.workdir, "dir", 0755), 0);
    put_text("dir/file", "y");
    ck_assert_int_eq(getattr(ref), ESTALE);
    ck_assert_int_eq(lookup(dir, "file"), ESTALE);
    attr = attr_of("");
    whole.dev = attr.dev;
    whole.ino = attr.ino;
    ck_assert_int_eq(lookup(whole, "dir"), 0);
    whole.ino++;
    ck_assert_int_eq(lookup(whole, "dir"), ESTALE);
    whole.ino--;
    whole.dev++;
    ck_assert_int_eq(lookup(whole, "dir"), ESTALE);
}
END_TEST

START_TEST(a_directory_exchanged_for_a_link_is_stale)
{
    ck_assert_int_eq(mkdirat(bed.workdir, "dir", 0755), 0);
    put_text("dir/file", "x");
    ck_assert_int_eq(lookup(at("dir"), "file"), 0);
    ck_assert_int_eq(renameat(bed.workdir, "dir", bed.workdir, "moved"), 0);
    ck_assert_int_eq(symlinkat("moved", bed.workdir, "dir"), 0);
    ck_assert_int_eq(lookup(at("dir"), "file"), ESTALE);
    ck_assert_int_eq(getattr(at("dir/file")), ESTALE);
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_OPEN, .ref = at("dir/file")}), ESTALE);
}
END_TEST

#define EXCHANGES_IN_A_ROW 16

/* Exchanges the directory and a link that leads out, for as long as the test lasts. The pauses are for
 * valgrind, which runs one thread at a time and would not get round to the other one. */
static void *exchange(void *arg)
{
    atomic_bool *stop = arg;

    while (!atomic_load(stop)) {
        for (int i = 0; i < EXCHANGES_IN_A_ROW; i++) {
            (void)!renameat2(bed.workdir, "dir", bed.workdir, "link", RENAME_EXCHANGE);
        }
        usleep(1);
    }
    return NULL;
}

START_TEST(whoever_exchanges_directories_all_the_time_never_leads_out)
{
    struct wire_call read = {.op = WIRE_READ, .ref = at("dir/file"), .size = 16};
    struct wire_call create = {.op = WIRE_CREATE, .ref = at("dir"), .name = text("new"),
                               .flags = O_RDWR, .mode = 0644};
    atomic_bool stop = false;
    pthread_t thread;

    ck_assert_int_eq(mkdirat(bed.root, "outside", 0755), 0);
    put_text("../outside/file", "outside");
    ck_assert_int_eq(mkdirat(bed.workdir, "dir", 0755), 0);
    put_text("dir/file", "inside");
    ck_assert_int_eq(symlinkat("../outside", bed.workdir, "link"), 0);
    ck_assert_int_eq(pthread_create(&thread, NULL, exchange, &stop), 0);
    for (int i = 0; i < 2000; i++) {
        int r = serve(read);

        ck_assert_msg(r == ESTALE || (r == 0 && memcmp(bed.reply.data.data, "inside", 6) == 0),
                      "errno %d", r);
        r = serve(create);
        ck_assert_msg(r == ESTALE || r == 0, "errno %d", r);
        if (r == 0) {
            released(bed.reply.handle);
        }
    }
    atomic_store(&stop, true);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    ck_assert(!exists("../outside/new"));
}
END_TEST

START_TEST(the_workdir_stays_the_same_directory_under_another_name)
{
    put_text("file", "x");
    ck_assert_int_eq(renameat(bed.root, "workspace", bed.root, "elsewhere"), 0);
    ck_assert_int_eq(symlinkat("/etc", bed.root, "workspace"), 0);
    ck_assert_int_eq(lookup(at(""), "file"), 0);
    ck_assert_int_eq(getattr(at("file")), 0);
    ck_assert_int_eq(lookup(at(""), "passwd"), ENOENT);
    ck_assert_int_eq(unlinkat(bed.root, "workspace", 0), 0);
    ck_assert_int_eq(renameat(bed.root, "elsewhere", bed.root, "workspace"), 0);
}
END_TEST

/* ---- Long paths ------------------------------------------------------------------------------ */

#define DEPTH 24 /* components of 250 bytes: more than PATH_MAX */

/* Makes a path that is too long for the kernel, and tells it. */
static void make_deep(char *path, size_t size)
{
    char name[251];
    cleanup_fd int dir = openat(bed.workdir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    size_t used = 0;

    memset(name, 'n', 250);
    name[250] = '\0';
    for (int i = 0; i < DEPTH; i++) {
        int next;

        ck_assert_int_eq(mkdirat(dir, name, 0755), 0);
        next = openat(dir, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        ck_assert_int_ge(next, 0);
        close(dir);
        dir = next;
        used += (size_t)snprintf(path + used, size - used, "%s%s", i > 0 ? "/" : "", name);
    }
    ck_assert_uint_gt(used, PATH_MAX);
}

START_TEST(a_path_that_is_too_long_for_the_kernel_works)
{
    char path[DEPTH * 251 + 64];
    char file[sizeof path + 8];
    char link[sizeof path + 32];
    struct wire_call create = {.op = WIRE_CREATE, .name = text("file"), .mode = 0644,
                               .flags = O_RDWR};

    make_deep(path, sizeof path);
    create.ref = at(path);
    served(create);
    ck_assert_int_eq(lookup(at(path), "file"), 0);
    snprintf(file, sizeof file, "%s/file", path);
    ck_assert_int_eq(getattr(at(file)), 0);
    released(opened(file, O_RDONLY));
    served((struct wire_call){.op = WIRE_SYMLINK, .ref = at(path), .name = text("link"),
                              .data = text("/etc")});
    snprintf(link, sizeof link, "%s/link/passwd", path);
    ck_assert_int_eq(getattr(at(link)), ESTALE);
    snprintf(link, sizeof link, "workspace/%s/file", path);
    ck_assert_int_eq(getattr(in_root(link)), 0);
    snprintf(link, sizeof link, "workspace/%s/link/passwd", path);
    ck_assert_int_eq(getattr(in_root(link)), ELOOP);
    served((struct wire_call){.op = WIRE_WRITE_FILE, .ref = in_root(file), .size = 0});
}
END_TEST

START_TEST(a_name_has_255_bytes_at_most_and_may_be_any_bytes)
{
    char longest[WIRE_MAX_NAME + 1];
    char path[2 * WIRE_MAX_NAME];
    static const char *const odd[] = {"new\nline", "\xff\xfe not UTF-8", "-rf", " ", "\x01", "a\\b"};
    struct wire_call create = {.op = WIRE_CREATE, .ref = at(""), .mode = 0644, .flags = O_RDWR};

    memset(longest, 'x', 255);
    longest[255] = '\0';
    create.name = text(longest);
    served(create);
    ck_assert(exists(longest));
    ck_assert_int_eq(getattr(at(longest)), 0);
    snprintf(path, sizeof path, "%sx", longest);
    ck_assert_int_eq(getattr(at(path)), ENAMETOOLONG);
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        create.name = text(odd[i]);
        served(create);
        ck_assert(exists(odd[i]));
        ck_assert_int_eq(getattr(at(odd[i])), 0);
    }
}
END_TEST

START_TEST(a_component_longer_than_any_path_is_too_long)
{
    static char path[WIRE_MAX_PATH];

    memset(path, 'x', sizeof path - 1);
    ck_assert_int_eq(getattr(at(path)), ENAMETOOLONG);
}
END_TEST

/* ---- RESOLVE ---------------------------------------------------------------------------------- */

static int resolve(const char *dir, const char *path, const char *expected)
{
    int r = serve((struct wire_call){.op = WIRE_RESOLVE, .ref = at(dir), .data = text(path)});

    if (r == 0 && expected != NULL) {
        ck_assert_msg(bed.reply.data.length == strlen(expected) &&
                          memcmp(bed.reply.data.data, expected, strlen(expected)) == 0,
                      "%s leads to %.*s", path, (int)bed.reply.data.length, bed.reply.data.data);
    }
    return r;
}

START_TEST(a_path_is_resolved_as_a_process_inside_would)
{
    ck_assert_int_eq(mkdirat(bed.workdir, "a", 0755), 0);
    ck_assert_int_eq(mkdirat(bed.workdir, "a/b", 0755), 0);
    put_text("a/b/file", "");
    ck_assert_int_eq(symlinkat("/workspace/a", bed.workdir, "abs"), 0);
    ck_assert_int_eq(symlinkat("b", bed.workdir, "a/rel"), 0);
    ck_assert_int_eq(resolve("", "a/b/file", "a/b/file"), 0);
    ck_assert_int_eq(resolve("", "abs/rel/file", "a/b/file"), 0);
    ck_assert_int_eq(resolve("a", "rel/../../abs/b/./file", "a/b/file"), 0);
    ck_assert_int_eq(resolve("a/b", "../rel/..", "a"), 0);
    ck_assert_int_eq(resolve("a", "/workspace/abs/b/", "a/b"), 0);
    ck_assert_int_eq(resolve("a", "..", ""), 0);
    ck_assert_int_eq(resolve("", "/workspace", ""), 0);
    ck_assert_int_eq(resolve("", "abs/../abs", "a"), 0);
}
END_TEST

START_TEST(a_name_that_is_not_there_yet_is_resolved_too)
{
    ck_assert_int_eq(mkdirat(bed.workdir, "a", 0755), 0);
    ck_assert_int_eq(symlinkat("a", bed.workdir, "link"), 0);
    ck_assert_int_eq(symlinkat("../link/new", bed.workdir, "a/dangling"), 0);
    ck_assert_int_eq(symlinkat("/workspace/a/dangling", bed.workdir, "twice"), 0);
    ck_assert_int_eq(symlinkat("/elsewhere", bed.workdir, "away"), 0);
    ck_assert_int_eq(resolve("", "link/new", "a/new"), 0);
    ck_assert_int_eq(resolve("", "new", "new"), 0);
    ck_assert_int_eq(resolve("", "link/dangling", "a/new"), 0);
    ck_assert_int_eq(resolve("", "twice", "a/new"), 0);
    ck_assert_int_eq(resolve("", "away", NULL), EXDEV);
    ck_assert_int_eq(resolve("", "none/new", NULL), ENOENT);
    ck_assert_int_eq(resolve("", "none/..", NULL), ENOENT);
}
END_TEST

START_TEST(what_leads_out_of_the_workdir_is_told_as_such)
{
    ck_assert_int_eq(mkdirat(bed.root, "etc", 0755), 0);
    ck_assert_int_eq(mkdirat(bed.root, "workspace2", 0755), 0);
    ck_assert_int_eq(symlinkat("/etc", bed.workdir, "etc"), 0);
    ck_assert_int_eq(symlinkat("loop", bed.workdir, "loop"), 0);
    put_text("file", "");
    ck_assert_int_eq(resolve("", "etc", NULL), EXDEV);
    ck_assert_int_eq(resolve("", "..", NULL), EXDEV);
    ck_assert_int_eq(resolve("", "../../../workspace2", NULL), EXDEV);
    ck_assert_int_eq(resolve("", "/", NULL), EXDEV);
    ck_assert_int_eq(resolve("", "../../../workspace/file", "file"), 0);
    ck_assert_int_eq(resolve("", "loop", NULL), ELOOP);
    ck_assert_int_eq(resolve("", "file/x", NULL), ENOTDIR);
    ck_assert_int_eq(resolve("", "", NULL), ENOENT);
    ck_assert_int_eq(serve((struct wire_call){.op = WIRE_RESOLVE, .ref = at(""),
                                              .data = {"a\0b", 3}}),
                     EINVAL);
}
END_TEST

START_TEST(a_removed_directory_is_not_taken_for_one_of_its_last_name)
{
    uint64_t handle;

    ck_assert_int_eq(mkdirat(bed.workdir, "dir", 0755), 0);
    ck_assert_int_eq(mkdirat(bed.workdir, "dir (deleted)", 0755), 0);
    ck_assert_int_eq(resolve("dir (deleted)", ".", "dir (deleted)"), 0);
    served((struct wire_call){.op = WIRE_OPENDIR, .ref = at("dir")});
    handle = bed.reply.handle;
    ck_assert_int_eq(unlinkat(bed.workdir, "dir", AT_REMOVEDIR), 0);
    ck_assert_int_eq(
        serve((struct wire_call){.op = WIRE_RESOLVE, .ref = by(handle), .data = text("x")}), ENOENT);
}
END_TEST

static void add_walks(TCase *tcase)
{
    tcase_add_test(tcase, bytes_that_are_no_call_are_a_bad_request);
    tcase_add_test(tcase, a_reply_follows_what_the_buffer_holds_already);
    tcase_add_test(tcase, a_workdir_that_is_missing_or_no_directory_is_an_error);
    tcase_add_test(tcase, a_link_on_the_way_is_stale_and_never_followed);
    tcase_add_test(tcase, a_link_at_the_end_is_itself);
    tcase_add_test(tcase, from_the_root_links_in_parents_stay_inside);
    tcase_add_test(tcase, a_file_that_took_the_place_of_another_is_stale);
    tcase_add_test(tcase, a_directory_exchanged_for_a_link_is_stale);
    tcase_add_test(tcase, whoever_exchanges_directories_all_the_time_never_leads_out);
    tcase_add_test(tcase, the_workdir_stays_the_same_directory_under_another_name);
    tcase_add_test(tcase, a_path_that_is_too_long_for_the_kernel_works);
    tcase_add_test(tcase, a_name_has_255_bytes_at_most_and_may_be_any_bytes);
    tcase_add_test(tcase, a_component_longer_than_any_path_is_too_long);
}

static void add_resolving(TCase *tcase)
{
    tcase_add_test(tcase, a_path_is_resolved_as_a_process_inside_would);
    tcase_add_test(tcase, a_name_that_is_not_there_yet_is_resolved_too);
    tcase_add_test(tcase, what_leads_out_of_the_workdir_is_told_as_such);
    tcase_add_test(tcase, a_removed_directory_is_not_taken_for_one_of_its_last_name);
}

/* All of it again without what an old kernel or a bare sandbox lacks. */
UNIT_SUITE(files_walk)
{
    TCase *slow = tcase_create("files_walk without openat2");
    TCase *bare = tcase_create("files_walk without procfs");

    tcase_add_checked_fixture(tcase, files_bed_open, files_bed_close);
    add_walks(tcase);
    add_resolving(tcase);
    tcase_add_checked_fixture(slow, files_bed_open_without_openat2, files_bed_close);
    add_walks(slow);
    add_resolving(slow);
    suite_add_tcase(suite, slow);
    tcase_add_checked_fixture(bare, files_bed_open_without_proc, files_bed_close);
    add_walks(bare);
    suite_add_tcase(suite, bare);
}
