#include "hand/guard.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The number of prlimit64(2), for the processes of this machine and for 32-bit ones on it. */
#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#define CALL 302
#define ARCH_32 AUDIT_ARCH_I386
#define CALL_32 340
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#define CALL 261
#define ARCH_32 AUDIT_ARCH_ARM
#define CALL_32 369
#endif

#ifdef ARCH

#define X32_BIT 0x40000000u /* the third way in on x86 */
#define LOAD(at) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define FIELD(field) offsetof(struct seccomp_data, field)
#define IF_EQUAL(v, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (v), (yes), (no))

void guard_limits(void)
{
    struct sock_filter code[] = {
        LOAD(FIELD(arch)),
        IF_EQUAL(ARCH, 1, 0),
        IF_EQUAL(ARCH_32, 3, 11),
        LOAD(FIELD(nr)),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, ~X32_BIT),
        IF_EQUAL(CALL, 2, 8),
        LOAD(FIELD(nr)),
        IF_EQUAL(CALL_32, 0, 6),
        LOAD(FIELD(args[0])), /* whose limits: 0 stands for the caller's own */
        IF_EQUAL(0, 4, 0),
        LOAD(FIELD(args[2])), /* the new limits; without any it only asks */
        IF_EQUAL(0, 0, 1),
        LOAD(FIELD(args[2]) + 4),
        IF_EQUAL(0, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
    };
    struct sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};

    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1) {
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW, &program);
    }
}

#else

void guard_limits(void)
{
}

#endif
