/* Sessions made ahead of the rows that will need them, for backends that take seconds to make one. A
 * worker process holds one fresh session at a time; who takes it makes the worker begin the next. As many
 * others remove those that are done with, while the next rows run. Where a session may serve several rows
 * one after the other, a row that has left it clean gives it back. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox/clock.h"
#include "tests/contract/session.h"

#define MAX_WORKERS 16
#define PROVISION_MS 120000

struct made {
    char session[MAX_SESSION_NAME + 1];
    char failure[400]; /* "" where there was none */
    bool created;
    unsigned rows; /* that have had it, with the running one */
};

static struct {
    int want[2]; /* a byte asks for a session */
    int have[2]; /* a struct made answers */
    int drop[2]; /* names of sessions that are done with, each in MAX_SESSION_NAME + 1 bytes */
    int used[2]; /* a struct made each: for another row; read without waiting */
    unsigned rows; /* a session serves so many */
    struct made taken; /* by the row of this process */
    pid_t workers[2 * MAX_WORKERS];
    unsigned count;
} ahead;

static void make_one(unsigned worker, unsigned serial, struct made *made)
{
    struct sandbox_spec spec;
    struct sandbox sandbox = {0};
    struct error err = {0};

    memset(made, 0, sizeof *made);
    session_spec(&spec);
    snprintf(made->session, sizeof made->session, "%.40s-%u-%u", spec.session, worker, serial);
    free(spec.session);
    spec.session = strdup(made->session);
    if (sandbox_spec_check(&spec, &err) < 0 ||
        sandbox_provision(fixture.backend, &spec, clock_now_ms() + PROVISION_MS, &sandbox,
                          &err) < 0) {
        snprintf(made->failure, sizeof made->failure, "%s: %.300s", error_name(err.code),
                 err.message);
    }
    made->created = sandbox.created;
    sandbox_release(&sandbox);
    sandbox_spec_release(&spec);
}

static void work(unsigned worker)
{
    struct made made;
    struct error err;
    char byte;

    close(ahead.want[1]);
    close(ahead.drop[1]);
    for (unsigned serial = 0;; serial++) {
        make_one(worker, serial, &made);
        if (read(ahead.want[0], &byte, 1) != 1) {
            break;
        }
        if (write(ahead.have[1], &made, sizeof made) != (ssize_t)sizeof made) {
            break;
        }
    }
    _exit(sandbox_destroy(fixture.backend, made.session, clock_now_ms() + PROVISION_MS, &err) < 0);
}

static void remove_dropped(void)
{
    char session[MAX_SESSION_NAME + 1];
    struct error err;
    int failed = 0;

    close(ahead.want[1]);
    close(ahead.drop[1]);
    while (read(ahead.drop[0], session, sizeof session) == (ssize_t)sizeof session) {
        session[MAX_SESSION_NAME] = '\0';
        if (sandbox_destroy(fixture.backend, session, clock_now_ms() + PROVISION_MS, &err) < 0) {
            fprintf(stderr, "contract: %s\n", err.message);
            failed = 1;
        }
    }
    _exit(failed);
}

void ahead_start(unsigned workers, unsigned rows)
{
    if (workers == 0) {
        return;
    }
    ahead.rows = rows;
    if (pipe(ahead.want) < 0 || pipe(ahead.have) < 0 || pipe(ahead.drop) < 0 ||
        pipe2(ahead.used, O_NONBLOCK) < 0) {
        perror("contract: pipe");
        exit(2);
    }
    for (unsigned i = 0; i < 2 * workers && i < 2 * MAX_WORKERS; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            if (i % 2 == 0) {
                work(i / 2);
            }
            remove_dropped();
        }
        if (pid > 0) {
            ahead.workers[ahead.count++] = pid;
        }
    }
}

bool ahead_take(struct sandbox_spec *spec, bool *ret_created)
{
    struct made made;

    if (ahead.count == 0) {
        return false;
    }
    if (read(ahead.used[0], &made, sizeof made) != (ssize_t)sizeof made) {
        ck_assert_int_eq(errno, EAGAIN);
        ck_assert_int_eq(write(ahead.want[1], "", 1), 1);
        ck_assert_int_eq(read(ahead.have[0], &made, sizeof made), (ssize_t)sizeof made);
    }
    ck_assert_msg(made.failure[0] == '\0', "%s", made.failure);
    made.rows++;
    ahead.taken = made;
    free(spec->session);
    spec->session = strdup(made.session);
    *ret_created = made.created;
    return true;
}

bool ahead_may_return(const char *session)
{
    return ahead.count > 0 && ahead.taken.rows < ahead.rows &&
           strcmp(session, ahead.taken.session) == 0;
}

void ahead_return(void)
{
    ck_assert_int_eq(write(ahead.used[1], &ahead.taken, sizeof ahead.taken),
                     (ssize_t)sizeof ahead.taken);
}

static bool drop(const char *session)
{
    char name[MAX_SESSION_NAME + 1] = "";

    snprintf(name, sizeof name, "%s", session);
    return write(ahead.drop[1], name, sizeof name) == (ssize_t)sizeof name;
}

bool ahead_drop(const char *session)
{
    if (ahead.count == 0) {
        return false;
    }
    ck_assert(drop(session));
    return true;
}

void ahead_end(void)
{
    struct made made;

    if (ahead.count == 0) {
        return;
    }
    while (read(ahead.used[0], &made, sizeof made) == (ssize_t)sizeof made) {
        (void)!drop(made.session);
    }
    close(ahead.want[1]);
    close(ahead.drop[1]);
    for (unsigned i = 0; i < ahead.count; i++) {
        waitpid(ahead.workers[i], NULL, 0);
    }
    ahead.count = 0;
}
