#include "sandbox/units.h"

#include <string.h>

#define DURATION_MAX_MS (UINT64_C(10) * 366 * 24 * 3600 * 1000)
#define SIZE_MAX_BYTES (UINT64_C(1) << 62)

/* Reads a decimal number with at most `decimals` digits behind a point, times 10^decimals. Returns what
 * follows it, or NULL where there is no number or it is over `max`. */
static const char *read_decimal(const char *text, unsigned decimals, uint64_t max, uint64_t *ret)
{
    uint64_t value = 0;
    const char *p = text;
    bool digits = false;
    int behind_point = -1;

    for (;; p++) {
        if (*p == '.' && behind_point < 0 && decimals > 0) {
            behind_point = 0;
            continue;
        }
        if (*p < '0' || *p > '9') {
            break;
        }
        digits = true;
        if (behind_point >= 0 && (unsigned)++behind_point > decimals) {
            return NULL;
        }
        if (value > (max - 9) / 10) {
            return NULL;
        }
        value = value * 10 + (uint64_t)(*p - '0');
    }
    for (unsigned i = behind_point > 0 ? (unsigned)behind_point : 0; i < decimals; i++) {
        if (value > max / 10) {
            return NULL;
        }
        value *= 10;
    }
    *ret = value;
    return digits ? p : NULL;
}

int parse_duration(const char *text, uint64_t *ret_ms, struct error *err)
{
    uint64_t thousandths;
    const char *unit = read_decimal(text, 3, UINT64_MAX / 60, &thousandths);
    uint64_t ms;

    if (unit == NULL) {
        ms = UINT64_MAX;
    } else if (strcmp(unit, "ms") == 0) {
        ms = thousandths / 1000;
    } else if (*unit == '\0' || strcmp(unit, "s") == 0) {
        ms = thousandths;
    } else if (strcmp(unit, "m") == 0) {
        ms = thousandths * 60;
    } else {
        ms = UINT64_MAX;
    }
    if (ms > DURATION_MAX_MS) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "\"%s\" is not a duration (such as 250ms, 30s, 30, 5m)", text);
    }
    *ret_ms = ms;
    return 0;
}

int parse_size(const char *text, uint64_t *ret_bytes, struct error *err)
{
    static const char units[] = "KMG";
    uint64_t value;
    const char *unit = read_decimal(text, 0, SIZE_MAX_BYTES, &value);
    unsigned shift = 0;

    if (unit != NULL && *unit != '\0') {
        const char *found = strchr(units, *unit);

        if (found == NULL || unit[1] != '\0') {
            unit = NULL;
        } else {
            shift = 10 * (unsigned)(found - units + 1);
        }
    }
    if (unit == NULL || value > SIZE_MAX_BYTES >> shift) {
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         "\"%s\" is not a size (such as 4096, 512K, 4M, 1G)", text);
    }
    *ret_bytes = value << shift;
    return 0;
}
