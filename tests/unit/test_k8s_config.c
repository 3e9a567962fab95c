/* Kubeconfig files: what is read out of them, how several are merged, and what is refused. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/k8s_config.h"
#include "sandbox/cleanup.h"

static char folder[] = "/tmp/test-k8s-XXXXXX";

static void make_folder(void)
{
    memcpy(strchr(folder, '-') + 5, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void remove_folder(void)
{
    static const char *const names[] = {"config", "a", "b", "sub/config", "sub", "token", "ca.crt",
                                        "namespace", ".kube/config", ".kube", "fifo"};
    char path[128];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        (void)!remove(path);
    }
    ck_assert_int_eq(rmdir(folder), 0);
}

/* Below the folder; the path is valid until the next call. */
static const char *put(const char *name, const char *text)
{
    static char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    fclose(file);
    return path;
}

#define CLUSTER(fields) \
    "current-context: here\n" \
    "contexts: [{name: here, context: {cluster: c, user: u, namespace: n}}]\n" \
    "clusters: [{name: c, cluster: {server: 'https://host:6443', " fields "}}]\n"
#define USER(fields) CLUSTER("") "users: [{name: u, user: {" fields "}}]\n"

static void load(struct k8s_config *config, const char *text, const char *context)
{
    struct k8s_config_source source = {.kubeconfig = put("config", text)};
    struct error err;

    ck_assert_msg(k8s_config_load(config, &source, context, &err) == 0, "%s", err.message);
}

static void assert_refused(const char *text, const char *why)
{
    struct k8s_config_source source = {.kubeconfig = put("config", text)};
    struct k8s_config config;
    struct error err;

    ck_assert_msg(k8s_config_load(&config, &source, NULL, &err) == -1, "taken: %s", text);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_msg(strstr(err.message, why) != NULL, "%s", err.message);
    ck_assert_msg(strstr(err.message, folder) != NULL, "the file is not named: %s", err.message);
    k8s_config_release(&config);
}

START_TEST(the_current_context_says_which_cluster_and_user)
{
    struct k8s_config config;

    load(&config,
         "apiVersion: v1\nkind: Config\ncurrent-context: two\n"
         "contexts:\n- name: one\n  context: {cluster: c1, user: u1}\n"
         "- name: two\n  context: {cluster: c2, user: u2, namespace: agents}\n"
         "clusters:\n- name: c1\n  cluster: {server: https://one}\n"
         "- name: c2\n  cluster: {server: 'https://two:6443/', tls-server-name: name, proxy-url: 'http://p:1'}\n"
         "users:\n- name: u1\n  user: {token: t1}\n- name: u2\n  user: {token: t2}\n",
         NULL);
    ck_assert_str_eq(config.server.url, "https://two:6443");
    ck_assert_str_eq(config.server.tls_name, "name");
    ck_assert_str_eq(config.server.proxy, "http://p:1");
    ck_assert(!config.server.insecure);
    ck_assert_str_eq(config.user.token, "t2");
    ck_assert_str_eq(config.namespace_, "agents");
    k8s_config_release(&config);
}
END_TEST

START_TEST(another_context_can_be_named)
{
    struct k8s_config config;

    load(&config,
         "current-context: two\ncontexts: [{name: one, context: {cluster: c}}, {name: two, context: {cluster: d}}]\n"
         "clusters: [{name: c, cluster: {server: http://c, insecure-skip-tls-verify: true}}]\n",
         "one");
    ck_assert_str_eq(config.server.url, "http://c");
    ck_assert(config.server.insecure);
    ck_assert_str_eq(config.namespace_, "default");
    ck_assert_ptr_null(config.user.token);
    k8s_config_release(&config);
}
END_TEST

START_TEST(json_is_yaml_too)
{
    struct k8s_config config;

    load(&config,
         "{\"current-context\":\"x\",\"contexts\":[{\"name\":\"x\",\"context\":{\"cluster\":\"c\"}}],"
         "\"clusters\":[{\"name\":\"c\",\"cluster\":{\"server\":\"https://json\"}}]}",
         NULL);
    ck_assert_str_eq(config.server.url, "https://json");
    k8s_config_release(&config);
}
END_TEST

START_TEST(of_each_name_the_first_file_that_has_it_counts_whole)
{
    struct k8s_config config;
    struct k8s_config_source source;
    struct error err;
    char list[400];

    put("a", "contexts: [{name: x, context: {cluster: c, user: u}}]\n"
             "users: [{name: u, user: {token: first}}]\n");
    put("b", "current-context: x\ncontexts: [{name: x, context: {cluster: other, namespace: other}}]\n"
             "clusters: [{name: c, cluster: {server: https://second}}]\n"
             "users: [{name: u, user: {as: somebody, token: second}}]\n");
    snprintf(list, sizeof list, "%s/missing::%s/a:%s/b", folder, folder, folder);
    source = (struct k8s_config_source){.kubeconfig = list};
    ck_assert_msg(k8s_config_load(&config, &source, NULL, &err) == 0, "%s", err.message);
    ck_assert_str_eq(config.server.url, "https://second");
    ck_assert_str_eq(config.user.token, "first");
    ck_assert_ptr_null(config.user.as);
    ck_assert_str_eq(config.namespace_, "default");
    k8s_config_release(&config);
}
END_TEST

START_TEST(a_relative_path_starts_at_its_file)
{
    struct k8s_config config;
    struct k8s_config_source source;
    struct error err;
    char path[128];
    char wanted[160];

    snprintf(path, sizeof path, "%s/sub", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    source = (struct k8s_config_source){
        .kubeconfig = put("sub/config",
                          CLUSTER("certificate-authority: ca.pem")
                          "users: [{name: u, user: {client-certificate: ../c.pem, client-key: /abs/key, "
                          "exec: {apiVersion: client.authentication.k8s.io/v1, command: ./bin/helper, "
                          "args: [a, 'b c'], env: [{name: K, value: v}]}}}]\n")};
    ck_assert_msg(k8s_config_load(&config, &source, NULL, &err) == 0, "%s", err.message);
    snprintf(wanted, sizeof wanted, "%s/sub/ca.pem", folder);
    ck_assert_str_eq(config.server.ca_file, wanted);
    snprintf(wanted, sizeof wanted, "%s/sub/../c.pem", folder);
    ck_assert_str_eq(config.server.cert_file, wanted);
    ck_assert_str_eq(config.server.key_file, "/abs/key");
    snprintf(wanted, sizeof wanted, "%s/sub/./bin/helper", folder);
    ck_assert_str_eq(config.user.plugin->argv[0], wanted);
    ck_assert_str_eq(config.user.plugin->argv[2], "b c");
    ck_assert_ptr_null(config.user.plugin->argv[3]);
    ck_assert_str_eq(config.user.plugin->env[0], "K=v");
    k8s_config_release(&config);
}
END_TEST

START_TEST(a_program_without_a_slash_is_left_to_the_path)
{
    struct k8s_config config;

    load(&config,
         USER("exec: {apiVersion: client.authentication.k8s.io/v1beta1, command: helper, provideClusterInfo: true}"),
         NULL);
    ck_assert_str_eq(config.user.plugin->argv[0], "helper");
    ck_assert_str_eq(config.user.plugin->version, "v1beta1");
    ck_assert(config.user.plugin->cluster_info);
    k8s_config_release(&config);
}
END_TEST

START_TEST(data_is_base64)
{
    struct k8s_config config;

    load(&config,
         CLUSTER("certificate-authority-data: \"aGVs\\n  bG8=\"")
         "users: [{name: u, user: {client-certificate-data: Yw==, client-key-data: aw==}}]\n",
         NULL);
    ck_assert_uint_eq(config.server.ca_pem.length, 5);
    ck_assert_mem_eq(config.server.ca_pem.data, "hello", 5);
    ck_assert_mem_eq(config.server.cert_pem.data, "c", 1);
    ck_assert_mem_eq(config.server.key_pem.data, "k", 1);
    k8s_config_release(&config);
}
END_TEST

START_TEST(the_user_can_act_as_another)
{
    struct k8s_config config;

    load(&config, USER("token: t, as: robot, as-uid: '7', as-groups: [g, h]"), NULL);
    ck_assert_str_eq(config.user.as, "robot");
    ck_assert_str_eq(config.user.as_uid, "7");
    ck_assert_str_eq(config.user.as_groups[1], "h");
    k8s_config_release(&config);
}
END_TEST

/* ---- Refused ---------------------------------------------------------------------------------- */

START_TEST(an_error_names_the_line)
{
    assert_refused("current-context: x\ncontexts:\n- name: x\n  context: [a]\n", "config:4: \"context\"");
    assert_refused("a: b\nc: [\n", "config:3: this is not YAML");
    assert_refused("a: b\n\tc: d\n", "config:2: this is not YAML");
}
END_TEST

START_TEST(what_makes_no_sense_is_refused)
{
    assert_refused("", "no current-context");
    assert_refused("- a\n", "a mapping is expected");
    assert_refused("current-context: [x]\n", "must be text");
    assert_refused("current-context: x\n", "there is no context x");
    assert_refused("current-context: x\ncontexts: [x]\n", "a mapping is expected in \"contexts\"");
    assert_refused("current-context: x\ncontexts: {x: y}\n", "must be a list");
    assert_refused("current-context: x\ncurrent-context: y\n", "a second time");
    assert_refused("current-context: x\ncontexts: [{name: x, context: {user: u}}]\n", "names no cluster");
    assert_refused("current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n",
                   "there is no cluster c");
    assert_refused("current-context: x\ncontexts: [{name: x, context: {a: b}}, {name: x, context: {a: b}}]\n",
                   "the context x stands here a second time");
    assert_refused(CLUSTER("certificate-authority-data: '!!!!'"), "is not base64");
    assert_refused(CLUSTER("certificate-authority-data: YQ==, certificate-authority: f"), "and also");
    assert_refused(CLUSTER("certificate-authority: f, insecure-skip-tls-verify: true"), "and also");
    assert_refused(CLUSTER("insecure-skip-tls-verify: perhaps"), "must be true or false");
    assert_refused(CLUSTER(""), "there is no user u");
    assert_refused(USER("client-certificate: f"), "needs its client-key");
    assert_refused(USER("token: t, username: u"), "and also a token");
    assert_refused(USER("token: \"a\\nHost: b\""), "printable ASCII");
    assert_refused(USER("token: \"a\\0b\""), "NUL");
    assert_refused(USER("as-groups: [g]"), "need \"as\"");
    assert_refused(USER("as: a, as-user-extra: {k: [v]}"), "as-user-extra");
    assert_refused(USER("auth-provider: {name: gcp}"), "auth-provider");
}
END_TEST

START_TEST(a_plugin_that_cannot_be_run_is_refused)
{
    assert_refused(USER("exec: {command: x}"), "apiVersion");
    assert_refused(USER("exec: {apiVersion: client.authentication.k8s.io/v1alpha1, command: x}"), "apiVersion");
    assert_refused(USER("exec: {apiVersion: client.authentication.k8s.io/v1}"), "no \"command\"");
    assert_refused(USER("exec: {apiVersion: client.authentication.k8s.io/v1, command: x, interactiveMode: Always}"),
                   "terminal");
    assert_refused(USER("exec: {apiVersion: client.authentication.k8s.io/v1, command: x, env: [{value: y}]}"),
                   "needs a name");
    assert_refused(USER("exec: {apiVersion: client.authentication.k8s.io/v1, command: x, args: [[y]]}"),
                   "must be text");
}
END_TEST

START_TEST(a_server_that_is_no_url_is_refused)
{
    static const char *const bad[] = {"", "ftp://x", "host:6443", "'https://x?y'", "'https://x y'", "[]"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[300];

        snprintf(text, sizeof text,
                 "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n"
                 "clusters: [{name: c, cluster: {server: %s}}]\n",
                 bad[i]);
        assert_refused(text, "config:3: ");
    }
}
END_TEST

/* A text of `unit`, `count` times, between two others. */
static char *repeated(const char *before, const char *unit, size_t count, const char *after)
{
    size_t length = strlen(unit);
    char *text = malloc(strlen(before) + count * length + strlen(after) + 1);
    char *to = stpcpy(text, before);

    for (size_t i = 0; i < count; i++) {
        to = stpcpy(to, unit);
    }
    memcpy(to, after, strlen(after) + 1);
    return text;
}

START_TEST(a_text_that_is_a_bomb_is_refused)
{
    cleanup_free char *deep = repeated("", "[", 40, "");
    cleanup_free char *wide = repeated("[", "a,", 70000, "]");
    cleanup_free char *anchors = repeated("[", "&a b,", 300, "]");
    cleanup_free char *long_text = repeated("# ", "a comment that says nothing at all, ", K8S_YAML_MAX_BYTES / 32, "\n");

    assert_refused(deep, "too many levels");
    assert_refused(wide, "too many values");
    assert_refused(anchors, "too many anchors");
    assert_refused(long_text, "too large");
}
END_TEST

START_TEST(an_alias_is_what_it_names)
{
    struct k8s_config config;

    load(&config,
         "current-context: &x here\ncontexts: [{name: *x, context: {cluster: *x, user: *x}}]\n"
         "clusters: [{name: here, cluster: {server: https://h}}]\n"
         "users: [{name: here, user: &self {token: t, other: *self}}]\n",
         NULL);
    ck_assert_str_eq(config.user.token, "t");
    k8s_config_release(&config);
}
END_TEST

START_TEST(a_file_that_is_none_is_refused_and_never_waited_for)
{
    struct k8s_config_source source;
    struct k8s_config config;
    struct error err;
    char path[128];

    snprintf(path, sizeof path, "%s/fifo", folder);
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    source = (struct k8s_config_source){.kubeconfig = path};
    ck_assert_int_eq(k8s_config_load(&config, &source, NULL, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.message, "no regular file"));
    k8s_config_release(&config);
}
END_TEST

/* ---- Where it is looked for ------------------------------------------------------------------- */

START_TEST(the_home_has_a_config_where_none_is_named)
{
    struct k8s_config_source source = {.home = folder, .kubeconfig = "", .service_host = "h"};
    struct k8s_config config;
    struct error err;
    char path[128];

    snprintf(path, sizeof path, "%s/.kube", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    put(".kube/config", USER("token: home"));
    ck_assert_msg(k8s_config_load(&config, &source, NULL, &err) == 0, "%s", err.message);
    ck_assert_str_eq(config.user.token, "home");
    k8s_config_release(&config);
}
END_TEST

START_TEST(a_pod_has_its_service_account)
{
    struct k8s_config_source source = {.home = folder,
                                       .service_host = "fd00::1",
                                       .service_port = "443",
                                       .service_account = folder};
    struct k8s_config config;
    struct error err;
    char path[128];

    put("namespace", "agents\n");
    ck_assert_msg(k8s_config_load(&config, &source, NULL, &err) == 0, "%s", err.message);
    ck_assert_str_eq(config.server.url, "https://[fd00::1]:443");
    ck_assert_str_eq(config.namespace_, "agents");
    snprintf(path, sizeof path, "%s/token", folder);
    ck_assert_str_eq(config.user.token_file, path);
    snprintf(path, sizeof path, "%s/ca.crt", folder);
    ck_assert_str_eq(config.server.ca_file, path);
    k8s_config_release(&config);
    ck_assert_int_eq(k8s_config_load(&config, &source, "named", &err), -1);
    ck_assert_ptr_nonnull(strstr(err.message, "no kubeconfig with the context named"));
    k8s_config_release(&config);
}
END_TEST

START_TEST(where_there_is_nothing_the_error_says_what_was_looked_for)
{
    struct k8s_config_source source = {.home = folder};
    struct k8s_config config;
    struct error err;

    ck_assert_int_eq(k8s_config_load(&config, &source, NULL, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.message, "KUBECONFIG"));
    k8s_config_release(&config);
    source.kubeconfig = "/nowhere/a:/nowhere/b";
    ck_assert_int_eq(k8s_config_load(&config, &source, NULL, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.message, "/nowhere/a"));
    k8s_config_release(&config);
}
END_TEST

UNIT_SUITE(k8s_config)
{
    tcase_add_checked_fixture(tcase, make_folder, remove_folder);
    tcase_add_test(tcase, the_current_context_says_which_cluster_and_user);
    tcase_add_test(tcase, another_context_can_be_named);
    tcase_add_test(tcase, json_is_yaml_too);
    tcase_add_test(tcase, of_each_name_the_first_file_that_has_it_counts_whole);
    tcase_add_test(tcase, a_relative_path_starts_at_its_file);
    tcase_add_test(tcase, a_program_without_a_slash_is_left_to_the_path);
    tcase_add_test(tcase, data_is_base64);
    tcase_add_test(tcase, the_user_can_act_as_another);
    tcase_add_test(tcase, an_error_names_the_line);
    tcase_add_test(tcase, what_makes_no_sense_is_refused);
    tcase_add_test(tcase, a_plugin_that_cannot_be_run_is_refused);
    tcase_add_test(tcase, a_server_that_is_no_url_is_refused);
    tcase_add_test(tcase, a_text_that_is_a_bomb_is_refused);
    tcase_add_test(tcase, an_alias_is_what_it_names);
    tcase_add_test(tcase, a_file_that_is_none_is_refused_and_never_waited_for);
    tcase_add_test(tcase, the_home_has_a_config_where_none_is_named);
    tcase_add_test(tcase, a_pod_has_its_service_account);
    tcase_add_test(tcase, where_there_is_nothing_the_error_says_what_was_looked_for);
}
