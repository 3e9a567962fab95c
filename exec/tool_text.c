/* What a tool answers: text for a model, at most TOOL_MAX_TEXT bytes of it. What is over that is written
 * into a file inside (tool_spill.c), of which the answer tells. */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exec/tool_internal.h"
#include "exec/utf8.h"
#include "sandbox/cleanup.h"

/* ---- Text ---- */

/* NUL characters are in no text that a model is given. */
void tool_strip_nul(struct buffer *text)
{
    size_t kept = 0;

    for (size_t i = 0; i < text->length; i++) {
        if (text->data[i] != '\0') {
            text->data[kept++] = text->data[i];
        }
    }
    text->length = kept;
}

/* The length of what is shown: whole characters. */
static size_t shown_length(const struct buffer *text)
{
    return text->length <= TOOL_MAX_TEXT ? text->length : utf8_whole(text->data, TOOL_MAX_TEXT);
}

static json_t *text_json(const struct buffer *text, size_t length)
{
    return utf8_json(length > 0 ? (const char *)text->data : "", length);
}

/* The result's text: what is shown, a note and a trailer, each on a line of its own. */
static json_t *with_notes(const struct buffer *text, size_t shown, const char *note, const char *trailer)
{
    cleanup_buffer struct buffer all = BUFFER_INIT(TOOL_MAX_OUTPUT + 65536);
    const char *notes[] = {note, trailer};

    if (shown > 0 && buffer_append(&all, text->data, shown) < 0) {
        return NULL;
    }
    for (size_t i = 0; i < 2; i++) {
        if (notes[i] == NULL) {
            continue;
        }
        if (all.length > 0 && all.data[all.length - 1] != '\n' && buffer_append(&all, "\n", 1) < 0) {
            return NULL;
        }
        if (buffer_append_string(&all, notes[i]) < 0) {
            return NULL;
        }
    }
    return text_json(&all, all.length);
}

static void finish_with(struct tool_call *call, size_t shown, const char *note)
{
    json_t *structured = call->result.structured;

    call->result.text =
        with_notes(&call->text, shown, note, call->trailer[0] != '\0' ? call->trailer : NULL);
    if (json_object_get(structured, "output") == NULL) {
        json_object_set_new(structured, "output", text_json(&call->text, shown));
    }
    if (shown < call->text.length) {
        json_object_set_new(structured, "truncated", json_true());
    }
    tool_finish(call);
}

/* ---- What is over the cap ---- */

static void spilled(void *arg, const struct error *err)
{
    struct tool_call *call = arg;
    char note[256];

    if (err != NULL) {
        snprintf(note, sizeof note, "[output truncated]");
    } else {
        snprintf(note, sizeof note, "[output truncated: %zu bytes in all; they are in %s]",
                 call->text.length, call->spill);
        json_object_set_new(call->result.structured, "output_file", json_string(call->spill));
    }
    finish_with(call, shown_length(&call->text), note);
}

/* ---- Ends ---- */

void tool_end(struct tool_call *call, bool is_error, const char *trailer, json_t *structured)
{
    call->result.is_error = is_error;
    call->result.structured = structured != NULL ? structured : json_object();
    if (trailer != NULL) {
        snprintf(call->trailer, sizeof call->trailer, "%s", trailer);
    }
    tool_strip_nul(&call->text);
    if (call->text.length > TOOL_MAX_TEXT) {
        tool_spill(call, spilled);
    } else {
        finish_with(call, call->text.length, NULL);
    }
}

void tool_end_whole(struct tool_call *call, bool is_error, json_t *structured)
{
    call->result.is_error = is_error;
    call->result.structured = structured != NULL ? structured : json_object();
    tool_strip_nul(&call->text);
    call->result.text = text_json(&call->text, call->text.length);
    json_object_set(call->result.structured, "output", call->result.text);
    tool_finish(call);
}

static void end_message(struct tool_call *call, const char *text)
{
    call->result.is_error = true;
    call->result.structured = json_object();
    call->result.text = utf8_json(text, strlen(text));
    json_object_set(call->result.structured, "error", call->result.text);
    tool_finish(call);
}

void tool_end_text(struct tool_call *call, const char *format, ...)
{
    cleanup_buffer struct buffer text = BUFFER_INIT(3 * TOOL_MAX_PATH);
    va_list args;
    uint8_t *room = buffer_reserve(&text, 3 * TOOL_MAX_PATH);

    if (room != NULL) {
        va_start(args, format);
        vsnprintf((char *)room, 3 * TOOL_MAX_PATH, format, args);
        va_end(args);
    }
    end_message(call, room != NULL ? (const char *)room : "out of memory");
}

/* ---- Faults ---- */

/* As the model has spelt it. */
static const char *spelt(const struct tool_call *call)
{
    const char *path = tool_string(call, "file_path", NULL);

    if (path == NULL) {
        path = tool_string(call, "path", NULL);
    }
    return path != NULL ? path : link_sandbox(call->gateway->link)->workdir;
}

static void end_with_errno(struct tool_call *call, int os_errno)
{
    char reason[128];

    snprintf(reason, sizeof reason, "%s",
             os_errno == EACCES || os_errno == EPERM ? "permission denied" : strerror(os_errno));
    reason[0] = (char)tolower((unsigned char)reason[0]);
    tool_end_text(call, "%s %s: %s", call->name, spelt(call), reason);
}

void tool_end_reason(struct tool_call *call, const struct error *err)
{
    const char *path = spelt(call);
    const char *tool = call->name;

    switch (err->code) {
    case ERROR_NO_SUCH_FILE:
        tool_end_text(call, "%s %s: no such file or directory", tool, path);
        break;
    case ERROR_IS_DIRECTORY:
        tool_end_text(call, "%s: %s is not a regular file but a directory", tool, path);
        break;
    case ERROR_NOT_REGULAR:
        tool_end_text(call, "%s: %s is not a regular file", tool, path);
        break;
    case ERROR_NOT_DIRECTORY:
        tool_end_text(call, "%s %s: not a directory", tool, path);
        break;
    case ERROR_NOT_REPLACEABLE:
        tool_end_text(call, "%s: %s cannot be replaced (a device or a mount point); write to it with a "
                            "redirection in bash", tool, path);
        break;
    case ERROR_TOO_LARGE:
        tool_end_text(call, "%s: %s exceeds the %" PRIu64 "-byte limit; take a part of it with view_range, "
                            "grep, or bash", tool, path, MAX_FILE_BYTES);
        break;
    case ERROR_BAD_REQUEST:
        tool_end_text(call, "%s %s: %s", tool, path, err->message);
        break;
    default:
        end_with_errno(call, error_errno(err));
    }
}

void tool_end_fault(struct tool_call *call, const struct error *err)
{
    if (err->code == ERROR_CANCELLED || error_audience(err->code) == ERROR_FOR_OPERATOR) {
        call->failed = true;
        call->error = *err;
        tool_finish(call);
    } else {
        tool_end_reason(call, err);
    }
}
