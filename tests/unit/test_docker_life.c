/* A session's container from its making to its end, with a scripted engine: races, faults, and what is left afterwards. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/docker_internal.h"
#include "sandbox/clock.h"
#include "tests/unit/fake_engine.h"

#define PATIENCE_MS 60000
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define NAMED "GET /v1.41/containers/handsfs-s/json"
#define THIS "/v1.41/containers/" ID
#define CREATE "POST /v1.41/containers/create[?]name=handsfs-s"
#define MAX_TEXTS 64

static struct fake_engine *fake;
static struct sandbox_spec spec;
static struct sandbox sandbox;
static struct error err;
static char state_dir[] = "/tmp/test-docker.XXXXXX";
static char *texts[MAX_TEXTS]; /* what the engine is to say: must stay until it stops */
static size_t text_count;

static void open_all(void)
{
    memcpy(strrchr(state_dir, '.') + 1, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(state_dir));
    ck_assert_int_eq(setenv("HANDSFS_STATE_DIR", state_dir, 1), 0);
    fake = fake_engine_start();
    fake_engine_be_docker(fake);
    sandbox_spec_init(&spec);
    spec.session = strdup("s");
    spec.image = strdup("img");
    spec.workdir = strdup("/workspace");
    spec.network = NETWORK_FULL;
    sandbox = (struct sandbox){0};
    err = (struct error){0};
    text_count = 0;
}

static void close_all(void)
{
    char path[64];

    sandbox_release(&sandbox);
    sandbox_spec_release(&spec);
    fake_engine_stop(fake);
    while (text_count > 0) {
        free(texts[--text_count]);
    }
    snprintf(path, sizeof path, "%s/docker", state_dir);
    (void)!rmdir(path);
    (void)!rmdir(state_dir);
}

/* ---- What the engine says ---- */

struct says {
    const char *status, *session, *image, *workdir, *network, *started, *host;
};
#define OURS .session = "s", .image = "img", .workdir = "/workspace", .network = "full"

/* An inspected container. Fields that are NULL: no label, or what a container of ours has. */
static const char *container(const struct says *s)
{
    char labels[512] = "\"x\":\"y\"";

    if (s->session != NULL) {
        snprintf(labels, sizeof labels,
                 "\"io.handsfs.session\":\"%s\",\"io.handsfs.image\":\"%s\",\"io.handsfs.workdir\":\"%s\","
                 "\"io.handsfs.network\":\"%s\"",
                 s->session, s->image, s->workdir, s->network);
    }
    ck_assert_uint_lt(text_count, MAX_TEXTS);
    ck_assert_int_gt(asprintf(&texts[text_count],
                              "{\"Id\":\"" ID "\",\"Name\":\"/handsfs-s\",\"State\":{\"Status\":\"%s\",\"Pid\":0,"
                              "\"ExitCode\":3,\"StartedAt\":\"%s\"},\"Config\":{\"User\":\"\",\"Labels\":{%s}},"
                              "\"HostConfig\":{%s}}",
                              s->status, s->started != NULL ? s->started : "2020-01-01T00:00:00Z", labels,
                              s->host != NULL ? s->host : "\"PidsLimit\":4096"),
                     0);
    return texts[text_count++];
}

static void by_name(const struct says *s)
{
    fake_engine_answer(fake, NAMED, 200, container(s));
}

static void by_id(const struct says *s)
{
    fake_engine_answer(fake, "GET " THIS "/json", 200, container(s));
}

static void no_name(void)
{
    fake_engine_answer(fake, NAMED, 404, "{\"message\":\"No such container\"}");
}

static void always(const char *request, int status)
{
    fake_engine_script(fake, &(struct fake_step){.request = request, .status = status, .times = FAKE_ALWAYS});
}

static void image_is_there(void)
{
    fake_engine_script(fake, &(struct fake_step){.request = "GET /v1.41/images/img/json",
                                                 .times = FAKE_ALWAYS,
                                                 .body = "{\"Id\":\"sha256:1\",\"Config\":{\"User\":\"\"}}"});
}

static void is_created(void)
{
    fake_engine_answer(fake, CREATE, 201, "{\"Id\":\"" ID "\",\"Warnings\":[]}");
}

/* All that stands between the creation and the start, and the hand's socket behind it. */
static void takes_files(void)
{
    always("PUT " THIS "/archive*", 200);
    always("HEAD " THIS "/archive[?]path=%2Fworkspace%2F.", 200);
    always("HEAD " THIS "/archive[?]path=%2F.handsfs%2Frun%2Fsocket%2F.", 500);
    always("HEAD " THIS "/archive[?]path=%2F.handsfs%2Frun%2Fsocket", 200);
}

static int provision(void)
{
    return sandbox_provision(&backend_docker, &spec, clock_now_ms() + PATIENCE_MS, &sandbox, &err);
}

static void provisioned(bool created)
{
    ck_assert_msg(provision() == 0, "%s", err.message);
    ck_assert_int_eq(sandbox.created, created);
    ck_assert_str_eq(sandbox.workdir, "/workspace");
}

static void refused(enum error_code code, const char *word)
{
    ck_assert_int_eq(provision(), -1);
    ck_assert_msg(err.code == code, "%s: %s", error_name(err.code), err.message);
    ck_assert_msg(strstr(err.message, word) != NULL, "%s", err.message);
}

/* How many requests began with this. */
static unsigned heard(const char *begin)
{
    unsigned n = 0;

    for (unsigned i = 0; i < fake_engine_count(fake); i++) {
        n += strncmp(fake_engine_heard(fake, i)->line, begin, strlen(begin)) == 0;
    }
    return n;
}

/* ---- Made ---- */

START_TEST(a_session_is_made_and_started_with_the_hand_inside)
{
    no_name();
    image_is_there();
    is_created();
    by_id(&(struct says){.status = "created", OURS});
    takes_files();
    fake_engine_answer(fake, "POST " THIS "/start", 204, NULL);
    by_id(&(struct says){.status = "running", OURS});
    provisioned(true);
    ck_assert_uint_eq(heard("PUT " THIS "/archive?path=%2F"), 1);
    ck_assert_uint_eq(heard("DELETE"), 0);
}
END_TEST

/* Each look at a path makes the engine mount the container's root. */
START_TEST(a_workdir_that_is_missing_is_looked_for_once_and_put_in_with_the_hand)
{
    no_name();
    image_is_there();
    is_created();
    by_id(&(struct says){.status = "created", OURS});
    fake_engine_answer(fake, "HEAD " THIS "/archive[?]path=%2Fworkspace%2F.", 404, NULL);
    fake_engine_answer(fake, "HEAD " THIS "/archive[?]path=%2Fworkspace", 404, NULL);
    takes_files();
    fake_engine_answer(fake, "POST " THIS "/start", 204, NULL);
    by_id(&(struct says){.status = "running", OURS});
    provisioned(true);
    ck_assert_uint_eq(heard("HEAD " THIS "/archive?path=%2Fworkspace"), 2);
    ck_assert_uint_eq(heard("PUT"), 1);
    for (unsigned i = 0; i < fake_engine_count(fake); i++) {
        const struct fake_heard *put = fake_engine_heard(fake, i);

        if (strncmp(put->line, "PUT", 3) == 0) {
            ck_assert_ptr_nonnull(memmem(put->body, put->length, "workspace/", strlen("workspace/")));
        }
    }
}
END_TEST

START_TEST(a_running_one_is_found_and_left_as_it_is)
{
    by_name(&(struct says){.status = "running", OURS});
    provisioned(false);
    ck_assert_uint_eq(fake_engine_count(fake), 1);
}
END_TEST

START_TEST(a_container_without_our_label_is_refused_and_left_alone)
{
    by_name(&(struct says){.status = "running"});
    refused(ERROR_BAD_REQUEST, "handsfs did not make");
    ck_assert_uint_eq(fake_engine_count(fake), 1);
}
END_TEST

START_TEST(another_sessions_label_is_no_label_of_ours)
{
    by_name(&(struct says){
        .status = "exited", .session = "t", .image = "img", .workdir = "/workspace", .network = "full"});
    refused(ERROR_BAD_REQUEST, "handsfs did not make");
}
END_TEST

START_TEST(a_mismatch_names_what_there_is_and_what_was_wanted)
{
    static const struct {
        struct says says;
        const char *has, *wanted;
    } rows[] = {
        {{.status = "running", .session = "s", .image = "old", .workdir = "/workspace", .network = "full"}, "\"old\"", "\"img\""},
        {{.status = "exited", .session = "s", .image = "img", .workdir = "/old", .network = "full"}, "\"/old\"", "\"/workspace\""},
        {{.status = "running", .session = "s", .image = "img", .workdir = "/workspace", .network = "none"}, "\"none\"", "\"full\""},
    };

    by_name(&rows[_i].says);
    refused(ERROR_SPEC_MISMATCH, rows[_i].has);
    ck_assert_ptr_nonnull(strstr(err.message, rows[_i].wanted));
    ck_assert_uint_eq(fake_engine_count(fake), 1);
}
END_TEST

/* ---- Races ---- */

START_TEST(who_loses_the_race_for_the_name_adopts_the_winners)
{
    no_name();
    image_is_there();
    fake_engine_answer(fake, CREATE, 409, "{\"message\":\"in use\"}");
    by_name(&(struct says){.status = "created", OURS});
    by_name(&(struct says){.status = "created", OURS});
    by_name(&(struct says){.status = "running", OURS});
    provisioned(false);
    ck_assert_uint_eq(heard("PUT"), 0);
    ck_assert_uint_eq(heard("DELETE"), 0);
}
END_TEST

START_TEST(a_removal_that_is_under_way_is_waited_for)
{
    by_name(&(struct says){.status = "removing", OURS});
    by_name(&(struct says){.status = "dead", OURS});
    no_name();
    image_is_there();
    is_created();
    by_id(&(struct says){.status = "created", OURS});
    takes_files();
    fake_engine_answer(fake, "POST " THIS "/start", 204, NULL);
    by_id(&(struct says){.status = "running", OURS});
    provisioned(true);
}
END_TEST

START_TEST(what_a_destroy_removes_before_its_start_is_made_again)
{
    no_name();
    image_is_there();
    is_created();
    by_id(&(struct says){.status = "created", OURS});
    takes_files();
    fake_engine_answer(fake, "POST " THIS "/start", 404, "{\"message\":\"gone\"}");
    fake_engine_answer(fake, "GET " THIS "/json", 404, "{\"message\":\"gone\"}");
    fake_engine_answer(fake, "DELETE " THIS "[?]force=1&v=1", 404, "{\"message\":\"gone\"}");
    no_name();
    is_created();
    by_id(&(struct says){.status = "created", OURS});
    fake_engine_answer(fake, "POST " THIS "/start", 204, NULL);
    by_id(&(struct says){.status = "running", OURS});
    provisioned(true);
}
END_TEST

START_TEST(what_a_destroy_takes_apart_meanwhile_is_made_again)
{
    no_name();
    image_is_there();
    is_created();
    by_id(&(struct says){.status = "created", OURS});
    fake_engine_answer(fake, "PUT " THIS "/archive*", 404, "{\"message\":\"no such file\"}");
    by_id(&(struct says){.status = "removing", OURS});
    by_id(&(struct says){.status = "removing", OURS});
    fake_engine_answer(fake, "DELETE " THIS "[?]force=1&v=1", 409, "{\"message\":\"in progress\"}");
    fake_engine_answer(fake, "GET " THIS "/json", 404, "{\"message\":\"gone\"}");
    no_name();
    is_created();
    by_id(&(struct says){.status = "created", OURS});
    takes_files();
    fake_engine_answer(fake, "POST " THIS "/start", 204, NULL);
    by_id(&(struct says){.status = "running", OURS});
    provisioned(true);
}
END_TEST

START_TEST(a_stopped_one_is_started_again_with_the_hand_put_in_anew)
{
    by_name(&(struct says){.status = "exited", OURS});
    takes_files();
    fake_engine_answer(fake, "POST " THIS "/start", 304, NULL); /* somebody else was faster */
    by_id(&(struct says){.status = "running", .started = "2021-01-01T00:00:00Z", OURS});
    provisioned(true);
    ck_assert_ptr_nonnull(strstr(sandbox.id, "@2021-"));
    ck_assert_uint_eq(heard("PUT"), 1);
    ck_assert_uint_eq(heard("DELETE"), 0);
}
END_TEST

/* ---- Faults ---- */

START_TEST(what_cannot_be_started_is_removed)
{
    no_name();
    image_is_there();
    is_created();
    by_id(&(struct says){.status = "created", OURS});
    takes_files();
    fake_engine_answer(fake, "POST " THIS "/start", 500, "{\"message\":\"a shim is missing\"}");
    by_id(&(struct says){.status = "created", OURS});
    fake_engine_answer(fake, "DELETE " THIS "[?]force=1&v=1", 204, NULL);
    fake_engine_answer(fake, "GET " THIS "/json", 404, "{\"message\":\"gone\"}");
    refused(ERROR_NO_ANSWER, "a shim is missing");
}
END_TEST

START_TEST(what_ends_as_it_starts_is_removed_with_its_last_words_told)
{
    static const char log[] = {2, 0, 0, 0, 0, 0, 0, 14, 'h', 'a', 'n', 'd', ':', ' ', 'n', 'o', ' ', 'r', 'o', 'o', 'm', '\n'};

    no_name();
    image_is_there();
    is_created();
    by_id(&(struct says){.status = "created", OURS});
    always("PUT " THIS "/archive*", 200);
    always("HEAD " THIS "/archive[?]path=%2Fworkspace%2F.", 200);
    always("HEAD " THIS "/archive[?]path=%2F.handsfs*", 404);
    fake_engine_answer(fake, "POST " THIS "/start", 204, NULL);
    by_id(&(struct says){.status = "running", OURS});
    by_id(&(struct says){.status = "exited", OURS});
    by_id(&(struct says){.status = "exited", OURS});
    fake_engine_script(fake, &(struct fake_step){.request = "GET " THIS "/logs*",
                                                 .headers = "Content-Type: application/octet-stream\r\n",
                                                 .body = log,
                                                 .length = sizeof log});
    fake_engine_answer(fake, "DELETE " THIS "[?]force=1&v=1", 204, NULL);
    fake_engine_answer(fake, "GET " THIS "/json", 404, "{\"message\":\"gone\"}");
    refused(ERROR_IO, "hand: no room");
}
END_TEST

START_TEST(a_limit_that_the_engine_drops_is_refused_and_nothing_is_left)
{
    spec.memory_bytes = 1 << 30;
    no_name();
    image_is_there();
    fake_engine_answer(fake, CREATE, 201,
                       "{\"Id\":\"" ID "\",\"Warnings\":[\"Your kernel does not support memory limit capabilities\"]}");
    by_id(&(struct says){.status = "created", .host = "\"Memory\":0,\"MemorySwap\":0", OURS});
    by_id(&(struct says){.status = "created", OURS});
    fake_engine_answer(fake, "DELETE " THIS "[?]force=1&v=1", 204, NULL);
    fake_engine_answer(fake, "GET " THIS "/json", 404, "{\"message\":\"gone\"}");
    refused(ERROR_BAD_REQUEST, "memory");
}
END_TEST

START_TEST(without_an_image_nothing_is_made)
{
    free(spec.image);
    spec.image = NULL;
    no_name();
    refused(ERROR_BAD_REQUEST, "--image");
}
END_TEST

START_TEST(an_image_for_another_machine_is_refused)
{
    no_name();
    fake_engine_answer(fake, "GET /v1.41/images/img/json", 200,
                       "{\"Id\":\"sha256:1\",\"Architecture\":\"mips64le\",\"Os\":\"linux\",\"Config\":{}}");
    refused(ERROR_BAD_REQUEST, "mips64le");
}
END_TEST

START_TEST(an_engine_that_does_not_answer_is_no_answer_in_time)
{
    uint64_t deadline_ms = clock_now_ms() + 500;

    /* On a slow machine the time may pass before it has asked. */
    fake_engine_script(fake, &(struct fake_step){.request = NAMED, .how = FAKE_HANG, .times = FAKE_ALWAYS});
    ck_assert_int_eq(sandbox_provision(&backend_docker, &spec, deadline_ms, &sandbox, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    ck_assert_uint_ge(clock_now_ms(), deadline_ms);
}
END_TEST

/* ---- Connect ---- */

START_TEST(a_connection_is_refused_for_what_became_of_the_container)
{
    static const struct {
        const char *status, *started;
        enum error_code code;
    } rows[] = {
        {"exited", NULL, ERROR_SANDBOX_GONE},
        {"removing", NULL, ERROR_SANDBOX_GONE},
        {"paused", NULL, ERROR_NO_ANSWER},
        {"running", "2022-01-01T00:00:00Z", ERROR_SANDBOX_GONE},
        {"paused", "2022-01-01T00:00:00Z", ERROR_SANDBOX_GONE},
    };
    int fd = -1;

    ck_assert_int_eq(setenv("HANDSFS_DOCKER_RELAY", "1", 1), 0);
    by_name(&(struct says){.status = "running", OURS});
    provisioned(false);
    by_id(&(struct says){.status = rows[_i].status, .started = rows[_i].started, OURS});
    ck_assert_int_eq(sandbox_connect(&sandbox, clock_now_ms() + PATIENCE_MS, &fd, &err), -1);
    ck_assert_msg(err.code == rows[_i].code, "%s", err.message);
    unsetenv("HANDSFS_DOCKER_RELAY");
}
END_TEST

START_TEST(a_relay_that_the_engine_refuses_is_classified_by_the_container)
{
    int fd = -1;

    ck_assert_int_eq(setenv("HANDSFS_DOCKER_RELAY", "1", 1), 0);
    by_name(&(struct says){.status = "running", OURS});
    provisioned(false);
    by_id(&(struct says){.status = "running", OURS});
    fake_engine_answer(fake, "POST " THIS "/exec", 409, "{\"message\":\"no such file\"}");
    by_id(&(struct says){.status = "paused", OURS});
    ck_assert_int_eq(sandbox_connect(&sandbox, clock_now_ms() + PATIENCE_MS, &fd, &err), -1);
    ck_assert_msg(err.code == ERROR_NO_ANSWER, "%s", err.message);
    unsetenv("HANDSFS_DOCKER_RELAY");
}
END_TEST

/* ---- List, destroy ---- */

static void count(void *arg, const char *session)
{
    ck_assert_str_eq(session, "s");
    ++*(unsigned *)arg;
}

START_TEST(what_is_listed_has_our_label_and_our_name)
{
    unsigned n = 0;

    fake_engine_answer(fake, "GET /v1.41/containers/json[?]all=1&filters=*", 200,
                       "[{\"Names\":[\"/handsfs-s\"],\"Labels\":{\"io.handsfs.session\":\"s\"}},"
                       "{\"Names\":[\"/copy\"],\"Labels\":{\"io.handsfs.session\":\"s\"}},"
                       "{\"Names\":[\"/handsfs-t\"],\"Labels\":{\"io.handsfs.session\":\"../t\"}},"
                       "{\"Names\":[\"/handsfs-u\"],\"Labels\":{}},3,{}]");
    ck_assert_int_eq(sandbox_list(&backend_docker, count, &n, &err), 0);
    ck_assert_uint_eq(n, 1);
}
END_TEST

static int destroy(void)
{
    return sandbox_destroy(&backend_docker, "s", clock_now_ms() + PATIENCE_MS, &err);
}

START_TEST(an_unknown_session_is_destroyed_already)
{
    no_name();
    ck_assert_int_eq(destroy(), 0);
}
END_TEST

START_TEST(a_foreign_container_is_not_destroyed)
{
    by_name(&(struct says){.status = "running"});
    ck_assert_int_eq(destroy(), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_uint_eq(heard("DELETE"), 0);
}
END_TEST

START_TEST(a_destroy_ends_when_the_container_is_gone)
{
    by_name(&(struct says){.status = "running", OURS});
    fake_engine_answer(fake, "DELETE " THIS "[?]force=1&v=1", _i == 0 ? 204 : 409, _i == 0 ? NULL : "{\"message\":\"x\"}");
    by_id(&(struct says){.status = "removing", OURS});
    by_id(&(struct says){.status = "removing", OURS});
    fake_engine_answer(fake, "GET " THIS "/json", 404, "{\"message\":\"gone\"}");
    ck_assert_int_eq(destroy(), 0);
}
END_TEST

UNIT_SUITE(docker_life)
{
    tcase_add_checked_fixture(tcase, open_all, close_all);
    tcase_add_test(tcase, a_session_is_made_and_started_with_the_hand_inside);
    tcase_add_test(tcase, a_workdir_that_is_missing_is_looked_for_once_and_put_in_with_the_hand);
    tcase_add_test(tcase, a_running_one_is_found_and_left_as_it_is);
    tcase_add_test(tcase, a_container_without_our_label_is_refused_and_left_alone);
    tcase_add_test(tcase, another_sessions_label_is_no_label_of_ours);
    tcase_add_loop_test(tcase, a_mismatch_names_what_there_is_and_what_was_wanted, 0, 3);
    tcase_add_test(tcase, who_loses_the_race_for_the_name_adopts_the_winners);
    tcase_add_test(tcase, a_removal_that_is_under_way_is_waited_for);
    tcase_add_test(tcase, what_a_destroy_removes_before_its_start_is_made_again);
    tcase_add_test(tcase, what_a_destroy_takes_apart_meanwhile_is_made_again);
    tcase_add_test(tcase, a_stopped_one_is_started_again_with_the_hand_put_in_anew);
    tcase_add_test(tcase, what_cannot_be_started_is_removed);
    tcase_add_test(tcase, what_ends_as_it_starts_is_removed_with_its_last_words_told);
    tcase_add_test(tcase, a_limit_that_the_engine_drops_is_refused_and_nothing_is_left);
    tcase_add_test(tcase, without_an_image_nothing_is_made);
    tcase_add_test(tcase, an_image_for_another_machine_is_refused);
    tcase_add_test(tcase, an_engine_that_does_not_answer_is_no_answer_in_time);
    tcase_add_loop_test(tcase, a_connection_is_refused_for_what_became_of_the_container, 0, 5);
    tcase_add_test(tcase, a_relay_that_the_engine_refuses_is_classified_by_the_container);
    tcase_add_test(tcase, what_is_listed_has_our_label_and_our_name);
    tcase_add_test(tcase, an_unknown_session_is_destroyed_already);
    tcase_add_test(tcase, a_foreign_container_is_not_destroyed);
    tcase_add_loop_test(tcase, a_destroy_ends_when_the_container_is_gone, 0, 2);
}
