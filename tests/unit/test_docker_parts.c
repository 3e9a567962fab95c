/* What is decided without an engine: users by the image's files, settings, what a container is made from, and what an engine says
 * of one. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/docker_internal.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct error err;

/* ---- Users ---- */

static const char passwd[] = "root:x:0:0:root:/root:/bin/sh\n"
                             "broken\n"
                             ":::\n"
                             "toolarge:x:99999999999:1::/:\n"
                             "agent:x:1000:1001:an agent:/home/agent:/bin/sh\n"
                             "1234:x:77:78::/:\n"
                             "last:x:12:13";
static const char group[] = "root:x:0:\nagents:x:1001:agent\nstaff:x:50:agent,root\n";

static int look_up(const char *user, uint32_t *uid, uint32_t *gid)
{
    return docker_user_lookup(user, &(struct docker_text){passwd, sizeof passwd - 1},
                              &(struct docker_text){group, sizeof group - 1}, uid, gid, &err);
}

START_TEST(a_user_is_found_as_the_engines_find_it)
{
    static const struct {
        const char *user;
        uint32_t uid, gid;
    } rows[] = {
        {"", 0, 0},           {"root", 0, 0},           {"0", 0, 0},          {"agent", 1000, 1001},
        {"1000", 1000, 1001}, {"1000:5", 1000, 5},      {"agent:staff", 1000, 50},
        {"4321", 4321, 0},    {"4321:agents", 4321, 1001}, {"last", 12, 13},  {"1234", 1234, 0},
    };
    uint32_t uid = 9, gid = 9;

    ck_assert_int_eq(look_up(rows[_i].user, &uid, &gid), 0);
    ck_assert_uint_eq(uid, rows[_i].uid);
    ck_assert_uint_eq(gid, rows[_i].gid);
}
END_TEST

START_TEST(a_user_that_the_image_does_not_know_is_refused)
{
    static const char *const rows[] = {"nobody", "agent:nogroup", "broken", "toolarge", "agen", "agent2", "99999999999"};
    uint32_t uid = 9, gid = 9;

    ck_assert_int_eq(look_up(rows[_i], &uid, &gid), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_uint_eq(uid, 9);
}
END_TEST

START_TEST(an_image_without_users_has_numbers)
{
    const struct docker_text none = {NULL, 0};
    uint32_t uid, gid;

    ck_assert_int_eq(docker_user_lookup("1000", &none, &none, &uid, &gid, &err), 0);
    ck_assert_uint_eq(uid, 1000);
    ck_assert_uint_eq(gid, 0);
    ck_assert_int_eq(docker_user_lookup("agent", &none, &none, &uid, &gid, &err), -1);
}
END_TEST

/* ---- Settings ---- */

static int read_setting(const char *text, struct docker_settings *settings)
{
    char *entry = (char *)(uintptr_t)text;
    const struct env_list list = {.entries = &entry, .count = 1};

    return docker_settings_read(&list, settings, &err);
}

START_TEST(settings_are_read)
{
    struct docker_settings settings;

    ck_assert_int_eq(read_setting("pull=always", &settings), 0);
    ck_assert_int_eq(settings.pull, DOCKER_PULL_ALWAYS);
    ck_assert_int_eq(read_setting("RUNTIME=runsc", &settings), 0);
    ck_assert_str_eq(settings.runtime, "runsc");
    ck_assert_int_eq(settings.pull, DOCKER_PULL_MISSING);
    ck_assert_int_eq(read_setting("platform=linux/arm64", &settings), 0);
    ck_assert_str_eq(settings.platform, "linux/arm64");
}
END_TEST

START_TEST(an_unknown_setting_is_refused_by_name)
{
    static const char *const rows[] = {"namespace=x", "pull=sometimes", "pull=", "runtime=a b", "platform=", "privileged=1"};
    struct docker_settings settings;
    char name[32];

    ck_assert_int_eq(read_setting(rows[_i], &settings), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(rows[_i], "="), rows[_i]);
    ck_assert_ptr_nonnull(strstr(err.message, name));
}
END_TEST

/* ---- What a container is made from ---- */

static json_t *body_of(struct sandbox_spec *spec)
{
    const struct docker_settings settings = {.runtime = "runsc"};
    json_t *body;

    sandbox_spec_init(spec);
    spec->session = strdup("s");
    spec->image = strdup("img");
    spec->workdir = strdup("/work");
    spec->user = strdup("1000:1000");
    spec->memory_bytes = 64 << 20;
    spec->cpu_millis = 1500;
    spec->read_only_root = true;
    spec->network = NETWORK_NONE;
    ck_assert_int_eq(env_list_set(&spec->env, "A=b c", &err), 0);
    body = docker_create_body(spec, &settings);
    ck_assert_ptr_nonnull(body);
    return body;
}

START_TEST(a_container_is_hardened_where_nothing_is_said)
{
    struct sandbox_spec spec;
    json_t *body = body_of(&spec);
    json_t *host = json_object_get(body, "HostConfig");

    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(host, "SecurityOpt"), 0)), "no-new-privileges");
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(host, "CapDrop"), 0)), "NET_RAW");
    ck_assert_int_eq(json_integer_value(json_object_get(host, "PidsLimit")), DOCKER_DEFAULT_PIDS);
    ck_assert(json_is_false(json_object_get(host, "Init")));
    ck_assert_ptr_null(json_object_get(host, "Privileged"));
    ck_assert_str_eq(json_string_value(docker_json_at(body, "Labels", DOCKER_LABEL_SESSION, NULL)), "s");
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(body, "Entrypoint"), 0)), DOCKER_HAND_PATH);
    ck_assert_uint_eq(json_array_size(json_object_get(body, "Cmd")), 0);
    json_decref(body);
    sandbox_spec_release(&spec);
}
END_TEST

START_TEST(a_container_has_the_limits_that_were_asked_for)
{
    struct sandbox_spec spec;
    json_t *body = body_of(&spec);
    json_t *host = json_object_get(body, "HostConfig");

    ck_assert_int_eq(json_integer_value(json_object_get(host, "Memory")), 64 << 20);
    ck_assert_int_eq(json_integer_value(json_object_get(host, "MemorySwap")), 64 << 20);
    ck_assert_int_eq(json_integer_value(json_object_get(host, "NanoCpus")), 1500000000);
    ck_assert_str_eq(json_string_value(json_object_get(host, "NetworkMode")), "none");
    ck_assert_str_eq(json_string_value(json_object_get(host, "Runtime")), "runsc");
    ck_assert(json_is_true(json_object_get(host, "ReadonlyRootfs")));
    ck_assert_uint_eq(json_array_size(json_object_get(host, "Mounts")), 3);
    ck_assert_str_eq(json_string_value(json_object_get(body, "User")), "1000:1000");
    ck_assert_str_eq(json_string_value(json_array_get(json_object_get(body, "Env"), 0)), "A=b c");
    json_decref(body);
    sandbox_spec_release(&spec);
}
END_TEST

START_TEST(a_variable_that_is_not_utf8_goes_to_the_hand)
{
    struct sandbox_spec spec;
    const struct docker_settings settings = {.pull = DOCKER_PULL_MISSING};
    json_t *body = body_of(&spec);
    json_t *entrypoint;

    json_decref(body);
    ck_assert_int_eq(env_list_set(&spec.env, "B=\xff", &err), 0);
    body = docker_create_body(&spec, &settings);
    ck_assert_ptr_nonnull(body);
    entrypoint = json_object_get(body, "Entrypoint");
    ck_assert_uint_eq(json_array_size(json_object_get(body, "Env")), 1);
    ck_assert_uint_eq(json_array_size(entrypoint), 8);
    ck_assert_str_eq(json_string_value(json_array_get(entrypoint, 6)), "--env-base64");
    ck_assert_str_eq(json_string_value(json_array_get(entrypoint, 7)), "Qj3/");
    json_decref(body);
    sandbox_spec_release(&spec);
}
END_TEST

/* ---- What an engine says ---- */

static int parse(const char *text, struct docker_inspect *ret)
{
    json_t *json = json_loads(text, 0, NULL);
    int r;

    ck_assert_ptr_nonnull(json);
    r = docker_inspect_parse(json, ret, &err);
    json_decref(json);
    return r;
}

START_TEST(a_container_is_decoded)
{
    struct docker_inspect inspect;

    ck_assert_int_eq(parse("{\"Id\":\"" ID "\",\"Name\":\"/n\",\"State\":{\"Status\":\"running\",\"Pid\":12,"
                           "\"StartedAt\":\"2020\"},\"Config\":{\"Labels\":{\"a\":\"b\"},\"User\":\"u\"}}",
                           &inspect), 0);
    ck_assert_str_eq(inspect.id, ID);
    ck_assert_str_eq(inspect.name, "n");
    ck_assert_str_eq(inspect.started_at, "2020");
    ck_assert_str_eq(inspect.user, "u");
    ck_assert_str_eq(inspect.workdir, "");
    ck_assert_int_eq(inspect.condition, DOCKER_RUNNING);
    ck_assert_int_eq(inspect.pid, 12);
    ck_assert_str_eq(docker_inspect_label(&inspect, "a"), "b");
    ck_assert_ptr_null(docker_inspect_label(&inspect, "c"));
    docker_inspect_release(&inspect);
}
END_TEST

START_TEST(what_makes_no_sense_of_a_container_is_an_error)
{
    static const char *const rows[] = {
        "[]",
        "{}",
        "{\"Id\":\"short\",\"State\":{\"StartedAt\":\"x\"}}",
        "{\"Id\":\"" ID "\"}",
        "{\"Id\":\"" ID "\",\"State\":[]}",
        "{\"Id\":\"" ID "\",\"State\":{\"Status\":\"running\"}}",
        "{\"Id\":\"../../../../../../../../../../../../../../../../../../../../../x\",\"State\":{\"StartedAt\":\"x\"}}",
        "{\"Id\":\"" ID "\",\"State\":{\"StartedAt\":\"x\",\"Pid\":-1}}",
        "{\"Id\":\"" ID "\",\"State\":{\"StartedAt\":\"" ID ID "\"}}",
    };
    struct docker_inspect inspect = DOCKER_INSPECT_INIT;

    ck_assert_int_eq(parse(rows[_i], &inspect), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
}
END_TEST

UNIT_SUITE(docker_parts)
{
    tcase_add_loop_test(tcase, a_user_is_found_as_the_engines_find_it, 0, 11);
    tcase_add_loop_test(tcase, a_user_that_the_image_does_not_know_is_refused, 0, 7);
    tcase_add_test(tcase, an_image_without_users_has_numbers);
    tcase_add_test(tcase, settings_are_read);
    tcase_add_loop_test(tcase, an_unknown_setting_is_refused_by_name, 0, 6);
    tcase_add_test(tcase, a_container_is_hardened_where_nothing_is_said);
    tcase_add_test(tcase, a_container_has_the_limits_that_were_asked_for);
    tcase_add_test(tcase, a_variable_that_is_not_utf8_goes_to_the_hand);
    tcase_add_test(tcase, a_container_is_decoded);
    tcase_add_loop_test(tcase, what_makes_no_sense_of_a_container_is_an_error, 0, 9);
}
