/* The methods that reach into a command that runs: its stdin, signals, the size of its terminal. Each is
 * answered with whether the command was still there: it may end at any moment, and that is no error. */
#include "exec/command.h"
#include "exec/result.h"

#define MAX_SIGNAL 64

static void answer(struct request *r, const char *what, bool done)
{
    request_answer(r, json_pack("{s:b}", what, (int)done));
}

static void refuse(struct request *r, const char *message)
{
    struct error err;

    error_set(&err, ERROR_BAD_REQUEST, 0, "%s", message);
    request_refuse(r, RPC_INVALID_PARAMS, &err);
}

/* ---- Stdin ---- */

/* Out of the queue, and answered. */
static void end_write(struct request *r, bool written)
{
    buffer_release(&r->bytes.decoded);
    answer(r, "written", written);
}

/* Never so much waits that the execution would refuse it: what one line can hold always fits alone. */
static bool has_room(const struct command *c, const struct request *r)
{
    size_t unread = execution_unread(c->execution);

    return unread == 0 ||
           (unread < EXECUTION_ROOM && r->bytes.length <= EXECUTION_MAX_QUEUED - unread);
}

void command_feed(struct command *c)
{
    struct request *r;
    struct error err;

    if (c->execution == NULL) {
        return; /* launched later, or over */
    }
    while ((r = TAILQ_FIRST(&c->writes)) != NULL) {
        if (!has_room(c, r)) {
            execution_want_room(c->execution);
            return;
        }
        TAILQ_REMOVE(&c->writes, r, turn);
        if (execution_write(c->execution, r->bytes.data, r->bytes.length, r->eof, &err) < 0) {
            buffer_release(&r->bytes.decoded);
            request_fail(r, &err);
        } else {
            end_write(r, true);
        }
    }
}

void command_starve(struct command *c)
{
    struct request *r;

    while ((r = TAILQ_FIRST(&c->writes)) != NULL) {
        TAILQ_REMOVE(&c->writes, r, turn);
        end_write(r, false);
    }
}

static int parse_write(struct request *r, struct command **ret, struct error *err)
{
    static const char *const known[] = {"id", "job", "data", "data_base64", "eof", NULL};

    return params_check(r->params, known, err) < 0 || command_named(r, ret, err) < 0 ||
                   params_boolean(r->params, "eof", &r->eof, err) < 0 ||
                   params_bytes(r->params, "data", &r->bytes, err) < 0
               ? -1
               : 0;
}

static void run_write(struct request *r)
{
    struct command *c = NULL;
    struct error err;

    if (parse_write(r, &c, &err) < 0) {
        buffer_release(&r->bytes.decoded);
        request_refuse(r, RPC_INVALID_PARAMS, &err);
    } else if (c == NULL) {
        end_write(r, false);
    } else if (!c->has_input || c->eof) {
        buffer_release(&r->bytes.decoded);
        refuse(r, c->has_input ? "the command's stdin was ended" : "the command has no \"input\"");
    } else {
        c->eof = r->eof;
        TAILQ_INSERT_TAIL(&c->writes, r, turn);
        command_feed(c);
    }
}

const struct method method_write = {.name = "exec.write", .run = run_write};

/* ---- Signals ---- */

/* "SIGINT", "INT" or 2; 0 for what is none. */
static int signal_number(const json_t *value)
{
    const char *text = json_string_value(value);

    if (json_is_integer(value)) {
        json_int_t number = json_integer_value(value);

        return number >= 1 && number <= MAX_SIGNAL ? (int)number : 0;
    }
    return text != NULL ? signal_named(text) : 0;
}

static void run_signal(struct request *r)
{
    static const char *const known[] = {"id", "job", "signal", NULL};
    struct command *c = NULL;
    struct error err;
    int number;

    if (params_check(r->params, known, &err) < 0 || command_named(r, &c, &err) < 0) {
        request_refuse(r, RPC_INVALID_PARAMS, &err);
        return;
    }
    number = signal_number(json_object_get(r->params, "signal"));
    if (number == 0) {
        refuse(r, "\"signal\" is neither a signal's name nor its number");
        return;
    }
    if (c != NULL && c->execution != NULL) {
        execution_signal(c->execution, number);
    } else if (c != NULL) {
        c->early_signals |= UINT64_C(1) << (number - 1);
    }
    answer(r, "signalled", c != NULL);
}

const struct method method_signal = {.name = "exec.signal", .run = run_signal};

/* ---- The terminal ---- */

static void run_resize(struct request *r)
{
    static const char *const known[] = {"id", "job", "rows", "cols", NULL};
    struct command *c = NULL;
    uint64_t rows = 0;
    uint64_t columns = 0;
    struct error err;

    if (params_check(r->params, known, &err) < 0 || command_named(r, &c, &err) < 0 ||
        params_number(r->params, "rows", EXEC_MAX_ROWS, &rows, &err) < 0 ||
        params_number(r->params, "cols", EXEC_MAX_ROWS, &columns, &err) < 0) {
        request_refuse(r, RPC_INVALID_PARAMS, &err);
        return;
    }
    if (rows == 0 || columns == 0 || (c != NULL && !c->has_terminal)) {
        refuse(r, rows == 0 || columns == 0 ? "\"rows\" and \"cols\" are two numbers from 1 on"
                                            : "the command has no \"pty\"");
        return;
    }
    if (c != NULL && c->execution != NULL) {
        execution_resize(c->execution, (uint16_t)rows, (uint16_t)columns);
    } else if (c != NULL) {
        c->exec.run.rows = (uint16_t)rows;
        c->exec.run.columns = (uint16_t)columns;
    }
    answer(r, "resized", c != NULL);
}

const struct method method_resize = {.name = "exec.resize", .run = run_resize};
