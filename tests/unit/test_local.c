/* The local backend with real namespaces: a session's life. As root each test runs once more as an ordinary
 * user. What is inside a sandbox is test_local_inside.c's. */
#include "backends/local.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "tests/unit/local_bed.h"
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define RACERS 20

static int attach(const char *session, struct sandbox *ret, struct error *err)
{
    return sandbox_attach(&backend_local, session, bed_deadline(), ret, err);
}

START_TEST(provision_makes_a_sandbox_once)
{
    cleanup_spec struct sandbox_spec spec = {0};
    cleanup_sandbox struct sandbox first = {0};
    cleanup_sandbox struct sandbox second = {0};

    bed_become(_i);
    bed_spec(&spec, "once");
    bed_provision(&spec, &first);
    ck_assert(first.created);
    bed_expect(&first, "pwd; echo kept > file", "/workspace\n");
    bed_provision(&spec, &second);
    ck_assert(!second.created);
    ck_assert_str_eq(first.id, second.id);
    bed_expect(&second, "cat file", "kept\n");
    bed_destroy("once");
}
END_TEST

START_TEST(it_leaves_its_maker_no_child)
{
    cleanup_spec struct sandbox_spec spec = {0};
    cleanup_sandbox struct sandbox sandbox = {0};

    bed_become(_i);
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 0), 0); /* orphans are not of its making */
    while (waitpid(-1, NULL, WNOHANG) > 0) {               /* those of tests before it in this process */
    }
    bed_spec(&spec, "childless");
    bed_provision(&spec, &sandbox);
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1);
    ck_assert_int_eq(errno, ECHILD);
    bed_destroy("childless");
}
END_TEST

START_TEST(it_outlives_its_maker)
{
    cleanup_sandbox struct sandbox sandbox = {0};
    struct error err = {0};
    int status;
    pid_t pid;

    bed_become(_i);
    pid = fork();
    if (pid == 0) {
        struct sandbox_spec spec = {0};

        bed_spec(&spec, "orphan");
        bed_provision(&spec, &sandbox);
        _exit(0);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    ck_assert_int_eq(attach("orphan", &sandbox, &err), 0);
    ck_assert(!sandbox.created);
    bed_expect(&sandbox, "echo alive", "alive\n");
    bed_destroy("orphan");
}
END_TEST

/* One of those who provision at once: writes "1" or "0" (who made it) and the id. */
static void race(int start, int out)
{
    struct sandbox_spec spec = {0};
    struct sandbox sandbox = {0};
    char line[64];
    char byte;
    int n;

    bed_spec(&spec, "race");
    (void)!read(start, &byte, 1);
    bed_provision(&spec, &sandbox);
    n = snprintf(line, sizeof line, "%d%s\n", sandbox.created, sandbox.id);
    _exit(write(out, line, (size_t)n) == n ? 0 : 1);
}

START_TEST(twenty_processes_at_once_make_one_sandbox)
{
    char lines[RACERS * 64 + 1] = "";
    int start[2], out[2];
    pid_t racers[RACERS];
    int creators = 0;
    size_t used = 0;
    ssize_t n;

    bed_become(_i);
    ck_assert_int_eq(pipe(start), 0);
    ck_assert_int_eq(pipe(out), 0);
    for (int i = 0; i < RACERS; i++) {
        racers[i] = fork();
        ck_assert_int_ge(racers[i], 0);
        if (racers[i] == 0) {
            close(start[1]);
            race(start[0], out[1]);
        }
    }
    close(out[1]);
    close(start[1]);
    while ((n = read(out[0], lines + used, sizeof lines - 1 - used)) > 0) {
        used += (size_t)n;
    }
    for (int i = 0; i < RACERS; i++) {
        int status;

        ck_assert_int_eq(waitpid(racers[i], &status, 0), racers[i]);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_uint_eq(used, RACERS * 34);
    for (size_t i = 0; i < RACERS; i++) {
        creators += lines[34 * i] == '1';
        ck_assert_int_eq(memcmp(lines + 34 * i + 1, lines + 1, 33), 0);
    }
    ck_assert_int_eq(creators, 1);
    bed_destroy("race");
}
END_TEST

START_TEST(another_workdir_or_network_is_a_mismatch_and_the_first_lives_on)
{
    cleanup_spec struct sandbox_spec spec = {0};
    cleanup_spec struct sandbox_spec other = {0};
    cleanup_sandbox struct sandbox sandbox = {0};
    cleanup_sandbox struct sandbox none = {0};
    struct error err = {0};

    bed_become(_i);
    bed_spec(&spec, "mismatch");
    bed_provision(&spec, &sandbox);
    bed_spec(&other, "mismatch");
    other.network = NETWORK_FULL;
    ck_assert_int_eq(sandbox_provision(&backend_local, &other, bed_deadline(), &none, &err), -1);
    ck_assert_int_eq(err.code, ERROR_SPEC_MISMATCH);
    ck_assert_ptr_nonnull(strstr(err.message, "network none, not full"));
    other.network = NETWORK_NONE;
    free(other.workdir);
    other.workdir = strdup("/elsewhere");
    ck_assert_int_eq(sandbox_provision(&backend_local, &other, bed_deadline(), &none, &err), -1);
    ck_assert_int_eq(err.code, ERROR_SPEC_MISMATCH);
    ck_assert_ptr_nonnull(strstr(err.message, "\"/workspace\", not \"/elsewhere\""));
    bed_expect(&sandbox, "echo alive", "alive\n");
    bed_destroy("mismatch");
}
END_TEST

static void refused(struct sandbox_spec *spec, const char *why)
{
    cleanup_sandbox struct sandbox sandbox = {0};
    struct error err = {0};

    ck_assert_int_eq(sandbox_provision(&backend_local, spec, bed_deadline(), &sandbox, &err), -1);
    ck_assert_msg(err.code == ERROR_BAD_REQUEST && strstr(err.message, why) != NULL, "%s", err.message);
    ck_assert_uint_eq(bed_names("refused"), 0);
}

START_TEST(what_it_cannot_give_is_refused_before_anything_is_made)
{
    cleanup_spec struct sandbox_spec spec = {0};

    bed_become(_i);
    bed_spec(&spec, "refused");
    spec.image = strdup("debian:stable");
    refused(&spec, "no images");
    free(spec.image);
    spec.image = NULL;
    spec.user = strdup("nobody");
    refused(&spec, "\"nobody\"");
    free(spec.user);
    spec.user = NULL;
    spec.cap_drop = calloc(2, sizeof *spec.cap_drop);
    spec.cap_drop[0] = strdup("FLY");
    refused(&spec, "\"FLY\"");
    free(spec.cap_drop[0]);
    spec.cap_drop[0] = NULL;
    free(spec.workdir);
    spec.workdir = strdup("/lib/x");
    refused(&spec, "/lib");
    if (_i > 0) { /* an ordinary user outside a session of systemd's */
        free(spec.workdir);
        spec.workdir = strdup("/workspace");
        spec.pids = 64;
        refused(&spec, "limit pids");
    }
}
END_TEST

START_TEST(attach_finds_and_never_makes)
{
    cleanup_spec struct sandbox_spec spec = {0};
    cleanup_sandbox struct sandbox made = {0};
    cleanup_sandbox struct sandbox found = {0};
    struct error err = {0};

    bed_become(_i);
    ck_assert_int_eq(attach("nowhere", &found, &err), -1);
    ck_assert_int_eq(err.code, ERROR_SANDBOX_GONE);
    ck_assert_uint_eq(bed_names("nowhere"), 0);
    bed_spec(&spec, "attach");
    bed_provision(&spec, &made);
    ck_assert_int_eq(attach("attach", &found, &err), 0);
    ck_assert_str_eq(found.id, made.id);
    ck_assert_str_eq(found.workdir, "/workspace");
    bed_destroy("attach");
    ck_assert_int_eq(attach("attach", &found, &err), -1);
    ck_assert_int_eq(err.code, ERROR_SANDBOX_GONE);
}
END_TEST

static void expect_gone(struct sandbox *sandbox)
{
    struct error err = {0};
    int fd = -1;

    ck_assert_int_eq(sandbox_connect(sandbox, bed_deadline(), &fd, &err), -1);
    ck_assert_msg(err.code == ERROR_SANDBOX_GONE, "%s", err.message);
}

START_TEST(destroy_is_final_for_a_handle_even_when_the_session_is_back)
{
    cleanup_spec struct sandbox_spec spec = {0};
    cleanup_sandbox struct sandbox old = {0};
    cleanup_sandbox struct sandbox new = {0};
    cleanup_process struct local_process hand = LOCAL_NO_PROCESS;
    struct error err = {0};
    int root = -1;

    bed_become(_i);
    bed_spec(&spec, "final");
    bed_provision(&spec, &old);
    bed_expect(&old, "echo old > file; sleep 1000 < /dev/null > /dev/null 2>&1 & echo", "\n");
    bed_hand(&old, &hand);
    bed_destroy("final");
    ck_assert(!local_process_lives(&hand));
    expect_gone(&old);
    bed_provision(&spec, &new);
    ck_assert(new.created);
    ck_assert_str_ne(old.id, new.id);
    expect_gone(&old);
    ck_assert_int_eq(sandbox_open_root(&old, &root, &err), -1);
    ck_assert_int_eq(err.code, ERROR_SANDBOX_GONE);
    bed_expect(&new, "cat file 2>/dev/null || echo none", "none\n");
    bed_destroy("final");
}
END_TEST

START_TEST(destroy_may_be_repeated_and_leaves_nothing)
{
    cleanup_spec struct sandbox_spec spec = {0};
    cleanup_sandbox struct sandbox sandbox = {0};

    bed_become(_i);
    bed_destroy("never");
    bed_spec(&spec, "again");
    bed_provision(&spec, &sandbox);
    bed_destroy("again");
    bed_destroy("again");
    ck_assert_uint_eq(bed_names("never"), 0);
    ck_assert_uint_eq(bed_names("again"), 0);
}
END_TEST

/* A chain of directories deeper than any path is long, in the session's workspace. */
static void make_deep(const char *session, int depth)
{
    static const char name[] = "a-directory-in-a-directory";
    char path[4096];
    int at;

    snprintf(path, sizeof path, "%s/local/%s/workspace", getenv("HANDSFS_STATE_DIR"), session);
    at = open(path, O_PATH | O_DIRECTORY);
    for (int i = 0; i < depth; i++) {
        int next;

        ck_assert_int_eq(mkdirat(at, name, 0700), 0);
        next = openat(at, name, O_PATH | O_DIRECTORY);
        ck_assert_int_ge(next, 0);
        ck_assert_int_eq(fchmodat(at, name, i % 2 == 0 ? 0300 : 0700, 0), 0);
        close(at);
        at = next;
    }
    close(at);
}

START_TEST(a_hostile_tree_is_removed)
{
    cleanup_spec struct sandbox_spec spec = {0};
    cleanup_sandbox struct sandbox sandbox = {0};

    bed_become(_i);
    bed_spec(&spec, "hostile");
    bed_provision(&spec, &sandbox);
    bed_expect(&sandbox,
               "mkdir -p closed/in; touch closed/in/file; ln -s / link; mkfifo fifo; touch $'new\nline' -- -rf\n"
               "mkdir wide; (cd wide; seq 1 3000 | xargs touch; mkdir -p d{1..50}/e)\n"
               "chmod 0 closed/in; chmod 0 closed; chmod 500 wide; echo made",
               "made\n");
    make_deep("hostile", 500);
    bed_destroy("hostile");
    ck_assert_uint_eq(bed_names("hostile"), 0);
    ck_assert_int_eq(access("/usr/bin/env", F_OK), 0);
}
END_TEST

START_TEST(a_sandbox_whose_hand_died_comes_back_as_another_with_its_files_and_variables)
{
    cleanup_spec struct sandbox_spec spec = {0};
    cleanup_spec struct sandbox_spec plain = {0};
    cleanup_sandbox struct sandbox old = {0};
    cleanup_sandbox struct sandbox found = {0};
    cleanup_sandbox struct sandbox new = {0};
    struct error err = {0};

    bed_become(_i);
    bed_spec(&spec, "reborn");
    ck_assert_int_eq(env_list_set(&spec.env, "BOUND=first", &err), 0);
    bed_provision(&spec, &old);
    bed_expect(&old, "echo kept > file; echo home > ~/file", "");
    bed_kill(&old);
    ck_assert_int_eq(attach("reborn", &found, &err), -1);
    ck_assert_int_eq(err.code, ERROR_SANDBOX_GONE);
    bed_spec(&plain, "reborn");
    ck_assert_int_eq(env_list_set(&plain.env, "BOUND=second", &err), 0);
    bed_provision(&plain, &new);
    ck_assert(new.created);
    ck_assert_str_ne(new.id, old.id);
    bed_expect(&new, "cat file ~/file; echo $BOUND", "kept\nhome\nfirst\n");
    expect_gone(&old);
    bed_destroy("reborn");
}
END_TEST

START_TEST(a_frozen_hand_is_running_takes_no_more_connections_in_time_and_can_be_destroyed)
{
    cleanup_spec struct sandbox_spec spec = {0};
    cleanup_sandbox struct sandbox sandbox = {0};
    cleanup_sandbox struct sandbox again = {0};
    cleanup_process struct local_process hand = LOCAL_NO_PROCESS;
    struct error err = {0};
    int fds[64];
    int count = 0;
    uint64_t before;

    bed_become(_i);
    bed_spec(&spec, "frozen");
    bed_provision(&spec, &sandbox);
    bed_freeze(&sandbox, &hand);
    bed_provision(&spec, &again);
    ck_assert_str_eq(again.id, sandbox.id);
    before = clock_now_ms();
    while (count < 64 && sandbox_connect(&sandbox, before + 200, &fds[count], &err) == 0) {
        count++;
    }
    ck_assert_int_lt(count, 64);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    ck_assert_uint_ge(clock_now_ms(), before + 200);
    ck_assert_uint_lt(clock_now_ms(), before + 20000);
    sandbox_release(&again);
    bed_provision(&spec, &again);
    ck_assert_str_eq(again.id, sandbox.id);
    bed_destroy("frozen");
    ck_assert(!local_process_lives(&hand));
    while (count > 0) {
        close(fds[--count]);
    }
}
END_TEST

static void fails_to_start(const char *how, uint64_t deadline_ms, enum error_code code, const char *why)
{
    cleanup_spec struct sandbox_spec spec = {0};
    cleanup_sandbox struct sandbox sandbox = {0};
    struct error err = {0};
    char assignment[64];

    bed_spec(&spec, "stillborn");
    snprintf(assignment, sizeof assignment, "HANDSFS_FAKE=%s", how);
    ck_assert_int_eq(env_list_set(&spec.env, assignment, &err), 0);
    ck_assert_int_eq(sandbox_provision(&backend_local, &spec, deadline_ms, &sandbox, &err), -1);
    ck_assert_msg(err.code == code && strstr(err.message, why) != NULL, "%s", err.message);
    ck_assert_uint_eq(bed_names("stillborn"), 0);
}

START_TEST(what_does_not_start_says_why_and_is_removed)
{
    bed_become(_i);
    fails_to_start("refuse", bed_deadline(), ERROR_IO, "hand: as it was told");
    fails_to_start("die", bed_deadline(), ERROR_IO, "fake: died as it was told");
    fails_to_start("hang", clock_now_ms() + 700, ERROR_NO_ANSWER, "in time");
}
END_TEST

START_TEST(what_bubblewrap_complains_about_is_the_error_s_text)
{
    cleanup_spec struct sandbox_spec spec = {0};
    cleanup_sandbox struct sandbox sandbox = {0};
    struct error err = {0};

    bed_become(_i);
    bed_spec(&spec, "toolarge");
    for (int i = 0; i < 60; i++) {
        cleanup_free char *entry = malloc(MAX_ENV_VALUE);
        int n = snprintf(entry, 16, "V%d=", i);

        memset(entry + n, 'x', (size_t)(MAX_ENV_VALUE - n - 1));
        entry[MAX_ENV_VALUE - 1] = '\0';
        ck_assert_int_eq(env_list_set(&spec.env, entry, &err), 0);
    }
    ck_assert_int_eq(sandbox_provision(&backend_local, &spec, bed_deadline(), &sandbox, &err), -1);
    ck_assert_msg(strstr(err.message, "bwrap: ") != NULL, "%s", err.message);
    ck_assert_msg(strstr(err.message, "Argument list too long") != NULL, "%s", err.message);
    ck_assert_uint_eq(bed_names("toolarge"), 0);
}
END_TEST

START_TEST(a_machine_without_bubblewrap_is_told_the_package)
{
    cleanup_spec struct sandbox_spec spec = {0};
    cleanup_sandbox struct sandbox sandbox = {0};
    cleanup_free char *path = strdup(getenv("PATH"));
    struct error err = {0};
    int r;

    bed_become(_i);
    bed_spec(&spec, "nowrap");
    setenv("PATH", "/nonexistent", 1);
    r = sandbox_provision(&backend_local, &spec, bed_deadline(), &sandbox, &err);
    setenv("PATH", path, 1);
    ck_assert_int_eq(r, -1);
    ck_assert_ptr_nonnull(strstr(err.message, "package bubblewrap"));
    ck_assert_uint_eq(bed_names("nowrap"), 0);
}
END_TEST

static void count_session(void *arg, const char *session)
{
    int *found = arg;

    *found += strcmp(session, "listed") == 0;
}

START_TEST(list_names_the_sessions_running_or_not)
{
    cleanup_spec struct sandbox_spec spec = {0};
    cleanup_sandbox struct sandbox sandbox = {0};
    struct error err = {0};
    int found = 0;

    bed_become(_i);
    bed_spec(&spec, "listed");
    bed_provision(&spec, &sandbox);
    ck_assert_int_eq(sandbox_list(&backend_local, count_session, &found, &err), 0);
    ck_assert_int_eq(found, 1);
    bed_kill(&sandbox);
    ck_assert_int_eq(sandbox_list(&backend_local, count_session, &found, &err), 0);
    ck_assert_int_eq(found, 2);
    bed_destroy("listed");
    ck_assert_int_eq(sandbox_list(&backend_local, count_session, &found, &err), 0);
    ck_assert_int_eq(found, 2);
}
END_TEST

static void keep_state(void *arg, const char *key, const char *value)
{
    char *text = arg;
    size_t used = strlen(text);

    snprintf(text + used, 4096 - used, "%s=%s\n", key, value);
}

START_TEST(status_says_what_it_is)
{
    cleanup_spec struct sandbox_spec spec = {0};
    cleanup_sandbox struct sandbox sandbox = {0};
    cleanup_process struct local_process hand = LOCAL_NO_PROCESS;
    struct error err = {0};
    char text[4096] = "";

    bed_become(_i);
    bed_spec(&spec, "status");
    bed_provision(&spec, &sandbox);
    ck_assert_int_eq(sandbox_status(&sandbox, keep_state, text, &err), 0);
    ck_assert_ptr_nonnull(strstr(text, "state=running\n"));
    ck_assert_ptr_nonnull(strstr(text, "network=none\n"));
    ck_assert_ptr_nonnull(strstr(text, "/local/status/workspace\n"));
    bed_freeze(&sandbox, &hand);
    text[0] = '\0';
    ck_assert_int_eq(sandbox_status(&sandbox, keep_state, text, &err), 0);
    ck_assert_ptr_nonnull(strstr(text, "state=frozen\n"));
    bed_destroy("status");
    ck_assert_int_eq(sandbox_status(&sandbox, keep_state, text, &err), -1);
    ck_assert_int_eq(err.code, ERROR_SANDBOX_GONE);
}
END_TEST

static void count_report(void *arg, enum doctor_finding finding, const char *what, const char *fix)
{
    int *bad = arg;

    ck_assert_ptr_nonnull(what);
    ck_assert_msg(finding == DOCTOR_OK || fix != NULL, "%s", what);
    *bad += finding == DOCTOR_MISSING;
}

START_TEST(doctor_finds_nothing_wrong_where_sandboxes_can_be_made)
{
    cleanup_free char *hand = strdup(getenv("HANDSFS_HAND"));
    int bad = 0;

    bed_become(_i);
    sandbox_doctor(&backend_local, count_report, &bad);
    ck_assert_int_eq(bad, 0);
    setenv("HANDSFS_HAND", "/nonexistent", 1);
    sandbox_doctor(&backend_local, count_report, &bad);
    setenv("HANDSFS_HAND", hand, 1);
    ck_assert_int_eq(bad, 1);
}
END_TEST

UNIT_SUITE(local)
{
    int callers = bed_callers();

    if (!bed_possible()) {
        return;
    }
    tcase_set_timeout(tcase, BED_TIMEOUT_S);
    tcase_add_unchecked_fixture(tcase, bed_open, bed_close);
    tcase_add_loop_test(tcase, provision_makes_a_sandbox_once, 0, callers);
    tcase_add_loop_test(tcase, it_leaves_its_maker_no_child, 0, callers);
    tcase_add_loop_test(tcase, it_outlives_its_maker, 0, callers);
    tcase_add_loop_test(tcase, twenty_processes_at_once_make_one_sandbox, 0, callers);
    tcase_add_loop_test(tcase, another_workdir_or_network_is_a_mismatch_and_the_first_lives_on, 0, callers);
    tcase_add_loop_test(tcase, what_it_cannot_give_is_refused_before_anything_is_made, 0, callers);
    tcase_add_loop_test(tcase, attach_finds_and_never_makes, 0, callers);
    tcase_add_loop_test(tcase, destroy_is_final_for_a_handle_even_when_the_session_is_back, 0, callers);
    tcase_add_loop_test(tcase, destroy_may_be_repeated_and_leaves_nothing, 0, callers);
    tcase_add_loop_test(tcase, a_hostile_tree_is_removed, 0, callers);
    tcase_add_loop_test(tcase, a_sandbox_whose_hand_died_comes_back_as_another_with_its_files_and_variables,
                        0, callers);
    tcase_add_loop_test(tcase,
                        a_frozen_hand_is_running_takes_no_more_connections_in_time_and_can_be_destroyed, 0,
                        callers);
    tcase_add_loop_test(tcase, what_does_not_start_says_why_and_is_removed, 0, callers);
    tcase_add_loop_test(tcase, what_bubblewrap_complains_about_is_the_error_s_text, 0, callers);
    tcase_add_loop_test(tcase, a_machine_without_bubblewrap_is_told_the_package, 0, callers);
    tcase_add_loop_test(tcase, list_names_the_sessions_running_or_not, 0, callers);
    tcase_add_loop_test(tcase, status_says_what_it_is, 0, callers);
    tcase_add_loop_test(tcase, doctor_finds_nothing_wrong_where_sandboxes_can_be_made, 0, callers);
}
