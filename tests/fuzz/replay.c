/* main() of a fuzz target that is built without a fuzzer: runs every seed through the target, so that
 * what a fuzzer once found stays a test. Seeds are the files given as arguments, else all files of
 * tests/fuzz/seeds/PROGRAM/. Results are TAP, one line a seed; a crash ends the program and is told by
 * the name of the seed printed before it. */
#include <dirent.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int count;

_Noreturn static void fatal(const char *what)
{
    printf("Bail out! %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

static size_t size_of(FILE *file)
{
    struct stat st;

    if (fstat(fileno(file), &st) != 0 || !S_ISREG(st.st_mode)) {
        errno = EINVAL;
        fatal("a seed is a file");
    }
    return (size_t)st.st_size;
}

/* Gives the target a block of the seed's exact size, so that a sanitizer sees each byte too many. */
static void replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data;
    size_t size;

    if (file == NULL) {
        fatal(path);
    }
    size = size_of(file);
    data = malloc(size > 0 ? size : 1);
    if (data == NULL || fread(data, 1, size, file) != size) {
        fatal(path);
    }
    fclose(file);
    printf("# %s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, size);
    free(data);
    printf("ok %d - the seed %s is taken without harm\n", ++count, path);
}

static void replay_folder(const char *folder)
{
    struct dirent **names;
    int n;

    if (chdir(folder) != 0 || (n = scandir(".", &names, NULL, alphasort)) < 0) {
        fatal(folder);
    }
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.') {
            replay(names[i]->d_name);
        }
        free(names[i]);
    }
    free(names);
}

int main(int argc, char **argv)
{
    const char *source = getenv("HANDSFS_SRCDIR");
    const char *name = strrchr(argv[0], '/');
    char folder[4096];

    for (int i = 1; i < argc; i++) {
        replay(argv[i]);
    }
    if (argc == 1) {
        snprintf(folder, sizeof folder, "%s/tests/fuzz/seeds/%s", source != NULL ? source : ".",
                 name != NULL ? name + 1 : argv[0]);
        replay_folder(folder);
    }
    printf("1..%d\n", count);
    return EXIT_SUCCESS;
}
