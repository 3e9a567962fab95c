/* Arguments against the schema of their tool, as far as our schemas go: types, enumerations, the number of
 * items, what is required and what is unknown. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "exec/tool_internal.h"
#include "sandbox/cleanup.h"

/* ---- The check ---- */

static bool is_whole(const json_t *value)
{
    return json_is_integer(value) ||
           (json_is_real(value) && rint(json_real_value(value)) == json_real_value(value));
}

static bool has_type(const json_t *value, const char *type)
{
    return strcmp(type, "string") == 0    ? json_is_string(value)
           : strcmp(type, "integer") == 0 ? is_whole(value)
           : strcmp(type, "boolean") == 0 ? json_is_boolean(value)
                                          : strcmp(type, "array") == 0 && json_is_array(value);
}

static const char *in_words(const char *type)
{
    return strcmp(type, "integer") == 0 ? "a whole number"
           : strcmp(type, "array") == 0 ? "a list"
           : strcmp(type, "boolean") == 0 ? "true or false"
                                          : "a string";
}

/* These go to no path and no pattern: any text may be in them. */
static bool may_hold_nul(const char *name)
{
    return strcmp(name, "content") == 0 || strcmp(name, "old_string") == 0 ||
           strcmp(name, "new_string") == 0;
}

static int check_string(const char *name, const json_t *value, const json_t *schema, struct error *err)
{
    const json_t *allowed = json_object_get(schema, "enum");
    const json_t *one;
    size_t i;

    if (!may_hold_nul(name) &&
        strlen(json_string_value(value)) != json_string_length(value)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "%s must not contain a NUL byte", name);
    }
    if (allowed == NULL) {
        return 0;
    }
    json_array_foreach(allowed, i, one)
    {
        if (json_equal(one, value)) {
            return 0;
        }
    }
    error_set(err, ERROR_BAD_REQUEST, 0, "\"%s\" is none of", name);
    json_array_foreach(allowed, i, one)
    {
        size_t used = strlen(err->message);

        snprintf(err->message + used, sizeof err->message - used, "%s \"%s\"", i > 0 ? "," : "",
                 json_string_value(one));
    }
    return -1;
}

static int check_list(const char *name, const json_t *value, const json_t *schema, struct error *err)
{
    size_t want = (size_t)json_integer_value(json_object_get(schema, "minItems"));
    const char *type = json_string_value(json_object_get(json_object_get(schema, "items"), "type"));
    const json_t *one;
    size_t i;

    if (json_array_size(value) != want) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"%s\" has %zu items instead of %zu", name,
                         json_array_size(value), want);
    }
    json_array_foreach(value, i, one)
    {
        if (!has_type(one, type)) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "\"%s\": an item is not %s", name,
                             in_words(type));
        }
    }
    return 0;
}

static int check_one(const char *name, const json_t *value, const json_t *properties, struct error *err)
{
    const json_t *schema = json_object_get(properties, name);
    const char *type = json_string_value(json_object_get(schema, "type"));

    if (schema == NULL) {
        const char *known;
        json_t *ignored;

        error_set(err, ERROR_BAD_REQUEST, 0, "unknown property \"%.64s\"; there are", name);
        json_object_foreach((json_t *)properties, known, ignored)
        {
            size_t used = strlen(err->message);

            snprintf(err->message + used, sizeof err->message - used, " %s", known);
        }
        return -1;
    }
    if (json_is_null(value)) {
        return 0; /* the same as none */
    }
    if (!has_type(value, type)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"%s\" is not %s", name, in_words(type));
    }
    return strcmp(type, "string") == 0  ? check_string(name, value, schema, err)
           : strcmp(type, "array") == 0 ? check_list(name, value, schema, err)
                                        : 0;
}

static int check_all(const json_t *schema, const json_t *arguments, struct error *err)
{
    const json_t *properties = json_object_get(schema, "properties");
    const char *name;
    const json_t *required;
    json_t *value;
    size_t i;

    json_object_foreach((json_t *)arguments, name, value)
    {
        if (check_one(name, value, properties, err) < 0) {
            return -1;
        }
    }
    json_array_foreach(json_object_get(schema, "required"), i, required)
    {
        value = json_object_get(arguments, json_string_value(required));
        if (value == NULL || json_is_null(value)) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "\"%s\" is missing",
                             json_string_value(required));
        }
    }
    return 0;
}

int tool_check(const struct tool *tool, const json_t *arguments, struct error *err)
{
    json_t *schema;
    int r;

    if (arguments != NULL && !json_is_object(arguments)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "the arguments are not an object");
    }
    schema = json_loads(tool->input_schema, 0, NULL);
    if (schema == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
    }
    r = check_all(schema, arguments, err);
    json_decref(schema);
    return r;
}

/* ---- Checked values ---- */

const char *tool_string(const struct tool_call *call, const char *name, size_t *ret_length)
{
    const json_t *value = json_object_get(call->arguments, name);

    if (ret_length != NULL) {
        *ret_length = json_string_length(value);
    }
    return json_string_value(value);
}

int64_t tool_whole(const json_t *value, int64_t otherwise)
{
    double real = json_real_value(value);

    if (json_is_integer(value)) {
        return json_integer_value(value);
    }
    if (!json_is_real(value)) {
        return otherwise;
    }
    return real >= 9.2e18 ? INT64_MAX : real <= -9.2e18 ? INT64_MIN : (int64_t)real;
}

int64_t tool_number(const struct tool_call *call, const char *name, int64_t otherwise)
{
    return tool_whole(json_object_get(call->arguments, name), otherwise);
}

bool tool_flag(const struct tool_call *call, const char *name)
{
    return json_is_true(json_object_get(call->arguments, name));
}

/* ---- Paths ---- */

/* Adds a path's components to an absolute clean one. */
static int add_path(struct buffer *out, const char *path)
{
    while (*path != '\0') {
        size_t length = strcspn(path, "/");

        if (length == 2 && strncmp(path, "..", 2) == 0) {
            while (out->length > 0 && out->data[--out->length] != '/') {
            }
        } else if (length > 0 && (length != 1 || path[0] != '.')) {
            if (buffer_append(out, "/", 1) < 0 || buffer_append(out, path, length) < 0) {
                return -1;
            }
        }
        path += length + (path[length] == '/');
    }
    return 0;
}

int tool_path_of(struct tool_call *call, const char *path)
{
    const char *workdir = link_sandbox(call->gateway->link)->workdir;

    buffer_clear(&call->path);
    if (path == NULL || path[0] != '/') {
        if (add_path(&call->path, workdir != NULL ? workdir : "/") < 0) {
            return -1;
        }
    }
    if (path != NULL && add_path(&call->path, path) < 0) {
        return -1;
    }
    if (call->path.length == 0 && buffer_append(&call->path, "/", 1) < 0) {
        return -1;
    }
    return buffer_text(&call->path) != NULL ? 0 : -1;
}

int tool_path(struct tool_call *call, const char *name)
{
    return tool_path_of(call, tool_string(call, name, NULL));
}
