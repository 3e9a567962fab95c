/* Accounts at registries, as the docker client keeps them. */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "backends/docker_auth.h"
#include "sandbox/base64.h"
#include "sandbox/buffer.h"

#define HEADER "X-Registry-Auth: "

static char folder[64];
static char *header;
static char note[DOCKER_AUTH_NOTE];
static struct error err;

static void put_file(const char *name, const char *text, mode_t mode)
{
    char path[128];
    int fd;

    snprintf(path, sizeof path, "%s/%s", folder, name);
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static void config(const char *text)
{
    put_file("config.json", text, 0600);
}

/* A helper in PATH; it notes down what it was asked. */
static void helper(const char *script)
{
    char text[1024];

    snprintf(text, sizeof text, "#!/bin/sh\nread -r server\necho \"$1 $server\" >'%s/asked'\n%s\n",
             folder, script);
    put_file("docker-credential-test", text, 0700);
}

static void set_up(void)
{
    char path[512];

    snprintf(folder, sizeof folder, "/tmp/handsfs-auth.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    setenv("DOCKER_CONFIG", folder, 1);
    snprintf(path, sizeof path, "%s:/usr/bin:/bin", folder);
    setenv("PATH", path, 1);
    header = NULL;
    err = (struct error){0};
}

static void tear_down(void)
{
    static const char *const names[] = {"config.json", "docker-credential-test", "asked"};
    char path[128];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
    docker_auth_free(header);
}

static void ask(const char *registry)
{
    ck_assert_int_eq(docker_auth_header(registry, &header, note, &err), 0);
}

/* A field of the account in the header, to be compared and forgotten. */
static const char *field(const char *name)
{
    static char value[256];
    cleanup_buffer struct buffer text = BUFFER_INIT(65536);
    json_auto_t *json = NULL;

    ck_assert_ptr_nonnull(header);
    ck_assert_int_eq(strncmp(header, HEADER, strlen(HEADER)), 0);
    for (char *p = header + strlen(HEADER); *p != '\0'; p++) {
        ck_assert(*p != '+' && *p != '/');
        *p = *p == '-' ? '+' : *p == '_' ? '/' : *p;
    }
    ck_assert_int_eq(base64_decode(&text, header + strlen(HEADER), strlen(header + strlen(HEADER))),
                     0);
    json = json_loadb((const char *)text.data, text.length, 0, NULL);
    snprintf(value, sizeof value, "%s",
             json_string_value(json_object_get(json, name)) != NULL
                 ? json_string_value(json_object_get(json, name))
                 : "");
    return value;
}

START_TEST(without_a_configuration_there_is_no_account)
{
    ask("docker.io");
    ck_assert_ptr_null(header);
    ck_assert_str_eq(note, "");
}
END_TEST

START_TEST(an_account_of_the_file_is_given)
{
    /* alice:s3:cret */
    config("{\"auths\":{\"r.example:5000\":{\"auth\":\"YWxpY2U6czM6Y3JldA==\"}}}");
    ask("r.example:5000");
    ck_assert_str_eq(field("username"), "alice");
    docker_auth_free(header);
    ask("r.example:5000");
    ck_assert_str_eq(field("password"), "s3:cret");
    docker_auth_free(header);
    ask("other.example");
    ck_assert_ptr_null(header);
}
END_TEST

START_TEST(the_hub_and_old_names_are_found)
{
    static const char *const rows[][2] = {
        {"https://index.docker.io/v1/", "docker.io"},
        {"https://r.example/v1/", "r.example"},
        {"http://r.example", "r.example"},
    };
    char text[256];

    snprintf(text, sizeof text, "{\"auths\":{\"%s\":{\"username\":\"bob\",\"password\":\"x\"}}}",
             rows[_i][0]);
    config(text);
    ask(rows[_i][1]);
    ck_assert_str_eq(field("username"), "bob");
}
END_TEST

START_TEST(a_registry_whose_name_only_begins_like_it_gets_nothing)
{
    config("{\"auths\":{\"r.example.evil\":{\"username\":\"bob\",\"password\":\"x\"},"
           "\"r.example:1\":{\"username\":\"bob\",\"password\":\"x\"}}}");
    ask("r.example");
    ck_assert_ptr_null(header);
}
END_TEST

START_TEST(an_identity_token_is_given_as_one)
{
    config("{\"auths\":{\"r.example\":{\"auth\":\"YWxpY2U6\",\"identitytoken\":\"tok\"}}}");
    ask("r.example");
    ck_assert_str_eq(field("identitytoken"), "tok");
}
END_TEST

START_TEST(a_helper_is_asked_for_the_registry)
{
    char path[128], asked[128] = "";
    int fd;

    helper("echo '{\"ServerURL\":\"x\",\"Username\":\"carol\",\"Secret\":\">>>>>>\"}'");
    config("{\"credsStore\":\"test\",\"auths\":{\"r.example\":{}}}");
    ask("docker.io");
    ck_assert_str_eq(field("password"), ">>>>>>");
    snprintf(path, sizeof path, "%s/asked", folder);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_gt(read(fd, asked, sizeof asked - 1), 0);
    close(fd);
    ck_assert_str_eq(asked, "get https://index.docker.io/v1/\n");
}
END_TEST

START_TEST(a_helper_of_one_registry_comes_before_the_one_for_all)
{
    helper("echo '{\"ServerURL\":\"x\",\"Username\":\"<token>\",\"Secret\":\"tok\"}'");
    config("{\"credsStore\":\"missing\",\"credHelpers\":{\"r.example\":\"test\"}}");
    ask("r.example");
    ck_assert_str_eq(field("identitytoken"), "tok");
}
END_TEST

START_TEST(a_helper_that_knows_no_account_is_no_fault)
{
    helper("echo 'credentials not found in native keychain'; exit 1");
    config("{\"credsStore\":\"test\"}");
    ask("r.example");
    ck_assert_ptr_null(header);
    ck_assert_str_eq(note, "");
}
END_TEST

START_TEST(what_keeps_a_helper_from_answering_is_noted)
{
    static const char *const rows[][2] = {
        {"echo 'the keychain is locked'; exit 1", "the keychain is locked"},
        {"echo 'no bus' >&2; exit 1", "no bus"},
        {"echo '{\"Username\":7}'", "gives no account"},
        {"exec cat /dev/zero", "too much"},
        {"exec >&-", "gives no account"},
    };

    helper(rows[_i][0]);
    config("{\"credsStore\":\"test\"}");
    ask("r.example");
    ck_assert_ptr_null(header);
    ck_assert_msg(strstr(note, "docker-credential-test") != NULL &&
                      strstr(note, rows[_i][1]) != NULL,
                  "%s", note);
}
END_TEST

START_TEST(a_helper_that_is_not_there_is_noted)
{
    static const char *const rows[] = {"missing", "../test", "a b"};
    char text[128];

    snprintf(text, sizeof text, "{\"credsStore\":\"%s\"}", rows[_i]);
    config(text);
    ask("r.example");
    ck_assert_ptr_null(header);
    ck_assert_ptr_nonnull(strstr(note, rows[_i]));
}
END_TEST

START_TEST(a_file_that_makes_no_sense_is_noted)
{
    static const char *const rows[] = {"", "[]", "{",
                                       "{\"auths\":{\"r.example\":{\"auth\":\"!\"}}}",
                                       "{\"auths\":{\"r.example\":{\"auth\":\"YWxpY2U=\"}}}"};

    config(rows[_i]);
    ask("r.example");
    ck_assert_ptr_null(header);
    ck_assert_str_ne(note, "");
}
END_TEST

START_TEST(fields_of_other_types_are_passed_over)
{
    static const char *const rows[] = {"{\"auths\":[]}", "{\"auths\":{\"r.example\":7}}",
                                       "{\"credHelpers\":[],\"credsStore\":{}}",
                                       "{\"auths\":{\"r.example\":{}}}"};

    config(rows[_i]);
    ask("r.example");
    ck_assert_ptr_null(header);
    ck_assert_str_eq(note, "");
}
END_TEST

static char told[512];

static void tell(void *arg, const char *program, bool found, const char *why)
{
    size_t used = strlen(told);

    (void)arg;
    snprintf(told + used, sizeof told - used, "%s=%s;", program != NULL ? program : why,
             found ? "yes" : "no");
}

START_TEST(all_helpers_are_told)
{
    told[0] = '\0';
    helper("");
    config("{\"credsStore\":\"test\",\"credHelpers\":{\"r.example\":\"missing\",\"x\":7}}");
    docker_auth_helpers(tell, NULL);
    ck_assert_str_eq(told, "docker-credential-test=yes;docker-credential-missing=no;");
}
END_TEST

UNIT_SUITE(docker_auth)
{
    tcase_set_timeout(tcase, 120);
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_test(tcase, without_a_configuration_there_is_no_account);
    tcase_add_test(tcase, an_account_of_the_file_is_given);
    tcase_add_loop_test(tcase, the_hub_and_old_names_are_found, 0, 3);
    tcase_add_test(tcase, a_registry_whose_name_only_begins_like_it_gets_nothing);
    tcase_add_test(tcase, an_identity_token_is_given_as_one);
    tcase_add_test(tcase, a_helper_is_asked_for_the_registry);
    tcase_add_test(tcase, a_helper_of_one_registry_comes_before_the_one_for_all);
    tcase_add_test(tcase, a_helper_that_knows_no_account_is_no_fault);
    tcase_add_loop_test(tcase, what_keeps_a_helper_from_answering_is_noted, 0, 5);
    tcase_add_loop_test(tcase, a_helper_that_is_not_there_is_noted, 0, 3);
    tcase_add_loop_test(tcase, a_file_that_makes_no_sense_is_noted, 0, 5);
    tcase_add_loop_test(tcase, fields_of_other_types_are_passed_over, 0, 4);
    tcase_add_test(tcase, all_helpers_are_told);
}
