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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int count;

static void fatal(const char *what)
{
    printf("Bail out! %s: %s\n", what, strerror(errno));
    exit(EXIT_FAILURE);
}

/* Gives the target a block of the seed's exact size, so that a sanitizer sees each byte too many. */
static void replay(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data;
    long size;

    if (file == NULL || fseek(file, 0, SEEK_END) != 0 || (size = ftell(file)) < 0) {
        fatal(path);
    }
    rewind(file);
    data = malloc(size > 0 ? (size_t)size : 1);
    if (data == NULL || fread(data, 1, (size_t)size, file) != (size_t)size) {
        fatal(path);
    }
    fclose(file);
    printf("# %s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    printf("ok %d - the seed %s is taken without harm\n", ++count, strrchr(path, '/') + 1);
}

static void replay_folder(const char *folder)
{
    struct dirent **names;
    int n = scandir(folder, &names, NULL, alphasort);

    if (n < 0) {
        fatal(folder);
    }
    for (int i = 0; i < n; i++) {
        char path[4096];

        if (names[i]->d_name[0] != '.') {
            snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
            replay(path);
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

    if (argc > 1) {
        for (int i = 1; i < argc; i++) {
            snprintf(folder, sizeof folder, "./%s", argv[i]);
            replay(argv[i][0] == '/' ? argv[i] : folder);
        }
    } else {
        snprintf(folder, sizeof folder, "%s/tests/fuzz/seeds/%s", source != NULL ? source : ".",
                 name != NULL ? name + 1 : argv[0]);
        replay_folder(folder);
    }
    printf("1..%d\n", count);
    return EXIT_SUCCESS;
}
