#include "hand/wire.h"

#include <string.h>
#include <sys/stat.h>

/* ---- Frames ---------------------------------------------------------------------------------- */

static bool type_is_known(unsigned type)
{
    return (type >= WIRE_HELLO && type <= WIRE_EXEC_RESIZE) ||
           (type >= WIRE_WELCOME && type <= WIRE_EXEC_EXIT);
}

static void store(uint8_t *to, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        to[i] = (uint8_t)(v >> (8 * i));
    }
}

static uint64_t load(const uint8_t *from, unsigned bytes)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < bytes; i++) {
        v |= (uint64_t)from[i] << (8 * i);
    }
    return v;
}

int wire_decode_header(const uint8_t *bytes, struct wire_header *ret)
{
    uint32_t length = (uint32_t)load(bytes, 4);
    unsigned type = (unsigned)load(bytes + 4, 2);
    uint32_t max = type == WIRE_EXEC ? WIRE_MAX_EXEC_PAYLOAD : WIRE_MAX_PAYLOAD;

    if (!type_is_known(type) || length > max || load(bytes + 6, 2) != 0) {
        return -1;
    }
    ret->length = length;
    ret->type = (enum wire_type)type;
    ret->id = load(bytes + 8, 8);
    return 0;
}

size_t wire_begin_frame(struct buffer *out, enum wire_type type, uint64_t id)
{
    size_t frame = out->length;
    uint8_t *p = buffer_reserve(out, WIRE_HEADER_BYTES);

    if (p == NULL) {
        return SIZE_MAX;
    }
    store(p, 0, 4);
    store(p + 4, (uint64_t)type, 2);
    store(p + 6, 0, 2);
    store(p + 8, id, 8);
    buffer_commit(out, WIRE_HEADER_BYTES);
    return frame;
}

void wire_end_frame(struct buffer *out, size_t frame)
{
    store(out->data + frame, out->length - frame - WIRE_HEADER_BYTES, 4);
}

int wire_put_empty(struct buffer *out, enum wire_type type, uint64_t id)
{
    return wire_begin_frame(out, type, id) == SIZE_MAX ? -1 : 0;
}

/* ---- Fields ---------------------------------------------------------------------------------- */

static int put_number(struct buffer *out, uint64_t v, unsigned bytes)
{
    uint8_t raw[8];

    store(raw, v, bytes);
    return buffer_append(out, raw, bytes);
}

int wire_put_u8(struct buffer *out, uint8_t v)
{
    return put_number(out, v, 1);
}

int wire_put_u16(struct buffer *out, uint16_t v)
{
    return put_number(out, v, 2);
}

int wire_put_u32(struct buffer *out, uint32_t v)
{
    return put_number(out, v, 4);
}

int wire_put_u64(struct buffer *out, uint64_t v)
{
    return put_number(out, v, 8);
}

int wire_put_bytes(struct buffer *out, const void *data, size_t length)
{
    return length > UINT32_MAX || wire_put_u32(out, (uint32_t)length) < 0
               ? -1
               : buffer_append(out, data, length);
}

static uint64_t get_number(struct wire_reader *r, unsigned bytes)
{
    uint64_t v;

    if (r->bad || r->left < bytes) {
        r->bad = true;
        return 0;
    }
    v = load(r->at, bytes);
    r->at += bytes;
    r->left -= bytes;
    return v;
}

uint8_t wire_get_u8(struct wire_reader *r)
{
    return (uint8_t)get_number(r, 1);
}

uint16_t wire_get_u16(struct wire_reader *r)
{
    return (uint16_t)get_number(r, 2);
}

uint32_t wire_get_u32(struct wire_reader *r)
{
    return (uint32_t)get_number(r, 4);
}

uint64_t wire_get_u64(struct wire_reader *r)
{
    return get_number(r, 8);
}

const uint8_t *wire_get_bytes(struct wire_reader *r, size_t max, size_t *ret_length)
{
    static const uint8_t nothing[1];
    uint32_t length = wire_get_u32(r);
    const uint8_t *at = r->at;

    if (r->bad || length > max || length > r->left) {
        r->bad = true;
        *ret_length = 0;
        return nothing;
    }
    r->at += length;
    r->left -= length;
    *ret_length = length;
    return at;
}

int wire_end(const struct wire_reader *r)
{
    return r->bad || r->left > 0 ? -1 : 0;
}

static int put_text(struct buffer *out, const struct wire_text *t)
{
    return wire_put_bytes(out, t->data, t->length);
}

static struct wire_text get_text(struct wire_reader *r, size_t max)
{
    struct wire_text t;

    t.data = (const char *)wire_get_bytes(r, max, &t.length);
    return t;
}

/* ---- Greeting -------------------------------------------------------------------------------- */

static int put_greeting(struct buffer *out, const uint8_t id[WIRE_ID_BYTES])
{
    return wire_put_u32(out, WIRE_MAGIC) < 0 || wire_put_u16(out, WIRE_VERSION) < 0
               ? -1
               : buffer_append(out, id, WIRE_ID_BYTES);
}

static void get_greeting(struct wire_reader *r, uint8_t id[WIRE_ID_BYTES])
{
    if (wire_get_u32(r) != WIRE_MAGIC || wire_get_u16(r) != WIRE_VERSION || r->left < WIRE_ID_BYTES) {
        r->bad = true;
        memset(id, 0, WIRE_ID_BYTES);
        return;
    }
    memcpy(id, r->at, WIRE_ID_BYTES);
    r->at += WIRE_ID_BYTES;
    r->left -= WIRE_ID_BYTES;
}

int wire_put_hello(struct buffer *out, const struct wire_hello *hello)
{
    return put_greeting(out, hello->client);
}

int wire_get_hello(const uint8_t *payload, size_t length, struct wire_hello *ret)
{
    struct wire_reader r = {payload, length, false};

    get_greeting(&r, ret->client);
    return wire_end(&r);
}

int wire_put_welcome(struct buffer *out, const struct wire_welcome *w)
{
    return put_greeting(out, w->instance) < 0 || wire_put_u32(out, w->uid) < 0 ||
                   wire_put_u32(out, w->gid) < 0 || wire_put_u64(out, w->capabilities) < 0 ||
                   put_text(out, &w->workdir) < 0 || put_text(out, &w->version) < 0 ||
                   put_text(out, &w->machine) < 0
               ? -1
               : 0;
}

int wire_get_welcome(const uint8_t *payload, size_t length, struct wire_welcome *ret)
{
    struct wire_reader r = {payload, length, false};

    get_greeting(&r, ret->instance);
    ret->uid = wire_get_u32(&r);
    ret->gid = wire_get_u32(&r);
    ret->capabilities = wire_get_u64(&r);
    ret->workdir = get_text(&r, 4096);
    ret->version = get_text(&r, 64);
    ret->machine = get_text(&r, 64);
    if (ret->workdir.length == 0 || ret->workdir.data[0] != '/') {
        return -1;
    }
    return wire_end(&r);
}

/* ---- File calls ------------------------------------------------------------------------------ */

enum call_field {
    C_REF = 1 << 0,
    C_REF2 = 1 << 1,
    C_NAME = 1 << 2,
    C_NAME2 = 1 << 3,
    C_MODE = 1 << 4,
    C_FLAGS = 1 << 5,
    C_MASK = 1 << 6,
    C_OWNER = 1 << 7,
    C_OFFSET = 1 << 8,
    C_OFFSET2 = 1 << 9,
    C_SIZE = 1 << 10,
    C_LIMIT = 1 << 11,
    C_TIMES = 1 << 12,
    C_DATA = 1 << 13,
    C_XATTR = 1 << 14, /* a name that is an extended attribute's: "/" may be in it */
};

enum reply_field {
    R_ATTR = 1 << 0,
    R_HANDLE = 1 << 1,
    R_SIZE = 1 << 2,
    R_OFFSET = 1 << 3,
    R_DATA = 1 << 4,
    R_STATFS = 1 << 5,
};

static const struct shape {
    unsigned call;
    unsigned reply;
} shapes[WIRE_OPS] = {
    [WIRE_LOOKUP] = {C_REF | C_NAME, R_ATTR},
    [WIRE_GETATTR] = {C_REF, R_ATTR},
    [WIRE_SETATTR] = {C_REF | C_MASK | C_MODE | C_OWNER | C_SIZE | C_TIMES | C_LIMIT, R_ATTR},
    [WIRE_READLINK] = {C_REF, R_DATA},
    [WIRE_MKNOD] = {C_REF | C_NAME | C_MODE, R_ATTR},
    [WIRE_MKDIR] = {C_REF | C_NAME | C_MODE, R_ATTR},
    [WIRE_SYMLINK] = {C_REF | C_NAME | C_DATA, R_ATTR},
    [WIRE_LINK] = {C_REF | C_REF2 | C_NAME, R_ATTR},
    [WIRE_UNLINK] = {C_REF | C_NAME, 0},
    [WIRE_RMDIR] = {C_REF | C_NAME, 0},
    [WIRE_RENAME] = {C_REF | C_NAME | C_REF2 | C_NAME2 | C_FLAGS, 0},
    [WIRE_OPEN] = {C_REF | C_FLAGS | C_LIMIT, R_HANDLE | R_ATTR},
    [WIRE_CREATE] = {C_REF | C_NAME | C_FLAGS | C_MODE | C_LIMIT, R_HANDLE | R_ATTR},
    [WIRE_READ] = {C_REF | C_OFFSET | C_SIZE, R_DATA},
    [WIRE_WRITE] = {C_REF | C_OFFSET | C_LIMIT | C_DATA, R_SIZE | R_OFFSET | R_ATTR},
    [WIRE_FSYNC] = {C_REF | C_FLAGS, 0},
    [WIRE_RELEASE] = {C_REF, 0},
    [WIRE_OPENDIR] = {C_REF, R_HANDLE},
    [WIRE_READDIR] = {C_REF | C_OFFSET | C_SIZE | C_FLAGS, R_DATA},
    [WIRE_FALLOCATE] = {C_REF | C_MODE | C_OFFSET | C_SIZE | C_LIMIT, 0},
    [WIRE_LSEEK] = {C_REF | C_OFFSET | C_FLAGS, R_OFFSET},
    [WIRE_COPY_RANGE] = {C_REF | C_OFFSET | C_REF2 | C_OFFSET2 | C_SIZE | C_LIMIT, R_SIZE},
    [WIRE_STATFS] = {C_REF, R_STATFS},
    [WIRE_GETXATTR] = {C_REF | C_XATTR | C_SIZE, R_DATA | R_SIZE},
    [WIRE_SETXATTR] = {C_REF | C_XATTR | C_DATA | C_FLAGS, 0},
    [WIRE_LISTXATTR] = {C_REF | C_SIZE, R_DATA | R_SIZE},
    [WIRE_REMOVEXATTR] = {C_REF | C_XATTR, 0},
    [WIRE_READ_FILE] = {C_REF | C_LIMIT, R_HANDLE | R_ATTR},
    [WIRE_WRITE_FILE] = {C_REF | C_SIZE, R_HANDLE},
    [WIRE_COMMIT] = {C_REF, R_ATTR},
    [WIRE_RESOLVE] = {C_REF | C_DATA, R_DATA},
    [WIRE_HOLD] = {C_REF | C_NAME, R_HANDLE | R_ATTR},
};

static bool text_is(const struct wire_text *t, const char *s)
{
    return t->length == strlen(s) && memcmp(t->data, s, t->length) == 0;
}

/* A directory entry's name that may be used as one. */
static bool name_is_good(const struct wire_text *name)
{
    return name->length > 0 && name->length <= WIRE_MAX_NAME &&
           memchr(name->data, '/', name->length) == NULL &&
           memchr(name->data, '\0', name->length) == NULL && !text_is(name, ".") &&
           !text_is(name, "..");
}

/* "" or good names joined by single slashes. A component may be longer than a name: the kernel says so. */
static bool path_is_good(const struct wire_text *path)
{
    const char *p = path->data;
    const char *end = path->data + path->length;

    if (path->length == 0) {
        return true;
    }
    if (memchr(path->data, '\0', path->length) != NULL) {
        return false;
    }
    for (;;) {
        const char *slash = memchr(p, '/', (size_t)(end - p));
        struct wire_text part = {p, (size_t)((slash != NULL ? slash : end) - p)};

        if (part.length == 0 || text_is(&part, ".") || text_is(&part, "..")) {
            return false;
        }
        if (slash == NULL) {
            return true;
        }
        p = slash + 1;
    }
}

static int put_ref(struct buffer *out, const struct wire_ref *ref)
{
    return wire_put_u64(out, ref->handle) < 0 || wire_put_u8(out, (uint8_t)ref->base) < 0 ||
                   wire_put_u64(out, ref->dev) < 0 || wire_put_u64(out, ref->ino) < 0 ||
                   put_text(out, &ref->path) < 0
               ? -1
               : 0;
}

static void get_ref(struct wire_reader *r, struct wire_ref *ref)
{
    unsigned base;

    ref->handle = wire_get_u64(r);
    base = wire_get_u8(r);
    ref->base = base == WIRE_BASE_ROOT ? WIRE_BASE_ROOT : WIRE_BASE_WORKDIR;
    ref->dev = wire_get_u64(r);
    ref->ino = wire_get_u64(r);
    ref->path = get_text(r, WIRE_MAX_PATH);
    if (base > WIRE_BASE_ROOT || !path_is_good(&ref->path)) {
        r->bad = true;
    }
}

static int put_time(struct buffer *out, const struct wire_time *t)
{
    return wire_put_u64(out, (uint64_t)t->seconds) < 0 ? -1 : wire_put_u32(out, t->nanoseconds);
}

static struct wire_time get_time(struct wire_reader *r)
{
    struct wire_time t;

    t.seconds = (int64_t)wire_get_u64(r);
    t.nanoseconds = wire_get_u32(r);
    if (t.nanoseconds > 999999999) {
        r->bad = true;
    }
    return t;
}

int wire_put_call(struct buffer *out, const struct wire_call *c)
{
    unsigned has = shapes[c->op].call;
    int r = wire_put_u16(out, (uint16_t)c->op);

    r |= has & C_REF ? put_ref(out, &c->ref) : 0;
    r |= has & C_REF2 ? put_ref(out, &c->ref2) : 0;
    r |= has & (C_NAME | C_XATTR) ? put_text(out, &c->name) : 0;
    r |= has & C_NAME2 ? put_text(out, &c->name2) : 0;
    r |= has & C_MODE ? wire_put_u32(out, c->mode) : 0;
    r |= has & C_FLAGS ? wire_put_u32(out, c->flags) : 0;
    r |= has & C_MASK ? wire_put_u32(out, c->mask) : 0;
    r |= has & C_OWNER ? wire_put_u32(out, c->uid) | wire_put_u32(out, c->gid) : 0;
    r |= has & C_OFFSET ? wire_put_u64(out, c->offset) : 0;
    r |= has & C_OFFSET2 ? wire_put_u64(out, c->offset2) : 0;
    r |= has & C_SIZE ? wire_put_u64(out, c->size) : 0;
    r |= has & C_LIMIT ? wire_put_u64(out, c->limit) : 0;
    r |= has & C_TIMES ? put_time(out, &c->atime) | put_time(out, &c->mtime) : 0;
    r |= has & C_DATA ? put_text(out, &c->data) : 0;
    return r < 0 ? -1 : 0;
}

static struct wire_text get_name(struct wire_reader *r)
{
    struct wire_text name = get_text(r, WIRE_MAX_NAME);

    if (!name_is_good(&name)) {
        r->bad = true;
    }
    return name;
}

static struct wire_text get_xattr_name(struct wire_reader *r)
{
    struct wire_text name = get_text(r, WIRE_MAX_NAME);

    if (name.length == 0 || memchr(name.data, '\0', name.length) != NULL) {
        r->bad = true;
    }
    return name;
}

int wire_get_call(const uint8_t *payload, size_t length, struct wire_call *ret)
{
    struct wire_reader r = {payload, length, false};
    unsigned op = wire_get_u16(&r);
    unsigned has;

    if (op == 0 || op >= WIRE_OPS) {
        return -1;
    }
    *ret = (struct wire_call){.op = (enum wire_op)op};
    has = shapes[op].call;
    if (has & C_REF) {
        get_ref(&r, &ret->ref);
    }
    if (has & C_REF2) {
        get_ref(&r, &ret->ref2);
    }
    if (has & C_NAME) {
        ret->name = get_name(&r);
    }
    if (has & C_XATTR) {
        ret->name = get_xattr_name(&r);
    }
    if (has & C_NAME2) {
        ret->name2 = get_name(&r);
    }
    ret->mode = has & C_MODE ? wire_get_u32(&r) : 0;
    ret->flags = has & C_FLAGS ? wire_get_u32(&r) : 0;
    ret->mask = has & C_MASK ? wire_get_u32(&r) : 0;
    if (has & C_OWNER) {
        ret->uid = wire_get_u32(&r);
        ret->gid = wire_get_u32(&r);
    }
    ret->offset = has & C_OFFSET ? wire_get_u64(&r) : 0;
    ret->offset2 = has & C_OFFSET2 ? wire_get_u64(&r) : 0;
    ret->size = has & C_SIZE ? wire_get_u64(&r) : 0;
    ret->limit = has & C_LIMIT ? wire_get_u64(&r) : 0;
    if (has & C_TIMES) {
        ret->atime = get_time(&r);
        ret->mtime = get_time(&r);
    }
    if (has & C_DATA) {
        ret->data = get_text(&r, WIRE_MAX_DATA);
    }
    return wire_end(&r);
}

static int put_attr(struct buffer *out, const struct wire_attr *a)
{
    return wire_put_u64(out, a->dev) < 0 || wire_put_u64(out, a->ino) < 0 ||
                   wire_put_u64(out, a->size) < 0 || wire_put_u64(out, a->blocks) < 0 ||
                   wire_put_u32(out, a->mode) < 0 || wire_put_u32(out, a->nlink) < 0 ||
                   wire_put_u32(out, a->uid) < 0 || wire_put_u32(out, a->gid) < 0 ||
                   wire_put_u32(out, a->block_size) < 0 || wire_put_u64(out, a->rdev) < 0 ||
                   put_time(out, &a->atime) < 0 || put_time(out, &a->mtime) < 0 ||
                   put_time(out, &a->ctime) < 0
               ? -1
               : 0;
}

static void get_attr(struct wire_reader *r, struct wire_attr *a)
{
    a->dev = wire_get_u64(r);
    a->ino = wire_get_u64(r);
    a->size = wire_get_u64(r);
    a->blocks = wire_get_u64(r);
    a->mode = wire_get_u32(r);
    a->nlink = wire_get_u32(r);
    a->uid = wire_get_u32(r);
    a->gid = wire_get_u32(r);
    a->block_size = wire_get_u32(r);
    a->rdev = wire_get_u64(r);
    a->atime = get_time(r);
    a->mtime = get_time(r);
    a->ctime = get_time(r);
    switch (a->mode & S_IFMT) {
    case S_IFREG:
    case S_IFDIR:
    case S_IFLNK:
    case S_IFIFO:
    case S_IFSOCK:
    case S_IFCHR:
    case S_IFBLK:
        break;
    default:
        r->bad = true;
    }
    if (a->size > INT64_MAX || a->ino == 0) {
        r->bad = true;
    }
}

static int put_statfs(struct buffer *out, const struct wire_statfs *s)
{
    return wire_put_u64(out, s->blocks) < 0 || wire_put_u64(out, s->bfree) < 0 ||
                   wire_put_u64(out, s->bavail) < 0 || wire_put_u64(out, s->files) < 0 ||
                   wire_put_u64(out, s->ffree) < 0 || wire_put_u32(out, s->bsize) < 0 ||
                   wire_put_u32(out, s->namelen) < 0 || wire_put_u32(out, s->frsize) < 0
               ? -1
               : 0;
}

static void get_statfs(struct wire_reader *r, struct wire_statfs *s)
{
    s->blocks = wire_get_u64(r);
    s->bfree = wire_get_u64(r);
    s->bavail = wire_get_u64(r);
    s->files = wire_get_u64(r);
    s->ffree = wire_get_u64(r);
    s->bsize = wire_get_u32(r);
    s->namelen = wire_get_u32(r);
    s->frsize = wire_get_u32(r);
}

int wire_put_reply(struct buffer *out, enum wire_op op, const struct wire_reply *reply)
{
    unsigned has = shapes[op].reply;
    int r = wire_put_u16(out, (uint16_t)reply->code);

    if (reply->code != ERROR_NONE) {
        return r < 0 || wire_put_u32(out, reply->os_errno) < 0 ? -1 : put_text(out, &reply->message);
    }
    r |= has & R_ATTR ? put_attr(out, &reply->attr) : 0;
    r |= has & R_HANDLE ? wire_put_u64(out, reply->handle) : 0;
    r |= has & R_SIZE ? wire_put_u64(out, reply->size) : 0;
    r |= has & R_OFFSET ? wire_put_u64(out, reply->offset) : 0;
    r |= has & R_DATA ? put_text(out, &reply->data) : 0;
    r |= has & R_STATFS ? put_statfs(out, &reply->statfs) : 0;
    return r < 0 ? -1 : 0;
}

#define DATA_REPLY_HEAD 6 /* u16 code, u32 length */

size_t wire_begin_data_reply(struct buffer *out)
{
    size_t reply = out->length;

    if (buffer_reserve(out, DATA_REPLY_HEAD) == NULL || wire_put_u16(out, ERROR_NONE) < 0 ||
        wire_put_u32(out, 0) < 0) {
        return SIZE_MAX;
    }
    return reply;
}

void wire_end_data_reply(struct buffer *out, size_t reply)
{
    store(out->data + reply + 2, out->length - reply - DATA_REPLY_HEAD, 4);
}

int wire_get_reply(const uint8_t *payload, size_t length, enum wire_op op, struct wire_reply *ret)
{
    struct wire_reader r = {payload, length, false};
    unsigned has = shapes[op].reply;
    unsigned code = wire_get_u16(&r);

    *ret = (struct wire_reply){.code = (enum error_code)code};
    if (code >= ERROR_CODES) {
        return -1;
    }
    if (code != ERROR_NONE) {
        ret->os_errno = wire_get_u32(&r);
        ret->message = get_text(&r, ERROR_MESSAGE_MAX);
        if (ret->os_errno > 4095 || (code == ERROR_ERRNO && ret->os_errno == 0)) {
            return -1;
        }
        return wire_end(&r);
    }
    if (has & R_ATTR) {
        get_attr(&r, &ret->attr);
    }
    ret->handle = has & R_HANDLE ? wire_get_u64(&r) : 0;
    ret->size = has & R_SIZE ? wire_get_u64(&r) : 0;
    ret->offset = has & R_OFFSET ? wire_get_u64(&r) : 0;
    if (has & R_DATA) {
        ret->data = get_text(&r, WIRE_MAX_DATA);
    }
    if (has & R_STATFS) {
        get_statfs(&r, &ret->statfs);
    }
    if ((has & R_HANDLE) != 0 && ret->handle == 0) {
        return -1;
    }
    return wire_end(&r);
}

void wire_reply_error(struct wire_reply *reply, const struct error *err)
{
    *reply = (struct wire_reply){
        .code = err->code,
        .os_errno = (uint32_t)(err->os_errno > 0 ? err->os_errno : 0),
        .message = {err->message, strlen(err->message)},
    };
}

int wire_put_entry(struct buffer *out, const struct wire_entry *e)
{
    return wire_put_u64(out, e->next) < 0 || wire_put_u64(out, e->ino) < 0 ||
                   wire_put_u32(out, e->type) < 0 || put_text(out, &e->name) < 0 ||
                   wire_put_u8(out, e->has_attr) < 0 || (e->has_attr && put_attr(out, &e->attr) < 0)
               ? -1
               : 0;
}

int wire_get_entry(struct wire_reader *r, struct wire_entry *ret)
{
    if (!r->bad && r->left == 0) {
        return 0;
    }
    ret->next = wire_get_u64(r);
    ret->ino = wire_get_u64(r);
    ret->type = wire_get_u32(r);
    ret->name = get_text(r, WIRE_MAX_NAME);
    ret->has_attr = wire_get_u8(r) != 0;
    if (ret->has_attr) {
        get_attr(r, &ret->attr);
    }
    if (!name_is_good(&ret->name) && !text_is(&ret->name, ".") && !text_is(&ret->name, "..")) {
        r->bad = true;
    }
    return r->bad ? -1 : 1;
}

/* ---- Execution ------------------------------------------------------------------------------- */

int wire_put_exec(struct buffer *out, const struct wire_exec *e)
{
    return put_text(out, &e->tool) < 0 || put_text(out, &e->command) < 0 ||
                   put_text(out, &e->cwd) < 0 ||
                   wire_put_u32(out, e->env_count) < 0 ||
                   wire_put_bytes(out, e->env, e->env_length) < 0 ||
                   wire_put_u8(out, e->has_stdin) < 0 || wire_put_u64(out, e->keep) < 0 ||
                   wire_put_u8(out, e->flow) < 0 || wire_put_u8(out, e->terminal) < 0 ||
                   wire_put_u16(out, e->rows) < 0 || wire_put_u16(out, e->columns) < 0 ||
                   put_text(out, &e->shell) < 0 || wire_put_u8(out, e->shell_reset) < 0
               ? -1
               : 0;
}

/* NAME=VALUE strings, `count` of them and nothing else. */
static bool env_is_good(const uint8_t *env, size_t length, uint32_t count)
{
    struct wire_reader r = {env, length, false};

    for (uint32_t i = 0; i < count && !r.bad; i++) {
        struct wire_text entry = get_text(&r, length);
        const char *equals = memchr(entry.data, '=', entry.length);

        if (equals == NULL || equals == entry.data ||
            memchr(entry.data, '\0', entry.length) != NULL) {
            return false;
        }
    }
    return wire_end(&r) == 0;
}

static bool is_shell_name(const struct wire_text *name)
{
    for (size_t i = 0; i < name->length; i++) {
        char c = name->data[i];

        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' ||
              c == '_' || c == '-')) {
            return false;
        }
    }
    return true;
}

int wire_get_exec(const uint8_t *payload, size_t length, struct wire_exec *ret)
{
    struct wire_reader r = {payload, length, false};

    ret->tool = get_text(&r, WIRE_MAX_TOOL);
    ret->command = get_text(&r, WIRE_MAX_COMMAND);
    ret->cwd = get_text(&r, WIRE_MAX_PATH);
    ret->env_count = wire_get_u32(&r);
    ret->env = wire_get_bytes(&r, WIRE_MAX_EXEC_PAYLOAD, &ret->env_length);
    ret->has_stdin = wire_get_u8(&r) != 0;
    ret->keep = wire_get_u64(&r);
    ret->flow = wire_get_u8(&r) != 0;
    ret->terminal = wire_get_u8(&r) != 0;
    ret->rows = wire_get_u16(&r);
    ret->columns = wire_get_u16(&r);
    ret->shell = get_text(&r, WIRE_MAX_SHELL_NAME);
    ret->shell_reset = wire_get_u8(&r) != 0;
    if (ret->env_count > WIRE_MAX_EXEC_ENV || !env_is_good(ret->env, ret->env_length, ret->env_count) ||
        memchr(ret->tool.data, '\0', ret->tool.length) != NULL ||
        memchr(ret->command.data, '\0', ret->command.length) != NULL ||
        memchr(ret->cwd.data, '\0', ret->cwd.length) != NULL ||
        !is_shell_name(&ret->shell)) {
        return -1;
    }
    return wire_end(&r);
}

int wire_put_exit(struct buffer *out, const struct wire_exit *e)
{
    int r = wire_put_u32(out, (uint32_t)e->exit_code) | wire_put_u32(out, e->signal);

    for (unsigned i = 0; i < 2; i++) {
        r |= wire_put_u64(out, e->total[i]) | wire_put_u64(out, e->sent[i]);
    }
    r |= wire_put_u64(out, e->user_us) | wire_put_u64(out, e->system_us) |
         wire_put_u64(out, e->peak_kib) | wire_put_u8(out, (uint8_t)e->oom) |
         wire_put_u32(out, e->left) | wire_put_u32(out, e->named);
    for (uint32_t i = 0; i < e->named; i++) {
        r |= wire_put_u32(out, e->background[i].pid) | put_text(out, &e->background[i].name);
    }
    r |= wire_put_u8(out, (uint8_t)e->state);
    return r < 0 ? -1 : 0;
}

static int get_background(struct wire_reader *r, struct wire_exit *ret)
{
    ret->left = wire_get_u32(r);
    ret->named = wire_get_u32(r);
    if (ret->named > WIRE_MAX_LEFT || ret->named > ret->left) {
        return -1;
    }
    for (uint32_t i = 0; i < ret->named; i++) {
        struct wire_left *left = &ret->background[i];

        left->pid = wire_get_u32(r);
        left->name = get_text(r, WIRE_MAX_LEFT_NAME);
        if (memchr(left->name.data, '\0', left->name.length) != NULL) {
            return -1;
        }
    }
    return 0;
}

int wire_get_exit(const uint8_t *payload, size_t length, struct wire_exit *ret)
{
    struct wire_reader r = {payload, length, false};
    unsigned oom;
    unsigned state;

    ret->exit_code = (int32_t)wire_get_u32(&r);
    ret->signal = wire_get_u32(&r);
    for (unsigned i = 0; i < 2; i++) {
        ret->total[i] = wire_get_u64(&r);
        ret->sent[i] = wire_get_u64(&r);
        if (ret->sent[i] > ret->total[i]) {
            return -1;
        }
    }
    ret->user_us = wire_get_u64(&r);
    ret->system_us = wire_get_u64(&r);
    ret->peak_kib = wire_get_u64(&r);
    oom = wire_get_u8(&r);
    ret->oom = (enum wire_oom)oom;
    if (oom > WIRE_OOM_YES || get_background(&r, ret) < 0) {
        return -1;
    }
    state = wire_get_u8(&r);
    ret->state = (enum wire_state)state;
    if (state >= WIRE_STATES || ret->exit_code < -1 || ret->exit_code > 255 || ret->signal > 64 ||
        (ret->exit_code == -1) != (ret->signal != 0)) {
        return -1;
    }
    return wire_end(&r);
}
