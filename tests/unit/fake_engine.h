/* An HTTP server that says what the test wants, on a Unix socket. It stands in for Docker, Podman or any server
 * that one reaches by backends/http.h.
 *
 *     struct fake_engine *fake = fake_engine_start();
 *
 *     fake_engine_be_docker(fake);                       // answers GET /version, and sets DOCKER_HOST
 *     fake_engine_answer(fake, "GET /v1.41/containers/json*", 200, "[]");
 *     fake_engine_script(fake, &(struct fake_step){
 *         .request = "POST /v1.41/containers/create?name=x", .status = 409,
 *         .body = "{\"message\":\"in use\"}"});
 *     ...what is tested...
 *     ck_assert_str_eq(fake_engine_heard(fake, 1)->line, "POST /v1.41/containers/create?name=x");
 *     fake_engine_stop(fake);                            // fails where a step was not used, or a request not expected
 *
 * GET /_ping is answered by itself where no step fits it. A request is answered by the first step that fits it and has uses left; so steps for the same request follow each
 * other, and others come in any order. One that no step fits is answered 500 and fails fake_engine_stop(). What the
 * functions are given must stay (literals do). Any number of connections at once, each with a thread; everything
 * but a step's `hijack` may be called from the test's thread only. */
#ifndef HANDSFS_TESTS_UNIT_FAKE_ENGINE_H
#define HANDSFS_TESTS_UNIT_FAKE_ENGINE_H

#include <stddef.h>

#define FAKE_ALWAYS 1000000u /* for `times`: any number, none too */
#define FAKE_MAX_STEPS 64
#define FAKE_MAX_HEARD 256
#define FAKE_MAX_BODY (32u << 20)

enum fake_how {
    FAKE_ANSWER,   /* status, headers, Content-Length, body */
    FAKE_CHUNKED,  /* the same, the body in chunks of 7 bytes */
    FAKE_TO_END,   /* the same, the body ends with the connection */
    FAKE_TRUNCATE, /* the same as FAKE_ANSWER, but hangs up in the middle of the body */
    FAKE_RAW,      /* `body` as it is, instead of an answer; then hangs up */
    FAKE_CLOSE,    /* hangs up without a word */
    FAKE_HANG,     /* does not answer until fake_engine_stop() */
    FAKE_STALL,    /* head and half of the body, and then nothing until fake_engine_stop() */
    FAKE_HIJACK,   /* status (0: 101 with "Upgrade: tcp"), headers, `body` in the same piece, then `hijack` */
};

struct fake_step {
    const char *request;  /* "METHOD PATH", a pattern as of fnmatch(3) */
    enum fake_how how;
    int status;           /* 0: 200 */
    const char *headers;  /* lines that end in "\r\n"; NULL: Content-Type: application/json */
    const void *body;     /* may be NULL */
    size_t length;        /* of body; 0: it is a string */
    unsigned delay_ms;    /* before the answer */
    unsigned times;       /* 0: once */
    /* Of FAKE_HIJACK: runs in the connection's thread, and has the connection until it returns; its descriptor is
     * blocking, and closed afterwards. fake_engine_stop() shuts it down, so that a read ends. NULL: waits for the
     * client to hang up. */
    void (*hijack)(int fd, void *arg);
    void *arg;
};

struct fake_heard {
    char line[1024];  /* "METHOD PATH" */
    char head[8192];  /* all of it */
    char *body;       /* NUL-terminated */
    size_t length;
};

struct fake_engine;

struct fake_engine *fake_engine_start(void);
/* Also ends what hangs. */
void fake_engine_stop(struct fake_engine *fake);
const char *fake_engine_socket(const struct fake_engine *fake); /* the path */
void fake_engine_script(struct fake_engine *fake, const struct fake_step *step);
/* Once, with this status and body in JSON. */
void fake_engine_answer(struct fake_engine *fake, const char *request, int status, const char *body);
/* GET /version as of Docker 20.10 (API 1.41) any number of times, DOCKER_HOST set, DOCKER_CONTEXT not. */
void fake_engine_be_docker(struct fake_engine *fake);
unsigned fake_engine_count(struct fake_engine *fake);       /* requests so far, those for the version not counted */
unsigned fake_engine_connections(struct fake_engine *fake); /* that were ever made */
/* The request of that number, from 0. Valid until fake_engine_stop(). */
const struct fake_heard *fake_engine_heard(struct fake_engine *fake, unsigned number);

#endif
