/* Durations and sizes: what people write, and nothing else. */
#include "sandbox/units.h"
#include "tests/unit/unit.h"

#include <string.h>

static const struct {
    const char *text;
    uint64_t ms; /* UINT64_MAX: refused */
} durations[] = {
    {"0", 0},           {"30", 30000},         {"30s", 30000},         {"250ms", 250},
    {"2.5s", 2500},     {"2.5", 2500},         {"0.001", 1},           {"5m", 300000},
    {"1.5m", 90000},    {"", UINT64_MAX},      {"s", UINT64_MAX},      {"-1", UINT64_MAX},
    {"+1", UINT64_MAX}, {"1h", UINT64_MAX},    {"1 s", UINT64_MAX},    {"1.2345", UINT64_MAX},
    {".", UINT64_MAX},  {"1..2", UINT64_MAX},  {"0x10", UINT64_MAX},   {"1e3", UINT64_MAX},
    {"ms", UINT64_MAX}, {"1mss", UINT64_MAX},  {"99999999999999999999", UINT64_MAX},
    {" 1", UINT64_MAX}, {"6000000m", UINT64_MAX},
};

START_TEST(a_duration_is_read_or_refused)
{
    struct error err = {0};
    uint64_t ms = 77;
    int r = parse_duration(durations[_i].text, &ms, &err);

    if (durations[_i].ms == UINT64_MAX) {
        ck_assert_msg(r == -1, "\"%s\" was taken", durations[_i].text);
        ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
        ck_assert_uint_eq(ms, 77);
    } else {
        ck_assert_msg(r == 0, "%s", err.message);
        ck_assert_uint_eq(ms, durations[_i].ms);
    }
}
END_TEST

static const struct {
    const char *text;
    uint64_t bytes; /* UINT64_MAX: refused */
} sizes[] = {
    {"0", 0},           {"4096", 4096},          {"4M", 4194304},        {"512K", 524288},
    {"1G", 1073741824}, {"4194305", 4194305},    {"", UINT64_MAX},       {"M", UINT64_MAX},
    {"4MB", UINT64_MAX}, {"4m", UINT64_MAX},     {"1.5G", UINT64_MAX},   {"-1", UINT64_MAX},
    {"1T", UINT64_MAX}, {"9999999999G", UINT64_MAX}, {"18446744073709551616", UINT64_MAX},
};

START_TEST(a_size_is_read_or_refused)
{
    struct error err = {0};
    uint64_t bytes = 77;
    int r = parse_size(sizes[_i].text, &bytes, &err);

    if (sizes[_i].bytes == UINT64_MAX) {
        ck_assert_msg(r == -1, "\"%s\" was taken", sizes[_i].text);
        ck_assert_uint_eq(bytes, 77);
    } else {
        ck_assert_msg(r == 0, "%s", err.message);
        ck_assert_uint_eq(bytes, sizes[_i].bytes);
    }
}
END_TEST

UNIT_SUITE(units)
{
    tcase_add_loop_test(tcase, a_duration_is_read_or_refused, 0, sizeof durations / sizeof durations[0]);
    tcase_add_loop_test(tcase, a_size_is_read_or_refused, 0, sizeof sizes / sizeof sizes[0]);
}
