/* What a file of unit tests includes. It ends in one UNIT_SUITE, which names itself to the runner:
 *
 *     START_TEST(a_sentence_that_says_what_holds)
 *     {
 *         ck_assert_int_eq(1 + 1, 2);
 *     }
 *     END_TEST
 *
 *     UNIT_SUITE(arithmetic)
 *     {
 *         tcase_add_test(tcase, a_sentence_that_says_what_holds);
 *     }
 */
#ifndef HANDSFS_TESTS_UNIT_UNIT_H
#define HANDSFS_TESTS_UNIT_UNIT_H

#include <check.h>

/* What UNIT_SUITE makes of a file: a suite of one case, which the file's function fills. */
struct unit_suite {
    const char *name;
    void (*fill)(Suite *suite, TCase *tcase);
    struct unit_suite *next;
};

void unit_register(struct unit_suite *suite);

#define UNIT_SUITE(suite_name)                                                                     \
    static void fill_##suite_name(Suite *suite, TCase *tcase);                                     \
    static struct unit_suite unit_suite_##suite_name = {#suite_name, fill_##suite_name, NULL};     \
    __attribute__((constructor)) static void register_##suite_name(void)                           \
    {                                                                                              \
        unit_register(&unit_suite_##suite_name);                                                   \
    }                                                                                              \
    static void fill_##suite_name(Suite *suite __attribute__((unused)),                            \
                                  TCase *tcase __attribute__((unused)))

#endif
