/* Included before every file of a build with the thread sanitizer.
 *
 * The sanitizer of clang 14 knows which thread used a descriptor and which closed it, but not that
 * openat(2) and openat2(2) made it. A number that the loop closed and another thread got by openat seems to
 * be the same descriptor still, and closing it a race. So closing is not looked at; memory is. */
#ifndef HANDSFS_TESTS_THREAD_SANITIZER_H
#define HANDSFS_TESTS_THREAD_SANITIZER_H

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

/* Of the sanitizer's run-time library. */
void AnnotateIgnoreWritesBegin(const char *file, int line);
void AnnotateIgnoreWritesEnd(const char *file, int line);

#define CLOSE_UNSEEN(call)                                                                         \
    __extension__({                                                                                \
        int closed_;                                                                               \
                                                                                                   \
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);                                             \
        closed_ = (call);                                                                          \
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);                                               \
        closed_;                                                                                   \
    })

/* A macro's own name in it is the function. */
#define close(fd) CLOSE_UNSEEN(close(fd))
#define closedir(dir) CLOSE_UNSEEN(closedir(dir))
#define fclose(file) CLOSE_UNSEEN(fclose(file))

#endif
