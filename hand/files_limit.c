#include "hand/files.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The thread's own capabilities before the first call, and what was last asked for. */
static _Thread_local struct {
    bool known;
    uint64_t effective;
    bool limited;
    uint64_t limit;
} mine;

static uint64_t word(const struct __user_cap_data_struct data[2])
{
    return (uint64_t)data[1].effective << 32 | data[0].effective;
}

/* The raw system calls: they are about the calling thread alone, which a C library or libcap may want to
 * make up for. The permitted set is kept, so that another thread's turn may ask for another limit. */
int files_limit_thread(uint64_t capabilities)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    struct __user_cap_data_struct data[2];
    uint64_t wanted;

    if (mine.limited && mine.limit == capabilities) {
        return 0;
    }
    if (syscall(SYS_capget, &header, data) < 0) {
        return -1;
    }
    if (!mine.known) {
        mine.effective = word(data);
        mine.known = true;
    }
    wanted = mine.effective & capabilities & ~(UINT64_C(1) << CAP_FSETID);
    if (wanted != word(data)) {
        data[0].effective = (uint32_t)wanted;
        data[1].effective = (uint32_t)(wanted >> 32);
        if (syscall(SYS_capset, &header, data) < 0) {
            return -1;
        }
    }
    mine.limited = true;
    mine.limit = capabilities;
    return 0;
}
