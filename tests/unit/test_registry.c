/* Backends by name. */
#include "backends/registry.h"
#include "tests/unit/unit.h"

#include <stdlib.h>
#include <string.h>

START_TEST(a_backend_is_found_by_its_name)
{
    const struct backend *backend = NULL;
    struct error err = {0};

    ck_assert_int_eq(backend_find("local", &backend, &err), 0);
    ck_assert_str_eq(backend->name, "local");
}
END_TEST

START_TEST(no_name_stands_for_the_environment_s_and_else_for_local)
{
    const struct backend *backend = NULL;
    struct error err = {0};

    unsetenv("HANDSFS_BACKEND");
    ck_assert_int_eq(backend_find(NULL, &backend, &err), 0);
    ck_assert_str_eq(backend->name, "local");
    ck_assert_int_eq(backend_find("", &backend, &err), 0);
    setenv("HANDSFS_BACKEND", "moon", 1);
    ck_assert_int_eq(backend_find(NULL, &backend, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.message, "\"moon\""));
    ck_assert_int_eq(backend_find("local", &backend, &err), 0);
    unsetenv("HANDSFS_BACKEND");
}
END_TEST

START_TEST(an_unknown_name_is_refused_with_the_known_ones)
{
    const struct backend *backend = NULL;
    struct error err = {0};

    ck_assert_int_eq(backend_find("lokal", &backend, &err), -1);
    ck_assert_int_eq(err.code, ERROR_BAD_REQUEST);
    ck_assert_ptr_nonnull(strstr(err.message, "lokal"));
    for (const struct backend *const *known = backend_all(); *known != NULL; known++) {
        ck_assert_ptr_nonnull(strstr(err.message, (*known)->name));
    }
    ck_assert_ptr_null(backend);
}
END_TEST

START_TEST(every_backend_has_all_operations)
{
    for (const struct backend *const *known = backend_all(); *known != NULL; known++) {
        const struct backend_ops *ops = (*known)->ops;

        ck_assert(ops->provision != NULL && ops->attach != NULL && ops->list != NULL);
        ck_assert(ops->destroy != NULL && ops->connect != NULL && ops->status != NULL);
        ck_assert(ops->doctor != NULL && ops->release != NULL);
    }
}
END_TEST

UNIT_SUITE(registry)
{
    tcase_add_test(tcase, a_backend_is_found_by_its_name);
    tcase_add_test(tcase, no_name_stands_for_the_environment_s_and_else_for_local);
    tcase_add_test(tcase, an_unknown_name_is_refused_with_the_known_ones);
    tcase_add_test(tcase, every_backend_has_all_operations);
}
