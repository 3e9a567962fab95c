/* What is over the cap of an answer: the whole of it becomes a file inside. So that a long session does not fill the
 * sandbox's disk, the hand first removes the oldest of those that are there (hand/tool_sweep.c); that it could
 * not is no reason to write none. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "exec/tool_internal.h"
#include "sandbox/cleanup.h"

#define SPILL_FOLDER "/tmp/tool_outputs"
#define SWEEP_TIMEOUT_MS 5000
#define SWEEP_SAID_BYTES 4096

static void write_file(struct tool_call *call)
{
    link_write_file(call->gateway->link, call->spill, call->text.data, call->text.length, 0, call->spilled, call);
}

static void swept(void *arg, const struct error *err, struct execution_result *result)
{
    struct tool_call *call = arg;

    (void)err;
    (void)result;
    call->execution = NULL;
    call->cancel = NULL;
    write_file(call);
}

static void sweep_cancel(struct tool_call *call)
{
    execution_cancel(call->execution);
}

/* With the one that comes they are as many as are kept. */
static void sweep(struct tool_call *call)
{
    struct tool_program program = TOOL_PROGRAM_INIT;
    struct execution_request request = {
        .tool = "sweep", .timeout_ms = SWEEP_TIMEOUT_MS, .keep = SWEEP_SAID_BYTES};

    tool_program_text(&program, "path", SPILL_FOLDER, strlen(SPILL_FOLDER));
    tool_program_number(&program, "files", TOOL_MAX_SPILLED_FILES - 1);
    tool_program_number(&program, "bytes", TOOL_MAX_SPILLED_BYTES - (int64_t)call->text.length);
    if (program.failed) {
        buffer_release(&program.arguments);
        write_file(call);
        return;
    }
    request.command = (const char *)program.arguments.data;
    request.command_length = program.arguments.length;
    call->cancel = sweep_cancel;
    call->execution = execution_start(call->gateway->link, &request, swept, call);
    buffer_release(&program.arguments);
}

void tool_spill(struct tool_call *call, void (*then)(void *call, const struct error *err))
{
    uint64_t random = 0;

    /* A name that no other call has. It is the sandbox's file from then on. */
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) < 0) {
        random = (uint64_t)uv_hrtime();
    }
    snprintf(call->spill, sizeof call->spill, SPILL_FOLDER "/%s-%016" PRIx64 ".txt", call->name, random);
    call->spilled = then;
    sweep(call);
}
