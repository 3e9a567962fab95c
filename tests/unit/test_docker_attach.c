/* Sessions in containers of somebody else: what is asked of the engine, what is refused, what is remembered. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/docker_record.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "tests/unit/fake_engine.h"

#define PATIENCE_MS 60000
#define ID "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
#define AT "/v1.41/containers/" ID
#define CONTAINER(name_, status_, workdir_, more_)                                                 \
    "{\"Id\":\"" ID "\",\"Name\":\"/" name_ "\",\"State\":{\"Status\":\"" status_                  \
    "\",\"StartedAt\":\"2026-01-01T00:00:00Z\",\"Pid\":1},\"Config\":{\"User\":\"7:8\","           \
    "\"WorkingDir\":\"" workdir_ "\"" more_ "},\"HostConfig\":{}}"
#define WEB CONTAINER("web", "running", "/srv/app", "")

static struct fake_engine *fake;
static struct sandbox sandbox;
static struct error err;
static char state[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void set_up(void)
{
    snprintf(state, sizeof state, "/tmp/handsfs-state.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(state));
    setenv("HANDSFS_STATE_DIR", state, 1);
    setenv("HANDSFS_DOCKER_RELAY", "1", 1);
    fake = fake_engine_start();
    fake_engine_be_docker(fake);
    sandbox = (struct sandbox){.id = NULL};
    err = (struct error){0};
}

static void tear_down(void)
{
    sandbox_release(&sandbox);
    fake_engine_stop(fake);
    nftw(state, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void always(const char *request, int status, const char *body)
{
    fake_engine_script(
        fake, &(struct fake_step){
                  .request = request, .status = status, .body = body, .times = FAKE_ALWAYS});
}

/* The session "web" in the container "web", with this workdir or the container's. */
static int attach(const char *workdir)
{
    struct sandbox_spec spec = {
        .session = (char *)"web", .attach = (char *)"web", .workdir = (char *)workdir};

    ck_assert_int_eq(sandbox_spec_check(&spec, &err), 0);
    return sandbox_provision(&backend_docker, &spec, clock_now_ms() + PATIENCE_MS, &sandbox, &err);
}

/* What an engine answers where all is well; the exec of the hand is "ab12". */
static void be_well(void)
{
    always("GET /v1.41/containers/web/json", 200, WEB);
    always("GET " AT "/json", 200, WEB);
    always("GET /v1.41/containers/handsfs-web/json", 404, "{\"message\":\"none\"}");
    always("HEAD " AT "/archive?path=%2Fsrv*", 200, NULL);
    always("PUT " AT "/archive?path=%2F*", 200, NULL);
    always("POST " AT "/exec", 201, "{\"Id\":\"ab12\"}");
    always("POST /v1.41/exec/ab12/start", 200, NULL);
    always("HEAD " AT "/archive?path=%2F.handsfs%2Frun%2F????????????????%2F.", 404, NULL);
    always("HEAD " AT "/archive?path=%2F.handsfs%2Frun%2F????????????????", 200, NULL);
}

/* How many requests began so. */
static unsigned heard(const char *beginning)
{
    unsigned count = 0;

    for (unsigned i = 0; i < fake_engine_count(fake); i++) {
        count += strncmp(fake_engine_heard(fake, i)->line, beginning, strlen(beginning)) == 0;
    }
    return count;
}

static const struct fake_heard *request(const char *beginning)
{
    for (unsigned i = 0; i < fake_engine_count(fake); i++) {
        if (strncmp(fake_engine_heard(fake, i)->line, beginning, strlen(beginning)) == 0) {
            return fake_engine_heard(fake, i);
        }
    }
    ck_abort_msg("nobody asked %s", beginning);
    return NULL;
}

START_TEST(the_hand_is_put_in_and_started_by_an_exec)
{
    json_auto_t *body = NULL;
    const char *const *words =
        (const char *const[]){"/.handsfs/hand", "serve", "--workdir", "/srv/app", NULL};

    be_well();
    always("GET /v1.41/exec/ab12/json", 200, "{\"Running\":true}");
    ck_assert_msg(attach(NULL) == 0, "%s", err.message);
    ck_assert_str_eq(sandbox.workdir, "/srv/app");
    ck_assert(sandbox.created);
    ck_assert_uint_eq(heard("PUT "), 1);
    body = json_loads(request("POST " AT "/exec")->body, 0, NULL);
    for (size_t i = 0; words[i] != NULL; i++) {
        ck_assert_str_eq(json_string_value(json_array_get(json_object_get(body, "Cmd"), i)),
                         words[i]);
    }
    ck_assert_ptr_null(json_object_get(body, "User")); /* the container's own */
    ck_assert_ptr_nonnull(strstr(request("POST /v1.41/exec/ab12/start")->body, "\"Detach\":true"));
}
END_TEST

START_TEST(a_hand_that_runs_is_taken_as_it_is)
{
    cleanup_free char *id = NULL;

    be_well();
    always("GET /v1.41/exec/ab12/json", 200, "{\"Running\":true}");
    ck_assert_int_eq(attach(NULL), 0);
    id = strdup(sandbox.id);
    sandbox_release(&sandbox);
    ck_assert_int_eq(attach("/srv/app"), 0);
    ck_assert(!sandbox.created);
    ck_assert_str_eq(sandbox.id, id);
    ck_assert_uint_eq(heard("POST " AT "/exec"), 1);
}
END_TEST

START_TEST(a_hand_that_has_ended_is_another_sandbox)
{
    cleanup_free char *id = NULL;
    int fd = -1;

    be_well();
    fake_engine_script(fake, &(struct fake_step){.request = "GET /v1.41/exec/ab12/json",
                                                 .body = "{\"Running\":true}"});
    fake_engine_script(fake, &(struct fake_step){.request = "GET /v1.41/exec/ab12/json",
                                                 .body = "{\"Running\":false}",
                                                 .times = 2});
    always("GET /v1.41/exec/ab12/json", 200, "{\"Running\":true}");
    ck_assert_int_eq(attach(NULL), 0);
    ck_assert_int_eq(sandbox_connect(&sandbox, clock_now_ms() + PATIENCE_MS, &fd, &err), -1);
    ck_assert_int_eq(err.code, ERROR_SANDBOX_GONE);
    id = strdup(sandbox.id);
    sandbox_release(&sandbox);
    ck_assert_int_eq(
        sandbox_attach(&backend_docker, "web", clock_now_ms() + PATIENCE_MS, &sandbox, &err), 0);
    ck_assert_str_ne(sandbox.id, id);
    ck_assert_str_eq(sandbox.workdir, "/srv/app");
}
END_TEST

START_TEST(another_workdir_is_a_mismatch_while_the_hand_runs)
{
    be_well();
    always("GET /v1.41/exec/ab12/json", 200, "{\"Running\":true}");
    ck_assert_int_eq(attach(NULL), 0);
    sandbox_release(&sandbox);
    ck_assert_int_eq(attach("/srv"), -1);
    ck_assert_int_eq(err.code, ERROR_SPEC_MISMATCH);
}
END_TEST

START_TEST(destroy_refuses_a_container_of_somebody_else)
{
    be_well();
    always("GET /v1.41/exec/ab12/json", 200, "{\"Running\":true}");
    ck_assert_int_eq(attach(NULL), 0);
    ck_assert_int_eq(sandbox_destroy(&backend_docker, "web", clock_now_ms() + PATIENCE_MS, &err),
                     -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(err.message, "did not make"));
    ck_assert_uint_eq(heard("DELETE "), 0);
}
END_TEST

START_TEST(what_cannot_be_attached_to_is_refused_and_nothing_is_put_in)
{
    static const struct {
        int status;
        const char *body, *words;
        enum error_code code;
    } rows[] = {
        {404, "{\"message\":\"No such container\"}", "no container web", ERROR_BAD_REQUEST},
        {200, CONTAINER("web", "exited", "/srv/app", ""), "not running", ERROR_BAD_REQUEST},
        {200, CONTAINER("web", "paused", "/srv/app", ""), "paused", ERROR_NO_ANSWER},
        {200, CONTAINER("web", "running", "", ""), "--workdir", ERROR_BAD_REQUEST},
        {200, CONTAINER("web", "running", "/", ""), "--workdir", ERROR_BAD_REQUEST},
        {200, CONTAINER("web", "running", "/proc/1", ""), "/proc", ERROR_BAD_REQUEST},
        {200, CONTAINER("web", "running", "/a/../b", ""), "..", ERROR_BAD_REQUEST},
        {200,
         CONTAINER("handsfs-s1", "running", "/srv/app",
                   ",\"Labels\":{\"io.handsfs.session\":\"s1\"}"),
         "session s1", ERROR_BAD_REQUEST},
    };

    always("GET /v1.41/containers/web/json", rows[_i].status, rows[_i].body);
    always("GET /v1.41/containers/handsfs-web/json", 404, "{\"message\":\"none\"}");
    ck_assert_int_eq(attach(NULL), -1);
    ck_assert_int_eq(err.code, rows[_i].code);
    ck_assert_msg(strstr(err.message, rows[_i].words) != NULL, "%s", err.message);
    ck_assert_uint_eq(heard("PUT ") + heard("POST "), 0);
}
END_TEST

START_TEST(a_session_with_a_container_of_its_own_is_a_mismatch)
{
    always("GET /v1.41/containers/web/json", 200, WEB);
    always("GET /v1.41/containers/handsfs-web/json", 200,
           CONTAINER("handsfs-web", "running", "/", ""));
    ck_assert_int_eq(attach(NULL), -1);
    ck_assert_int_eq(err.code, ERROR_SPEC_MISMATCH);
}
END_TEST

START_TEST(a_read_only_root_is_said_to_be_one)
{
    be_well();
    fake_engine_script(
        fake,
        &(struct fake_step){.request = "GET /v1.41/containers/ro/json",
                            .body = "{\"Id\":\"" ID "\",\"Name\":\"/ro\",\"State\":{\"Status\":"
                                    "\"running\",\"StartedAt\":\"x\"},\"Config\":{\"WorkingDir\":"
                                    "\"/srv\"},\"HostConfig\":{\"ReadonlyRootfs\":true}}"});
    struct sandbox_spec spec = {.session = (char *)"web", .attach = (char *)"ro"};
    ck_assert_int_eq(
        sandbox_provision(&backend_docker, &spec, clock_now_ms() + PATIENCE_MS, &sandbox, &err),
        -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(err.message, "read-only"));
}
END_TEST

START_TEST(a_hand_that_does_not_start_leaves_no_session)
{
    be_well();
    always("GET /v1.41/exec/ab12/json", 200, "{\"Running\":false,\"ExitCode\":126}");
    ck_assert_int_eq(attach(NULL), -1);
    ck_assert_int_eq(err.code, ERROR_IO);
    ck_assert_int_eq(
        sandbox_attach(&backend_docker, "web", clock_now_ms() + PATIENCE_MS, &sandbox, &err), -1);
    ck_assert_int_eq(err.code, ERROR_SANDBOX_GONE);
}
END_TEST

START_TEST(names_that_are_none_never_reach_the_engine)
{
    static const char *const rows[] = {"", "a/b", "../x", "a b", "-x", "a?b", "\xc3\xa4"};
    struct sandbox_spec spec = {.session = (char *)"web", .attach = (char *)rows[_i]};

    ck_assert_int_eq(
        sandbox_provision(&backend_docker, &spec, clock_now_ms() + PATIENCE_MS, &sandbox, &err),
        -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_uint_eq(fake_engine_count(fake), 0);
}
END_TEST

/* ---- The record ---- */

static int lock(void)
{
    int dir = -1;

    ck_assert_int_eq(docker_records_lock(clock_now_ms() + PATIENCE_MS, &dir, &err), 0);
    return dir;
}

START_TEST(a_container_that_was_removed_is_forgotten)
{
    be_well();
    always("GET /v1.41/exec/ab12/json", 200, "{\"Running\":true}");
    ck_assert_int_eq(attach(NULL), 0);
    sandbox_release(&sandbox);
    fake_engine_stop(fake);
    /* At the same place, another engine's life: the host's name is what tells engines apart. */
    fake = fake_engine_start();
    fake_engine_be_docker(fake);
    {
        cleanup_docker_record struct docker_record record = DOCKER_RECORD_INIT;
        cleanup_fd int dir = lock();

        ck_assert_int_eq(docker_record_read(dir, "web", &record, &err), 0);
        free(record.host);
        record.host = strdup(getenv("DOCKER_HOST"));
        ck_assert_int_eq(docker_record_write(dir, "web", &record, &err), 0);
    }
    always("GET /v1.41/containers/*", 404, "{\"message\":\"none\"}");
    ck_assert_int_eq(sandbox_destroy(&backend_docker, "web", clock_now_ms() + PATIENCE_MS, &err),
                     0);
    {
        cleanup_docker_record struct docker_record record = DOCKER_RECORD_INIT;
        cleanup_fd int dir = lock();

        ck_assert_int_eq(docker_record_read(dir, "web", &record, &err), -1);
        ck_assert_int_eq(err.code, ERROR_SANDBOX_GONE);
    }
}
END_TEST

START_TEST(a_session_at_another_engine_is_not_looked_for_here)
{
    be_well();
    always("GET /v1.41/exec/ab12/json", 200, "{\"Running\":true}");
    ck_assert_int_eq(attach(NULL), 0);
    sandbox_release(&sandbox);
    fake_engine_stop(fake);
    fake = fake_engine_start();
    fake_engine_be_docker(fake);
    always("GET /v1.41/containers/handsfs-web/json", 404, "{\"message\":\"none\"}");
    ck_assert_int_eq(
        sandbox_attach(&backend_docker, "web", clock_now_ms() + PATIENCE_MS, &sandbox, &err), -1);
    ck_assert_int_eq(err.code, ERROR_SANDBOX_GONE);
    ck_assert_uint_eq(heard("GET " AT), 0);
}
END_TEST

START_TEST(a_record_that_makes_no_sense_is_an_error)
{
    static const char *const rows[] = {"", "{}", "[]", "{\"version\":1}",
                                       "{\"version\":1,\"container\":\"" ID
                                       "\",\"exec\":\"../x\",\"hand\":\"0011223344556677\","
                                       "\"workdir\":\"/\",\"env\":[]}"};
    cleanup_docker_record struct docker_record record = DOCKER_RECORD_INIT;
    cleanup_fd int dir = lock();
    cleanup_fd int fd = openat(dir, "web.json", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    ck_assert_int_eq(write(fd, rows[_i], strlen(rows[_i])), (ssize_t)strlen(rows[_i]));
    ck_assert_int_eq(docker_record_read(dir, "web", &record, &err), -1);
    ck_assert_int_eq(err.code, ERROR_IO);
}
END_TEST

UNIT_SUITE(docker_attach)
{
    tcase_set_timeout(tcase, 180);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, the_hand_is_put_in_and_started_by_an_exec);
    tcase_add_test(tcase, a_hand_that_runs_is_taken_as_it_is);
    tcase_add_test(tcase, a_hand_that_has_ended_is_another_sandbox);
    tcase_add_test(tcase, another_workdir_is_a_mismatch_while_the_hand_runs);
    tcase_add_test(tcase, destroy_refuses_a_container_of_somebody_else);
    tcase_add_loop_test(tcase, what_cannot_be_attached_to_is_refused_and_nothing_is_put_in, 0, 8);
    tcase_add_test(tcase, a_session_with_a_container_of_its_own_is_a_mismatch);
    tcase_add_test(tcase, a_read_only_root_is_said_to_be_one);
    tcase_add_test(tcase, a_hand_that_does_not_start_leaves_no_session);
    tcase_add_loop_test(tcase, names_that_are_none_never_reach_the_engine, 0, 7);
    tcase_add_test(tcase, a_container_that_was_removed_is_forgotten);
    tcase_add_test(tcase, a_session_at_another_engine_is_not_looked_for_here);
    tcase_add_loop_test(tcase, a_record_that_makes_no_sense_is_an_error, 0, 5);
}
