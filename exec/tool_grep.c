/* The tool grep. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exec/tool_internal.h"

static int64_t positive(const struct tool_call *call, const char *name, int64_t otherwise)
{
    int64_t asked = tool_number(call, name, otherwise);

    return asked > 0 ? asked : 0;
}

/* What there is no more of, and why. */
static void note_cuts(const struct tool_program_end *end, char *notes, size_t size)
{
    if (tool_said(end, "cut") != 0) {
        snprintf(notes, size, "[stopped after %u MiB of output: there may be more matches]",
                 (unsigned)(TOOL_MAX_OUTPUT >> 20));
    } else if (tool_said(end, "limit_reached") != 0) {
        snprintf(notes, size, "[stopped at the limit: there may be more matches]");
    }
    tool_add_notes(end, notes, size);
}

static void have_searched(struct tool_call *call, const struct tool_program_end *end)
{
    int64_t matches = tool_said(end, "matches");
    char notes[256] = "";
    json_t *structured =
        json_pack("{s:I, s:I, s:I, s:I, s:b}", "matches", (json_int_t)matches, "files",
                  (json_int_t)tool_said(end, "files"), "binary_files", (json_int_t)tool_said(end, "binary"),
                  "unreadable_files", (json_int_t)tool_said(end, "unreadable"), "truncated",
                  tool_said(end, "cut") != 0 || tool_said(end, "limit_reached") != 0);

    if (end->timed_out) {
        tool_end_timed_out(call, end, structured);
        return;
    }
    buffer_move(&call->text, end->out);
    if (call->text.length > 0 && call->text.data[call->text.length - 1] == '\n') {
        call->text.length--;
    }
    if (matches == 0 && buffer_append_string(&call->text, "no matches") < 0) {
        call->text.length = 0;
    }
    note_cuts(end, notes, sizeof notes);
    tool_end(call, false, notes[0] != '\0' ? notes : NULL, structured);
}

static void add_arguments(struct tool_call *call, struct tool_program *program)
{
    static const char *const flags[] = {"ignore_case", "fixed", "all", "gitignore"};
    int64_t context = positive(call, "context", 0);
    size_t length;
    const char *text = tool_string(call, "pattern", &length);

    tool_program_text(program, "pattern", text, length);
    tool_program_text(program, "path", (const char *)call->path.data, call->path.length);
    text = tool_string(call, "mode", &length);
    if (text != NULL) {
        tool_program_text(program, "mode", text, length);
    }
    text = tool_string(call, "glob", &length);
    if (text != NULL && length > 0) {
        tool_program_text(program, "glob", text, length);
    }
    tool_program_number(program, "before", positive(call, "before", context));
    tool_program_number(program, "after", positive(call, "after", context));
    tool_program_number(program, "limit", positive(call, "limit", 0));
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        tool_program_number(program, flags[i], tool_flag(call, flags[i]));
    }
}

static void grep_run(struct tool_call *call)
{
    struct tool_program program = TOOL_PROGRAM_INIT;
    struct error err;

    if (tool_path(call, "path") < 0) {
        error_set_errno(&err, ENAMETOOLONG, "the path");
        tool_end_fault(call, &err);
        return;
    }
    add_arguments(call, &program);
    tool_program_run(call, "grep", &program, TOOL_MAX_OUTPUT - 65536, have_searched);
}

const struct tool tool_grep = {
    .name = "grep",
    .title = "Search in files",
    .description =
        "Finds the lines that match a regular expression, in a file or in all files below a directory, as "
        "path:line:text; with context as path-line-text. Syntax as in Perl and RE2: \\d \\w \\s \\b (?i) {n,m} and "
        "lazy quantifiers, no back-references and no look-around; one line at a time. Left out are binary "
        "files, .git and node_modules (all: true looks there too), and symbolic links. A file that cannot be read is "
        "counted and passed over.",
    .input_schema =
        "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
        "\"pattern\":{\"type\":\"string\"},"
        "\"path\":{\"type\":\"string\",\"description\":\"File or directory; the working directory where it is "
        "not given.\"},"
        "\"glob\":{\"type\":\"string\",\"description\":\"Only files that match, such as *.{ts,tsx} or src/**; "
        "with ! before it, only others.\"},"
        "\"mode\":{\"type\":\"string\",\"enum\":[\"content\",\"files\",\"count\"],\"description\":\"Lines "
        "(default), paths of files with a match, or path:number.\"},"
        "\"ignore_case\":{\"type\":\"boolean\"},"
        "\"fixed\":{\"type\":\"boolean\",\"description\":\"The pattern is plain text.\"},"
        "\"context\":{\"type\":\"integer\",\"description\":\"Lines before and after each match.\"},"
        "\"before\":{\"type\":\"integer\"},\"after\":{\"type\":\"integer\"},"
        "\"limit\":{\"type\":\"integer\",\"description\":\"Stop after so many matches, or files.\"},"
        "\"gitignore\":{\"type\":\"boolean\",\"description\":\"Leave out what .gitignore files name.\"},"
        "\"all\":{\"type\":\"boolean\",\"description\":\"Search .git and node_modules too.\"}},"
        "\"required\":[\"pattern\"]}",
    .output_schema =
        "{\"type\":\"object\",\"properties\":{"
        "\"output\":{\"type\":\"string\"},\"matches\":{\"type\":\"integer\"},"
        "\"files\":{\"type\":\"integer\"},\"binary_files\":{\"type\":\"integer\"},"
        "\"unreadable_files\":{\"type\":\"integer\"},\"truncated\":{\"type\":\"boolean\"},"
        "\"output_file\":{\"type\":\"string\"}},\"required\":[\"output\",\"matches\"]}",
    .read_only = true,
    .idempotent = true,
    .run = grep_run,
};
