/* The tool glob. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exec/tool_internal.h"
#include "exec/utf8.h"

#define GLOB_SHOWN 200       /* where no limit is given */
#define GLOB_MAX_SHOWN 10000

static int64_t limit_of(const struct tool_call *call)
{
    int64_t asked = tool_number(call, "limit", GLOB_SHOWN);

    return asked <= 0 ? GLOB_SHOWN : asked > GLOB_MAX_SHOWN ? GLOB_MAX_SHOWN : asked;
}

/* One path a line: a name with a newline or another control character is quoted as the shell does it. */
static int put_path(struct buffer *text, const char *path)
{
    bool is_plain = true;

    for (const char *c = path; *c != '\0' && is_plain; c++) {
        is_plain = (unsigned char)*c >= 0x20 && *c != 0x7f;
    }
    if (is_plain) {
        return buffer_append_string(text, path);
    }
    if (buffer_append(text, "$'", 2) < 0) {
        return -1;
    }
    for (const char *c = path; *c != '\0'; c++) {
        int r = *c == '\n'                                    ? buffer_append(text, "\\n", 2)
                : *c == '\\' || *c == '\''                    ? buffer_printf(text, "\\%c", *c)
                : (unsigned char)*c < 0x20 || *c == 0x7f ? buffer_printf(text, "\\%03o", *c)
                                                              : buffer_append(text, c, 1);

        if (r < 0) {
            return -1;
        }
    }
    return buffer_append(text, "'", 1);
}

static json_t *take_paths(struct tool_call *call, struct buffer *out)
{
    json_t *paths = json_array();
    const char *at = buffer_text(out);
    const char *end = at != NULL ? at + out->length : NULL;

    while (at != NULL && at < end) {
        size_t length = strlen(at);

        if ((call->text.length > 0 && buffer_append(&call->text, "\n", 1) < 0) ||
            put_path(&call->text, at) < 0 || json_array_append_new(paths, utf8_json(at, length)) < 0) {
            break;
        }
        at += length + 1;
    }
    return paths;
}

void tool_add_notes(const struct tool_program_end *end, char *notes, size_t size)
{
    int64_t unreadable = tool_said(end, "unreadable");
    int64_t deep = tool_said(end, "too_deep");
    const char *path = json_string_value(json_object_get(end->said, "unreadable_path"));
    size_t used = strlen(notes);

    if (unreadable > 0) {
        snprintf(notes + used, size - used, "%s[%" PRId64 " could not be read, such as %.100s]",
                 used > 0 ? "\n" : "", unreadable, path != NULL ? path : "?");
        used = strlen(notes);
    }
    if (deep > 0) {
        snprintf(notes + used, size - used, "%s[%" PRId64 " too deep or too long to be searched]",
                 used > 0 ? "\n" : "", deep);
    }
}

static void have_found(struct tool_call *call, const struct tool_program_end *end)
{
    json_t *paths = take_paths(call, end->out);
    int64_t matches = tool_said(end, "matches");
    int64_t shown = (int64_t)json_array_size(paths);
    char notes[256] = "";
    json_t *structured = json_pack("{s:o, s:I, s:b}", "paths", paths, "matches", (json_int_t)matches,
                                   "truncated", shown < matches);

    if (end->timed_out) {
        tool_end_timed_out(call, end, structured);
        return;
    }
    if (matches == 0 && buffer_append_string(&call->text, "no matches") < 0) {
        call->text.length = 0;
    }
    if (shown < matches) {
        snprintf(notes, sizeof notes, "[the newest %" PRId64 " of %" PRId64 " matches]", shown, matches);
    }
    tool_add_notes(end, notes, sizeof notes);
    tool_end(call, false, notes[0] != '\0' ? notes : NULL, structured);
}

static void glob_run(struct tool_call *call)
{
    struct tool_program program = TOOL_PROGRAM_INIT;
    size_t length;
    const char *pattern = tool_string(call, "pattern", &length);
    struct error err;
    int r = pattern[0] == '/' ? tool_path_of(call, "/") : tool_path(call, "path");

    if (length == 0) {
        tool_end_text(call, "glob: pattern is required");
        return;
    }
    if (r < 0) {
        error_set_errno(&err, ENAMETOOLONG, "the path");
        tool_end_fault(call, &err);
        return;
    }
    tool_program_text(&program, "path", (const char *)call->path.data, call->path.length);
    tool_program_text(&program, "pattern", pattern, length);
    tool_program_number(&program, "limit", limit_of(call));
    tool_program_number(&program, "gitignore", tool_flag(call, "gitignore"));
    tool_program_run(call, "glob", &program, TOOL_MAX_OUTPUT, have_found);
}

const struct tool tool_glob = {
    .name = "glob",
    .title = "Find files by name",
    .description =
        "Finds files and directories whose path matches a pattern: * ? [abc] within a name, ** for any number "
        "of directories, {a,b} for either. Names that begin with a dot match like others; ** leads through "
        "no symbolic link. Absolute paths, one a line, the newest first; 200 unless limit says otherwise.",
    .input_schema =
        "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
        "\"pattern\":{\"type\":\"string\",\"description\":\"Such as src/**/*.{c,h}; an absolute one is taken "
        "from the root.\"},"
        "\"path\":{\"type\":\"string\",\"description\":\"The directory to search; the working directory where "
        "it is not given.\"},"
        "\"limit\":{\"type\":\"integer\",\"description\":\"Paths in the answer, 10000 at most.\"},"
        "\"gitignore\":{\"type\":\"boolean\",\"description\":\"Leave out what .gitignore files name, and "
        ".git.\"}},"
        "\"required\":[\"pattern\"]}",
    .output_schema =
        "{\"type\":\"object\",\"properties\":{"
        "\"output\":{\"type\":\"string\"},\"paths\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
        "\"matches\":{\"type\":\"integer\"},\"truncated\":{\"type\":\"boolean\"},"
        "\"output_file\":{\"type\":\"string\"}},\"required\":[\"output\",\"paths\",\"matches\"]}",
    .read_only = true,
    .idempotent = true,
    .run = glob_run,
};
