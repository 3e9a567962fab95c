/* A filter that keeps the processes inside from changing each other's resource limits: by them alone a
 * process of the same user could end process 1 (RLIMIT_CPU) or take its descriptors (RLIMIT_NOFILE). */
#ifndef HANDSFS_HAND_GUARD_H
#define HANDSFS_HAND_GUARD_H

/* For this process, its threads to come and all its descendants. Nothing where the sandbox lets
 * set-user-ID programs gain rights (without no_new_privs the kernel takes no filter from a user), or on
 * a machine that it is not written for. */
void guard_limits(void);

#endif
