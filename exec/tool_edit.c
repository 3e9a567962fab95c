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
    structured = json_pack("{s:I, s:O*}", "bytes", (json_int_t)length, "version", version);
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

/* Its version is not the one that was named. */
static bool is_conflict(struct tool_call *call, const struct tool_program_end *end)
{
    if (tool_said(end, "conflict") == 0) {
        return false;
    }
    tool_end_text(call, "%s: %s was changed since version %s; read it again", call->name,
                  tool_string(call, "file_path", NULL), tool_string(call, "version", NULL));
    return true;
}

static void have_put(struct tool_call *call, const struct tool_program_end *end)
{
    if (end->timed_out) {
        tool_end_timed_out(call, end, json_object());
    } else if (!is_conflict(call, end)) {
        end_written(call, json_object_get(end->said, "version"));
    }
}

/* Only in place of a certain state of the file. */
static void put_over_version(struct tool_call *call, const char *content, size_t length)
{
    struct tool_program program = TOOL_PROGRAM_INIT;
    size_t version_length;
    const char *version = tool_string(call, "version", &version_length);

    tool_program_text(&program, "path", (const char *)call->path.data, call->path.length);
    tool_program_text(&program, "version", version, version_length);
    tool_program_input(&program, content, length);
    tool_program_run(call, "put", &program, 0, have_put);
}

static bool find_path(struct tool_call *call)
{
    struct error err;

    if (tool_path(call, "file_path") == 0) {
        return true;
    }
    error_set_errno(&err, ENAMETOOLONG, "the path");
    tool_end_fault(call, &err);
    return false;
}

static void write_run(struct tool_call *call)
{
    size_t length;
    const char *content = tool_string(call, "content", &length);

    if (!find_path(call)) {
        return;
    }
    if (length > MAX_FILE_BYTES) {
        tool_end_text(call, "write: %zu bytes exceed the %" PRIu64 "-byte limit of a file", length,
                      MAX_FILE_BYTES);
    } else if (tool_string(call, "version", NULL) != NULL) {
        put_over_version(call, content, length);
    } else {
        link_write_file(call->gateway->link, (const char *)call->path.data, content, length, 0, written,
                        call);
    }
}

const struct tool tool_write = {
    .name = "write",
    .title = "Write a file",
    .description =
        "Writes a whole file: parents are made, an existing file is replaced atomically and keeps its mode "
        "and owner. A relative path starts at the working directory of the sandbox. At most 4 MiB. With "
        "version (of read, write or edit) only if the file is still in that state. For a part of a file use "
        "edit.",
    .input_schema =
        "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
        "\"file_path\":{\"type\":\"string\",\"description\":\"Absolute, or from the working directory.\"},"
        "\"content\":{\"type\":\"string\",\"description\":\"All of the file.\"},"
        "\"version\":{\"type\":\"string\",\"description\":\"The state of the file to be replaced.\"}},"
        "\"required\":[\"file_path\",\"content\"]}",
    .output_schema =
        "{\"type\":\"object\",\"properties\":{"
        "\"output\":{\"type\":\"string\"},\"bytes\":{\"type\":\"integer\"},"
        "\"version\":{\"type\":\"string\"}},\"required\":[\"output\",\"bytes\"]}",
    .destructive = true,
    .idempotent = true,
    .run = write_run,
};

/* ---- edit ---- */

static void end_edited(struct tool_call *call, const struct tool_program_end *end)
{
    int64_t count = tool_said(end, "count");
    json_t *structured = json_pack("{s:I, s:I, s:O*}", "replacements", (json_int_t)count, "line",
                                   (json_int_t)tool_said(end, "line"), "version",
                                   json_object_get(end->said, "version"));

    if (buffer_printf(&call->text, "edited %s (%" PRId64 " replacement%s)",
                      tool_string(call, "file_path", NULL), count, count == 1 ? "" : "s") < 0) {
        call->text.length = 0;
    }
    tool_end(call, false, NULL, structured);
}

static void have_edited(struct tool_call *call, const struct tool_program_end *end)
{
    const char *path = tool_string(call, "file_path", NULL);
    int64_t count = tool_said(end, "count");

    if (end->timed_out) {
        tool_end_timed_out(call, end, json_object());
    } else if (is_conflict(call, end)) {
        return;
    } else if (tool_said(end, "edited") != 0) {
        end_edited(call, end);
    } else if (count == 0) {
        tool_end_text(call, "edit: old_string was not found in %s; it must be exactly what is there, spaces "
                            "and line ends included", path);
    } else {
        tool_end_text(call, "edit: old_string appears %" PRId64 " times in %s; it must be unique: give more of "
                            "the lines around it, or replace_all", count, path);
    }
}

static void edit_run(struct tool_call *call)
{
    struct tool_program program = TOOL_PROGRAM_INIT;
    size_t old_length, new_length, version_length;
    const char *old = tool_string(call, "old_string", &old_length);
    const char *new = tool_string(call, "new_string", &new_length);
    const char *version = tool_string(call, "version", &version_length);

    if (old_length == 0) {
        tool_end_text(call, "edit: old_string is required");
        return;
    }
    if (old_length == new_length && memcmp(old, new, old_length) == 0) {
        tool_end_text(call, "edit: old_string and new_string are the same");
        return;
    }
    if (!find_path(call)) {
        return;
    }
    tool_program_text(&program, "path", (const char *)call->path.data, call->path.length);
    tool_program_number(&program, "old", (int64_t)old_length);
    tool_program_number(&program, "all", tool_flag(call, "replace_all"));
    tool_program_number(&program, "limit", (int64_t)MAX_FILE_BYTES);
    if (version != NULL) {
        tool_program_text(&program, "version", version, version_length);
    }
    tool_program_input(&program, old, old_length);
    tool_program_input(&program, new, new_length);
    tool_program_run(call, "edit", &program, 0, have_edited);
}

const struct tool tool_edit = {
    .name = "edit",
    .title = "Edit a file",
    .description =
        "Replaces old_string by new_string in a file. old_string must be exactly what is in the file and "
        "there only once, unless replace_all is true. The file is replaced atomically; edits of one file at "
        "the same time are made one after the other, none of them is lost. With version (of read, write or "
        "edit) only if the file is still in that state.",
    .input_schema =
        "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
        "\"file_path\":{\"type\":\"string\",\"description\":\"Absolute, or from the working directory.\"},"
        "\"old_string\":{\"type\":\"string\",\"description\":\"What is there.\"},"
        "\"new_string\":{\"type\":\"string\",\"description\":\"What is to be there.\"},"
        "\"replace_all\":{\"type\":\"boolean\",\"description\":\"Wherever it is.\"},"
        "\"version\":{\"type\":\"string\",\"description\":\"The state of the file to be edited.\"}},"
        "\"required\":[\"file_path\",\"old_string\",\"new_string\"]}",
    .output_schema =
        "{\"type\":\"object\",\"properties\":{"
        "\"output\":{\"type\":\"string\"},\"replacements\":{\"type\":\"integer\"},"
        "\"line\":{\"type\":\"integer\"},\"version\":{\"type\":\"string\"}},"
        "\"required\":[\"output\",\"replacements\"]}",
    .destructive = true,
    .run = edit_run,
};
