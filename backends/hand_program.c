#include "backends/hand_program.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sandbox/cleanup.h"

#define READ_BYTES (256u << 10)

char *program_at(const char *path)
{
    char *real = realpath(path, NULL);

    if (real != NULL && access(real, X_OK) == 0) {
        return real;
    }
    free(real);
    return NULL;
}

/* hand/hand beside this program's folder, as it lies in a build tree. */
static char *hand_of_build_tree(void)
{
    char exe[PATH_MAX];
    char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    char *slash;

    if (n <= 0) {
        return NULL;
    }
    exe[n] = '\0';
    slash = strrchr(exe, '/');
    if (slash == NULL || slash == exe) {
        return NULL;
    }
    *slash = '\0';
    return snprintf(path, sizeof path, "%s/../hand/hand", exe) < PATH_MAX ? program_at(path) : NULL;
}

int hand_program_find(char **ret, struct error *err)
{
    const char *given = getenv("HANDSFS_HAND");
    char *found;

    if (given != NULL && given[0] != '\0') {
        found = program_at(given);
        if (found == NULL) {
            return error_set(err, ERROR_IO, errno, "HANDSFS_HAND names no program: %.200s", given);
        }
        *ret = found;
        return 0;
    }
    found = hand_of_build_tree();
    if (found == NULL) {
        found = program_at(HANDSFS_LIBEXECDIR "/hand");
    }
    if (found == NULL) {
        return error_set(err, ERROR_IO, ENOENT,
                         "the hand is not installed in " HANDSFS_LIBEXECDIR " (HANDSFS_HAND may name it)");
    }
    *ret = found;
    return 0;
}

int hand_program_read(struct buffer *ret, struct error *err)
{
    cleanup_free char *path = NULL;
    cleanup_fd int fd = -1;
    ssize_t n;

    if (hand_program_find(&path, err) < 0) {
        return -1;
    }
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return error_set(err, ERROR_IO, errno, "the hand cannot be read: %.200s", path);
    }
    do {
        uint8_t *to = buffer_reserve(ret, READ_BYTES);

        if (to == NULL) {
            return error_set(err, errno == ENOMEM ? ERROR_NO_MEMORY : ERROR_IO, 0,
                             "the hand is too large: %.200s", path);
        }
        n = read(fd, to, READ_BYTES);
        if (n < 0) {
            return error_set(err, ERROR_IO, errno, "the hand cannot be read: %.200s", path);
        }
        buffer_commit(ret, (size_t)n);
    } while (n > 0);
    return 0;
}

const char *hand_program_architecture(void)
{
#if defined(__x86_64__)
    return "amd64";
#elif defined(__aarch64__)
    return "arm64";
#elif defined(__i386__)
    return "386";
#elif defined(__arm__)
    return "arm";
#elif defined(__riscv) && __riscv_xlen == 64
    return "riscv64";
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
    return "ppc64le";
#elif defined(__s390x__)
    return "s390x";
#else
    return NULL;
#endif
}
