/* The life of a session on a cluster: made, found, adopted, replaced, removed. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backends/k8s_internal.h"
#include "sandbox/cleanup.h"
#include "sandbox/clock.h"
#include "tests/unit/fake_cluster.h"
#include "tests/unit/unit.h"

#define POD "handsfs-s1"

static char state_dir[] = "/tmp/handsfs-k8s-XXXXXX";
static struct sandbox_spec spec;
static struct sandbox sandbox;
static struct error err;

static uint64_t soon(void)
{
    return clock_now_ms() + 20000;
}

static void begin(void)
{
    memset(state_dir + strlen(state_dir) - 6, 'X', 6);
    ck_assert_ptr_nonnull(mkdtemp(state_dir));
    ck_assert_int_eq(setenv("HANDSFS_STATE_DIR", state_dir, 1), 0);
    unsetenv("HANDSFS_K8S_NAMESPACE");
    unsetenv("HANDSFS_K8S_CONTEXT");
    cluster_begin();
    err = (struct error){0};
    sandbox_spec_init(&spec);
    spec.session = strdup("s1");
    spec.image = strdup("img");
    ck_assert_int_eq(sandbox_spec_check(&spec, &err), 0);
}

static void end(void)
{
    cleanup_free char *command = NULL;

    sandbox_release(&sandbox);
    sandbox_spec_release(&spec);
    cluster_end();
    ck_assert_int_gt(asprintf(&command, "%s/k8s/s1", state_dir), 0);
    unlink(command);
    command[strlen(command) - 3] = '\0';
    rmdir(command);
    rmdir(state_dir);
}

static int provision(void)
{
    sandbox_release(&sandbox);
    return sandbox_provision(&backend_k8s, &spec, soon(), &sandbox, &err);
}

#define assert_provisioned() ck_assert_msg(provision() == 0, "%s", err.message)

static void assert_fault(int r, enum error_code code, const char *word)
{
    ck_assert_int_eq(r, -1);
    ck_assert_msg(err.code == code && strstr(err.message, word) != NULL, "%s: %s",
                  error_name(err.code), err.message);
}

/* A Pod as this spec would have it, put in by somebody else. */
static json_t *other_s_pod(const char *status)
{
    struct k8s_settings settings = {.pull_policy = "Always"};
    json_t *pod = NULL;

    ck_assert_msg(k8s_pod_make(&spec, &settings, NULL, &pod, &err) == 0, "%s", err.message);
    return cluster_put(POD, pod, status);
}

START_TEST(a_session_gets_a_pod_and_the_hand_into_it)
{
    assert_provisioned();
    ck_assert(sandbox.created);
    ck_assert_str_eq(sandbox.id, k8s_text(cluster_pod(POD), "metadata", "uid", NULL));
    ck_assert_uint_eq(cluster_count("exec upload"), 1);
    ck_assert_uint_eq(cluster_count("exec publish"), 1);
    ck_assert_uint_eq(cluster_count("exec await"), 1);
}
END_TEST

START_TEST(provision_finds_what_it_made)
{
    char id[64];

    assert_provisioned();
    snprintf(id, sizeof id, "%s", sandbox.id);
    assert_provisioned();
    ck_assert(!sandbox.created);
    ck_assert_str_eq(sandbox.id, id);
    ck_assert_uint_eq(cluster_count("POST"), 1);
    ck_assert_uint_eq(cluster_count("exec upload"), 1);
}
END_TEST

START_TEST(bytes_that_a_stream_lost_are_sent_again)
{
    cluster.lossy = 2;
    assert_provisioned();
    ck_assert_uint_eq(cluster_count("exec upload"), 3);
    ck_assert_uint_eq(cluster_count("exec publish"), 1);
}
END_TEST

START_TEST(a_stream_that_always_loses_some_is_an_error_and_nothing_is_left)
{
    cluster.lossy = 100;
    assert_fault(provision(), ERROR_NO_ANSWER, "the hand could not be put in");
    ck_assert_uint_eq(cluster_count("exec publish"), 0);
    ck_assert_ptr_null(cluster_pod(POD));
}
END_TEST

START_TEST(an_upload_that_breaks_off_is_made_again)
{
    cluster.broken = 3; /* such news may be late, so more of them than of a stream's are no error */
    assert_provisioned();
    ck_assert_uint_eq(cluster_count("exec upload"), 4);
}
END_TEST

START_TEST(a_container_that_ends_under_an_upload_is_no_error_when_it_is_what_was_wanted)
{
    cluster.broken = 1;
    cluster.steps[0] = STATUS_WAITS;
    cluster.steps[1] = STATUS_RUNNING; /* somebody else has put a hand in */
    assert_provisioned();
    ck_assert_uint_eq(cluster_count("exec upload"), 1);
}
END_TEST

START_TEST(a_pod_whose_making_was_not_answered_is_known_as_one_s_own)
{
    cluster.unanswered = 1;
    assert_provisioned();
    ck_assert(sandbox.created);
    ck_assert_uint_eq(cluster_count("POST"), 1);
    ck_assert_uint_eq(cluster_count("exec upload"), 1);
}
END_TEST

#define STATUS_NO_WORKDIR                                                                          \
    "{'phase':'Failed','containerStatuses':[{'name':'sandbox','state':{'terminated':{"             \
    "'exitCode':1,'reason':'Error','message':'hand: mkdir /workspace: Permission denied "          \
    "(as user 1000:1001)'}}}]}"

static unsigned made;

/* The second Pod is another one. */
static void second_runs(const char *method, const char *path)
{
    (void)path;
    if (strcmp(method, "POST") == 0 && ++made == 2) {
        cluster.steps[2] = NULL;
        cluster.runs_after_hand = true;
    }
}

START_TEST(a_workdir_that_the_image_s_user_cannot_make_is_put_into_the_volume)
{
    cleanup_free char *json = NULL;

    made = 0;
    cluster.steps[2] = STATUS_NO_WORKDIR;
    cluster.runs_after_hand = false;
    cluster.before = second_runs;
    assert_provisioned();
    ck_assert(sandbox.created);
    ck_assert_uint_eq(made, 2);
    json = json_dumps(cluster_pod(POD), 0);
    ck_assert_ptr_nonnull(strstr(json, "make=0755:1000:1001:/.handsfs/work"));
}
END_TEST

START_TEST(a_workdir_that_cannot_be_made_even_so_is_an_error)
{
    cluster.steps[2] = STATUS_NO_WORKDIR;
    cluster.runs_after_hand = false;
    assert_fault(provision(), ERROR_IO, "Permission denied");
    ck_assert_uint_eq(cluster_count("POST"), 2);
    ck_assert_ptr_null(cluster_pod(POD));
}
END_TEST

static unsigned dropped;

/* The connection breaks before the server has read the request. */
static void drop_pods(const char *method, const char *path)
{
    (void)path;
    if (strcmp(method, "GET") == 0 && cluster_pod(POD) != NULL) {
        json_object_del(cluster.pods, POD);
        dropped++;
    }
}

START_TEST(a_cluster_that_never_answers_the_making_is_an_error_and_not_asked_for_ever)
{
    dropped = 0;
    cluster.unanswered = 100;
    cluster.before = drop_pods;
    assert_fault(provision(), ERROR_NO_ANSWER, "the connection was lost");
    ck_assert_uint_eq(cluster_count("POST"), 3);
    ck_assert_uint_eq(dropped, 2);
}
END_TEST

static void race(const char *method, const char *path)
{
    (void)path;
    if (strcmp(method, "POST") == 0) {
        cluster.before = NULL;
        other_s_pod(STATUS_RUNNING);
    }
}

START_TEST(who_loses_the_race_to_create_adopts_the_winner_s)
{
    cluster.before = race;
    assert_provisioned();
    ck_assert(!sandbox.created);
    ck_assert_str_eq(sandbox.id, k8s_text(cluster_pod(POD), "metadata", "uid", NULL));
}
END_TEST

START_TEST(who_adopts_waits_and_puts_the_hand_in_where_its_maker_does_not)
{
    uint64_t start = clock_now_ms();

    other_s_pod(STATUS_WAITS);
    cluster.steps[0] = NULL;
    assert_provisioned();
    ck_assert(!sandbox.created);
    ck_assert_uint_eq(cluster_count("exec upload"), 1);
    ck_assert_uint_ge(clock_now_ms() - start, 1000);
}
END_TEST

START_TEST(a_pod_made_differently_is_refused_and_left_alone)
{
    static const char *const words[] = {"image", "workdir", "network"};

    assert_provisioned();
    if (_i == 0) {
        free(spec.image);
        spec.image = strdup("other");
    } else if (_i == 1) {
        free(spec.workdir);
        spec.workdir = strdup("/elsewhere");
    } else {
        spec.network = NETWORK_FULL;
    }
    assert_fault(provision(), ERROR_SPEC_MISMATCH, words[_i]);
    ck_assert_ptr_nonnull(cluster_pod(POD));
    ck_assert_uint_eq(cluster_count("DELETE"), 0);
}
END_TEST

START_TEST(a_pod_of_this_name_that_is_not_ours_is_left_alone)
{
    cluster_put(POD, quoted("{'metadata':{},'spec':{}}"), STATUS_RUNNING);
    assert_fault(provision(), ERROR_BAD_REQUEST, "not made by handsfs");
    assert_fault(sandbox_attach(&backend_k8s, "s1", soon(), &sandbox, &err), ERROR_BAD_REQUEST,
                 "not made by handsfs");
    assert_fault(sandbox_destroy(&backend_k8s, "s1", soon(), &err), ERROR_BAD_REQUEST,
                 "not made by handsfs");
    ck_assert_uint_eq(cluster_count("DELETE"), 0);
}
END_TEST

START_TEST(a_pod_that_is_over_is_replaced)
{
    cleanup_free char *old = NULL;

    old = strdup(k8s_text(other_s_pod(STATUS_EVICTED), "metadata", "uid", NULL));
    assert_fault(sandbox_attach(&backend_k8s, "s1", soon(), &sandbox, &err), ERROR_SANDBOX_GONE,
                 "Evicted");
    assert_provisioned();
    ck_assert(sandbox.created);
    ck_assert_str_ne(sandbox.id, old);
}
END_TEST

START_TEST(an_image_that_cannot_be_pulled_ends_it_early_with_the_reason_and_nothing_is_left)
{
    uint64_t start = clock_now_ms();

    cluster.ends_slowly = true; /* the node takes its time with such a Pod */
    cluster.steps[1] = STATUS_NO_IMAGE;
    assert_fault(provision(), ERROR_BAD_REQUEST, "ErrImagePull: manifest for img not found");
    ck_assert_uint_lt(clock_now_ms() - start, 15000);
    ck_assert_ptr_null(cluster_pod(POD));
}
END_TEST

START_TEST(a_pod_that_no_node_takes_is_given_a_moment)
{
    ck_assert_int_eq(env_list_set(&spec.engine, "schedule_timeout=50ms", &err), 0);
    cluster.steps[0] = STATUS_NO_NODE;
    cluster.steps[1] = NULL;
    assert_fault(provision(), ERROR_NO_ANSWER, "Insufficient memory");
    ck_assert_ptr_null(cluster_pod(POD));
}
END_TEST

START_TEST(a_pod_that_gets_its_node_in_that_moment_starts)
{
    cluster.steps[0] = STATUS_NO_NODE;
    cluster.steps[1] = STATUS_STARTING;
    cluster.steps[2] = STATUS_WAITS;
    assert_provisioned();
}
END_TEST

START_TEST(a_refusal_to_create_is_told_in_the_cluster_s_words)
{
    cluster.refuse_status = 403;
    cluster.refuse_reason = "Forbidden";
    cluster.refuse_message = "exceeded quota: pods";
    assert_fault(provision(), ERROR_BAD_REQUEST, "exceeded quota: pods");
    cluster.refuse_message = "violates PodSecurity: must not include NET_ADMIN";
    assert_fault(provision(), ERROR_BAD_REQUEST, "network_none=policy");
}
END_TEST

static void remove_once(const char *method, const char *path)
{
    (void)path;
    if (strcmp(method, "exec") == 0) {
        cluster.before = NULL;
        json_object_del(cluster.pods, POD);
    }
}

START_TEST(a_pod_that_somebody_deletes_while_it_starts_is_made_anew)
{
    cluster.before = remove_once;
    assert_provisioned();
    ck_assert(sandbox.created);
    ck_assert_uint_eq(cluster_count("POST"), 2);
}
END_TEST

START_TEST(a_hand_that_does_not_serve_is_an_error)
{
    cluster.hand_serves = false;
    assert_fault(provision(), ERROR_IO, "does not serve");
    ck_assert_ptr_null(cluster_pod(POD));
}
END_TEST

/* ---- Found, listed, removed ---- */

START_TEST(attach_finds_what_runs_and_nothing_else)
{
    assert_fault(sandbox_attach(&backend_k8s, "s1", soon(), &sandbox, &err), ERROR_SANDBOX_GONE,
                 "no Pod");
    other_s_pod(STATUS_STARTING);
    assert_fault(sandbox_attach(&backend_k8s, "s1", soon(), &sandbox, &err), ERROR_SANDBOX_GONE,
                 "not started");
    cluster_set_status(cluster_pod(POD), STATUS_RUNNING);
    ck_assert_int_eq(sandbox_attach(&backend_k8s, "s1", soon(), &sandbox, &err), 0);
    ck_assert_str_eq(sandbox.workdir, "/workspace");
    ck_assert_uint_eq(cluster_count("POST"), 0);
}
END_TEST

static void count(void *arg, const char *session)
{
    ck_assert_str_eq(session, "s1");
    ++*(unsigned *)arg;
}

START_TEST(list_names_each_session_once)
{
    unsigned n = 0;

    ck_assert_int_eq(env_list_set(&spec.engine, "namespace=" CLUSTER_NAMESPACE, &err), 0);
    assert_provisioned(); /* remembered as in a namespace, which is the default's, too */
    cluster_put("somebody-s",
                quoted("{'metadata':{'annotations':{'io.handsfs.session':'../x'}},'spec':{}}"),
                STATUS_RUNNING);
    ck_assert_int_eq(sandbox_list(&backend_k8s, count, &n, &err), 0);
    ck_assert_uint_eq(n, 1);
}
END_TEST

START_TEST(destroy_removes_the_pod_and_again_is_no_error)
{
    assert_provisioned();
    ck_assert_int_eq(sandbox_destroy(&backend_k8s, "s1", soon(), &err), 0);
    ck_assert_ptr_null(cluster_pod(POD));
    ck_assert_int_eq(sandbox_destroy(&backend_k8s, "s1", soon(), &err), 0);
    ck_assert_uint_eq(cluster_count("DELETE"), 1);
}
END_TEST

START_TEST(a_pod_s_object_goes_when_its_containers_have_ended_and_not_before)
{
    assert_provisioned();
    cluster.ends_slowly = true;
    cluster.step = 0;
    cluster.steps[0] = STATUS_RUNNING;
    cluster.steps[1] = STATUS_EVICTED;
    ck_assert_msg(sandbox_destroy(&backend_k8s, "s1", soon(), &err) == 0, "%s", err.message);
    ck_assert_uint_eq(cluster_count("DELETE"), 2);
    ck_assert_uint_eq(cluster.step, 2);
    ck_assert_ptr_null(cluster_pod(POD));
}
END_TEST

START_TEST(a_pod_whose_node_does_not_answer_is_not_said_to_be_gone)
{
    assert_provisioned();
    cluster.ends_slowly = true;
    assert_fault(sandbox_destroy(&backend_k8s, "s1", clock_now_ms() + 2000, &err), ERROR_NO_ANSWER,
                 "node-1 may not answer");
    ck_assert_ptr_nonnull(cluster_pod(POD));
}
END_TEST

START_TEST(a_session_is_found_again_in_the_namespace_that_it_was_given)
{
    ck_assert_int_eq(env_list_set(&spec.engine, "namespace=" CLUSTER_NAMESPACE, &err), 0);
    assert_provisioned();
    setenv("HANDSFS_K8S_NAMESPACE", "other", 1);
    ck_assert_int_eq(env_list_set(&spec.engine, "namespace=elsewhere", &err), 0);
    assert_fault(provision(), ERROR_SPEC_MISMATCH, "namespace");
    ck_assert_int_eq(sandbox_destroy(&backend_k8s, "s1", soon(), &err), 0);
    ck_assert_ptr_null(cluster_pod(POD));
    unsetenv("HANDSFS_K8S_NAMESPACE");
}
END_TEST

/* ---- A handle ---- */

static void keep_said(void *arg, const char *key, const char *value)
{
    json_object_set_new(arg, key, json_string(value));
}

START_TEST(a_handle_never_reaches_another_pod_of_the_name)
{
    int fd = -1;

    assert_provisioned();
    ck_assert_int_eq(sandbox_connect(&sandbox, soon(), &fd, &err), 0);
    close(fd);
    json_object_del(cluster.pods, POD);
    assert_fault(sandbox_connect(&sandbox, soon(), &fd, &err), ERROR_SANDBOX_GONE, "is gone");
    other_s_pod(STATUS_RUNNING);
    assert_fault(sandbox_connect(&sandbox, soon(), &fd, &err), ERROR_SANDBOX_GONE, "replaced");
    assert_fault(sandbox_status(&sandbox, keep_said, NULL, &err), ERROR_SANDBOX_GONE, "is gone");
}
END_TEST

START_TEST(a_handle_of_a_pod_that_is_over_or_being_deleted_finds_it_gone)
{
    int fd = -1;

    assert_provisioned();
    cluster_set_status(cluster_pod(POD), STATUS_EVICTED);
    assert_fault(sandbox_connect(&sandbox, soon(), &fd, &err), ERROR_SANDBOX_GONE, "Evicted");
    cluster_set_status(cluster_pod(POD), STATUS_RUNNING);
    json_object_set_new(json_object_get(cluster_pod(POD), "metadata"), "deletionTimestamp",
                        json_string("now"));
    assert_fault(sandbox_connect(&sandbox, soon(), &fd, &err), ERROR_SANDBOX_GONE, "being deleted");
}
END_TEST

START_TEST(status_tells_node_phase_and_more)
{
    json_auto_t *said = json_object();

    assert_provisioned();
    ck_assert_int_eq(sandbox_status(&sandbox, keep_said, said, &err), 0);
    ck_assert_str_eq(k8s_text(said, "state", NULL), "running");
    ck_assert_str_eq(k8s_text(said, "node", NULL), "node-1");
    ck_assert_str_eq(k8s_text(said, "phase", NULL), "Running");
    ck_assert_str_eq(k8s_text(said, "pod_ip", NULL), "10.1.2.3");
    ck_assert_str_eq(k8s_text(said, "image", NULL), "img");
    ck_assert_str_eq(k8s_text(said, "restarts", NULL), "0");
    ck_assert(atoi(k8s_text(said, "age_s", NULL)) > 0);
}
END_TEST

/* ---- Pods of others ---- */

#define APP_RUNNING                                                                                \
    "{'phase':'Running','containerStatuses':[{'name':'app','containerID':'docker://aa11',"         \
    "'state':{'running':{}}},{'name':'side','containerID':'docker://"                              \
    "bb22','state':{'running':{}}}]}"

/* The session is to work in a Pod that somebody else has made. */
static json_t *attach_to(const char *name)
{
    spec.attach = strdup(name);
    free(spec.image);
    free(spec.workdir);
    spec.image = spec.workdir = NULL;
    cluster.container = "app";
    cluster.directories = "/tmp/.handsfs-s1\n/srv\n";
    cluster.hand_serves = false;
    return cluster_put(
        "web", quoted("{'metadata':{},'spec':{'containers':[{'name':'app'},{'name':'side'}]}}"),
        APP_RUNNING);
}

START_TEST(a_session_can_work_in_the_first_container_of_somebody_else_s_pod)
{
    attach_to("web");
    assert_provisioned();
    ck_assert(sandbox.created);
    ck_assert_str_eq(sandbox.workdir, "/srv");
    ck_assert_ptr_nonnull(strstr(sandbox.id, "/aa11/"));
    ck_assert_uint_eq(cluster_count("exec start"), 1);
    ck_assert_uint_eq(cluster_count("POST") + cluster_count("DELETE"), 0);
}
END_TEST

START_TEST(an_attached_session_is_found_again_and_provisioned_by_its_name)
{
    char id[128];

    attach_to("web");
    assert_provisioned();
    snprintf(id, sizeof id, "%s", sandbox.id);
    sandbox_release(&sandbox);
    ck_assert_msg(sandbox_attach(&backend_k8s, "s1", soon(), &sandbox, &err) == 0, "%s",
                  err.message);
    ck_assert_str_eq(sandbox.id, id);
    free(spec.attach);
    spec.attach = NULL;
    spec.workdir = strdup("/workspace"); /* as a checked spec has it where none is given */
    assert_provisioned();
    ck_assert(!sandbox.created);
    ck_assert_str_eq(sandbox.id, id);
    ck_assert_uint_eq(cluster_count("exec start"), 1);
}
END_TEST

START_TEST(a_hand_that_has_ended_is_gone_until_the_session_is_provisioned_again)
{
    char id[128];
    int fd = -1;

    attach_to("web");
    assert_provisioned();
    snprintf(id, sizeof id, "%s", sandbox.id);
    cluster.hand_serves = false;
    assert_fault(sandbox_connect(&sandbox, soon(), &fd, &err), ERROR_SANDBOX_GONE, "has ended");
    assert_provisioned();
    ck_assert(sandbox.created);
    ck_assert_str_ne(sandbox.id, id);
}
END_TEST

START_TEST(another_container_in_its_place_is_another_sandbox)
{
    json_t *pod = attach_to("web/app");
    int fd = -1;

    assert_provisioned();
    json_object_set_new(json_array_get(k8s_at(pod, "status", "containerStatuses", NULL), 0),
                        "containerID", json_string("docker://cc33"));
    assert_fault(sandbox_connect(&sandbox, soon(), &fd, &err), ERROR_SANDBOX_GONE, "started anew");
}
END_TEST

START_TEST(somebody_else_s_pod_is_not_deleted_but_the_session_is_forgotten_with_it)
{
    attach_to("web");
    assert_provisioned();
    assert_fault(sandbox_destroy(&backend_k8s, "s1", soon(), &err), ERROR_BAD_REQUEST,
                 "does not delete");
    ck_assert_uint_eq(cluster_count("DELETE"), 0);
    json_object_del(cluster.pods, "web");
    ck_assert_int_eq(sandbox_destroy(&backend_k8s, "s1", soon(), &err), 0);
    assert_fault(sandbox_attach(&backend_k8s, "s1", soon(), &sandbox, &err), ERROR_SANDBOX_GONE,
                 "no Pod");
}
END_TEST

START_TEST(what_cannot_be_attached_to_is_refused_and_nothing_is_remembered)
{
    attach_to("web");
    cluster.directories = "";
    assert_fault(provision(), ERROR_BAD_REQUEST, "no directory");
    cluster.directories = "relative\n/x\n";
    assert_fault(provision(), ERROR_IO, "does not say");
    spec.memory_bytes = 1;
    assert_fault(provision(), ERROR_BAD_REQUEST, "limits");
    spec.memory_bytes = 0;
    free(spec.attach);
    spec.attach = strdup("web/none");
    assert_fault(provision(), ERROR_SANDBOX_GONE, "none");
    free(spec.attach);
    spec.attach = strdup("missing");
    assert_fault(provision(), ERROR_SANDBOX_GONE, "no Pod missing");
    free(spec.attach);
    spec.attach = strdup("UP/../x");
    assert_fault(provision(), ERROR_BAD_REQUEST, "not the name of a Pod");
    assert_fault(sandbox_attach(&backend_k8s, "s1", soon(), &sandbox, &err), ERROR_SANDBOX_GONE,
                 "no Pod");
}
END_TEST

UNIT_SUITE(k8s_life)
{
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, a_session_gets_a_pod_and_the_hand_into_it);
    tcase_add_test(tcase, provision_finds_what_it_made);
    tcase_add_test(tcase, bytes_that_a_stream_lost_are_sent_again);
    tcase_add_test(tcase, a_stream_that_always_loses_some_is_an_error_and_nothing_is_left);
    tcase_add_test(tcase, an_upload_that_breaks_off_is_made_again);
    tcase_add_test(tcase, a_container_that_ends_under_an_upload_is_no_error_when_it_is_what_was_wanted);
    tcase_add_test(tcase, a_pod_whose_making_was_not_answered_is_known_as_one_s_own);
    tcase_add_test(tcase, a_cluster_that_never_answers_the_making_is_an_error_and_not_asked_for_ever);
    tcase_add_test(tcase, a_workdir_that_the_image_s_user_cannot_make_is_put_into_the_volume);
    tcase_add_test(tcase, a_workdir_that_cannot_be_made_even_so_is_an_error);
    tcase_add_test(tcase, who_loses_the_race_to_create_adopts_the_winner_s);
    tcase_add_test(tcase, who_adopts_waits_and_puts_the_hand_in_where_its_maker_does_not);
    tcase_add_loop_test(tcase, a_pod_made_differently_is_refused_and_left_alone, 0, 3);
    tcase_add_test(tcase, a_pod_of_this_name_that_is_not_ours_is_left_alone);
    tcase_add_test(tcase, a_pod_that_is_over_is_replaced);
    tcase_add_test(
        tcase, an_image_that_cannot_be_pulled_ends_it_early_with_the_reason_and_nothing_is_left);
    tcase_add_test(tcase, a_pod_that_no_node_takes_is_given_a_moment);
    tcase_add_test(tcase, a_pod_that_gets_its_node_in_that_moment_starts);
    tcase_add_test(tcase, a_refusal_to_create_is_told_in_the_cluster_s_words);
    tcase_add_test(tcase, a_pod_that_somebody_deletes_while_it_starts_is_made_anew);
    tcase_add_test(tcase, a_hand_that_does_not_serve_is_an_error);
    tcase_add_test(tcase, attach_finds_what_runs_and_nothing_else);
    tcase_add_test(tcase, list_names_each_session_once);
    tcase_add_test(tcase, destroy_removes_the_pod_and_again_is_no_error);
    tcase_add_test(tcase, a_pod_s_object_goes_when_its_containers_have_ended_and_not_before);
    tcase_add_test(tcase, a_pod_whose_node_does_not_answer_is_not_said_to_be_gone);
    tcase_add_test(tcase, a_session_is_found_again_in_the_namespace_that_it_was_given);
    tcase_add_test(tcase, a_handle_never_reaches_another_pod_of_the_name);
    tcase_add_test(tcase, a_handle_of_a_pod_that_is_over_or_being_deleted_finds_it_gone);
    tcase_add_test(tcase, status_tells_node_phase_and_more);
    tcase_add_test(tcase, a_session_can_work_in_the_first_container_of_somebody_else_s_pod);
    tcase_add_test(tcase, an_attached_session_is_found_again_and_provisioned_by_its_name);
    tcase_add_test(tcase, a_hand_that_has_ended_is_gone_until_the_session_is_provisioned_again);
    tcase_add_test(tcase, another_container_in_its_place_is_another_sandbox);
    tcase_add_test(tcase, somebody_else_s_pod_is_not_deleted_but_the_session_is_forgotten_with_it);
    tcase_add_test(tcase, what_cannot_be_attached_to_is_refused_and_nothing_is_remembered);
}
