/* The tools write and edit. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "exec/tool_internal.h"

/* ---- write ---- */

static void end_written(struct tool_call *call, json_t *version)
{
    size_t length;
    json_t *structured;

    (void)tool_string(call, "content", &length);
    structured = json_pack("{s:I, s:O?}", "bytes", (json_int_t)length, "version", version);
    if (buffer_printf(&call->text, "wrote %zu bytes to %s", length,
                      tool_string(call, "file_path", NULL)) < 0) {
        call->text.length = 0;
    }
    tool_end(call, false, NULL, structured);
}

static void written(void *arg, const struct error *err)
{
    struct tool_call *call = arg;

    if (err != NULL) {
        tool_end_fault(call, err);
    } else {
        end_written(call, NULL);
    }
}

static void write_run(struct tool_call *call)
{
    size_t length;
    const char *content = tool_string(call, "content", &length);
    struct error err;

    if (tool_path(call, "file_path") < 0) {
        error_set_errno(&err, ENAMETOOLONG, "the path");
        tool_end_fault(call, &err);
        return;
    }
    if (length > MAX_FILE_BYTES) {
        tool_end_text(call, "write: %zu bytes exceed the %" PRIu64 "-byte limit of a file", length,
                      MAX_FILE_BYTES);
        return;
    }
    link_write_file(call->gateway->link, (const char *)call->path.data, content, length, 0, written, call);
}

const struct tool tool_write = {
    .name = "write",
    .title = "Write a file",
    .description =
        "Writes a whole file: parents are made, an existing file is replaced atomically and keeps its mode "
        "and owner. A relative path starts at the working directory of the sandbox. At most 4 MiB. For a "
        "part of a file use edit.",
    .input_schema =
        "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
        "\"file_path\":{\"type\":\"string\",\"description\":\"Absolute, or from the working directory.\"},"
        "\"content\":{\"type\":\"string\",\"description\":\"All of the file.\"}},"
        "\"required\":[\"file_path\",\"content\"]}",
    .output_schema =
        "{\"type\":\"object\",\"properties\":{"
        "\"output\":{\"type\":\"string\"},\"bytes\":{\"type\":\"integer\"},"
        "\"version\":{\"type\":\"string\"}},\"required\":[\"output\",\"bytes\"]}",
    .destructive = true,
    .idempotent = true,
    .run = write_run,
};
