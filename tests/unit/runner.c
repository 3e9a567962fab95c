/* main() of each program of unit tests: runs the suites of the files that it is linked from and tells
 * their results as TAP. `PROGRAM SUITE` runs one. */
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

#include "tests/crash.h"

static struct unit_suite *suites;

/* Keeps them by name, so that the order is not the linker's. */
void unit_register(struct unit_suite *suite)
{
    struct unit_suite **at = &suites;

    while (*at != NULL && strcmp((*at)->name, suite->name) < 0) {
        at = &(*at)->next;
    }
    suite->next = *at;
    *at = suite;
}

int main(int argc, char **argv)
{
    SRunner *runner = srunner_create(NULL);
    int failed;

    crash_watch();
    for (const struct unit_suite *u = suites; u != NULL; u = u->next) {
        Suite *suite = suite_create(u->name);
        TCase *tcase = tcase_create(u->name);

        suite_add_tcase(suite, tcase);
        u->fill(suite, tcase);
        srunner_add_suite(runner, suite);
    }
    srunner_set_tap(runner, "-");
    srunner_run(runner, argc > 1 ? argv[1] : NULL, NULL, CK_SILENT);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
