#include "backends/k8s_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "sandbox/cleanup.h"

int k8s_file_read(const char *path, struct buffer *ret, struct error *err)
{
    /* Not blocking: a FIFO would keep us. */
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;

    if (fd < 0 && errno == ENOENT) {
        return error_set(err, ERROR_NO_SUCH_FILE, 0, "%s is not there", path);
    }
    if (fd < 0 || fstat(fd, &st) < 0) {
        int e = errno;

        return error_set(err, ERROR_BAD_REQUEST, e, "%s cannot be read: %s", path, strerror(e));
    }
    if (!S_ISREG(st.st_mode)) {
        return error_set(err, ERROR_BAD_REQUEST, 0, "%s is no regular file", path);
    }
    for (;;) {
        uint8_t piece[16384];
        ssize_t n = read(fd, piece, sizeof piece);

        if (n == 0) {
            return 0;
        }
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            int e = errno;

            return error_set(err, ERROR_BAD_REQUEST, e, "%s cannot be read: %s", path, strerror(e));
        }
        if (buffer_append(ret, piece, (size_t)n) < 0) {
            if (errno == ENOBUFS) {
                return error_set(err, ERROR_BAD_REQUEST, 0, "%s is too large: over %zu bytes", path,
                                 ret->limit);
            }
            return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", path);
        }
    }
}

int k8s_file_line(const char *path, size_t limit, char **ret, struct error *err)
{
    cleanup_buffer struct buffer text = BUFFER_INIT(limit);
    const char *begin;
    char *line;
    size_t length;

    if (k8s_file_read(path, &text, err) < 0) {
        return -1;
    }
    begin = buffer_text(&text);
    if (begin == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", path);
    }
    begin += strspn(begin, " \t\r\n");
    for (length = strlen(begin); length > 0 && strchr(" \t\r\n", begin[length - 1]) != NULL;) {
        length--;
    }
    line = strndup(begin, length);
    if (line == NULL) {
        return error_set(err, ERROR_NO_MEMORY, 0, "out of memory to read %s", path);
    }
    if (length == 0 || !k8s_header_text(line)) {
        free(line);
        return error_set(err, ERROR_BAD_REQUEST, 0,
                         length == 0 ? "%s is empty" : "%s has more than one line of plain text", path);
    }
    *ret = line;
    return 0;
}

char *k8s_file_beside(const char *path, const char *beside)
{
    const char *slash = strrchr(beside, '/');
    char *joined = NULL;

    if (path[0] == '/' || slash == NULL) {
        return strdup(path);
    }
    if (asprintf(&joined, "%.*s/%s", (int)(slash - beside), beside, path) < 0) {
        return NULL;
    }
    return joined;
}

bool k8s_header_text(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < ' ' || (unsigned char)*text > '~') {
            return false;
        }
    }
    return true;
}
