/* The hand's side of the wire: the input is the stream of frames that a host would send. What is a file call
 * is served, against a new folder each time; every reply has to decode, and nothing outside of the folder may
 * change, whatever is asked for. */
#include "hand/files.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sandbox/cleanup.h"

#define MAX_FRAMES 64
#define MAX_FILE (8u << 20) /* bytes that a file here may have */
#define SECRET "what is outside"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[64]; /* holds `root`, which is served, and `secret` */

static void must(bool holds)
{
    if (!holds) {
        abort();
    }
}

/* ---- The folder -------------------------------------------------------------------------------- */

static void remove_all(int parent, const char *name)
{
    cleanup_dir DIR *dir = NULL;
    struct dirent *e;
    int fd;

    fchmodat(parent, name, 0700, 0);
    fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    while (dir != NULL && (e = readdir(dir)) != NULL) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
            unlinkat(fd, e->d_name, 0) < 0) {
            remove_all(fd, e->d_name);
        }
    }
    unlinkat(parent, name, AT_REMOVEDIR);
}

static void remove_folder(void)
{
    remove_all(AT_FDCWD, folder);
}

static void write_text(int dir, const char *name, const char *content)
{
    cleanup_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

    must(fd >= 0 && write(fd, content, strlen(content)) == (ssize_t)strlen(content));
}

/* Once a process. In memory where that is possible, since much of it is synced. */
static int open_folder(void)
{
    static int fd = -1;
    struct rlimit limit = {MAX_FILE, MAX_FILE};

    if (fd < 0) {
        snprintf(folder, sizeof folder, "%s/handsfs-fuzz-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        must(mkdtemp(folder) != NULL);
        atexit(remove_folder);
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &limit);
        umask(0);
        fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        must(fd >= 0);
        write_text(fd, "secret", SECRET);
    }
    return fd;
}

static int plant_root(int dir)
{
    cleanup_fd int root = -1;

    must(mkdirat(dir, "root", 0755) == 0);
    root = openat(dir, "root", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(root >= 0 && mkdirat(root, "workspace", 0755) == 0 && mkdirat(root, "etc", 0755) == 0 &&
         mkdirat(root, "workspace/dir", 0755) == 0);
    write_text(root, "workspace/file", "0123456789");
    write_text(root, "workspace/dir/inner", "");
    must(mkfifoat(root, "workspace/fifo", 0644) == 0);
    must(symlinkat("file", root, "workspace/link") == 0);
    must(symlinkat("../../secret", root, "workspace/out") == 0);
    must(symlinkat("/workspace/dir", root, "workspace/abs") == 0);
    must(symlinkat("../..", root, "workspace/up") == 0);
    return take_fd(&root);
}

static unsigned count_entries(int dir)
{
    int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    cleanup_dir DIR *d = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *e;
    unsigned n = 0;

    must(d != NULL);
    while ((e = readdir(d)) != NULL) {
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    }
    return n;
}

/* The folder holds its two entries, and the file outside is as it was. */
static void check_outside(int dir)
{
    char content[64];
    struct stat st;
    cleanup_fd int fd = openat(dir, "secret", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

    must(fd >= 0 && fstat(fd, &st) == 0 && st.st_mode == (S_IFREG | 0644) && st.st_nlink == 1);
    must(read(fd, content, sizeof content) == (ssize_t)strlen(SECRET));
    must(memcmp(content, SECRET, strlen(SECRET)) == 0);
    must(fstat(dir, &st) == 0 && (st.st_mode & 07777) == 0700);
    must(count_entries(dir) == 2);
}

/* ---- Frames ------------------------------------------------------------------------------------ */

static void check_reply(enum wire_op op, const struct buffer *bytes)
{
    struct wire_reply reply;
    struct wire_entry entry;

    must(wire_get_reply(bytes->data, bytes->length, op, &reply) == 0);
    if (op == WIRE_READDIR && reply.code == ERROR_NONE) {
        struct wire_reader r = {(const uint8_t *)reply.data.data, reply.data.length, false};
        int more;

        while ((more = wire_get_entry(&r, &entry)) > 0) {
        }
        must(more == 0);
    }
}

static void take_call(struct files *files, const uint8_t *payload, size_t length)
{
    cleanup_buffer struct buffer reply = BUFFER_INIT(WIRE_MAX_PAYLOAD);
    struct wire_call call;
    bool good = wire_get_call(payload, length, &call) == 0;

    must(files_serve(files, payload, length, &reply) == 0);
    check_reply(good ? call.op : WIRE_LOOKUP, &reply);
    if (good) { /* what was decoded encodes to the same */
        cleanup_buffer struct buffer again = BUFFER_INIT(WIRE_MAX_PAYLOAD);

        must(wire_put_call(&again, &call) == 0);
        must(again.length == length && memcmp(again.data, payload, length) == 0);
    }
}

static void take_frame(struct files *files, enum wire_type type, const uint8_t *payload,
                       size_t length)
{
    struct wire_reader r = {payload, length, false};
    struct wire_hello hello;
    struct wire_exec exec;
    size_t n;

    switch (type) {
    case WIRE_CALL:
        take_call(files, payload, length);
        break;
    case WIRE_HELLO:
        (void)!wire_get_hello(payload, length, &hello);
        break;
    case WIRE_EXEC:
        (void)!wire_get_exec(payload, length, &exec);
        break;
    case WIRE_EXEC_INPUT:
        wire_get_u64(&r);
        wire_get_bytes(&r, WIRE_MAX_DATA, &n);
        (void)!wire_end(&r);
        break;
    case WIRE_EXEC_CREDIT:
        wire_get_u8(&r);
        wire_get_u64(&r);
        (void)!wire_end(&r);
        break;
    default:
        break;
    }
}

static void take_stream(struct files *files, const uint8_t *data, size_t size)
{
    struct wire_header header;

    for (int i = 0; i < MAX_FRAMES && size >= WIRE_HEADER_BYTES; i++) {
        uint8_t *payload;

        if (wire_decode_header(data, &header) < 0 || header.length > size - WIRE_HEADER_BYTES) {
            return;
        }
        payload = malloc(header.length > 0 ? header.length : 1); /* of exactly this size */
        must(payload != NULL);
        memcpy(payload, data + WIRE_HEADER_BYTES, header.length);
        take_frame(files, header.type, payload, header.length);
        free(payload);
        data += WIRE_HEADER_BYTES + header.length;
        size -= WIRE_HEADER_BYTES + header.length;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int dir = open_folder();
    cleanup_fd int root = plant_root(dir);
    struct files *files;
    struct error err;

    must(files_new(&files, root, "/workspace", &err) == 0);
    take_stream(files, data, size);
    files_free(files);
    check_outside(dir);
    remove_all(dir, "root");
    return 0;
}
