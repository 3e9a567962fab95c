#include "backends/registry.h"

#include <stdlib.h>
#include <string.h>

#include "backends/docker.h"
#include "backends/k8s.h"
#include "backends/local.h"

#define DEFAULT_BACKEND "local"
#define NAMES_MAX 256 /* what a message shows of the known names */

static const struct backend *const backends[] = {&backend_local, &backend_docker, &backend_k8s, NULL};

const struct backend *const *backend_all(void)
{
    return backends;
}

/* "a, b, c", as far as it fits. */
static void known_names(char *text, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; backends[i] != NULL; i++) {
        size_t length = strlen(backends[i]->name);

        if (used + length + 3 > size) {
            break;
        }
        if (i > 0) {
            memcpy(text + used, ", ", 2);
            used += 2;
        }
        memcpy(text + used, backends[i]->name, length);
        used += length;
    }
    text[used] = '\0';
}

int backend_find(const char *name, const struct backend **ret, struct error *err)
{
    const char *given = name;
    char names[NAMES_MAX];

    if (given == NULL || given[0] == '\0') {
        given = getenv("HANDSFS_BACKEND");
    }
    if (given == NULL || given[0] == '\0') {
        given = DEFAULT_BACKEND;
    }
    for (size_t i = 0; backends[i] != NULL; i++) {
        if (strcmp(backends[i]->name, given) == 0) {
            *ret = backends[i];
            return 0;
        }
    }
    known_names(names, sizeof names);
    return error_set(err, ERROR_BAD_REQUEST, 0, "there is no backend \"%.80s\"; the known ones: %s", given,
                     names);
}
