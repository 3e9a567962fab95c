#include "sandbox/capability.h"

#include <stddef.h>
#include <strings.h>

/* In the kernel's numbering. */
static const char *const names[] = {
    "CAP_CHOWN",           "CAP_DAC_OVERRIDE",    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",          "CAP_FSETID",          "CAP_KILL",
    "CAP_SETGID",          "CAP_SETUID",          "CAP_SETPCAP",
    "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST",
    "CAP_NET_ADMIN",       "CAP_NET_RAW",         "CAP_IPC_LOCK",
    "CAP_IPC_OWNER",       "CAP_SYS_MODULE",      "CAP_SYS_RAWIO",
    "CAP_SYS_CHROOT",      "CAP_SYS_PTRACE",      "CAP_SYS_PACCT",
    "CAP_SYS_ADMIN",       "CAP_SYS_BOOT",        "CAP_SYS_NICE",
    "CAP_SYS_RESOURCE",    "CAP_SYS_TIME",        "CAP_SYS_TTY_CONFIG",
    "CAP_MKNOD",           "CAP_LEASE",           "CAP_AUDIT_WRITE",
    "CAP_AUDIT_CONTROL",   "CAP_SETFCAP",         "CAP_MAC_OVERRIDE",
    "CAP_MAC_ADMIN",       "CAP_SYSLOG",          "CAP_WAKE_ALARM",
    "CAP_BLOCK_SUSPEND",   "CAP_AUDIT_READ",      "CAP_PERFMON",
    "CAP_BPF",             "CAP_CHECKPOINT_RESTORE",
};

const char *capability_name(unsigned number)
{
    return number < sizeof names / sizeof names[0] ? names[number] : NULL;
}

uint64_t capability_bit(const char *name)
{
    const char *plain = strncasecmp(name, "CAP_", 4) == 0 ? name + 4 : name;

    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcasecmp(names[i] + 4, plain) == 0) {
            return UINT64_C(1) << i;
        }
    }
    return 0;
}
