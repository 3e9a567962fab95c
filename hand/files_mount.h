/* Private to hand/files*.c. */
#ifndef HANDSFS_HAND_FILES_MOUNT_H
#define HANDSFS_HAND_FILES_MOUNT_H

#include <stdbool.h>

/* Whether something is mounted on what this descriptor, O_PATH too, was opened from. */
bool files_is_mount_point(int fd);

#endif
