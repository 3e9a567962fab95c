/* Which daemon is meant, which version is spoken, and what its answers mean. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backends/docker_engine.h"
#include "backends/docker_host.h"
#include "backends/pump.h"
#include "sandbox/clock.h"
#include "tests/unit/fake_engine.h"

#define PATIENCE_MS 20000

/* ---- Hosts ------------------------------------------------------------------------------------ */

static char home[64];

/* An environment of the test's own. */
static void clear_environment(void)
{
    static const char *const names[] = {"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH",
                                        "DOCKER_TLS", "DOCKER_TLS_VERIFY", "XDG_RUNTIME_DIR"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        unsetenv(names[i]);
    }
    snprintf(home, sizeof home, "/tmp/handsfs-home.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(home));
    setenv("HOME", home, 1);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static void remove_home(void)
{
    nftw(home, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Makes a file below the home with its folders. */
static void put_file(const char *path, const char *text)
{
    char whole[512];
    FILE *f;

    snprintf(whole, sizeof whole, "%s/%s", home, path);
    for (char *slash = strchr(whole + strlen(home) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(whole, 0700);
        *slash = '/';
    }
    f = fopen(whole, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

/* What is found: the host, its socket or URL, and the program that dials. */
static void assert_found(const char *expected)
{
    struct http_server server;
    char text[1024];
    char *host = NULL;
    struct error err;

    http_server_init(&server);
    ck_assert_msg(docker_host_find(&server, &host, &err) == 0, "%s", err.message);
    snprintf(text, sizeof text, "%s %s", host, server.unix_socket != NULL ? server.unix_socket : server.url);
    for (char **arg = server.dial; arg != NULL && *arg != NULL; arg++) {
        size_t used = strlen(text);

        snprintf(text + used, sizeof text - used, " %s", *arg);
    }
    ck_assert_str_eq(text, expected);
    free(host);
    http_server_release(&server);
}

static void assert_not_found(const char *text)
{
    struct http_server server;
    char *host = NULL;
    struct error err;

    http_server_init(&server);
    ck_assert_int_eq(docker_host_find(&server, &host, &err), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_msg(strstr(err.message, text) != NULL, "%s", err.message);
    free(host);
    http_server_release(&server);
}

static const struct {
    const char *host, *found;
} hosts[] = {
    {"unix:///a/b.sock", "unix:///a/b.sock /a/b.sock"},
    {"tcp://host", "tcp://host http://host:2375"},
    {"tcp://host:1234", "tcp://host:1234 http://host:1234"},
    {"tcp://[::1]", "tcp://[::1] http://[::1]:2375"},
    {"tcp://[::1]:99/pre", "tcp://[::1]:99/pre http://[::1]:99/pre"},
    {"http://host:80", "http://host:80 http://host:80"},
    {"https://host", "https://host https://host:2376"},
    {"ssh://host", "ssh://host http://docker ssh -- host docker system dial-stdio"},
    {"ssh://me@host:22/", "ssh://me@host:22/ http://docker ssh -p 22 -- me@host docker system dial-stdio"},
    {"ssh://me@[::1]:22", "ssh://me@[::1]:22 http://docker ssh -p 22 -- me@::1 docker system dial-stdio"},
};

START_TEST(docker_host_names_the_daemon)
{
    setenv("DOCKER_HOST", hosts[_i].host, 1);
    setenv("DOCKER_CONTEXT", "another", 1);
    assert_found(hosts[_i].found);
}
END_TEST

static const char *const wrong_hosts[] = {
    "fd://", "npipe:////./pipe", "host:2375", "/run/docker.sock", "unix://", "unix://relative", "tcp://", "tcp://:2375",
    "tcp://user@host", "ssh://", "ssh://-oProxyCommand=x", "ssh://a@-oProxyCommand=x", "ssh://h/path", "ssh://a b",
};

START_TEST(a_host_that_makes_no_sense_is_refused)
{
    setenv("DOCKER_HOST", wrong_hosts[_i], 1);
    assert_not_found("the Docker host");
}
END_TEST

START_TEST(the_certificates_are_found_where_docker_has_them)
{
    struct http_server server;
    char *host, path[128];
    struct error err;

    put_file("certs/ca.pem", "x");
    put_file("certs/cert.pem", "x");
    put_file("certs/key.pem", "x");
    snprintf(path, sizeof path, "%s/certs", home);
    setenv("DOCKER_CERT_PATH", path, 1);
    setenv("DOCKER_HOST", "tcp://host", 1);
    assert_found("tcp://host http://host:2375");
    setenv("DOCKER_TLS_VERIFY", "1", 1);
    http_server_init(&server);
    ck_assert_int_eq(docker_host_find(&server, &host, &err), 0);
    ck_assert_str_eq(server.url, "https://host:2376");
    ck_assert(!server.insecure);
    snprintf(path, sizeof path, "%s/certs/key.pem", home);
    ck_assert_str_eq(server.key_file, path);
    free(host);
    http_server_release(&server);
    unlink(path);
    assert_not_found("both cert.pem and key.pem");
}
END_TEST

START_TEST(a_context_is_found_by_its_name)
{
    put_file(".docker/contexts/meta/aaa/meta.json", "no JSON");
    put_file(".docker/contexts/meta/bbb/meta.json",
             "{\"Name\":\"far\",\"Endpoints\":{\"docker\":{\"Host\":\"ssh://me@far\"}}}");
    put_file(".docker/contexts/meta/ccc/meta.json",
             "{\"Name\":\"near\",\"Endpoints\":{\"docker\":{\"Host\":\"unix:///near\",\"SkipTLSVerify\":false}}}");
    put_file(".docker/contexts/meta/ddd/meta.json", "{\"Name\":\"empty\",\"Endpoints\":{}}");
    put_file(".docker/config.json", "{\"auths\":{},\"currentContext\":\"near\"}");
    assert_found("unix:///near /near");
    setenv("DOCKER_CONTEXT", "far", 1);
    assert_found("ssh://me@far http://docker ssh -- me@far docker system dial-stdio");
    setenv("DOCKER_CONTEXT", "none", 1);
    assert_not_found("there is no Docker context none");
    setenv("DOCKER_CONTEXT", "empty", 1);
    assert_not_found("names no host");
    unsetenv("DOCKER_CONTEXT");
    put_file(".docker/config.json", "{\"currentContext\":");
    assert_not_found("is no JSON");
}
END_TEST

START_TEST(a_context_has_its_certificates)
{
    struct http_server server;
    char *host, path[128];
    struct error err;

    put_file(".docker/contexts/meta/aaa/meta.json",
             "{\"Name\":\"tls\",\"Endpoints\":{\"docker\":{\"Host\":\"tcp://host:2376\"}}}");
    put_file(".docker/contexts/tls/aaa/docker/ca.pem", "x");
    setenv("DOCKER_CONTEXT", "tls", 1);
    http_server_init(&server);
    ck_assert_msg(docker_host_find(&server, &host, &err) == 0, "%s", err.message);
    ck_assert_str_eq(server.url, "https://host:2376");
    snprintf(path, sizeof path, "%s/.docker/contexts/tls/aaa/docker/ca.pem", home);
    ck_assert_str_eq(server.ca_file, path);
    ck_assert_ptr_null(server.cert_file);
    ck_assert(!server.insecure);
    free(host);
    http_server_release(&server);
}
END_TEST

START_TEST(without_a_word_it_is_the_standard_socket)
{
    struct http_server server;
    char *host = NULL;
    struct error err;

    http_server_init(&server);
    ck_assert_int_eq(docker_host_find(&server, &host, &err), 0);
    ck_assert(strcmp(host, "unix:///run/docker.sock") == 0 || strcmp(host, "unix:///var/run/docker.sock") == 0);
    free(host);
    http_server_release(&server);
    if (access("/run/docker.sock", F_OK) < 0 && access("/var/run/docker.sock", F_OK) < 0) {
        char expected[256];

        put_file("run/docker.sock", "");
        snprintf(expected, sizeof expected, "%s/run", home);
        setenv("XDG_RUNTIME_DIR", expected, 1);
        snprintf(expected, sizeof expected, "unix://%s/run/docker.sock %s/run/docker.sock", home, home);
        assert_found(expected);
    }
}
END_TEST

/* ---- Versions --------------------------------------------------------------------------------- */

/* The fake engine as one that answers this about its version. */
static struct fake_engine *versioned(const char *body)
{
    struct fake_engine *fake = fake_engine_start();
    char host[128];

    fake_engine_answer(fake, "GET /version", 200, body);
    snprintf(host, sizeof host, "unix://%s", fake_engine_socket(fake));
    setenv("DOCKER_HOST", host, 1);
    return fake;
}

static const struct {
    const char *body, *api;
    bool podman;
} versions[] = {
    {"{\"Version\":\"20.10.24\",\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\"}", "1.41", false},
    {"{\"Version\":\"19.03\",\"ApiVersion\":\"1.40\"}", DOCKER_OLDEST_API, false},
    {"{\"Version\":\"99.0\",\"ApiVersion\":\"1.99\",\"MinAPIVersion\":\"1.44\"}", DOCKER_NEWEST_API, false},
    {"{\"Version\":\"4.3.1\",\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.24\","
     "\"Components\":[{\"Name\":\"Podman Engine\",\"Version\":\"4.3.1\"},3]}", "1.41", true},
};

START_TEST(the_newest_version_that_both_speak_is_spoken)
{
    struct fake_engine *fake = versioned(versions[_i].body);
    struct docker_engine *engine;
    struct error err;

    ck_assert_msg(docker_engine_open(&engine, clock_now_ms() + PATIENCE_MS, &err) == 0, "%s", err.message);
    ck_assert_str_eq(docker_engine_api(engine), versions[_i].api);
    ck_assert(docker_engine_is_podman(engine) == versions[_i].podman);
    ck_assert_str_eq(docker_engine_host(engine), getenv("DOCKER_HOST"));
    docker_engine_close(engine);
    fake_engine_stop(fake);
}
END_TEST

START_TEST(podman_is_known_by_its_ping_and_not_asked_for_its_version)
{
    struct fake_engine *fake = fake_engine_start();
    struct docker_engine *engine;
    struct error err;
    char host[128];

    fake_engine_script(fake, &(struct fake_step){
                                 .request = "GET /_ping",
                                 .headers = "Api-Version: 1.41\r\nLibpod-Api-Version: 4.3.1\r\n",
                                 .body = "OK"});
    snprintf(host, sizeof host, "unix://%s", fake_engine_socket(fake));
    setenv("DOCKER_HOST", host, 1);
    ck_assert_msg(docker_engine_open(&engine, clock_now_ms() + PATIENCE_MS, &err) == 0, "%s", err.message);
    ck_assert(docker_engine_is_podman(engine));
    ck_assert_str_eq(docker_engine_api(engine), "1.41");
    ck_assert_str_eq(docker_engine_version(engine), "4.3.1");
    docker_engine_close(engine);
    fake_engine_stop(fake);
}
END_TEST

START_TEST(docker_is_known_by_its_ping_and_asked_for_its_version_only_where_it_is_newer)
{
    static const struct {
        const char *headers, *api, *version;
        bool asked;
    } rows[] = {
        {"Api-Version: 1.41\r\nServer: Docker/20.10.24 (linux)\r\n", "1.41", "20.10.24", false},
        {"api-version: 1.44\r\n", DOCKER_NEWEST_API, "?", false},
        {"Api-Version: 1.99\r\nServer: Docker/99.0 (linux)\r\n", DOCKER_NEWEST_API, "99.0.1", true},
        {"Api-Version: x\r\n", DOCKER_NEWEST_API, "99.0.1", true},
    };
    struct docker_engine *engine;
    struct error err;

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct fake_engine *fake =
            rows[i].asked ? versioned("{\"Version\":\"99.0.1\",\"ApiVersion\":\"1.99\"}") : fake_engine_start();
        char host[128];

        fake_engine_script(fake, &(struct fake_step){
                                     .request = "GET /_ping", .headers = rows[i].headers, .body = "OK"});
        snprintf(host, sizeof host, "unix://%s", fake_engine_socket(fake));
        setenv("DOCKER_HOST", host, 1);
        ck_assert_msg(docker_engine_open(&engine, clock_now_ms() + PATIENCE_MS, &err) == 0, "%s", err.message);
        ck_assert(!docker_engine_is_podman(engine));
        ck_assert_str_eq(docker_engine_api(engine), rows[i].api);
        ck_assert_str_eq(docker_engine_version(engine), rows[i].version);
        docker_engine_close(engine);
        fake_engine_stop(fake);
    }
}
END_TEST

static const struct {
    const char *body;
    enum error_code code;
    const char *text;
} wrong_versions[] = {
    {"{\"ApiVersion\":\"1.24\"}", ERROR_BAD_REQUEST, "too old"},
    {"{\"ApiVersion\":\"2.0\",\"MinAPIVersion\":\"2.0\"}", ERROR_BAD_REQUEST, "too new"},
    {"{}", ERROR_NO_ANSWER, "is it Docker"},
    {"[]", ERROR_NO_ANSWER, "is it Docker"},
    {"{\"ApiVersion\":\"1.41/../..\"}", ERROR_NO_ANSWER, "is it Docker"},
    {"{\"ApiVersion\":", ERROR_NO_ANSWER, "no JSON"},
    {"", ERROR_NO_ANSWER, "is it Docker"},
};

START_TEST(a_version_that_cannot_be_spoken_is_told)
{
    struct fake_engine *fake = versioned(wrong_versions[_i].body);
    struct docker_engine *engine;
    struct error err;

    ck_assert_int_eq(docker_engine_open(&engine, clock_now_ms() + PATIENCE_MS, &err), -1);
    ck_assert_int_eq(err.code, wrong_versions[_i].code);
    ck_assert_msg(strstr(err.message, wrong_versions[_i].text) != NULL, "%s", err.message);
    fake_engine_stop(fake);
}
END_TEST

START_TEST(a_daemon_that_is_not_there_is_named_with_what_to_do)
{
    struct docker_engine *engine;
    struct error err;

    setenv("DOCKER_HOST", "unix:///tmp/no/such/docker.sock", 1);
    ck_assert_int_eq(docker_engine_open(&engine, clock_now_ms() + PATIENCE_MS, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    ck_assert_int_eq(err.os_errno, ENOENT);
    ck_assert_ptr_nonnull(strstr(err.message, "unix:///tmp/no/such/docker.sock"));
    ck_assert_ptr_nonnull(strstr(err.message, "does the Docker daemon run there?"));
}
END_TEST

START_TEST(a_forward_is_not_local)
{
    struct fake_engine *fake = versioned("{\"ApiVersion\":\"1.41\",\"KernelVersion\":\"1.2.3-of-elsewhere\"}");
    struct docker_engine *engine;
    struct error err;

    ck_assert_int_eq(docker_engine_open(&engine, clock_now_ms() + PATIENCE_MS, &err), 0);
    ck_assert(!docker_engine_is_local(engine));
    docker_engine_close(engine);
    fake_engine_stop(fake);
}
END_TEST

/* ---- Replies ---------------------------------------------------------------------------------- */

static struct fake_engine *fake;
static struct docker_engine *engine;

static void open_docker(void)
{
    struct error err;

    fake = fake_engine_start();
    fake_engine_be_docker(fake);
    ck_assert_msg(docker_engine_open(&engine, clock_now_ms() + PATIENCE_MS, &err) == 0, "%s", err.message);
}

static void close_docker(void)
{
    docker_engine_close(engine);
    fake_engine_stop(fake);
}

START_TEST(a_request_goes_out_in_json_under_the_version)
{
    json_t *json = json_pack("{s:s}", "Image", "x");
    struct docker_request request = {.method = "POST",
                                     .path = "/containers/create?name=y",
                                     .json = json,
                                     .deadline_ms = clock_now_ms() + PATIENCE_MS};
    struct docker_reply reply;
    struct error err;

    open_docker();
    ck_assert(docker_engine_is_local(engine));
    fake_engine_answer(fake, "POST /v1.41/containers/create?name=y", 201, "{\"Id\":\"abc\"}");
    docker_reply_init(&reply);
    ck_assert_msg(docker_call(engine, &request, &reply, &err) == 0, "%s", err.message);
    ck_assert_int_eq(reply.status, 201);
    ck_assert_str_eq(json_string_value(json_object_get(reply.json, "Id")), "abc");
    ck_assert_str_eq(reply.message, "");
    ck_assert_str_eq(fake_engine_heard(fake, 0)->body, "{\"Image\":\"x\"}");
    ck_assert_ptr_nonnull(strstr(fake_engine_heard(fake, 0)->head, "\r\nContent-Type: application/json\r\n"));
    docker_reply_release(&reply);
    json_decref(json);
    close_docker();
}
END_TEST

static const struct {
    int status;
    const char *headers, *body, *message;
    enum error_code code;
    int os_errno;
} refusals[] = {
    {404, NULL, "{\"message\":\"No such container: x\"}", "No such container: x", ERROR_BAD_REQUEST, 0},
    {409, NULL, "{\"cause\":\"c\",\"message\":\"in\\nuse \\u001b[2J\"}", "in use ?[2J", ERROR_BAD_REQUEST, 0},
    {500, NULL, "{\"message\":\"write /x: No space left on device\"}", "write /x: No space left on device",
     ERROR_ERRNO, ENOSPC},
    {500, NULL, "{\"message\":", "{\"message\":", ERROR_NO_ANSWER, 0},
    {502, "Content-Type: text/html\r\n", "<html>\nBad gateway</html>\n", "<html> Bad gateway</html>", ERROR_NO_ANSWER, 0},
    {503, NULL, "", "status 503", ERROR_NO_ANSWER, 0},
    {500, NULL, "{\"message\":7}", "{\"message\":7}", ERROR_NO_ANSWER, 0},
};

START_TEST(a_refusal_has_the_engines_sentence)
{
    struct docker_request request = {
        .method = "GET", .path = "/containers/x/json", .deadline_ms = clock_now_ms() + PATIENCE_MS};
    struct docker_reply reply;
    struct error err;

    open_docker();
    fake_engine_script(fake, &(struct fake_step){.request = "GET /v1.41/containers/x/json",
                                                 .status = refusals[_i].status,
                                                 .headers = refusals[_i].headers,
                                                 .body = refusals[_i].body});
    docker_reply_init(&reply);
    ck_assert_msg(docker_call(engine, &request, &reply, &err) == 0, "%s", err.message);
    ck_assert_int_eq(reply.status, refusals[_i].status);
    ck_assert_str_eq(reply.message, refusals[_i].message);
    ck_assert_int_eq(docker_refused(&reply, &err, "look at %s", "x"), -1);
    ck_assert_int_eq(err.code, refusals[_i].code);
    ck_assert_int_eq(err.os_errno, refusals[_i].os_errno);
    ck_assert_ptr_nonnull(strstr(err.message, "look at x: "));
    ck_assert_ptr_nonnull(strstr(err.message, refusals[_i].message));
    docker_reply_release(&reply);
    close_docker();
}
END_TEST

START_TEST(an_answer_that_says_json_and_is_none_is_no_answer)
{
    struct docker_request request = {.method = "GET", .path = "/info", .deadline_ms = clock_now_ms() + PATIENCE_MS};
    struct docker_reply reply;
    struct error err;

    open_docker();
    fake_engine_answer(fake, "GET /v1.41/info", 200, "{\"a\":1");
    fake_engine_script(fake, &(struct fake_step){
                                 .request = "GET /v1.41/info", .headers = "Content-Type: text/plain\r\n", .body = "OK"});
    docker_reply_init(&reply);
    ck_assert_int_eq(docker_call(engine, &request, &reply, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
    ck_assert_int_eq(docker_call(engine, &request, &reply, &err), 0);
    ck_assert_ptr_null(reply.json);
    ck_assert_str_eq(buffer_text(&reply.body), "OK");
    docker_reply_release(&reply);
    close_docker();
}
END_TEST

/* ---- Exec streams ----------------------------------------------------------------------------- */

static int start_exec(struct docker_reply *refused)
{
    struct error err;
    int fd = -2;

    docker_reply_init(refused);
    ck_assert_msg(docker_exec_stream(engine, "a/b", clock_now_ms() + PATIENCE_MS, &fd, refused, &err) == 0, "%s",
                  err.message);
    return fd;
}

/* Answers what it hears in frames, and all kinds of them; then with what is no frame. */
static void frames(int fd, void *arg)
{
    static const char answer[] = "\2\0\0\0\0\0\0\3err\1\0\0\0\0\0\0\2he\0\0\0\0\0\0\0\1y";
    char data[8];

    if (recv(fd, data, sizeof data, 0) == 4) {
        (void)!send(fd, answer, sizeof answer - 1, MSG_NOSIGNAL);
        (void)!send(fd, arg, strlen(arg), MSG_NOSIGNAL);
    }
}

static size_t take(int fd, char *data, size_t length)
{
    size_t have = 0;
    ssize_t n;

    do {
        struct pollfd p = {.fd = fd, .events = POLLIN};

        ck_assert_int_eq(poll(&p, 1, PATIENCE_MS), 1);
        n = recv(fd, data + have, length - have, 0);
        have += n > 0 ? (size_t)n : 0;
    } while (n > 0 && have < length);
    return have;
}

static void wait_for_pumps(void)
{
    uint64_t begin = clock_now_ms();

    while (pump_count() > 0) {
        ck_assert_uint_lt(clock_now_ms() - begin, PATIENCE_MS);
        poll(NULL, 0, 5);
    }
}

START_TEST(an_exec_is_a_descriptor_with_the_programs_input_and_output)
{
    static const char *const last[] = {"", "no frame"};
    struct docker_reply refused;
    char data[16];
    int fd;

    open_docker();
    fake_engine_script(fake, &(struct fake_step){.request = "POST /v1.41/exec/a%2Fb/start",
                                                 .how = FAKE_HIJACK,
                                                 .hijack = frames,
                                                 .arg = (void *)last[_i]});
    fd = start_exec(&refused);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(send(fd, "ask?", 4, MSG_NOSIGNAL), 4);
    ck_assert_uint_eq(take(fd, data, sizeof data), 3);
    ck_assert_mem_eq(data, "hey", 3);
    ck_assert_str_eq(fake_engine_heard(fake, 0)->body, "{\"Detach\":false,\"Tty\":false}");
    close(fd);
    wait_for_pumps();
    close_docker();
}
END_TEST

START_TEST(an_exec_that_is_refused_has_the_engines_sentence)
{
    struct docker_reply refused;

    open_docker();
    fake_engine_answer(fake, "POST /v1.41/exec/a%2Fb/start", 409, "{\"message\":\"Container x is paused\"}");
    ck_assert_int_eq(start_exec(&refused), -1);
    ck_assert_int_eq(refused.status, 409);
    ck_assert_str_eq(refused.message, "Container x is paused");
    docker_reply_release(&refused);
    close_docker();
}
END_TEST

UNIT_SUITE(docker_engine)
{
    tcase_add_checked_fixture(tcase, clear_environment, remove_home);
    tcase_add_loop_test(tcase, docker_host_names_the_daemon, 0, sizeof hosts / sizeof hosts[0]);
    tcase_add_loop_test(tcase, a_host_that_makes_no_sense_is_refused, 0,
                        sizeof wrong_hosts / sizeof wrong_hosts[0]);
    tcase_add_test(tcase, the_certificates_are_found_where_docker_has_them);
    tcase_add_test(tcase, a_context_is_found_by_its_name);
    tcase_add_test(tcase, a_context_has_its_certificates);
    tcase_add_test(tcase, without_a_word_it_is_the_standard_socket);
    tcase_add_test(tcase, podman_is_known_by_its_ping_and_not_asked_for_its_version);
    tcase_add_test(tcase, docker_is_known_by_its_ping_and_asked_for_its_version_only_where_it_is_newer);
    tcase_add_loop_test(tcase, the_newest_version_that_both_speak_is_spoken, 0,
                        sizeof versions / sizeof versions[0]);
    tcase_add_loop_test(tcase, a_version_that_cannot_be_spoken_is_told, 0,
                        sizeof wrong_versions / sizeof wrong_versions[0]);
    tcase_add_test(tcase, a_daemon_that_is_not_there_is_named_with_what_to_do);
    tcase_add_test(tcase, a_forward_is_not_local);
    tcase_add_test(tcase, a_request_goes_out_in_json_under_the_version);
    tcase_add_loop_test(tcase, a_refusal_has_the_engines_sentence, 0, sizeof refusals / sizeof refusals[0]);
    tcase_add_test(tcase, an_answer_that_says_json_and_is_none_is_no_answer);
    tcase_add_loop_test(tcase, an_exec_is_a_descriptor_with_the_programs_input_and_output, 0, 2);
    tcase_add_test(tcase, an_exec_that_is_refused_has_the_engines_sentence);
}
