/* What a session's Pod is called and made from. */
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "backends/k8s_internal.h"
#include "sandbox/cleanup.h"
#include "tests/unit/unit.h"

/* ---- Names ---- */

START_TEST(a_session_that_is_a_label_keeps_its_name)
{
    char name[K8S_NAME_BYTES];

    k8s_pod_name("fix-bug-17", name);
    ck_assert_str_eq(name, "handsfs-fix-bug-17");
}
END_TEST

START_TEST(sessions_that_differ_only_in_what_a_label_loses_have_different_pods)
{
    static const char *const sessions[] = {"a-b", "A-b",  "a_b",  "a.b",
                                           "a-B", "a-b-", "a-b_", "a-b."};
    char names[8][K8S_NAME_BYTES];

    for (unsigned i = 0; i < 8; i++) {
        k8s_pod_name(sessions[i], names[i]);
        ck_assert_msg(k8s_is_name(names[i]), "%s", names[i]);
        for (unsigned k = 0; k < i; k++) {
            ck_assert_str_ne(names[i], names[k]);
        }
    }
}
END_TEST

START_TEST(a_session_may_not_pretend_to_be_the_hashed_name_of_another)
{
    char hashed[K8S_NAME_BYTES];
    char pretended[K8S_NAME_BYTES];

    k8s_session_label("Session", hashed);
    k8s_session_label(hashed, pretended);
    ck_assert_str_ne(hashed, pretended);
}
END_TEST

START_TEST(the_longest_sessions_have_names_of_a_label_s_length)
{
    char sessions[2][MAX_SESSION_NAME + 1];
    char names[2][K8S_NAME_BYTES];

    for (unsigned i = 0; i < 2; i++) {
        memset(sessions[i], 'x', MAX_SESSION_NAME);
        sessions[i][MAX_SESSION_NAME] = '\0';
        sessions[i][MAX_SESSION_NAME - 1] = (char)('a' + i);
        k8s_pod_name(sessions[i], names[i]);
        ck_assert_uint_le(strlen(names[i]), 63);
        ck_assert(k8s_is_name(names[i]));
    }
    ck_assert_str_ne(names[0], names[1]);
}
END_TEST

START_TEST(names_of_objects_are_told_from_other_texts)
{
    static const char *const bad[] = {"",   "A",   "-a",  "a-",   "a..b", ".a",
                                      "a.", "a/b", "a_b", "a.-b", "a-.b", "a b"};

    ck_assert(k8s_is_name("a") && k8s_is_name("a-b.c") && k8s_is_name("0"));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(!k8s_is_name(bad[i]), "\"%s\"", bad[i]);
    }
}
END_TEST

/* ---- A Pod's description ---- */

static struct sandbox_spec spec;
static struct k8s_settings settings;
static const struct k8s_owner *owner;

static void set(struct env_list *list, const char *text)
{
    struct error err = {0};

    ck_assert_msg(env_list_set(list, text, &err) == 0, "%s", err.message);
}

static void begin(void)
{
    struct error err = {0};

    sandbox_spec_init(&spec);
    spec.session = strdup("s1");
    spec.image = strdup("img:1");
    ck_assert_int_eq(sandbox_spec_check(&spec, &err), 0);
}

static void end(void)
{
    sandbox_spec_release(&spec);
    k8s_settings_release(&settings);
    owner = NULL;
}

static int describe(json_t **ret, struct error *err)
{
    struct k8s_settings fresh = {.context = NULL};

    k8s_settings_release(&settings);
    if (k8s_settings_read(&spec.engine, &fresh, err) < 0) {
        return -1;
    }
    settings = fresh;
    return k8s_pod_make(&spec, &settings, owner, ret, err);
}

static json_t *pod_of_spec(void)
{
    json_t *pod = NULL;
    struct error err = {0};

    ck_assert_msg(describe(&pod, &err) == 0, "%s", err.message);
    return pod;
}

static void assert_refused(const char *word)
{
    json_t *pod = NULL;
    struct error err = {0};

    ck_assert_int_eq(describe(&pod, &err), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_msg(strstr(err.message, word) != NULL, "\"%s\" is not in: %s", word, err.message);
}

static json_t *sandbox_of(json_t *pod)
{
    json_t *one = json_array_get(k8s_at(pod, "spec", "containers", NULL), 0);

    ck_assert_str_eq(k8s_text(one, "name", NULL), "sandbox");
    return one;
}

static json_t *hand_of(json_t *pod)
{
    json_t *one = json_array_get(k8s_at(pod, "spec", "initContainers", NULL), 0);

    ck_assert_str_eq(k8s_text(one, "name", NULL), "hand");
    return one;
}

/* Whether the array has this text. */
static bool has(json_t *array, const char *text)
{
    size_t i;
    json_t *one;

    json_array_foreach(array, i, one)
    {
        if (json_is_string(one) && strcmp(json_string_value(one), text) == 0) {
            return true;
        }
    }
    return false;
}

static bool is_mounted(json_t *container, const char *path)
{
    size_t i;
    json_t *one;

    json_array_foreach(json_object_get(container, "volumeMounts"), i, one)
    {
        if (strcmp(k8s_text(one, "mountPath", NULL), path) == 0) {
            return true;
        }
    }
    return false;
}

START_TEST(a_pod_says_whose_it_is_and_what_it_was_made_from)
{
    json_auto_t *pod = pod_of_spec();

    ck_assert_str_eq(k8s_text(pod, "metadata", "name", NULL), "handsfs-s1");
    ck_assert_str_eq(k8s_text(pod, "metadata", "labels", "app.kubernetes.io/managed-by", NULL),
                     "handsfs");
    ck_assert_str_eq(k8s_text(pod, "metadata", "labels", "io.handsfs.network", NULL), "none");
    ck_assert_str_eq(k8s_text(pod, "metadata", "annotations", "io.handsfs.session", NULL), "s1");
    ck_assert_str_eq(k8s_text(pod, "metadata", "annotations", "io.handsfs.image", NULL), "img:1");
    ck_assert_str_eq(k8s_text(pod, "metadata", "annotations", "io.handsfs.workdir", NULL),
                     "/workspace");
    ck_assert_str_eq(k8s_text(pod, "metadata", "annotations", "io.handsfs.version", NULL),
                     HANDSFS_VERSION);
}
END_TEST

START_TEST(a_pod_has_no_token_no_service_variables_and_no_second_life)
{
    json_auto_t *pod = pod_of_spec();

    ck_assert(json_is_false(k8s_at(pod, "spec", "automountServiceAccountToken", NULL)));
    ck_assert(json_is_false(k8s_at(pod, "spec", "enableServiceLinks", NULL)));
    ck_assert_str_eq(k8s_text(pod, "spec", "restartPolicy", NULL), "Never");
    ck_assert_str_eq(k8s_text(pod, "spec", "securityContext", "seccompProfile", "type", NULL),
                     "RuntimeDefault");
    ck_assert(json_is_false(
        k8s_at(sandbox_of(pod), "securityContext", "allowPrivilegeEscalation", NULL)));
    ck_assert(
        json_is_false(k8s_at(hand_of(pod), "securityContext", "allowPrivilegeEscalation", NULL)));
    ck_assert(
        has(k8s_at(sandbox_of(pod), "securityContext", "capabilities", "drop", NULL), "NET_RAW"));
    ck_assert(has(k8s_at(hand_of(pod), "securityContext", "capabilities", "drop", NULL), "ALL"));
    ck_assert_ptr_null(k8s_at(sandbox_of(pod), "securityContext", "capabilities", "add", NULL));
}
END_TEST

START_TEST(the_sandbox_begins_with_the_hand_whose_binary_it_cannot_write)
{
    json_auto_t *pod = pod_of_spec();
    json_t *sandbox = sandbox_of(pod);
    json_t *mount = json_array_get(json_object_get(sandbox, "volumeMounts"), 0);

    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(sandbox, "command"), 0)),
                     "/.handsfs/bin/hand");
    ck_assert_str_eq(k8s_text(mount, "mountPath", NULL), "/.handsfs/bin");
    ck_assert(json_is_true(json_object_get(mount, "readOnly")));
}
END_TEST

START_TEST(variables_arrive_verbatim)
{
    json_auto_t *pod = NULL;
    json_t *env, *command;

    set(&spec.env, "A=$(HOME) and $$ and $x$");
    set(&spec.env, "EMPTY=");
    set(&spec.env, "BYTES=a\xff");
    pod = pod_of_spec();
    env = json_object_get(sandbox_of(pod), "env");
    command = json_object_get(sandbox_of(pod), "command");
    ck_assert_uint_eq(json_array_size(env), 2);
    ck_assert_str_eq(k8s_text(json_array_get(env, 0), "name", NULL), "A");
    ck_assert_str_eq(k8s_text(json_array_get(env, 0), "value", NULL),
                     "$$(HOME) and $$$$ and $$x$$");
    ck_assert_str_eq(k8s_text(json_array_get(env, 1), "value", NULL), "");
    ck_assert(has(command, "--env-base64")); /* JSON cannot say it */
    ck_assert(has(command, "QllURVM9Yf8="));
}
END_TEST

START_TEST(a_workdir_with_a_dollar_is_no_variable)
{
    json_auto_t *pod = NULL;

    free(spec.workdir);
    spec.workdir = strdup("/w $(PATH)");
    pod = pod_of_spec();
    ck_assert(has(json_object_get(sandbox_of(pod), "command"), "/w $$(PATH)"));
    ck_assert_str_eq(k8s_text(pod, "metadata", "annotations", "io.handsfs.workdir", NULL),
                     "/w $(PATH)");
}
END_TEST

START_TEST(without_a_network_the_first_container_cuts_it_and_only_that_one_may)
{
    json_auto_t *pod = pod_of_spec();
    json_t *security = json_object_get(hand_of(pod), "securityContext");

    ck_assert(has(json_object_get(hand_of(pod), "command"), "cut-network"));
    ck_assert(has(k8s_at(security, "capabilities", "add", NULL), "NET_ADMIN"));
    ck_assert_int_eq(json_integer_value(json_object_get(security, "runAsUser")), 0);
    ck_assert_ptr_null(k8s_at(sandbox_of(pod), "securityContext", "capabilities", "add", NULL));
}
END_TEST

START_TEST(with_a_network_or_a_policy_no_container_has_a_capability_more)
{
    json_auto_t *full = NULL;
    json_auto_t *policy = NULL;

    spec.network = NETWORK_FULL;
    full = pod_of_spec();
    ck_assert(!has(json_object_get(hand_of(full), "command"), "cut-network"));
    ck_assert_ptr_null(k8s_at(hand_of(full), "securityContext", "capabilities", "add", NULL));
    ck_assert_ptr_null(k8s_at(hand_of(full), "securityContext", "runAsUser", NULL));
    spec.network = NETWORK_NONE;
    set(&spec.engine, "network_none=policy");
    policy = pod_of_spec();
    ck_assert(!has(json_object_get(hand_of(policy), "command"), "cut-network"));
    ck_assert_ptr_null(k8s_at(hand_of(policy), "securityContext", "capabilities", "add", NULL));
    ck_assert_str_eq(k8s_text(policy, "metadata", "labels", "io.handsfs.network", NULL), "none");
}
END_TEST

START_TEST(a_read_only_root_has_volumes_where_it_may_be_written)
{
    json_auto_t *plain = pod_of_spec();
    json_auto_t *pod = NULL;

    ck_assert(!is_mounted(sandbox_of(plain), "/workspace") &&
              !is_mounted(sandbox_of(plain), "/tmp"));
    spec.read_only_root = true;
    pod = pod_of_spec();
    ck_assert(
        json_is_true(k8s_at(sandbox_of(pod), "securityContext", "readOnlyRootFilesystem", NULL)));
    ck_assert(is_mounted(sandbox_of(pod), "/workspace") && is_mounted(sandbox_of(pod), "/tmp"));
}
END_TEST

START_TEST(a_user_gets_a_workdir_of_its_own)
{
    json_auto_t *pod = NULL;

    spec.user = strdup("1000:2000");
    pod = pod_of_spec();
    ck_assert_int_eq(json_integer_value(k8s_at(pod, "spec", "securityContext", "runAsUser", NULL)),
                     1000);
    ck_assert_int_eq(json_integer_value(k8s_at(pod, "spec", "securityContext", "runAsGroup", NULL)),
                     2000);
    ck_assert(is_mounted(sandbox_of(pod), "/workspace"));
    ck_assert(has(json_object_get(hand_of(pod), "command"), "make=0755:1000:2000:/.handsfs/work"));
    ck_assert(has(json_object_get(hand_of(pod), "command"), "make=0700:1000:2000:/.handsfs/run"));
}
END_TEST

START_TEST(the_image_s_own_user_gets_a_workdir_in_the_volume_where_it_is_known)
{
    static const struct k8s_owner agent = {1000, 2000};
    json_auto_t *pod = pod_of_spec();
    json_auto_t *known = NULL;

    ck_assert(!is_mounted(sandbox_of(pod), "/workspace"));
    owner = &agent;
    known = pod_of_spec();
    ck_assert(is_mounted(sandbox_of(known), "/workspace"));
    ck_assert(has(json_object_get(hand_of(known), "command"), "make=0755:1000:2000:/.handsfs/work"));
    ck_assert_ptr_null(k8s_at(known, "spec", "securityContext", "runAsUser", NULL));
}
END_TEST

START_TEST(limits_are_requests_too)
{
    json_auto_t *pod = NULL;

    spec.memory_bytes = UINT64_C(256) << 20;
    spec.cpu_millis = 500;
    pod = pod_of_spec();
    for (unsigned i = 0; i < 2; i++) {
        json_t *resources = json_object_get(i == 0 ? sandbox_of(pod) : hand_of(pod), "resources");

        ck_assert_str_eq(k8s_text(resources, "limits", "memory", NULL), "268435456");
        ck_assert_str_eq(k8s_text(resources, "requests", "memory", NULL), "268435456");
        ck_assert_str_eq(k8s_text(resources, "limits", "cpu", NULL), "500m");
    }
}
END_TEST

START_TEST(capabilities_are_dropped_by_their_names)
{
    json_auto_t *pod = NULL;
    json_auto_t *all = NULL;

    spec.cap_drop = calloc(3, sizeof *spec.cap_drop);
    spec.cap_drop[0] = strdup("CHOWN");
    pod = pod_of_spec();
    ck_assert(
        has(k8s_at(sandbox_of(pod), "securityContext", "capabilities", "drop", NULL), "CHOWN"));
    spec.cap_drop[1] = strdup("ALL");
    all = pod_of_spec();
    ck_assert(has(k8s_at(sandbox_of(all), "securityContext", "capabilities", "drop", NULL), "ALL"));
    free(spec.cap_drop[1]);
    spec.cap_drop[1] = strdup("FLYING");
    assert_refused("FLYING");
}
END_TEST

START_TEST(what_a_pod_cannot_be_is_refused)
{
    spec.pids = 64;
    assert_refused("--pids");
    spec.pids = 0;
    spec.user = strdup("nobody");
    assert_refused("nobody");
    free(spec.user);
    spec.user = NULL;
    free(spec.workdir);
    spec.workdir = strdup("/a:b");
    assert_refused("colon");
    free(spec.workdir);
    spec.workdir = strdup("/.handsfs/x");
    assert_refused("/.handsfs");
    free(spec.image);
    spec.image = NULL;
    assert_refused("image");
}
END_TEST

/* ---- Settings ---- */

START_TEST(settings_become_parts_of_the_pod)
{
    json_auto_t *pod = NULL;
    json_t *tolerations;

    set(&spec.engine, "node_selector=disk=ssd,example.com/pool=a");
    set(&spec.engine, "tolerations=gpu=yes:NoSchedule,spot,*");
    set(&spec.engine, "pull_secrets=one,two");
    set(&spec.engine, "pull=always");
    set(&spec.engine, "runtime_class=gvisor");
    set(&spec.engine, "service_account=agents");
    set(&spec.engine, "init_image=busybox:1");
    pod = pod_of_spec();
    tolerations = k8s_at(pod, "spec", "tolerations", NULL);
    ck_assert_str_eq(k8s_text(pod, "spec", "nodeSelector", "disk", NULL), "ssd");
    ck_assert_str_eq(k8s_text(pod, "spec", "nodeSelector", "example.com/pool", NULL), "a");
    ck_assert_str_eq(k8s_text(json_array_get(tolerations, 0), "effect", NULL), "NoSchedule");
    ck_assert_str_eq(k8s_text(json_array_get(tolerations, 0), "operator", NULL), "Equal");
    ck_assert_str_eq(k8s_text(json_array_get(tolerations, 1), "operator", NULL), "Exists");
    ck_assert_ptr_null(json_object_get(json_array_get(tolerations, 2), "key"));
    ck_assert_str_eq(
        k8s_text(json_array_get(k8s_at(pod, "spec", "imagePullSecrets", NULL), 1), "name", NULL),
        "two");
    ck_assert_str_eq(k8s_text(sandbox_of(pod), "imagePullPolicy", NULL), "Always");
    ck_assert_str_eq(k8s_text(pod, "spec", "runtimeClassName", NULL), "gvisor");
    ck_assert_str_eq(k8s_text(pod, "spec", "serviceAccountName", NULL), "agents");
    ck_assert_str_eq(k8s_text(hand_of(pod), "image", NULL), "busybox:1");
    ck_assert_str_eq(k8s_text(sandbox_of(pod), "image", NULL), "img:1");
}
END_TEST

START_TEST(an_unknown_setting_is_refused_with_the_known_ones)
{
    set(&spec.engine, "node_selektor=a=b");
    assert_refused("node_selektor");
    assert_refused("node_selector, tolerations");
}
END_TEST

START_TEST(a_value_that_makes_no_sense_is_refused_with_its_setting)
{
    static const char *const rows[] = {
        "node_selector=a",       "node_selector=",    "tolerations=a:Never",
        "tolerations=,",         "pull=sometimes",    "pull_secrets=A B",
        "namespace=UPPER",       "network_none=hope", "workdir_volume=maybe",
        "schedule_timeout=soon", "context=",          "node_selector=a=b c"};
    char name[32];

    set(&spec.engine, rows[_i]);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(rows[_i], "="), rows[_i]);
    assert_refused(name);
}
END_TEST

UNIT_SUITE(k8s_pod)
{
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, a_session_that_is_a_label_keeps_its_name);
    tcase_add_test(tcase, sessions_that_differ_only_in_what_a_label_loses_have_different_pods);
    tcase_add_test(tcase, a_session_may_not_pretend_to_be_the_hashed_name_of_another);
    tcase_add_test(tcase, the_longest_sessions_have_names_of_a_label_s_length);
    tcase_add_test(tcase, names_of_objects_are_told_from_other_texts);
    tcase_add_test(tcase, a_pod_says_whose_it_is_and_what_it_was_made_from);
    tcase_add_test(tcase, a_pod_has_no_token_no_service_variables_and_no_second_life);
    tcase_add_test(tcase, the_sandbox_begins_with_the_hand_whose_binary_it_cannot_write);
    tcase_add_test(tcase, variables_arrive_verbatim);
    tcase_add_test(tcase, a_workdir_with_a_dollar_is_no_variable);
    tcase_add_test(tcase, without_a_network_the_first_container_cuts_it_and_only_that_one_may);
    tcase_add_test(tcase, with_a_network_or_a_policy_no_container_has_a_capability_more);
    tcase_add_test(tcase, a_read_only_root_has_volumes_where_it_may_be_written);
    tcase_add_test(tcase, a_user_gets_a_workdir_of_its_own);
    tcase_add_test(tcase, the_image_s_own_user_gets_a_workdir_in_the_volume_where_it_is_known);
    tcase_add_test(tcase, limits_are_requests_too);
    tcase_add_test(tcase, capabilities_are_dropped_by_their_names);
    tcase_add_test(tcase, what_a_pod_cannot_be_is_refused);
    tcase_add_test(tcase, settings_become_parts_of_the_pod);
    tcase_add_test(tcase, an_unknown_setting_is_refused_with_the_known_ones);
    tcase_add_loop_test(tcase, a_value_that_makes_no_sense_is_refused_with_its_setting, 0, 12);
}
