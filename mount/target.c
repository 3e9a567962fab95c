#include "mount/target.h"

#include <stdlib.h>
#include <string.h>

#include "mount/mountinfo.h"
#include "mount/mounts.h"

int target_directory(const char *word, char **ret, struct error *err)
{
    cleanup_mount_entry struct mount_entry entry = {0};
    struct error ignored = {0};
    char *path = NULL;
    bool found = false;

    if (strchr(word, '/') != NULL || strcmp(word, ".") == 0 || strcmp(word, "..") == 0) {
        return mountpoint_path(word, ret, err);
    }
    *ret = NULL;
    if (mountpoint_path(word, &path, &ignored) < 0) {
        return 0;
    }
    if (mounted_at(path) == MOUNTED_HANDSFS ||
        (mounts_find(path, &entry, &found, &ignored) == 0 && found)) {
        *ret = path;
    } else {
        free(path);
    }
    return 0;
}
