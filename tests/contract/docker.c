/* What befalls a container of an engine with Docker's API, by the engine's own command line. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "tests/contract/session.h"

#define MAX_WORDS 12

static char output[65536]; /* of the last command */

/* An id is the container's, "@", and when it was started. */
static size_t container_length(void)
{
    return strcspn(S.id, "@");
}

/* `docker WORD...`; a word "@" stands for the running session's container. Its exit code. */
static int docker_runs(const char *const *words)
{
    const char *argv[MAX_WORDS + 2] = {"docker"};
    char container[sizeof S.id];
    size_t length = 0;
    ssize_t n;
    int pipes[2];
    int status;
    pid_t pid;

    snprintf(container, sizeof container, "%.*s", (int)container_length(), S.id);
    for (unsigned i = 0; words[i] != NULL; i++) {
        ck_assert_uint_lt(i, MAX_WORDS);
        argv[i + 1] = strcmp(words[i], "@") == 0 ? container : words[i];
    }
    ck_assert_int_eq(pipe(pipes), 0);
    pid = fork();
    if (pid == 0) {
        dup2(pipes[1], STDOUT_FILENO);
        dup2(pipes[1], STDERR_FILENO);
        close(pipes[0]);
        close(pipes[1]);
        execvp(argv[0], (char *const *)argv);
        _exit(127);
    }
    ck_assert_int_gt(pid, 0);
    close(pipes[1]);
    while ((n = read(pipes[0], output + length, sizeof output - 1 - length)) > 0) {
        length += (size_t)n;
    }
    output[length] = '\0';
    close(pipes[0]);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define docker(...) ck_assert_msg(docker_runs((const char *const[]){__VA_ARGS__, NULL}) == 0, "docker: %s", output)

/* Not by `docker wait`: Podman does not always answer it for what has ended already. */
static void wait_until_stopped(void)
{
    for (unsigned i = 0; i < 300; i++) {
        docker("inspect", "--format", "{{.State.Running}}", "@");
        if (strncmp(output, "false", 5) == 0) {
            return;
        }
        usleep(100000);
    }
    ck_abort_msg("the container does not stop");
}

static int provision(const struct sandbox_spec *spec, struct sandbox *ret, struct error *err)
{
    return sandbox_provision(fixture.backend, spec, clock_now_ms() + 60000, ret, err);
}

static int provision_again(struct sandbox *ret, struct error *err)
{
    return provision(&S.spec, ret, err);
}

/* Every call answers that it is gone, and soon. */
static void everything_is_gone(void)
{
    uint64_t start = clock_now_ms();
    struct buffer content;
    struct error err = {0};
    struct run run = session_exec(&S, "echo x", 10000);

    ck_assert(run.failed);
    ck_assert_msg(run.err.code == ERROR_SANDBOX_GONE, "%s", run.err.message);
    assert_fault(session_read(&S, "/workspace/f", MAX_FILE_BYTES, &content, &err), err, ERROR_SANDBOX_GONE);
    assert_fault(session_write(&S, "/workspace/g", "x", 1, &err), err, ERROR_SANDBOX_GONE);
    ck_assert_uint_lt(clock_now_ms() - start, 10000);
}

START_TEST(a_container_that_was_stopped_or_killed_is_gone_until_it_is_provisioned_and_keeps_its_files)
{
    static const char *const rows[][4] = {
        {"stop", "-t1", "@"}, {"kill", "@"}, {"kill", "--signal=TERM", "@"}, {"restart", "-t0", "@"}};
    struct sandbox again = {0};
    struct error err = {0};
    char before[80];

    session_output(&S, "echo kept >/workspace/f; echo kept >/etc/f");
    snprintf(before, sizeof before, "%s", S.id);
    ck_assert_msg(docker_runs(rows[_i]) == 0, "%s", output);
    if (_i != 3) {
        wait_until_stopped();
    }
    everything_is_gone();
    assert_ok(provision_again(&again, &err), err);
    ck_assert_int_eq(strncmp(again.id, before, container_length()), 0); /* the same container, */
    ck_assert_str_ne(again.id, before);                 /* but another hand */
    link_adopt(S.link, &again);
    ck_assert_str_eq(session_output(&S, "cat /workspace/f /etc/f"), "kept\nkept\n");
}
END_TEST

START_TEST(a_container_that_was_removed_is_gone_and_the_next_one_is_another)
{
    struct sandbox again = {0};
    struct error err = {0};

    session_output(&S, "echo kept >/workspace/f");
    docker("rm", "--force", "--volumes", "@");
    everything_is_gone();
    assert_ok(provision_again(&again, &err), err);
    ck_assert(again.created);
    ck_assert_int_ne(strncmp(again.id, S.id, container_length()), 0);
    link_adopt(S.link, &again);
    ck_assert_str_eq(session_output(&S, "ls -A"), "");
}
END_TEST

START_TEST(a_running_command_is_answered_when_its_container_dies)
{
    static const char *const rows[][4] = {{"kill", "@"}, {"rm", "--force", "@"}};
    uint64_t start = clock_now_ms();
    struct run run;
    pid_t pid = fork();

    if (pid == 0) {
        usleep(500000);
        _exit(docker_runs(rows[_i]));
    }
    run = session_exec(&S, "echo begun; sleep 300", 0);
    ck_assert(run.failed);
    ck_assert_msg(run.err.code == ERROR_SANDBOX_GONE, "%s", run.err.message);
    ck_assert_uint_lt(clock_now_ms() - start, 20000);
    waitpid(pid, NULL, 0);
}
END_TEST

START_TEST(a_paused_container_does_not_answer_in_bounded_time_and_then_goes_on)
{
    uint64_t start = clock_now_ms();
    struct buffer content;
    struct error err = {0};
    struct run run;

    session_output(&S, "echo kept >f; (sleep 1; echo done >late) >/dev/null 2>&1 &");
    docker("pause", "@");
    run = session_exec(&S, "echo x", 2000);
    /* A deadline that passed is a result; that nobody answers at all is an error. */
    ck_assert(run.failed ? run.err.code == ERROR_NO_ANSWER : run.result.timed_out);
    ck_assert_uint_lt(clock_now_ms() - start, 60000);
    docker("unpause", "@");
    for (unsigned i = 0; i < 100; i++) {
        run = session_exec(&S, "cat f", 20000);
        if (!run.failed && run.result.exit_code == 0) {
            break;
        }
        usleep(100000);
    }
    assert_exit(run, 0);
    assert_text(run.result.out[0], "kept\n");
    assert_ok(session_read(&S, "/workspace/f", MAX_FILE_BYTES, &content, &err), err);
    session_output(&S, "while [ ! -e late ]; do sleep 0.1; done");
}
END_TEST

START_TEST(a_container_is_hardened_without_being_asked)
{
    ck_assert_str_eq(session_output(&S, "grep NoNewPrivs /proc/self/status"), "NoNewPrivs:\t1\n");
    /* Of the set that children can ever have, raw sockets (bit 13) are not a part. */
    ck_assert_str_eq(session_output(&S, "read -r _ set < <(grep CapBnd /proc/self/status); "
                                        "echo $((16#$set >> 13 & 1))"),
                     "0\n");
    docker("inspect", "--format", "{{.HostConfig.PidsLimit}} {{.HostConfig.Privileged}}", "@");
    ck_assert_int_gt(atoi(output), 0);
    ck_assert_ptr_nonnull(strstr(output, "false"));
}
END_TEST

START_TEST(what_is_killed_again_and_again_is_not_the_hand)
{
    for (unsigned i = 0; i < 5; i++) {
        struct run run = session_exec(&S, "kill -9 -1; sleep 0.1; echo alive", 20000);

        assert_exit(run, 0);
        assert_text(run.result.out[0], "alive\n");
    }
}
END_TEST

START_TEST(an_image_of_one_static_program_serves_files)
{
    cleanup_free char *image = other_image("static");
    struct sandbox_spec spec;
    struct buffer content;
    struct error err = {0};
    struct run run;

    session_spec(&spec);
    free(spec.image);
    spec.image = strdup(image);
    session_open(&S, &spec);
    assert_ok(session_write(&S, "/workspace/a/b", "text", 4, &err), err);
    assert_ok(session_read(&S, "/workspace/a/b", MAX_FILE_BYTES, &content, &err), err);
    assert_text(content, "text");
    run = session_exec(&S, "echo x", 20000);
    ck_assert(run.failed);
    ck_assert_msg(strstr(run.err.message, "/bin/bash") != NULL, "%s", run.err.message);
    session_close(&S, true);
}
END_TEST

/* A volume that is there now and was not there before, or NULL. */
static const char *new_volume(const char *before)
{
    char *rest;
    char *line;

    docker("volume", "ls", "--quiet", "--filter", "dangling=true");
    rest = output;
    while ((line = strsep(&rest, "\n")) != NULL) {
        if (strstr(before, line) == NULL) {
            return line;
        }
    }
    return NULL;
}

START_TEST(a_read_only_session_leaves_no_volume)
{
    cleanup_free char *before = NULL;
    struct sandbox_spec spec;
    const char *left;

    docker("volume", "ls", "--quiet", "--filter", "dangling=true");
    before = strdup(output);
    session_spec(&spec);
    spec.read_only_root = true;
    session_open(&S, &spec);
    session_output(&S, "echo x >f");
    session_close(&S, true);
    /* Those of earlier rows may be on their way out, and seem new for a moment. */
    left = new_volume(before);
    for (unsigned i = 0; i < 50 && left != NULL; i++) {
        usleep(200000);
        left = new_volume(before);
    }
    ck_assert_msg(left == NULL, "the volume %s is left", left);
}
END_TEST

START_TEST(a_container_that_only_has_the_name_is_never_taken_for_ours)
{
    cleanup_free char *name = NULL;
    struct sandbox nobody = {0};
    struct sandbox_spec spec;
    struct error err = {0};

    session_spec(&spec);
    assert_ok(sandbox_spec_check(&spec, &err), err);
    ck_assert_int_gt(asprintf(&name, "handsfs-%s", spec.session), 0);
    docker("create", "--name", name, spec.image, "sleep", "1000");
    ck_assert_int_eq(provision(&spec, &nobody, &err), -1);
    ck_assert_msg(strstr(err.message, name) != NULL, "%s", err.message);
    ck_assert_int_ne(err.code, ERROR_SANDBOX_GONE);
    ck_assert_int_eq(sandbox_attach(fixture.backend, spec.session, clock_now_ms() + 20000, &nobody, &err), -1);
    ck_assert_int_eq(sandbox_destroy(fixture.backend, spec.session, clock_now_ms() + 20000, &err), -1);
    docker("rm", name); /* it is still there */
    sandbox_spec_release(&spec);
}
END_TEST

static void no_container_named(const char *session)
{
    cleanup_free char *filter = NULL;

    ck_assert_int_gt(asprintf(&filter, "name=handsfs-%s", session), 0);
    docker("ps", "--all", "--quiet", "--filter", filter);
    ck_assert_str_eq(output, "");
}

START_TEST(an_image_that_cannot_be_had_is_named_and_leaves_nothing)
{
    struct sandbox nobody = {0};
    struct sandbox_spec spec;
    struct error err = {0};

    session_spec(&spec);
    free(spec.image);
    spec.image = strdup("127.0.0.1:9/nobody/nothing:1");
    assert_ok(sandbox_spec_check(&spec, &err), err);
    ck_assert_int_eq(provision(&spec, &nobody, &err), -1);
    ck_assert_msg(strstr(err.message, "nobody/nothing") != NULL, "%s", err.message);
    no_container_named(spec.session);
    sandbox_spec_release(&spec);
}
END_TEST

START_TEST(a_container_that_cannot_be_started_is_removed)
{
    struct sandbox nobody = {0};
    struct sandbox_spec spec;
    struct error err = {0};

    session_spec(&spec);
    assert_ok(env_list_set(&spec.engine, "RUNTIME=no-such-runtime", &err), err);
    assert_ok(sandbox_spec_check(&spec, &err), err);
    ck_assert_int_eq(provision(&spec, &nobody, &err), -1);
    no_container_named(spec.session);
    sandbox_spec_release(&spec);
}
END_TEST

TCase *case_docker(void)
{
    TCase *tc = tcase_create("docker");

    tcase_set_timeout(tc, 120);
    tcase_add_checked_fixture(tc, setup_session, teardown_session);
    tcase_add_loop_test(
        tc, a_container_that_was_stopped_or_killed_is_gone_until_it_is_provisioned_and_keeps_its_files, 0, 4);
    tcase_add_test(tc, a_container_that_was_removed_is_gone_and_the_next_one_is_another);
    tcase_add_loop_test(tc, a_running_command_is_answered_when_its_container_dies, 0, 2);
    tcase_add_test(tc, a_paused_container_does_not_answer_in_bounded_time_and_then_goes_on);
    tcase_add_test(tc, a_container_is_hardened_without_being_asked);
    tcase_add_test(tc, what_is_killed_again_and_again_is_not_the_hand);
    return tc;
}

/* The rows that make their own sessions, or none. */
TCase *case_docker_alone(void)
{
    TCase *tc = tcase_create("docker-alone");

    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, an_image_of_one_static_program_serves_files);
    tcase_add_test(tc, a_read_only_session_leaves_no_volume);
    tcase_add_test(tc, a_container_that_only_has_the_name_is_never_taken_for_ours);
    tcase_add_test(tc, an_image_that_cannot_be_had_is_named_and_leaves_nothing);
    tcase_add_test(tc, a_container_that_cannot_be_started_is_removed);
    return tc;
}
