/* The contract's rows about getting, finding, listing and removing a sandbox. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "tests/contract/session.h"

static uint64_t soon(void)
{
    return clock_now_ms() + 240000; /* engines on a busy machine */
}

static void listed(void *arg, const char *session)
{
    const char **want = arg;

    if (*want != NULL && strcmp(*want, session) == 0) {
        *want = NULL;
    }
}

static bool is_listed(const char *session)
{
    const char *want = session;
    struct error err;

    assert_ok(sandbox_list(fixture.backend, listed, &want, &err), err);
    return want == NULL;
}

/* Provisions the running session again, with `change` applied to its spec. */
static int again(void (*change)(struct sandbox_spec *spec), struct sandbox *ret, struct error *err)
{
    cleanup_spec struct sandbox_spec spec = {0};
    struct error ignored;

    sandbox_spec_init(&spec);
    spec.session = strdup(S.spec.session);
    spec.image = S.spec.image != NULL ? strdup(S.spec.image) : NULL;
    spec.workdir = strdup(S.spec.workdir);
    spec.network = S.spec.network;
    if (change != NULL) {
        change(&spec);
    }
    assert_ok(sandbox_spec_check(&spec, &ignored), ignored);
    return sandbox_provision(fixture.backend, &spec, soon(), ret, err);
}

START_TEST(provision_is_idempotent_and_keeps_the_files)
{
    struct sandbox second = {0};
    struct error err;

    ck_assert(S.created);
    session_output(&S, "echo kept >file");
    assert_ok(again(NULL, &second, &err), err);
    ck_assert(!second.created);
    ck_assert_str_eq(second.id, S.id);
    ck_assert_str_eq(session_output(&S, "cat file"), "kept\n");
    sandbox_release(&second);
}
END_TEST

static void other_workdir(struct sandbox_spec *spec)
{
    free(spec->workdir);
    spec->workdir = strdup("/elsewhere");
}

static void other_network(struct sandbox_spec *spec)
{
    spec->network = spec->network == NETWORK_NONE ? NETWORK_FULL : NETWORK_NONE;
}

static void image_of_a_user(struct sandbox_spec *spec)
{
    free(spec->image);
    spec->image = other_image("user");
}

START_TEST(another_spec_is_refused_and_the_sandbox_is_left_alone)
{
    static void (*const changes[])(struct sandbox_spec *) = {other_workdir, other_network, image_of_a_user};
    struct sandbox other = {0};
    struct error err = {0};

    if (changes[_i] == image_of_a_user && fixture.image == NULL) {
        return; /* this backend has none */
    }
    assert_fault(again(changes[_i], &other, &err), err, ERROR_SPEC_MISMATCH);
    assert_ok(again(NULL, &other, &err), err);
    ck_assert_str_eq(other.id, S.id);
    ck_assert_str_eq(session_output(&S, "echo alive"), "alive\n");
    sandbox_release(&other);
}
END_TEST

static void second_env(struct sandbox_spec *spec)
{
    struct error err;

    assert_ok(env_list_set(&spec->env, "BOUND=second", &err), err);
}

START_TEST(the_environment_is_bound_at_creation)
{
    struct sandbox_spec spec;
    struct sandbox other = {0};
    struct error err;

    session_spec(&spec);
    assert_ok(env_list_set(&spec.env, "BOUND=first", &err), err);
    session_open(&S, &spec);
    assert_ok(again(second_env, &other, &err), err);
    ck_assert_str_eq(other.id, S.id);
    ck_assert_str_eq(session_output(&S, "echo $BOUND"), "first\n");
    sandbox_release(&other);
    session_close(&S, true);
}
END_TEST

START_TEST(the_environment_reaches_every_command_verbatim)
{
    struct sandbox_spec spec;
    struct error err;

    session_spec(&spec);
    assert_ok(env_list_set(&spec.env, "PLAIN=v", &err), err);
    assert_ok(env_list_set(&spec.env, "SPACED=a  b ", &err), err);
    assert_ok(env_list_set(&spec.env, "LITERAL=$(OTHER)/$lit", &err), err);
    /* What engines are told is JSON, which has characters and not bytes. */
    assert_ok(env_list_set(&spec.env, fixture.is_local ? "LINES=one\ntwo\\n\xff" : "LINES=one\ntwo\\n\xc3\xa9", &err),
              err);
    assert_ok(env_list_set(&spec.env, "EMPTY=", &err), err);
    session_open(&S, &spec);
    ck_assert_str_eq(session_output(&S, "printf '%s|%s|%s|%s|%s' \"$PLAIN\" \"$SPACED\" \"$LITERAL\" "
                                        "\"$LINES\" \"${EMPTY-unset}\""),
                     fixture.is_local ? "v|a  b |$(OTHER)/$lit|one\ntwo\\n\xff|"
                                      : "v|a  b |$(OTHER)/$lit|one\ntwo\\n\xc3\xa9|");
    session_close(&S, true);
}
END_TEST

START_TEST(a_bad_variable_is_refused_before_anything_exists)
{
    static const char *const rows[] = {"A B=x", "=x", "1A=x", "noequals", "A-B=x", ""};
    struct sandbox_spec spec;
    struct error err = {0};

    session_spec(&spec);
    assert_fault(env_list_set(&spec.env, rows[_i], &err), err, ERROR_BAD_REQUEST);
    ck_assert(!is_listed(spec.session));
    sandbox_spec_release(&spec);
}
END_TEST

START_TEST(a_workdir_may_have_spaces)
{
    struct sandbox_spec spec;
    struct error err;

    session_spec(&spec);
    spec.workdir = strdup("/my work/the dir");
    session_open(&S, &spec);
    ck_assert_str_eq(session_output(&S, "pwd"), "/my work/the dir\n");
    assert_ok(session_write(&S, "f", "x", 1, &err), err);
    ck_assert_str_eq(session_output(&S, "cat '/my work/the dir/f'"), "x");
    session_close(&S, true);
}
END_TEST

START_TEST(destroy_is_idempotent_and_final)
{
    struct buffer content;
    struct error err = {0};
    struct run run;

    session_output(&S, "echo x >f");
    assert_ok(sandbox_destroy(fixture.backend, S.spec.session, soon(), &err), err);
    assert_ok(sandbox_destroy(fixture.backend, S.spec.session, soon(), &err), err);
    run = session_exec(&S, "echo x", 5000);
    ck_assert(run.failed);
    ck_assert_int_eq(run.err.code, ERROR_SANDBOX_GONE);
    assert_fault(session_read(&S, "/workspace/f", MAX_FILE_BYTES, &content, &err), err, ERROR_SANDBOX_GONE);
    assert_fault(session_write(&S, "/workspace/g", "x", 1, &err), err, ERROR_SANDBOX_GONE);
    ck_assert(!is_listed(S.spec.session));
}
END_TEST

START_TEST(destroy_under_a_running_command_answers_it_sandbox_gone)
{
    pid_t pid;
    struct run run;
    uint64_t start = clock_now_ms();

    pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct error err;

        usleep(300000);
        _exit(sandbox_destroy(fixture.backend, S.spec.session, soon(), &err) == 0 ? 0 : 1);
    }
    run = session_exec(&S, "echo begun; sleep 300", 0);
    ck_assert(run.failed);
    ck_assert_int_eq(run.err.code, ERROR_SANDBOX_GONE);
    ck_assert_uint_lt(clock_now_ms() - start, 60000); /* engines may be slow, and are not waited for for ever */
    waitpid(pid, NULL, 0);
}
END_TEST

START_TEST(a_destroyed_session_s_successor_is_another_sandbox)
{
    struct sandbox next = {0};
    struct error err = {0};
    struct run run;

    session_output(&S, "echo x >old");
    assert_ok(sandbox_destroy(fixture.backend, S.spec.session, soon(), &err), err);
    assert_ok(again(NULL, &next, &err), err);
    ck_assert(next.created);
    ck_assert_str_ne(next.id, S.id);
    run = session_exec(&S, "echo x", 5000); /* the old handle never speaks to the successor */
    ck_assert(run.failed);
    ck_assert_int_eq(run.err.code, ERROR_SANDBOX_GONE);
    link_adopt(S.link, &next);
    ck_assert_str_eq(session_output(&S, "ls -A"), "");
}
END_TEST

START_TEST(attach_finds_the_same_sandbox)
{
    struct session other;

    session_output(&S, "echo one >shared");
    session_attach(&other, S.spec.session);
    ck_assert_str_eq(other.id, S.id);
    ck_assert_str_eq(session_output(&other, "cat shared; echo two >>shared"), "one\n");
    ck_assert_str_eq(session_output(&S, "cat shared"), "one\ntwo\n");
    session_close(&other, false);
}
END_TEST

START_TEST(attach_never_creates)
{
    struct sandbox nobody = {0};
    struct error err = {0};

    assert_fault(sandbox_attach(fixture.backend, "contract-never-provisioned", soon(), &nobody, &err), err,
                 ERROR_SANDBOX_GONE);
    ck_assert(!is_listed("contract-never-provisioned"));
    ck_assert_ptr_null(nobody.id);
}
END_TEST

START_TEST(attach_after_destroy_is_gone)
{
    struct sandbox nobody = {0};
    struct error err = {0};

    assert_ok(sandbox_destroy(fixture.backend, S.spec.session, soon(), &err), err);
    assert_fault(sandbox_attach(fixture.backend, S.spec.session, soon(), &nobody, &err), err,
                 ERROR_SANDBOX_GONE);
}
END_TEST

START_TEST(list_has_the_session)
{
    ck_assert(is_listed(S.spec.session));
}
END_TEST

START_TEST(destroying_an_unknown_session_is_no_error)
{
    struct error err;

    assert_ok(sandbox_destroy(fixture.backend, "contract-unknown", soon(), &err), err);
}
END_TEST

START_TEST(a_bad_session_name_is_refused)
{
    static const char *const rows[] = {"", ".", "..", "a/b", "-x", "a b", "a\nb",
                                       "0123456789012345678901234567890123456789012345678901234567890123"};
    struct sandbox nobody = {0};
    struct error err = {0};

    assert_fault(sandbox_attach(fixture.backend, rows[_i], soon(), &nobody, &err), err, ERROR_BAD_REQUEST);
    assert_fault(sandbox_destroy(fixture.backend, rows[_i], soon(), &err), err, ERROR_BAD_REQUEST);
}
END_TEST

/* One of many processes: provisions, and reports its sandbox's id and whether it made it. */
static void provision_and_report(const struct sandbox_spec *spec, int fd)
{
    struct sandbox sandbox = {0};
    struct error err;
    char line[128];
    int length;

    if (sandbox_provision(fixture.backend, spec, soon(), &sandbox, &err) < 0) {
        length = snprintf(line, sizeof line, "x %.100s\n", err.message);
    } else {
        length = snprintf(line, sizeof line, "%d %s\n", sandbox.created, sandbox.id);
    }
    _exit(write(fd, line, (size_t)length) == length ? 0 : 1);
}

START_TEST(twenty_processes_that_provision_at_once_share_one_sandbox)
{
    enum { PROCESSES = 20 };
    struct sandbox_spec spec;
    struct error err;
    int pipes[2];
    FILE *reports;
    char first[128] = "";
    char line[128];
    unsigned created = 0;
    unsigned count = 0;

    session_spec(&spec);
    assert_ok(sandbox_spec_check(&spec, &err), err);
    ck_assert_int_eq(pipe(pipes), 0);
    for (unsigned i = 0; i < PROCESSES; i++) {
        pid_t pid = fork();

        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            provision_and_report(&spec, pipes[1]);
        }
    }
    close(pipes[1]);
    reports = fdopen(pipes[0], "r");
    while (fgets(line, sizeof line, reports) != NULL) {
        ck_assert_msg(line[0] == '0' || line[0] == '1', "%s", line);
        created += line[0] == '1';
        count++;
        if (first[0] == '\0') {
            snprintf(first, sizeof first, "%s", line + 2);
        }
        ck_assert_str_eq(line + 2, first);
    }
    fclose(reports);
    while (wait(NULL) > 0) {
    }
    ck_assert_uint_eq(count, PROCESSES);
    ck_assert_uint_eq(created, 1);
    assert_ok(sandbox_destroy(fixture.backend, spec.session, soon(), &err), err);
    sandbox_spec_release(&spec);
}
END_TEST

START_TEST(provision_and_destroy_at_once_end_in_one_state_or_the_other)
{
    struct sandbox_spec spec;
    struct error err;

    session_spec(&spec);
    assert_ok(sandbox_spec_check(&spec, &err), err);
    for (unsigned i = 0; i < 12; i++) {
        if (fork() == 0) {
            struct sandbox sandbox = {0};
            int r = i % 3 == 2 ? sandbox_destroy(fixture.backend, spec.session, soon(), &err)
                               : sandbox_provision(fixture.backend, &spec, soon(), &sandbox, &err);

            if (r < 0) {
                fprintf(stderr, "# %s\n", err.message);
            }
            _exit(r == 0 ? 0 : 1);
        }
    }
    for (unsigned i = 0; i < 12; i++) {
        int status;

        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    assert_ok(sandbox_destroy(fixture.backend, spec.session, soon(), &err), err);
    ck_assert(!is_listed(spec.session));
    sandbox_spec_release(&spec);
}
END_TEST

TCase *case_lifecycle(void)
{
    TCase *tc = tcase_create("lifecycle");

    tcase_set_timeout(tc, 300);
    tcase_add_checked_fixture(tc, setup_session, teardown_session);
    tcase_add_test(tc, provision_is_idempotent_and_keeps_the_files);
    tcase_add_loop_test(tc, another_spec_is_refused_and_the_sandbox_is_left_alone, 0, 3);
    tcase_add_test(tc, destroy_is_idempotent_and_final);
    tcase_add_test(tc, destroy_under_a_running_command_answers_it_sandbox_gone);
    tcase_add_test(tc, a_destroyed_session_s_successor_is_another_sandbox);
    tcase_add_test(tc, attach_finds_the_same_sandbox);
    tcase_add_test(tc, attach_after_destroy_is_gone);
    tcase_add_test(tc, list_has_the_session);
    return tc;
}

/* The rows that make their own sessions, or none. */
TCase *case_lifecycle_alone(void)
{
    TCase *tc = tcase_create("lifecycle-alone");

    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, the_environment_is_bound_at_creation);
    tcase_add_test(tc, the_environment_reaches_every_command_verbatim);
    tcase_add_loop_test(tc, a_bad_variable_is_refused_before_anything_exists, 0, 6);
    tcase_add_test(tc, a_workdir_may_have_spaces);
    tcase_add_test(tc, attach_never_creates);
    tcase_add_test(tc, destroying_an_unknown_session_is_no_error);
    tcase_add_loop_test(tc, a_bad_session_name_is_refused, 0, 8);
    tcase_add_test(tc, twenty_processes_that_provision_at_once_share_one_sandbox);
    tcase_add_test(tc, provision_and_destroy_at_once_end_in_one_state_or_the_other);
    return tc;
}
