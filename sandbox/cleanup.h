/* Scope cleanup: a variable declared with one of these attributes is released when it leaves its
 * scope. Two rules make it safe: it is initialised on its declaration line, and ownership leaves only
 * through take_ptr() or take_fd(). */
#ifndef HANDSFS_SANDBOX_CLEANUP_H
#define HANDSFS_SANDBOX_CLEANUP_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline void cleanup_free_fn(void *p)
{
    free(*(void **)p);
}

static inline void cleanup_fd_fn(const int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
}

static inline void cleanup_file_fn(FILE **f)
{
    if (*f != NULL) {
        fclose(*f);
    }
}

static inline void cleanup_dir_fn(DIR **d)
{
    if (*d != NULL) {
        closedir(*d);
    }
}

#define cleanup_free __attribute__((cleanup(cleanup_free_fn)))
#define cleanup_fd __attribute__((cleanup(cleanup_fd_fn)))
#define cleanup_file __attribute__((cleanup(cleanup_file_fn)))
#define cleanup_dir __attribute__((cleanup(cleanup_dir_fn)))

/* Hands the descriptor over: returns it and leaves -1 behind. */
static inline int take_fd(int *fd)
{
    int r = *fd;

    *fd = -1;
    return r;
}

/* Hands the pointer over: evaluates to it and leaves NULL behind. */
#define take_ptr(p)                                                                                \
    __extension__({                                                                                \
        __typeof__(p) *take_from_ = &(p);                                                          \
        __typeof__(p) taken_ = *take_from_;                                                        \
        *take_from_ = NULL;                                                                        \
        taken_;                                                                                    \
    })

#endif
