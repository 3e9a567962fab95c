/* Standard input, as it comes, to the command. A few pieces go ahead of their answers, which come as the
 * command reads: so no more is read here than will soon be wanted there. */
#include <errno.h>
#include <unistd.h>

#include "exec/base64.h"
#include "mount/run_internal.h"

bool run_input_wanted(const struct run *run)
{
    return run->input_open && !run->over && !run->cancelled && run->input_unheard < RUN_INPUT_AHEAD;
}

static int send_input(struct run *run, const uint8_t *data, size_t length, struct error *err)
{
    json_t *params = length > 0
                         ? json_pack("{s:I, s:o}", "id", run->id, "data_base64", base64_json(data, length))
                         : json_pack("{s:I, s:b}", "id", run->id, "eof", 1);
    json_int_t id;
    int r = params != NULL ? client_send(run->client, "exec.write", params, &id, err)
                           : error_set(err, ERROR_NO_MEMORY, 0, "out of memory");

    json_decref(params);
    run->input_unheard++;
    run->input_open = length > 0;
    return r;
}

int run_input_read(struct run *run, struct error *err)
{
    uint8_t data[RUN_INPUT_BYTES];
    ssize_t n = read(STDIN_FILENO, data, sizeof data);
    struct error why;

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return 0;
    }
    if (n < 0 && errno != EIO) { /* a terminal that was hung up has no more */
        error_set_errno(&why, errno, "cannot read standard input");
        return run_cancel(run, 0, &why, err);
    }
    return send_input(run, data, n > 0 ? (size_t)n : 0, err);
}

void run_input_heard(struct run *run, bool taken)
{
    run->input_unheard -= run->input_unheard > 0 ? 1 : 0;
    if (!taken) {
        run->input_open = false;
    }
}
