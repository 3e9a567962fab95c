#include "exec/params.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "exec/base64.h"

int params_check(const json_t *params, const char *const *known, struct error *err)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)params, name, value)
    {
        size_t i = 0;

        while (known[i] != NULL && strcmp(known[i], name) != 0) {
            i++;
        }
        if (known[i] == NULL) {
            return error_set(err, ERROR_BAD_REQUEST, 0, "unknown parameter \"%.64s\"", name);
        }
    }
    return 0;
}

/* The value, NULL where there is none. */
static json_t *value_of(const json_t *params, const char *name)
{
    json_t *value = json_object_get(params, name);

    return json_is_null(value) ? NULL : value;
}

int params_text(const json_t *params, const char *name, const char **ret, size_t *ret_length,
                struct error *err)
{
    const json_t *value = value_of(params, name);

    if (value == NULL) {
        *ret = NULL;
        *ret_length = 0;
        return 0;
    }
    if (!json_is_string(value)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"%s\" is not a string", name);
    }
    if (strlen(json_string_value(value)) != json_string_length(value)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"%s\" has a NUL character in it", name);
    }
    *ret = json_string_value(value);
    *ret_length = json_string_length(value);
    return 0;
}

int params_number(const json_t *params, const char *name, uint64_t max, uint64_t *ret, struct error *err)
{
    const json_t *value = value_of(params, name);
    json_int_t number = json_integer_value(value);

    if (value != NULL && (!json_is_integer(value) || number < 0 || (uint64_t)number > max)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"%s\" is not a whole number from 0 to %" PRIu64,
                         name, max);
    }
    *ret = (uint64_t)number;
    return 0;
}

int params_boolean(const json_t *params, const char *name, bool *ret, struct error *err)
{
    const json_t *value = value_of(params, name);

    if (value != NULL && !json_is_boolean(value)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"%s\" is neither true nor false", name);
    }
    *ret = json_is_true(value);
    return 0;
}

int params_bytes(const json_t *params, const char *name, struct params_bytes *ret, struct error *err)
{
    char in_base64[64];
    const json_t *text = value_of(params, name);
    const json_t *encoded;

    snprintf(in_base64, sizeof in_base64, "%s_base64", name);
    encoded = value_of(params, in_base64);
    *ret = (struct params_bytes){.given = text != NULL || encoded != NULL};
    buffer_init(&ret->decoded, json_string_length(encoded));
    if (text != NULL && encoded != NULL) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"%s\" and \"%s\" are both given", name,
                         in_base64);
    }
    if (ret->given && !json_is_string(text != NULL ? text : encoded)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "\"%s\" is not a string",
                         text != NULL ? name : in_base64);
    }
    if (encoded == NULL) {
        ret->data = (const uint8_t *)json_string_value(text);
        ret->length = json_string_length(text);
        return 0;
    }
    if (base64_decode(&ret->decoded, json_string_value(encoded), json_string_length(encoded)) < 0) {
        return errno == EINVAL
                   ? error_set(err, ERROR_BAD_REQUEST, 0, "\"%s\" is not base64", in_base64)
                   : error_set(err, ERROR_NO_MEMORY, errno, "out of memory");
    }
    ret->data = ret->decoded.data;
    ret->length = ret->decoded.length;
    return 0;
}
