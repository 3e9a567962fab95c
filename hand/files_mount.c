/* Alone in a file, since <linux/stat.h> and <sys/stat.h> do not go together in every C library. */
#include "hand/files_mount.h"

#include <linux/fcntl.h>
#include <linux/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

bool files_is_mount_point(int fd)
{
    struct statx st;

    return syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, 0u, &st) == 0 &&
           (st.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
}
