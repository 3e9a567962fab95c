/* Calls, credentials and watches against a scripted server. */
#include "tests/unit/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "backends/k8s_client_internal.h"
#include "backends/k8s_plugin.h"
#include "backends/k8s_watch.h"
#include "sandbox/clock.h"
#include "tests/unit/fake_engine.h"

#define PATIENCE_MS 30000
#define SHORT_MS 1000 /* for what never comes; the request must have come before */
#define POD "/api/v1/namespaces/n/pods/p"
#define WATCH "GET /api/v1/namespaces/n/pods[?]watch=true*"
#define UNAUTHORIZED "{\"kind\":\"Status\",\"reason\":\"Unauthorized\",\"message\":\"no\",\"code\":401}"

static char folder[] = "/tmp/test-k8s-XXXXXX";
static struct fake_engine *fake;
static struct k8s_client *client;

static void set_up(void)
{
    memcpy(strchr(folder, '-') + 5, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(folder));
    fake = fake_engine_start();
    client = NULL;
}

static void tear_down(void)
{
    static const char *const names[] = {"config", "token", "helper", "count", "pid"};
    char path[128];

    k8s_client_close(client);
    fake_engine_stop(fake);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    ck_assert_int_eq(rmdir(folder), 0);
}

static const char *put(const char *name, const char *text, mode_t mode)
{
    static char path[128];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fchmod(fileno(file), mode), 0);
    fclose(file);
    return path;
}

/* A client whose user is this. */
static void open_as(const char *user)
{
    struct k8s_config_source source = {.unix_socket = fake_engine_socket(fake)};
    struct error err;
    char text[1024];

    snprintf(text, sizeof text,
             "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
             "clusters: [{name: c, cluster: {server: 'http://server'}}]\n"
             "users: [{name: u, user: {%s}}]\n",
             user);
    source.kubeconfig = put("config", text, 0600);
    ck_assert_msg(k8s_client_open_from(&client, &source, NULL, &err) == 0, "%s", err.message);
}

static void call(const char *method, const char *path, json_t *json, struct k8s_reply *reply)
{
    struct error err;

    k8s_reply_init(reply);
    ck_assert_msg(k8s_call(client, method, path, json, clock_now_ms() + PATIENCE_MS, reply, &err) == 0,
                  "%s", err.message);
}

/* A call whose status is all that is asked. */
static long status_of(const char *method, const char *path)
{
    struct k8s_reply reply;
    long status;

    call(method, path, NULL, &reply);
    status = reply.status;
    k8s_reply_release(&reply);
    return status;
}

static bool heard(unsigned number, const char *text)
{
    return strcasestr(fake_engine_heard(fake, number)->head, text) != NULL;
}

/* ---- Calls ------------------------------------------------------------------------------------ */

START_TEST(a_call_carries_json_both_ways)
{
    json_t *json = json_pack("{s:s}", "kind", "Pod");
    struct k8s_reply reply;

    open_as("token: secret");
    fake_engine_answer(fake, "POST /api/v1/namespaces/n/pods", 201, "{\"kind\":\"Pod\",\"x\":7}");
    call("POST", "/api/v1/namespaces/n/pods", json, &reply);
    ck_assert_int_eq(reply.status, 201);
    ck_assert_int_eq(json_integer_value(json_object_get(reply.json, "x")), 7);
    ck_assert_str_eq(fake_engine_heard(fake, 0)->body, "{\"kind\":\"Pod\"}");
    ck_assert(heard(0, "\r\nAuthorization: Bearer secret\r\n"));
    ck_assert(heard(0, "\r\nContent-Type: application/json\r\n"));
    ck_assert_str_eq(k8s_client_server(client), "http://server");
    ck_assert_str_eq(k8s_client_namespace(client), "default");
    k8s_reply_release(&reply);
    json_decref(json);
}
END_TEST

START_TEST(a_refusal_has_the_servers_reason_and_message)
{
    struct k8s_reply reply;
    struct error err;

    open_as("token: secret");
    fake_engine_answer(fake, "GET " POD, 403,
                       "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"you\\u001b[1m may not\"}");
    call("GET", POD, NULL, &reply);
    ck_assert_int_eq(reply.status, 403);
    ck_assert_str_eq(reply.reason, "Forbidden");
    ck_assert_str_eq(reply.message, "you?[1m may not");
    ck_assert_int_eq(k8s_refused(&reply, &err, "cannot look at %s", "p"), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_str_eq(err.message, "cannot look at p: you?[1m may not (Forbidden)");
    k8s_reply_release(&reply);
}
END_TEST

START_TEST(a_pod_that_is_not_found_is_gone_and_a_namespace_is_a_mistake)
{
    struct k8s_reply reply;
    struct error err;

    open_as("token: secret");
    fake_engine_answer(fake, "GET " POD, 404,
                       "{\"reason\":\"NotFound\",\"message\":\"m\",\"details\":{\"kind\":\"pods\"}}");
    fake_engine_answer(fake, "GET " POD, 404,
                       "{\"reason\":\"NotFound\",\"message\":\"m\",\"details\":{\"kind\":\"namespaces\"}}");
    fake_engine_answer(fake, "GET " POD, 404, "404 page not found");
    call("GET", POD, NULL, &reply);
    k8s_refused(&reply, &err, "x");
    ck_assert_int_eq(err.code, ERROR_SANDBOX_GONE);
    k8s_reply_release(&reply);
    call("GET", POD, NULL, &reply);
    k8s_refused(&reply, &err, "x");
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    k8s_reply_release(&reply);
    call("GET", POD, NULL, &reply);
    k8s_refused(&reply, &err, "x");
    ck_assert_str_eq(err.message, "x: 404 page not found (status 404)");
    k8s_reply_release(&reply);
}
END_TEST

START_TEST(a_good_answer_that_is_no_json_is_an_error)
{
    static const char *const bad[] = {"", "[]", "{", "hello"};

    open_as("token: secret");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct k8s_reply reply;
        struct error err;

        fake_engine_answer(fake, "GET " POD, 200, bad[i]);
        k8s_reply_init(&reply);
        ck_assert_int_eq(k8s_call(client, "GET", POD, NULL, clock_now_ms() + PATIENCE_MS, &reply, &err), -1);
        ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
        k8s_reply_release(&reply);
    }
}
END_TEST

START_TEST(what_can_be_done_twice_is_tried_again_when_the_server_is_busy_or_lost)
{
    static const char *const methods[] = {"GET", "PUT", "DELETE"};

    open_as("token: secret");
    for (size_t i = 0; i < 3; i++) {
        char request[64];

        snprintf(request, sizeof request, "%s " POD, methods[i]);
        fake_engine_script(fake, &(struct fake_step){.request = request, .status = 429, .body = "{}"});
        fake_engine_script(fake, &(struct fake_step){.request = request, .status = 503, .body = "{}"});
        fake_engine_script(fake, &(struct fake_step){.request = request, .how = FAKE_CLOSE});
        fake_engine_script(fake, &(struct fake_step){.request = request, .how = FAKE_TRUNCATE, .body = "{\"a\":1}"});
        fake_engine_script(fake, &(struct fake_step){.request = request, .body = "{}"});
        ck_assert_int_eq(status_of(methods[i], POD), 200);
    }
}
END_TEST

START_TEST(a_post_is_tried_again_only_where_the_server_cannot_have_acted)
{
    struct k8s_reply reply;
    struct error err;

    open_as("token: secret");
    fake_engine_script(fake, &(struct fake_step){.request = "POST /api/y", .how = FAKE_CLOSE});
    k8s_reply_init(&reply);
    ck_assert_int_eq(k8s_call(client, "POST", "/api/y", NULL, clock_now_ms() + PATIENCE_MS, &reply, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    fake_engine_answer(fake, "POST /api/x", 429, "{}");
    fake_engine_answer(fake, "POST /api/x", 503, "{}");
    ck_assert_int_eq(status_of("POST", "/api/x"), 503);
}
END_TEST

START_TEST(a_server_that_stays_broken_is_asked_a_few_times)
{
    open_as("token: secret");
    fake_engine_script(fake, &(struct fake_step){.request = "GET " POD, .status = 500, .body = "{}", .times = 4});
    ck_assert_int_eq(status_of("GET", POD), 500);
}
END_TEST

START_TEST(the_server_says_how_long_to_wait)
{
    uint64_t began = clock_now_ms();

    open_as("token: secret");
    fake_engine_script(fake, &(struct fake_step){.request = "GET " POD, .status = 429, .headers = "Retry-After: 1\r\n",
                                                 .body = "{}"});
    fake_engine_answer(fake, "GET " POD, 200, "{}");
    ck_assert_int_eq(status_of("GET", POD), 200);
    ck_assert_uint_ge(clock_now_ms() - began, 1000);
}
END_TEST

START_TEST(a_wait_past_the_deadline_is_not_begun)
{
    struct k8s_reply reply;
    struct error err;

    open_as("token: secret");
    fake_engine_script(fake, &(struct fake_step){.request = "GET " POD, .status = 429,
                                                 .headers = "Retry-After: 3600\r\n", .body = "{}"});
    call("GET", POD, NULL, &reply);
    ck_assert_int_eq(reply.status, 429);
    k8s_refused(&reply, &err, "x");
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    k8s_reply_release(&reply);
}
END_TEST

START_TEST(a_silent_server_is_no_answer_at_the_deadline)
{
    struct k8s_reply reply;
    struct error err;
    uint64_t deadline_ms;

    open_as("token: secret");
    /* On a slow machine the time may pass before it has asked. */
    fake_engine_script(fake, &(struct fake_step){.request = "GET " POD, .how = FAKE_HANG, .times = FAKE_ALWAYS});
    k8s_reply_init(&reply);
    deadline_ms = clock_now_ms() + SHORT_MS;
    ck_assert_int_eq(k8s_call(client, "GET", POD, NULL, deadline_ms, &reply, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    ck_assert_uint_ge(clock_now_ms(), deadline_ms);
}
END_TEST

/* ---- Credentials ------------------------------------------------------------------------------ */

START_TEST(a_name_and_a_password_are_sent_as_such)
{
    open_as("username: me, password: 'a:b', as: robot, as-groups: [g]");
    fake_engine_answer(fake, "GET " POD, 200, "{}");
    ck_assert_int_eq(status_of("GET", POD), 200);
    ck_assert(heard(0, "\r\nAuthorization: Basic bWU6YTpi\r\n"));
    ck_assert(heard(0, "\r\nImpersonate-User: robot\r\n"));
    ck_assert(heard(0, "\r\nImpersonate-Group: g\r\n"));
}
END_TEST

START_TEST(a_token_file_is_read_again_when_the_server_refuses)
{
    put("token", "old\n", 0600);
    open_as("tokenFile: token");
    fake_engine_answer(fake, "GET " POD, 200, "{}");
    ck_assert_int_eq(status_of("GET", POD), 200);
    ck_assert(heard(0, "Bearer old\r\n"));
    put("token", "  new \n", 0600);
    fake_engine_answer(fake, "GET " POD, 401, UNAUTHORIZED);
    fake_engine_answer(fake, "GET " POD, 200, "{}");
    ck_assert_int_eq(status_of("GET", POD), 200);
    ck_assert(heard(1, "Bearer old\r\n"));
    ck_assert(heard(2, "Bearer new\r\n"));
}
END_TEST

START_TEST(a_token_file_is_read_again_when_it_has_aged)
{
    put("token", "old", 0600);
    open_as("tokenFile: token");
    fake_engine_script(fake, &(struct fake_step){.request = "GET " POD, .body = "{}", .times = 3});
    ck_assert_int_eq(status_of("GET", POD), 200);
    put("token", "new", 0600);
    ck_assert_int_eq(status_of("GET", POD), 200);
    ck_assert(heard(1, "Bearer old\r\n"));
    client->credentials.fetched_ms -= K8S_TOKEN_AGE_MS;
    ck_assert_int_eq(status_of("GET", POD), 200);
    ck_assert(heard(2, "Bearer new\r\n"));
}
END_TEST

START_TEST(a_refusal_that_stays_is_given_back)
{
    put("token", "wrong", 0600);
    open_as("tokenFile: token");
    fake_engine_script(fake, &(struct fake_step){.request = "GET " POD, .status = 401, .body = UNAUTHORIZED,
                                                 .times = 2});
    ck_assert_int_eq(status_of("GET", POD), 401);
}
END_TEST

START_TEST(a_token_file_that_makes_no_sense_is_named)
{
    static const char *const bad[] = {"", " \n", "a\nb", "a\001"};

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct k8s_reply reply;
        struct error err;

        put("token", bad[i], 0600);
        open_as("tokenFile: token");
        k8s_reply_init(&reply);
        ck_assert_int_eq(k8s_call(client, "GET", POD, NULL, clock_now_ms() + PATIENCE_MS, &reply, &err), -1);
        ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
        ck_assert_msg(strstr(err.message, "/token") != NULL, "%s", err.message);
        k8s_client_close(client);
        client = NULL;
    }
}
END_TEST

#define PLUGIN(version) \
    "exec: {apiVersion: client.authentication.k8s.io/" version ", command: ./helper, args: [one], " \
    "env: [{name: HELPER, value: yes}], installHint: get it, provideClusterInfo: true}"
/* Counts its runs and answers with their number. */
#define HELPER(status) \
    "#!/bin/sh\ncd \"${0%/*}\" && echo x >>count && n=$(wc -l <count)\n" \
    "[ \"$HELPER$1\" = yesone ] || exit 3\n" \
    "case $KUBERNETES_EXEC_INFO in *'\"interactive\":false'*'\"server\":\"http://server\"'*) ;; *) exit 4 ;; esac\n" \
    "v=$(echo \"$KUBERNETES_EXEC_INFO\" | sed 's/.*\"apiVersion\":\"\\([^\"]*\\)\".*/\\1/')\n" \
    "printf '{\"kind\":\"ExecCredential\",\"apiVersion\":\"%s\",\"status\":{" status "}}' $v $n\n"

START_TEST(a_plugin_is_run_once_and_again_when_the_server_refuses)
{
    put("helper", HELPER("\"token\":\"t%d\""), 0700);
    open_as(PLUGIN("v1"));
    fake_engine_answer(fake, "GET " POD, 200, "{}");
    fake_engine_answer(fake, "GET " POD, 200, "{}");
    fake_engine_answer(fake, "GET " POD, 401, UNAUTHORIZED);
    fake_engine_answer(fake, "GET " POD, 200, "{}");
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(status_of("GET", POD), 200);
    }
    ck_assert(heard(0, "Bearer t1\r\n"));
    ck_assert(heard(2, "Bearer t1\r\n"));
    ck_assert(heard(3, "Bearer t2\r\n"));
}
END_TEST

START_TEST(a_plugin_is_run_again_when_what_it_gave_has_run_out)
{
    put("helper", HELPER("\"token\":\"t%d\",\"expirationTimestamp\":\"2001-01-01T00:00:00Z\""), 0700);
    open_as(PLUGIN("v1beta1"));
    fake_engine_script(fake, &(struct fake_step){.request = "GET " POD, .body = "{}", .times = 2});
    ck_assert_int_eq(status_of("GET", POD), 200);
    ck_assert_int_eq(status_of("GET", POD), 200);
    ck_assert(heard(0, "Bearer t1\r\n"));
    ck_assert(heard(1, "Bearer t2\r\n"));
}
END_TEST

static void assert_plugin_fails(const char *script, const char *why)
{
    struct k8s_reply reply;
    struct error err;

    put("helper", script, 0700);
    open_as(PLUGIN("v1"));
    k8s_reply_init(&reply);
    ck_assert_int_eq(k8s_call(client, "GET", POD, NULL, clock_now_ms() + PATIENCE_MS, &reply, &err), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_msg(strstr(err.message, why) != NULL && strstr(err.message, "/helper") != NULL, "%s", err.message);
    k8s_client_close(client);
    client = NULL;
}

START_TEST(a_plugin_that_fails_is_quoted)
{
    assert_plugin_fails("#!/bin/sh\necho please log in >&2\nexit 1\n", "it failed: please log in");
    assert_plugin_fails("#!/bin/sh\nkill -9 $$\n", "it failed");
    assert_plugin_fails("#!/bin/sh\nhead -c 2000000 /dev/zero\n", "it said too much");
    assert_plugin_fails("#!/bin/sh\necho hello\n", "no ExecCredential");
    assert_plugin_fails("#!/bin/sh\necho '{\"kind\":\"ExecCredential\",\"apiVersion\":"
                        "\"client.authentication.k8s.io/v1\",\"status\":{}}'\n", "neither a token");
    assert_plugin_fails("#!/bin/sh\nexit 127\n", "it failed: get it");
    /* Not under valgrind, whose process dies of an execve(2) that fails. */
    if (getenv("LD_PRELOAD") == NULL || strstr(getenv("LD_PRELOAD"), "vgpreload") == NULL) {
        assert_plugin_fails("#!/nowhere/interpreter\n", "get it");
    }
}
END_TEST

START_TEST(what_a_plugin_leaves_behind_does_not_keep_us)
{
    char path[128];
    FILE *file;
    int pid = 0;

    put("helper", HELPER("\"token\":\"t%d\"") "sleep 1000 &\necho $! >pid\n", 0700);
    open_as(PLUGIN("v1"));
    fake_engine_answer(fake, "GET " POD, 200, "{}");
    ck_assert_int_eq(status_of("GET", POD), 200);
    snprintf(path, sizeof path, "%s/pid", folder);
    file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%d", &pid), 1);
    fclose(file);
    ck_assert_int_gt(pid, 1);
    ck_assert_int_eq(kill(pid, SIGKILL), 0);
}
END_TEST

START_TEST(a_plugin_that_does_not_end_is_ended)
{
    struct k8s_reply reply;
    struct error err;

    put("helper", "#!/bin/sh\nsleep 1000; :\n", 0700);
    open_as(PLUGIN("v1"));
    k8s_reply_init(&reply);
    ck_assert_int_eq(k8s_call(client, "GET", POD, NULL, clock_now_ms() + SHORT_MS, &reply, &err), -1);
    ck_assert_msg(strstr(err.message, "too long") != NULL, "%s", err.message);
}
END_TEST

START_TEST(a_plugins_answer_is_read_with_care)
{
#define ANSWER(status) "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":" status "}"
    static const char *const bad[] = {
        "", "{}", ANSWER("7"), ANSWER("{\"token\":7}"), ANSWER("{\"token\":\"\"}"),
        ANSWER("{\"token\":\"a\\r\\nb\"}"), ANSWER("{\"clientKeyData\":\"k\"}"),
        ANSWER("{\"token\":\"t\",\"expirationTimestamp\":\"soon\"}"),
        "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1beta1\",\"status\":{\"token\":\"t\"}}",
    };
    const char *good = ANSWER("{\"clientCertificateData\":\"c\",\"clientKeyData\":\"k\"}");
    struct k8s_credential credential;
    struct error err;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        ck_assert_msg(k8s_credential_parse(bad[i], strlen(bad[i]), "v1", "x", &credential, &err) == -1, "%s", bad[i]);
        k8s_credential_release(&credential);
    }
    ck_assert_int_eq(k8s_credential_parse(good, strlen(good), "v1", "x", &credential, &err), 0);
    ck_assert_mem_eq(credential.cert.data, "c", 1);
    ck_assert_ptr_null(credential.token);
    k8s_credential_release(&credential);
}
END_TEST

START_TEST(a_time_is_read_in_any_zone)
{
    ck_assert_int_eq(k8s_time_parse("1970-01-01T00:00:00Z"), 0);
    ck_assert_int_eq(k8s_time_parse("2030-01-02T03:04:05Z"), 1893553445);
    ck_assert_int_eq(k8s_time_parse("2030-01-02T03:04:05.678Z"), 1893553445);
    ck_assert_int_eq(k8s_time_parse("2030-01-02T05:34:05+02:30"), 1893553445);
    ck_assert_int_eq(k8s_time_parse("2030-01-02T02:04:05-01:00"), 1893553445);
    ck_assert_int_eq(k8s_time_parse("2030-01-02T03:04:05"), -1);
    ck_assert_int_eq(k8s_time_parse("2030-01-02"), -1);
    ck_assert_int_eq(k8s_time_parse("2030-01-02T03:04:05+2:30"), -1);
}
END_TEST

/* ---- Watches ---------------------------------------------------------------------------------- */

#define EVENT(type, version, phase) \
    "{\"type\":\"" type "\",\"object\":{\"metadata\":{\"name\":\"p\",\"resourceVersion\":\"" version \
    "\"},\"status\":{\"phase\":\"" phase "\"}}}\n"
#define POD_IS(version, phase) \
    "{\"metadata\":{\"name\":\"p\",\"resourceVersion\":\"" version "\"},\"status\":{\"phase\":\"" phase "\"}}"

struct seen {
    char phases[128]; /* a word for each time */
    int verdict;
    const char *until;
};

/* Notes the phase; the end is where it is `until`. */
static int note(void *arg, json_t *pod, struct error *err)
{
    struct seen *seen = arg;
    const char *phase = pod == NULL ? "deleted" : json_string_value(json_object_get(json_object_get(pod, "status"), "phase"));
    size_t used = strlen(seen->phases);

    snprintf(seen->phases + used, sizeof seen->phases - used, "%s ", phase);
    if (strcmp(phase, "Failed") == 0) {
        return error_set(err, ERROR_IO, 0, "it failed");
    }
    return strcmp(phase, seen->until) == 0 ? 7 : 0;
}

static int watch(const char *version, const char *until, unsigned ms, struct seen *seen, struct error *err)
{
    *seen = (struct seen){.until = until};
    return k8s_watch_pod(client, "n", "p", version, clock_now_ms() + ms, note, seen, err);
}

static void script_watch(const char *body, enum fake_how how)
{
    fake_engine_script(fake, &(struct fake_step){.request = WATCH, .how = how, .body = body});
}

START_TEST(events_come_in_pieces_of_any_size)
{
    struct seen seen;
    struct error err;

    open_as("token: t");
    script_watch(EVENT("MODIFIED", "6", "Pending") EVENT("BOOKMARK", "7", "none")
                 EVENT("MODIFIED", "8", "Running") EVENT("MODIFIED", "9", "Late"), FAKE_CHUNKED);
    ck_assert_int_eq(watch("5", "Running", PATIENCE_MS, &seen, &err), 7);
    ck_assert_str_eq(seen.phases, "Pending Running ");
    ck_assert_ptr_nonnull(strstr(fake_engine_heard(fake, 0)->line, "resourceVersion=5"));
    ck_assert_ptr_nonnull(strstr(fake_engine_heard(fake, 0)->line, "fieldSelector=metadata.name%3Dp"));
}
END_TEST

START_TEST(without_a_version_the_pod_is_looked_at_first)
{
    struct seen seen;
    struct error err;

    open_as("token: t");
    fake_engine_answer(fake, "GET " POD, 200, POD_IS("3", "Pending"));
    script_watch(EVENT("DELETED", "4", "Running"), FAKE_TO_END);
    ck_assert_int_eq(watch(NULL, "deleted", PATIENCE_MS, &seen, &err), 7);
    ck_assert_str_eq(seen.phases, "Pending deleted ");
    ck_assert_ptr_nonnull(strstr(fake_engine_heard(fake, 1)->line, "resourceVersion=3"));
}
END_TEST

START_TEST(a_pod_that_is_not_there_is_deleted)
{
    struct seen seen;
    struct error err;

    open_as("token: t");
    fake_engine_answer(fake, "GET " POD, 404, "{}");
    ck_assert_int_eq(watch(NULL, "deleted", PATIENCE_MS, &seen, &err), 7);
}
END_TEST

START_TEST(a_watch_that_ends_goes_on_where_it_was)
{
    struct seen seen;
    struct error err;

    open_as("token: t");
    script_watch(EVENT("ADDED", "6", "Pending"), FAKE_TO_END);
    script_watch(EVENT("BOOKMARK", "9", "none") "{\"type\":\"MOD", FAKE_TRUNCATE);
    fake_engine_script(fake, &(struct fake_step){.request = WATCH, .status = 503, .body = "{}"});
    script_watch(EVENT("MODIFIED", "10", "Running"), FAKE_TO_END);
    ck_assert_int_eq(watch("5", "Running", PATIENCE_MS, &seen, &err), 7);
    ck_assert_str_eq(seen.phases, "Pending Running ");
    ck_assert_ptr_nonnull(strstr(fake_engine_heard(fake, 1)->line, "resourceVersion=6&"));
}
END_TEST

START_TEST(a_version_that_is_too_old_begins_afresh)
{
    struct seen seen;
    struct error err;

    open_as("token: t");
    fake_engine_answer(fake, WATCH, 410, "{\"reason\":\"Expired\"}");
    fake_engine_answer(fake, "GET " POD, 200, POD_IS("20", "Pending"));
    script_watch("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}\n", FAKE_TO_END);
    fake_engine_answer(fake, "GET " POD, 200, POD_IS("30", "Running"));
    ck_assert_int_eq(watch("5", "Running", PATIENCE_MS, &seen, &err), 7);
    ck_assert_str_eq(seen.phases, "Pending Running ");
}
END_TEST

START_TEST(a_watch_has_a_deadline)
{
    struct seen seen;
    struct error err;
    uint64_t begin;

    open_as("token: t");
    /* On a slow machine the time may pass before it has asked. */
    fake_engine_script(fake, &(struct fake_step){.request = WATCH,
                                                 .how = FAKE_STALL,
                                                 .body = EVENT("ADDED", "6", "Pending"),
                                                 .times = FAKE_ALWAYS});
    begin = clock_now_ms();
    ck_assert_int_eq(watch("5", "Running", SHORT_MS, &seen, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    ck_assert_uint_ge(clock_now_ms(), begin + SHORT_MS);
}
END_TEST

START_TEST(a_watch_that_is_refused_says_why)
{
    struct seen seen;
    struct error err;

    open_as("token: t");
    fake_engine_answer(fake, WATCH, 403, "{\"reason\":\"Forbidden\",\"message\":\"cannot watch\"}");
    ck_assert_int_eq(watch("5", "Running", PATIENCE_MS, &seen, &err), -1);
    ck_assert_msg(strstr(err.message, "cannot watch (Forbidden)") != NULL, "%s", err.message);
}
END_TEST

START_TEST(who_sees_can_end_it_with_an_error)
{
    struct seen seen;
    struct error err;

    open_as("token: t");
    script_watch(EVENT("MODIFIED", "6", "Failed"), FAKE_TO_END);
    ck_assert_int_eq(watch("5", "Running", PATIENCE_MS, &seen, &err), -1);
    ck_assert_str_eq(err.message, "it failed");
}
END_TEST

static int count_event(void *arg, const char *type, json_t *object, struct error *err)
{
    (void)type;
    (void)object;
    (void)err;
    ++*(int *)arg;
    return 0;
}

START_TEST(lines_are_put_together_and_bounded)
{
    static char much[1 << 20];
    const char *text = "{\"type\":\"A\",\"object\":{}}\n\n{\"type\":\"B\",\"object\":{}}\n";
    struct k8s_watch_lines lines;
    struct error err;
    int count = 0;
    int r = 0;

    k8s_watch_lines_init(&lines);
    for (size_t i = 0; text[i] != '\0'; i++) {
        ck_assert_int_eq(k8s_watch_lines_feed(&lines, text + i, 1, count_event, &count, &err), 0);
    }
    ck_assert_int_eq(count, 2);
    ck_assert_int_eq(k8s_watch_lines_feed(&lines, "[1]\n", 4, count_event, &count, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    memset(much, 'x', sizeof much);
    for (int i = 0; i < 5 && r == 0; i++) {
        r = k8s_watch_lines_feed(&lines, much, sizeof much, count_event, &count, &err);
    }
    ck_assert_int_eq(r, -1);
    ck_assert_int_eq(err.code, ERROR_TOO_LARGE);
    k8s_watch_lines_release(&lines);
}
END_TEST

UNIT_SUITE(k8s_client)
{
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, a_call_carries_json_both_ways);
    tcase_add_test(tcase, a_refusal_has_the_servers_reason_and_message);
    tcase_add_test(tcase, a_pod_that_is_not_found_is_gone_and_a_namespace_is_a_mistake);
    tcase_add_test(tcase, a_good_answer_that_is_no_json_is_an_error);
    tcase_add_test(tcase, what_can_be_done_twice_is_tried_again_when_the_server_is_busy_or_lost);
    tcase_add_test(tcase, a_post_is_tried_again_only_where_the_server_cannot_have_acted);
    tcase_add_test(tcase, a_server_that_stays_broken_is_asked_a_few_times);
    tcase_add_test(tcase, the_server_says_how_long_to_wait);
    tcase_add_test(tcase, a_wait_past_the_deadline_is_not_begun);
    tcase_add_test(tcase, a_silent_server_is_no_answer_at_the_deadline);
    tcase_add_test(tcase, a_name_and_a_password_are_sent_as_such);
    tcase_add_test(tcase, a_token_file_is_read_again_when_the_server_refuses);
    tcase_add_test(tcase, a_token_file_is_read_again_when_it_has_aged);
    tcase_add_test(tcase, a_refusal_that_stays_is_given_back);
    tcase_add_test(tcase, a_token_file_that_makes_no_sense_is_named);
    tcase_add_test(tcase, a_plugin_is_run_once_and_again_when_the_server_refuses);
    tcase_add_test(tcase, a_plugin_is_run_again_when_what_it_gave_has_run_out);
    tcase_add_test(tcase, a_plugin_that_fails_is_quoted);
    tcase_add_test(tcase, what_a_plugin_leaves_behind_does_not_keep_us);
    tcase_add_test(tcase, a_plugin_that_does_not_end_is_ended);
    tcase_add_test(tcase, a_plugins_answer_is_read_with_care);
    tcase_add_test(tcase, a_time_is_read_in_any_zone);
    tcase_add_test(tcase, events_come_in_pieces_of_any_size);
    tcase_add_test(tcase, without_a_version_the_pod_is_looked_at_first);
    tcase_add_test(tcase, a_pod_that_is_not_there_is_deleted);
    tcase_add_test(tcase, a_watch_that_ends_goes_on_where_it_was);
    tcase_add_test(tcase, a_version_that_is_too_old_begins_afresh);
    tcase_add_test(tcase, a_watch_has_a_deadline);
    tcase_add_test(tcase, a_watch_that_is_refused_says_why);
    tcase_add_test(tcase, who_sees_can_end_it_with_an_error);
    tcase_add_test(tcase, lines_are_put_together_and_bounded);
}
