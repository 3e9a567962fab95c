/* The tool read. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exec/tool_internal.h"

/* The range as asked for, [1, to the end] where none was. False where it is empty whatever the file. */
static bool range_of(const struct tool_call *call, int64_t *first, int64_t *last, bool *ret_given)
{
    const json_t *range = json_object_get(call->arguments, "view_range");

    *ret_given = json_is_array(range);
    *first = *ret_given ? tool_whole(json_array_get(range, 0), 1) : 1;
    *last = *ret_given ? tool_whole(json_array_get(range, 1), 0) : 0;
    if (*first < 1) {
        *first = 1;
    }
    if (*last <= 0) {
        *last = 0;
        return true;
    }
    return *first <= *last;
}

static uint64_t cap_of(const struct tool_call *call)
{
    int64_t asked = tool_number(call, "max_bytes", TOOL_MAX_TEXT);

    return asked <= 0 ? TOOL_MAX_TEXT : (uint64_t)asked > MAX_FILE_BYTES ? MAX_FILE_BYTES : (uint64_t)asked;
}

/* A text that was cut says so, and how to go on. */
static void add_note(struct tool_call *call, const struct tool_program_end *end)
{
    struct buffer *text = &call->text;
    char note[256];

    if (tool_said(end, "next") <= tool_said(end, "first")) {
        snprintf(note, sizeof note,
                 "\n[truncated: line %" PRId64 " alone is longer than max_bytes; take a part of it with bash]",
                 tool_said(end, "first"));
        (void)!buffer_append_string(text, note);
        return;
    }
    snprintf(note, sizeof note,
             "%s[truncated: lines %" PRId64 " to %" PRId64 " of a file of %" PRId64
             " bytes; read on with view_range [%" PRId64 ", 0]]",
             text->length > 0 && text->data[text->length - 1] == '\n' ? "" : "\n", tool_said(end, "first"),
             tool_said(end, "last"), tool_said(end, "size"), tool_said(end, "next"));
    (void)!buffer_append_string(text, note);
}

static void have_read(struct tool_call *call, const struct tool_program_end *end)
{
    static const struct {
        const char *said, *name;
    } fields[] = {{"version", "version"}, {"size", "size"}, {"total_lines", "total_lines"},
                  {"first", "first_line"}, {"last", "last_line"}};
    json_t *structured = json_object();
    bool cut = tool_said(end, "cut") != 0;

    if (end->timed_out) {
        tool_end_timed_out(call, end, structured);
        return;
    }
    buffer_move(&call->text, end->out);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        json_t *value = json_object_get(end->said, fields[i].said);

        if (value != NULL) {
            json_object_set(structured, fields[i].name, value);
        }
    }
    json_object_set_new(structured, "truncated", json_boolean(cut));
    if (cut) {
        add_note(call, end);
    }
    tool_end_whole(call, false, structured);
}

static void read_run(struct tool_call *call)
{
    struct tool_program program = TOOL_PROGRAM_INIT;
    int64_t first, last;
    bool is_given;
    struct error err;

    if (tool_path(call, "file_path") < 0) {
        error_set_errno(&err, ENAMETOOLONG, "the path");
        tool_end_fault(call, &err);
        return;
    }
    if (!range_of(call, &first, &last, &is_given)) {
        first = INT64_MAX; /* no line: but whether there is such a file is told */
        last = 1;
    }
    tool_program_text(&program, "path", (const char *)call->path.data, call->path.length);
    tool_program_number(&program, "first", first);
    tool_program_number(&program, "last", last);
    tool_program_number(&program, "numbers", tool_flag(call, "line_numbers"));
    tool_program_number(&program, "limit", is_given ? 0 : (int64_t)MAX_FILE_BYTES);
    tool_program_run(call, "lines", &program, cap_of(call), have_read);
}

const struct tool tool_read = {
    .name = "read",
    .title = "Read a file",
    .description =
        "Reads a text file, or with view_range some lines of it: only they are moved, however large the file "
        "is. A relative path starts at the working directory of the sandbox. What is over max_bytes is cut "
        "at a character, and a note says how to read on. A whole file may have 4 MiB; a range may be of any "
        "file. The result's version names this state of the file, for edit and write.",
    .input_schema =
        "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
        "\"file_path\":{\"type\":\"string\",\"description\":\"Absolute, or from the working directory.\"},"
        "\"view_range\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"minItems\":2,\"maxItems\":2,"
        "\"description\":\"First and last line, from 1, both included; a last line of 0 or less is the "
        "end.\"},"
        "\"line_numbers\":{\"type\":\"boolean\",\"description\":\"A number and a tab before each line.\"},"
        "\"max_bytes\":{\"type\":\"integer\",\"description\":\"102400 where it is not given, 4194304 at "
        "most.\"}},"
        "\"required\":[\"file_path\"]}",
    .output_schema =
        "{\"type\":\"object\",\"properties\":{"
        "\"output\":{\"type\":\"string\"},\"version\":{\"type\":\"string\"},"
        "\"size\":{\"type\":\"integer\"},\"total_lines\":{\"type\":\"integer\"},"
        "\"first_line\":{\"type\":\"integer\"},\"last_line\":{\"type\":\"integer\"},"
        "\"truncated\":{\"type\":\"boolean\"}},\"required\":[\"output\"]}",
    .read_only = true,
    .idempotent = true,
    .run = read_run,
};
