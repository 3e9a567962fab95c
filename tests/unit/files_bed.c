#include "tests/unit/files_bed.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hand/files_server.h"

struct files_bed bed;

void files_bed_open(void)
{
    struct error err;

    umask(0);
    snprintf(bed.folder, sizeof bed.folder, "/tmp/handsfs-files-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(bed.folder));
    bed.root = open(bed.folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(mkdirat(bed.root, "workspace", 0755), 0);
    bed.workdir = openat(bed.root, "workspace", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(bed.workdir, 0);
    ck_assert_int_eq(files_new(&bed.files, bed.root, "/workspace", &err), 0);
    buffer_init(&bed.bytes, WIRE_MAX_PAYLOAD);
}

void files_bed_open_without_openat2(void)
{
    files_bed_open();
    bed.files->without_openat2 = true;
}

void files_bed_open_without_proc(void)
{
    files_bed_open();
    close(bed.files->proc);
    bed.files->proc = -1;
}

/* By descriptors, since some tests make paths that are too long. */
static void remove_all(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;

    while (dir != NULL && (e = readdir(dir)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            unlinkat(dirfd(dir), e->d_name, 0) < 0) {
            remove_all(dirfd(dir), e->d_name);
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
    unlinkat(parent, name, AT_REMOVEDIR);
}

void files_bed_close(void)
{
    files_free(bed.files);
    buffer_release(&bed.bytes);
    close(bed.workdir);
    close(bed.root);
    remove_all(AT_FDCWD, bed.folder);
}

int serve(struct wire_call call)
{
    struct buffer bytes = BUFFER_INIT(WIRE_MAX_PAYLOAD);

    buffer_clear(&bed.bytes);
    ck_assert_int_eq(wire_put_call(&bytes, &call), 0);
    ck_assert_int_eq(files_serve(bed.files, bytes.data, bytes.length, &bed.bytes), 0);
    buffer_release(&bytes);
    ck_assert_int_eq(wire_get_reply(bed.bytes.data, bed.bytes.length, call.op, &bed.reply), 0);
    if (bed.reply.code == ERROR_NONE) {
        return 0;
    }
    return error_errno(&(struct error){.code = bed.reply.code, .os_errno = (int)bed.reply.os_errno});
}

void served(struct wire_call call)
{
    int r = serve(call);

    ck_assert_msg(r == 0, "operation %d: %.*s", (int)call.op, (int)bed.reply.message.length,
                  bed.reply.message.data);
}

struct wire_text text(const char *s)
{
    return (struct wire_text){s, strlen(s)};
}

struct wire_ref at(const char *path)
{
    return (struct wire_ref){.base = WIRE_BASE_WORKDIR, .path = text(path)};
}

struct wire_ref in_root(const char *path)
{
    return (struct wire_ref){.base = WIRE_BASE_ROOT, .path = text(path)};
}

struct wire_ref by(uint64_t handle)
{
    return (struct wire_ref){.handle = handle, .path = text("")};
}

uint64_t opened(const char *path, int flags)
{
    served((struct wire_call){.op = WIRE_OPEN, .ref = at(path), .flags = (uint32_t)flags});
    return bed.reply.handle;
}

struct wire_attr attr_of(const char *path)
{
    served((struct wire_call){.op = WIRE_GETATTR, .ref = at(path)});
    return bed.reply.attr;
}

void released(uint64_t handle)
{
    served((struct wire_call){.op = WIRE_RELEASE, .ref = by(handle)});
}

void put_file(const char *path, const void *data, size_t length)
{
    int fd = openat(bed.workdir, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    ck_assert_msg(fd >= 0, "%s: %m", path);
    ck_assert_int_eq(write(fd, data, length), (ssize_t)length);
    close(fd);
}

void put_text(const char *path, const char *content)
{
    put_file(path, content, strlen(content));
}

void expect_text(const char *path, const char *content)
{
    char found[4096];
    int fd = openat(bed.workdir, path, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    ck_assert_msg(fd >= 0, "%s: %m", path);
    n = read(fd, found, sizeof found - 1);
    close(fd);
    ck_assert_int_ge(n, 0);
    found[n] = '\0';
    ck_assert_str_eq(found, content);
}

bool exists(const char *path)
{
    return faccessat(bed.workdir, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

unsigned count_entries(const char *path)
{
    int fd = openat(bed.workdir, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fdopendir(fd);
    unsigned n = 0;

    ck_assert_ptr_nonnull(dir);
    while (readdir(dir) != NULL) {
        n++;
    }
    closedir(dir);
    return n - 2;
}

mode_t mode_of(const char *path)
{
    struct stat st;

    ck_assert_int_eq(fstatat(bed.workdir, path, &st, AT_SYMLINK_NOFOLLOW), 0);
    return st.st_mode & 07777;
}
