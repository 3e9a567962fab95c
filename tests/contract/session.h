/* What the contract's rows stand on: one session on one backend, with blocking calls. */
#ifndef HANDSFS_TESTS_CONTRACT_SESSION_H
#define HANDSFS_TESTS_CONTRACT_SESSION_H

#include <check.h>

#include "backends/execution.h"
#include "backends/link.h"
#include "sandbox/sandbox.h"

/* What the program was told on its command line. */
struct fixture {
    const struct backend *backend;
    enum link_placement placement;
    const char *image; /* NULL where the backend has none */
    bool is_local;     /* the machine's own file system and network are below it, and no engine and no image */
    char prefix[24];   /* of the names of all sessions of this run: engines may be shared */
};
extern struct fixture fixture;

/* Another of the engine's images for tests (tests/bed/images.sh), beside the run's own: "user", "static"... Caller
 * frees. */
char *other_image(const char *tag);

struct session {
    struct sandbox_spec spec;
    struct sandbox sandbox; /* a second handle, for the backend's own calls */
    uv_loop_t loop;
    struct link *link;
    bool created;
    char id[80];
};

/* The session of the running test: provisioned by setup, destroyed by teardown (checked fixtures). */
extern struct session S;

/* A spec for a fresh session, not yet checked: rows change it before session_open(). */
void session_spec(struct sandbox_spec *spec);
/* Provisions from `spec` (taken over) and opens a link. Fails the test on any error. */
void session_open(struct session *s, struct sandbox_spec *spec);
/* Attaches to the sandbox of another session object. */
void session_attach(struct session *s, const char *name);
void session_close(struct session *s, bool destroy);

/* Sessions made ahead, by so many processes at once (0: none); before the suite runs, and after. Each serves at most
 * `rows` rows (1: a fresh one for every row). */
void ahead_start(unsigned workers, unsigned rows);
void ahead_end(void);
/* False where none are made ahead. Else the spec's session is one that runs already, made as
 * session_spec() says. */
bool ahead_take(struct sandbox_spec *spec, bool *ret_created);
/* False where nothing is made ahead. Else the session will be removed in a while, by somebody else. */
bool ahead_drop(const char *session);
/* Whether the session, which this row was given, may serve another row; and gives it to that one. */
bool ahead_may_return(const char *session);
void ahead_return(void);

void setup_session(void);
void teardown_session(void);

/* The outcome of one command: either `failed` with `err`, or the result. */
struct run {
    bool failed;
    struct error err;
    struct execution_result result;
};

/* `timeout_ms` 0: without a deadline (the test's own is libcheck's). The buffers live until the session is
 * destroyed. */
struct run session_exec(struct session *s, const char *command, uint64_t timeout_ms);
struct run session_exec_request(struct session *s, const struct execution_request *request,
                                const void *input, size_t length);
/* Starts a command, cancels it after `after_ms`, and waits for the answer. */
struct run session_exec_cancelled(struct session *s, const char *command, uint64_t after_ms);
/* Starts `count` commands at once and waits for all. */
void session_exec_all(struct session *s, const char *const *commands, size_t count, struct run *runs);

/* The command's stdout, of a command that must succeed with exit code 0; NUL-terminated. */
const char *session_output(struct session *s, const char *command);

/* `content` is initialised, and released with the session. */
int session_read(struct session *s, const char *path, uint64_t limit, struct buffer *content,
                 struct error *err);
int session_write(struct session *s, const char *path, const void *data, size_t length,
                  struct error *err);
/* Writes `count` files at once, as the calls come; the result of each in `codes`. */
struct written {
    const char *path;
    const void *data;
    size_t length;
    enum error_code code;
    struct error err;
};
void session_write_all(struct session *s, struct written *files, size_t count);

/* How many processes inside have a command line that begins with `prefix`. */
int session_count(struct session *s, const char *prefix);
/* Waits for that number to become `want`, but not for ever; returns the last number. */
int session_wait_count(struct session *s, const char *prefix, int want);
/* That no process inside is a sleep, or will be in a moment: the killed are gone when somebody has reaped them. By
 * the shell's own means, for surroundings whose programs lie. */
void assert_no_sleep_is_left(struct session *s);

#define assert_ran(run)                                                                            \
    ck_assert_msg(!(run).failed, "the sandbox failed us: %s: %s", error_name((run).err.code),      \
                  (run).err.message)
#define assert_exit(run, code)                                                                     \
    do {                                                                                           \
        assert_ran(run);                                                                           \
        ck_assert_int_eq((run).result.exit_code, (code));                                          \
    } while (0)
void assert_bytes(const struct buffer *got, const void *want, size_t length);
#define assert_text(buffer, text) assert_bytes(&(buffer), (text), strlen(text))
#define assert_fault(r, error, want)                                                               \
    do {                                                                                           \
        ck_assert_int_eq((r), -1);                                                                 \
        ck_assert_msg((error).code == (want), "expected %s, got %s: %s", error_name(want),         \
                      error_name((error).code), (error).message);                                  \
    } while (0)
#define assert_ok(r, error)                                                                        \
    ck_assert_msg((r) == 0, "%s: %s", error_name((error).code), (error).message)

/* The suites' parts. */
TCase *case_exec(void);
TCase *case_shell(void);
TCase *case_stream(void);
TCase *case_deadlines(void);
TCase *case_read(void);
TCase *case_write(void);
TCase *case_names(void);
TCase *case_lifecycle(void);
TCase *case_lifecycle_alone(void);
TCase *case_isolation(void);
TCase *case_tools(void);
TCase *case_images(void); /* of engines */
TCase *case_docker(void); /* of that one backend: what befalls a container */
TCase *case_docker_alone(void);

/* Deterministic bytes without a period (xorshift). Caller frees with free(). */
uint8_t *noise(size_t length, uint32_t seed);

#endif
