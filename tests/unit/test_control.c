/* The gateway without its socket: execs of the control file, the barrier, and what the host does. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "exec/server.h"
#include "tests/unit/fake_link.h"

static uv_loop_t loop;
static struct link *link_;
static struct gateway *gateway;
static struct gateway_host host;
static struct error err;

static char answer[1 << 16];
static int answers;

static void start(void)
{
    memset(&host, 0, sizeof host);
    memset(answer, 0, sizeof answer);
    answers = 0;
    gateway = NULL;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    link_ = fake_link_new(&loop);
}

static void open_gateway(void)
{
    ck_assert_int_eq(gateway_open(&gateway, &loop, link_, NULL, &host, &err), 0);
}

static void end(void)
{
    if (gateway != NULL) {
        gateway_close(gateway, NULL, NULL);
    }
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    fake_link_free(link_);
}

static void done(void *arg, const char *text, size_t length)
{
    (void)arg;
    ck_assert_uint_lt(length, sizeof answer);
    memcpy(answer, text, length);
    answer[length] = '\0';
    answers++;
}

static struct gateway_exec *ask(const char *request)
{
    struct gateway_exec *exec = gateway_exec_start(gateway, request, strlen(request), done, NULL);

    ck_assert_ptr_nonnull(exec);
    ck_assert_int_eq(answers, 0);
    return exec;
}

/* Runs the loop until there is an answer, or nothing left to do. */
static void wait_for_answer(void)
{
    while (answers == 0 && uv_run(&loop, UV_RUN_ONCE) != 0) {
    }
    ck_assert_int_eq(answers, 1);
}

static void expect(const char *key, const char *value)
{
    json_t *object = json_loads(answer, JSON_ALLOW_NUL, NULL);
    const char *is = json_string_value(json_object_get(object, key));

    ck_assert_ptr_nonnull(object);
    ck_assert_int_eq(answer[strlen(answer) - 1], '\n');
    ck_assert_msg(is != NULL && strcmp(is, value) == 0, "it is %s", answer);
    json_decref(object);
}

START_TEST(a_command_is_answered_with_its_result_on_one_line)
{
    open_gateway();
    ask("echo hi");
    wait_for_answer();
    expect("stdout", "hi\n");
    ck_assert_ptr_eq(strchr(answer, '\n'), answer + strlen(answer) - 1);
}
END_TEST

START_TEST(a_request_in_json_is_taken_with_all_its_parameters)
{
    open_gateway();
    ask("{\"command\":\"cat\",\"stdin\":\"in\"}\n");
    wait_for_answer();
    expect("stdout", "in");
}
END_TEST

START_TEST(a_fault_is_an_object_with_error_and_message)
{
    open_gateway();
    ask("{\"command\":\"a\",\"timeout\":1}");
    wait_for_answer();
    expect("error", "bad_request");
    expect("message", "unknown parameter \"timeout\"");
}
END_TEST

START_TEST(a_sandbox_that_is_gone_is_told)
{
    open_gateway();
    ask("gone");
    wait_for_answer();
    expect("error", "sandbox_gone");
}
END_TEST

START_TEST(a_request_beyond_the_limit_is_refused)
{
    static char large[GATEWAY_MAX_LINE + 1];

    open_gateway();
    ck_assert_ptr_nonnull(gateway_exec_start(gateway, large, sizeof large, done, NULL));
    wait_for_answer();
    expect("error", "too_large");
}
END_TEST

START_TEST(what_cannot_begin_is_answered_at_once)
{
    open_gateway();
    gateway->memory_limit = 3;
    ck_assert_ptr_null(gateway_exec_start(gateway, "echo hi", 7, done, NULL));
    ck_assert_int_eq(answers, 1);
    expect("error", "out_of_memory");
}
END_TEST

START_TEST(after_a_cancel_there_is_no_answer)
{
    struct gateway_exec *exec;

    open_gateway();
    exec = ask("hang");
    gateway_exec_cancel(exec); /* before it began */
    exec = ask("hang");
    while (fake_link_counts(link_).running == 0) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    gateway_exec_cancel(exec);
    while (gateway_counts(gateway).executions > 0) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    ck_assert_int_eq(answers, 0);
    ck_assert_uint_eq(fake_link_counts(link_).started, 1);
    ck_assert_uint_eq(fake_link_counts(link_).cancelled, 1);
}
END_TEST

START_TEST(closing_answers_what_has_not_begun)
{
    open_gateway();
    ask("echo hi");
    gateway_close(gateway, NULL, NULL);
    gateway = NULL;
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(answers, 1);
    expect("error", "cancelled");
    ck_assert_uint_eq(fake_link_counts(link_).started, 0);
}
END_TEST

START_TEST(closing_ends_and_answers_what_runs)
{
    open_gateway();
    ask("hang");
    while (fake_link_counts(link_).running == 0) {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    gateway_close(gateway, NULL, NULL);
    gateway = NULL;
    uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(answers, 1);
    expect("error", "cancelled");
}
END_TEST

/* ---- The barrier ---- */

static struct {
    void (*then)(void *arg);
    void *arg;
    char steps[16];
} barrier;

static void note(char step)
{
    size_t length = strlen(barrier.steps);

    ck_assert_uint_lt(length + 1, sizeof barrier.steps);
    barrier.steps[length] = step;
}

static void free_timer(uv_handle_t *handle)
{
    free(handle);
}

static void barrier_timer(uv_timer_t *timer)
{
    uv_close((uv_handle_t *)timer, free_timer);
    barrier.then(barrier.arg);
}

static void later(void (*then)(void *arg), void *arg)
{
    uv_timer_t *timer = malloc(sizeof *timer);

    barrier.then = then;
    barrier.arg = arg;
    uv_timer_init(&loop, timer);
    uv_timer_start(timer, barrier_timer, 5, 0);
}

static void before(void *ctx, void (*then)(void *arg), void *arg)
{
    ck_assert_ptr_eq(ctx, &barrier);
    ck_assert_uint_eq(fake_link_counts(link_).started, 0);
    note('b');
    later(then, arg);
}

static void after(void *ctx, void (*then)(void *arg), void *arg)
{
    ck_assert_ptr_eq(ctx, &barrier);
    ck_assert_int_eq(answers, 0);
    note('a');
    later(then, arg);
}

static void use_barrier(void)
{
    memset(&barrier, 0, sizeof barrier);
    host.barrier = (struct exec_barrier){.before = before, .after = after, .ctx = &barrier};
    open_gateway();
}

START_TEST(a_command_runs_between_the_barriers)
{
    use_barrier();
    ask("echo hi");
    wait_for_answer();
    ck_assert_str_eq(barrier.steps, "ba");
    expect("stdout", "hi\n");
}
END_TEST

START_TEST(also_a_command_that_failed_is_followed_by_the_barrier)
{
    use_barrier();
    ask("gone");
    wait_for_answer();
    ck_assert_str_eq(barrier.steps, "ba");
}
END_TEST

START_TEST(a_command_that_is_cancelled_before_the_barrier_never_starts)
{
    struct gateway_exec *exec;

    use_barrier();
    exec = ask("echo hi");
    while (barrier.steps[0] == '\0') {
        uv_run(&loop, UV_RUN_NOWAIT);
    }
    gateway_exec_cancel(exec);
    while (gateway_counts(gateway).executions > 0) {
        uv_run(&loop, UV_RUN_ONCE);
    }
    ck_assert_str_eq(barrier.steps, "b");
    ck_assert_uint_eq(fake_link_counts(link_).started, 0);
}
END_TEST

START_TEST(status_has_what_the_host_adds)
{
    json_t *status;

    open_gateway();
    status = gateway_status(gateway);
    ck_assert_str_eq(json_string_value(json_object_get(status, "session")), "s1");
    ck_assert_int_eq((int)json_integer_value(json_object_get(status, "executions")), 0);
    json_decref(status);
}
END_TEST

UNIT_SUITE(control)
{
    tcase_add_checked_fixture(tcase, start, end);
    tcase_add_test(tcase, a_command_is_answered_with_its_result_on_one_line);
    tcase_add_test(tcase, a_request_in_json_is_taken_with_all_its_parameters);
    tcase_add_test(tcase, a_fault_is_an_object_with_error_and_message);
    tcase_add_test(tcase, a_sandbox_that_is_gone_is_told);
    tcase_add_test(tcase, a_request_beyond_the_limit_is_refused);
    tcase_add_test(tcase, what_cannot_begin_is_answered_at_once);
    tcase_add_test(tcase, after_a_cancel_there_is_no_answer);
    tcase_add_test(tcase, closing_answers_what_has_not_begun);
    tcase_add_test(tcase, closing_ends_and_answers_what_runs);
    tcase_add_test(tcase, a_command_runs_between_the_barriers);
    tcase_add_test(tcase, also_a_command_that_failed_is_followed_by_the_barrier);
    tcase_add_test(tcase, a_command_that_is_cancelled_before_the_barrier_never_starts);
    tcase_add_test(tcase, status_has_what_the_host_adds);
}
