/* Images: their names, what an engine says while it pulls, and when it is asked to. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/docker_internal.h"
#include "backends/docker_pull.h"
#include "sandbox/clock.h"
#include "tests/unit/fake_engine.h"

#define PATIENCE_MS 60000

static struct error err;

/* ---- Names ---- */

START_TEST(a_name_is_taken_apart)
{
    static const struct {
        const char *text, *registry, *name, *version;
    } rows[] = {
        {"debian", "docker.io", "docker.io/library/debian", "latest"},
        {"debian:12", "docker.io", "docker.io/library/debian", "12"},
        {"team/app", "docker.io", "docker.io/team/app", "latest"},
        {"docker.io/debian", "docker.io", "docker.io/library/debian", "latest"},
        {"localhost/app", "localhost", "localhost/app", "latest"},
        {"127.0.0.1:5000/a/b-c:v1.2", "127.0.0.1:5000", "127.0.0.1:5000/a/b-c", "v1.2"},
        {"r.example:443/x", "r.example:443", "r.example:443/x", "latest"},
        {"x@sha256:00112233445566778899aabbccddeeff", "docker.io", "docker.io/library/x",
         "sha256:00112233445566778899aabbccddeeff"},
        {"x:1@sha256:00112233445566778899aabbccddeeff", "docker.io", "docker.io/library/x",
         "sha256:00112233445566778899aabbccddeeff"},
    };
    cleanup_reference struct docker_reference reference = DOCKER_REFERENCE_INIT;

    ck_assert_int_eq(docker_reference_parse(rows[_i].text, &reference, &err), 0);
    ck_assert_str_eq(reference.registry, rows[_i].registry);
    ck_assert_str_eq(reference.name, rows[_i].name);
    ck_assert_str_eq(reference.version, rows[_i].version);
}
END_TEST

START_TEST(a_text_that_names_no_image_is_refused)
{
    static const char *const rows[] = {
        "",    "/",     "a/",          "/a",   "a//b",  "A",     "a b",
        "a:",  "a:.x",  "a@sha256:12", "a@b",  "-a",    "a-",    "r.example/",
        "a?b", "a%2fb", "../a",        "a\nb", "h:1/A", "a:b:c", "http://a/b"};
    cleanup_reference struct docker_reference reference = DOCKER_REFERENCE_INIT;

    ck_assert_int_eq(docker_reference_parse(rows[_i], &reference, &err), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_ptr_null(reference.name);
}
END_TEST

/* ---- The stream ---- */

struct listener {
    struct sandbox_progress progress;
    char last[1024];
    unsigned count;
};

static void hear(struct sandbox_progress *progress, const char *text)
{
    struct listener *listener = (struct listener *)progress;

    snprintf(listener->last, sizeof listener->last, "%s", text);
    listener->count++;
}

static struct docker_pull_stream stream;
static struct listener listener;

static void set_up(void)
{
    err = (struct error){0};
    listener = (struct listener){.progress = {.say = hear}};
    docker_pull_stream_init(&stream, "debian:12", &listener.progress);
}

static void tear_down(void)
{
    docker_pull_stream_release(&stream);
}

static int take(const char *text)
{
    return docker_pull_stream_take(&stream, text, strlen(text), &err);
}

static const char a_pull[] =
    "{\"status\":\"Pulling from library/debian\",\"id\":\"12\"}\r\n"
    "{\"status\":\"Pulling fs layer\",\"progressDetail\":{},\"id\":\"aaaaaaaaaaaa\"}\r\n"
    "{\"status\":\"Pulling fs layer\",\"progressDetail\":{},\"id\":\"bbbbbbbbbbbb\"}\r\n"
    "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":2500000,\"total\":40000000},"
    "\"progress\":\"[>  ]\",\"id\":\"aaaaaaaaaaaa\"}\r\n"
    "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":1000000,\"total\":5000000},"
    "\"id\":\"bbbbbbbbbbbb\"}\r\n";

START_TEST(bytes_of_all_layers_are_told)
{
    ck_assert_int_eq(take(a_pull), 0);
    ck_assert_str_eq(listener.last, "pulling debian:12: 3.5 of 45 MB");
    ck_assert_str_eq(stream.failure, "");
}
END_TEST

START_TEST(a_stream_that_is_cut_anywhere_says_the_same)
{
    for (size_t i = 0; i < sizeof a_pull - 1; i++) {
        ck_assert_int_eq(docker_pull_stream_take(&stream, a_pull + i, 1, &err), 0);
    }
    ck_assert_str_eq(listener.last, "pulling debian:12: 3.5 of 45 MB");
    ck_assert_uint_eq(listener.count, 5);
}
END_TEST

START_TEST(what_is_loaded_is_unpacked)
{
    ck_assert_int_eq(take(a_pull), 0);
    ck_assert_int_eq(take("{\"status\":\"Pull complete\",\"id\":\"aaaaaaaaaaaa\"}\n"
                          "{\"status\":\"Download complete\",\"id\":\"bbbbbbbbbbbb\"}\n"),
                     0);
    ck_assert_str_eq(listener.last, "pulling debian:12: 1 of 2 layers unpacked");
}
END_TEST

START_TEST(numbers_that_make_no_sense_do_no_harm)
{
    ck_assert_int_eq(
        take("{\"status\":\"Downloading\",\"progressDetail\":{\"current\":-5,\"total\":-1},\"id\":"
             "\"a\"}\n"
             "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":9,\"total\":\"x\"},"
             "\"id\":\"b\"}\n"
             "{\"status\":\"Downloading\",\"progressDetail\":{\"current\":9000000000000000000,"
             "\"total\":9000000000000000000},\"id\":\"c\"}\n"
             "{\"status\":\"Downloading\",\"progressDetail\":7,\"id\":\"d\"}\n"
             "{\"status\":3,\"id\":[]}\n"),
        0);
    ck_assert_str_eq(listener.last, "pulling debian:12: 1125899906.8 of 1125899907 MB");
}
END_TEST

START_TEST(there_may_be_any_number_of_layers)
{
    for (unsigned i = 0; i < 3 * DOCKER_PULL_LAYERS; i++) {
        char line[128];

        snprintf(line, sizeof line, "{\"status\":\"Pulling fs layer\",\"id\":\"layer%u\"}\n", i);
        ck_assert_int_eq(take(line), 0);
    }
    ck_assert_uint_eq(stream.layer_count, DOCKER_PULL_LAYERS);
}
END_TEST

START_TEST(a_failure_in_the_stream_is_kept_and_made_printable)
{
    ck_assert_int_eq(
        take("{\"errorDetail\":{\"message\":\"no \\u001b[2Jlayer\"},\"error\":\"no\"}\n"
             "{\"error\":\"another\"}\n"),
        0);
    ck_assert_ptr_nonnull(strstr(stream.failure, "layer"));
    ck_assert_ptr_null(strchr(stream.failure, '\033'));
}
END_TEST

START_TEST(a_failure_without_words_is_one)
{
    static const char *const rows[] = {"{\"errorDetail\":{}}\n", "{\"error\":null}\n",
                                       "{\"errorDetail\":\"x\"}"};

    ck_assert_int_eq(take(rows[_i]), 0);
    ck_assert_int_eq(docker_pull_stream_end(&stream, &err), 0);
    ck_assert_str_ne(stream.failure, "");
}
END_TEST

START_TEST(a_line_that_does_not_end_is_refused)
{
    static char line[DOCKER_PULL_LINE + 1];

    memset(line, ' ', sizeof line);
    ck_assert_int_eq(docker_pull_stream_take(&stream, line, sizeof line, &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
}
END_TEST

START_TEST(what_is_no_object_is_refused)
{
    static const char *const rows[] = {"<html>\n", "[]\n", "{\n", "7\n", "\x00\xff\n"};

    ck_assert_int_eq(
        docker_pull_stream_take(&stream, rows[_i], _i == 4 ? 3 : strlen(rows[_i]), &err), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
}
END_TEST

/* ---- With an engine ---- */

#define INSPECT "GET /v1.41/images/debian:12/json"
#define PULL "POST /v1.41/images/create?fromImage=docker.io%2Flibrary%2Fdebian&tag=12"
#define IMAGE                                                                                      \
    "{\"Id\":\"sha256:ab\",\"Os\":\"linux\",\"Architecture\":\"amd64\",\"Config\":{\"User\":"      \
    "\"7\","                                                                                       \
    "\"WorkingDir\":\"/w\"}}"
#define MISSING "{\"message\":\"No such image: debian:12\"}"

static struct fake_engine *fake;
static struct docker_engine *engine;
static struct docker_image image;

static void begin(void)
{
    set_up();
    setenv("DOCKER_CONFIG", "/nonexistent", 1);
    fake = fake_engine_start();
    fake_engine_be_docker(fake);
    ck_assert_msg(docker_engine_open(&engine, clock_now_ms() + PATIENCE_MS, &err) == 0, "%s", err.message);
    image = (struct docker_image)DOCKER_IMAGE_INIT;
}

static void end(void)
{
    docker_image_release(&image);
    docker_engine_close(engine);
    fake_engine_stop(fake);
    tear_down();
}

static int ensure(const char *name, enum docker_pull pull, const char *platform)
{
    const struct docker_settings settings = {.pull = pull, .platform = platform};
    uint64_t deadline = clock_now_ms() + PATIENCE_MS;

    return docker_image_ensure(engine, name, &settings, &deadline, &listener.progress, &image,
                               &err);
}

START_TEST(an_image_that_is_there_is_not_pulled)
{
    fake_engine_answer(fake, INSPECT, 200, IMAGE);
    ck_assert_int_eq(ensure("debian:12", DOCKER_PULL_MISSING, "linux/amd64"), 0);
    ck_assert_str_eq(image.id, "sha256:ab");
    ck_assert_str_eq(image.user, "7");
    ck_assert_str_eq(image.workdir, "/w");
    ck_assert_str_eq(image.architecture, "amd64");
    ck_assert_uint_eq(listener.count, 0);
}
END_TEST

START_TEST(a_missing_image_is_pulled_and_looked_at_again)
{
    fake_engine_answer(fake, INSPECT, 404, MISSING);
    fake_engine_script(fake,
                       &(struct fake_step){.request = PULL, .how = FAKE_CHUNKED, .body = a_pull});
    fake_engine_answer(fake, INSPECT, 200, IMAGE);
    ck_assert_int_eq(ensure("debian:12", DOCKER_PULL_MISSING, NULL), 0);
    ck_assert_str_eq(image.id, "sha256:ab");
    ck_assert_str_eq(listener.last, "pulling debian:12: 3.5 of 45 MB");
    ck_assert_ptr_null(strstr(fake_engine_heard(fake, 1)->head, "X-Registry-Auth"));
}
END_TEST

START_TEST(always_pulls_an_image_that_is_there)
{
    fake_engine_script(fake, &(struct fake_step){.request = PULL, .body = a_pull});
    fake_engine_answer(fake, INSPECT, 200, IMAGE);
    ck_assert_int_eq(ensure("debian:12", DOCKER_PULL_ALWAYS, NULL), 0);
}
END_TEST

START_TEST(never_pulls_nothing_and_says_so)
{
    fake_engine_answer(fake, INSPECT, 404, MISSING);
    ck_assert_int_eq(ensure("debian:12", DOCKER_PULL_NEVER, NULL), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(err.message, "pull=never"));
}
END_TEST

START_TEST(an_id_is_never_pulled)
{
    fake_engine_answer(fake, "GET /v1.41/images/0123456789ab/json", 404, MISSING);
    ck_assert_int_eq(ensure("0123456789ab", DOCKER_PULL_ALWAYS, NULL), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
}
END_TEST

START_TEST(an_image_for_another_platform_is_pulled_for_this_one)
{
    fake_engine_answer(fake, INSPECT, 200, IMAGE);
    fake_engine_script(
        fake, &(struct fake_step){.request = PULL "&platform=linux%2Farm64", .body = a_pull});
    fake_engine_answer(fake, INSPECT, 200, IMAGE);
    ck_assert_int_eq(ensure("debian:12", DOCKER_PULL_MISSING, "linux/arm64"), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(err.message, "not for linux/arm64"));
}
END_TEST

START_TEST(a_failed_pull_says_why_in_the_engines_words)
{
    static const struct {
        enum fake_how how;
        int status;
        const char *body, *words;
        enum error_code code;
        int os_errno;
    } rows[] = {
        {FAKE_ANSWER, 404, "{\"message\":\"pull access denied\"}", "pull access denied",
         ERROR_BAD_REQUEST, 0},
        {FAKE_ANSWER, 500, "{\"message\":\"no such host\"}", "no such host", ERROR_BAD_REQUEST, 0},
        {FAKE_CHUNKED, 200, "{\"errorDetail\":{\"message\":\"manifest unknown\"}}\n",
         "manifest unknown", ERROR_BAD_REQUEST, 0},
        {FAKE_ANSWER, 200, "{\"error\":\"write /x: no space left on device\"}\n", "no space",
         ERROR_ERRNO, ENOSPC},
        {FAKE_ANSWER, 500, "{\"message\":\"no space left on device\"}", "no space", ERROR_ERRNO,
         ENOSPC},
        {FAKE_TRUNCATE, 200, a_pull, "", ERROR_NO_ANSWER, -1},
        {FAKE_ANSWER, 200, "nonsense\n", "makes no sense", ERROR_NO_ANSWER, 0},
    };

    fake_engine_answer(fake, INSPECT, 404, MISSING);
    fake_engine_script(fake, &(struct fake_step){.request = PULL,
                                                 .how = rows[_i].how,
                                                 .status = rows[_i].status,
                                                 .body = rows[_i].body});
    ck_assert_int_eq(ensure("debian:12", DOCKER_PULL_MISSING, NULL), -1);
    ck_assert_int_eq(err.code, rows[_i].code);
    ck_assert_msg(strstr(err.message, rows[_i].words) != NULL, "%s", err.message);
    ck_assert(rows[_i].os_errno < 0 || err.os_errno == rows[_i].os_errno);
}
END_TEST

START_TEST(what_an_engine_says_of_an_image_must_make_sense)
{
    static const char *const rows[] = {"[]", "{}", "{\"Id\":7}", "{\"Config\":{\"User\":\"7\"}}"};

    fake_engine_answer(fake, INSPECT, 200, rows[_i]);
    ck_assert_int_eq(ensure("debian:12", DOCKER_PULL_MISSING, NULL), -1);
    ck_assert_int_eq(err.code, ERROR_NO_ANSWER);
}
END_TEST

START_TEST(a_pull_puts_the_deadline_off)
{
    const struct docker_settings settings = {.pull = DOCKER_PULL_ALWAYS};
    uint64_t before = clock_now_ms() + PATIENCE_MS;
    uint64_t deadline = before;

    fake_engine_script(fake, &(struct fake_step){.request = PULL, .body = a_pull, .delay_ms = 50});
    fake_engine_answer(fake, INSPECT, 200, IMAGE);
    ck_assert_int_eq(
        docker_image_ensure(engine, "debian:12", &settings, &deadline, NULL, &image, &err), 0);
    ck_assert_uint_ge(deadline, before + 50);
}
END_TEST

UNIT_SUITE(docker_image)
{
    TCase *with_engine = tcase_create("with an engine");

    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_add_loop_test(tcase, a_name_is_taken_apart, 0, 9);
    tcase_add_loop_test(tcase, a_text_that_names_no_image_is_refused, 0, 21);
    tcase_add_test(tcase, bytes_of_all_layers_are_told);
    tcase_add_test(tcase, a_stream_that_is_cut_anywhere_says_the_same);
    tcase_add_test(tcase, what_is_loaded_is_unpacked);
    tcase_add_test(tcase, numbers_that_make_no_sense_do_no_harm);
    tcase_add_test(tcase, there_may_be_any_number_of_layers);
    tcase_add_test(tcase, a_failure_in_the_stream_is_kept_and_made_printable);
    tcase_add_loop_test(tcase, a_failure_without_words_is_one, 0, 3);
    tcase_add_test(tcase, a_line_that_does_not_end_is_refused);
    tcase_add_loop_test(tcase, what_is_no_object_is_refused, 0, 5);
    suite_add_tcase(suite, with_engine);
    tcase_set_timeout(with_engine, 120);
    tcase_add_checked_fixture(with_engine, begin, end);
    tcase_add_test(with_engine, an_image_that_is_there_is_not_pulled);
    tcase_add_test(with_engine, a_missing_image_is_pulled_and_looked_at_again);
    tcase_add_test(with_engine, always_pulls_an_image_that_is_there);
    tcase_add_test(with_engine, never_pulls_nothing_and_says_so);
    tcase_add_test(with_engine, an_id_is_never_pulled);
    tcase_add_test(with_engine, an_image_for_another_platform_is_pulled_for_this_one);
    tcase_add_loop_test(with_engine, a_failed_pull_says_why_in_the_engines_words, 0, 7);
    tcase_add_loop_test(with_engine, what_an_engine_says_of_an_image_must_make_sense, 0, 4);
    tcase_add_test(with_engine, a_pull_puts_the_deadline_off);
}
