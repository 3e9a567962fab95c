/* A pump's thread owns everything of it; nobody else looks at it. It ends
 *
 *     when the engine has ended (or broken off) and all that it said was taken, or cannot be;
 *     when the descriptor was closed and all that came from it was sent, or PUMP_LINGER_MS have passed.
 *
 * A descriptor that is shut down for writing only is no reason to end: the engine is told so, and goes on. Who is not
 * read stops who writes: a side is read while there is room for what its bytes may become. The engine must be able to
 * speak (and with it the codec to answer, which takes room toward the engine) while the engine does not listen, so the
 * descriptor is read only up to a lower mark.
 *
 * poll(2) tells of a hang-up also where nothing is asked for: a side that has told so once is asked no more while
 * nothing can be moved there. What TLS holds back poll does not see: `unread` remembers it.
 *
 * Libraries clean up behind themselves when the process exits (OPENSSL_cleanup(3)), and a pump that is still at work
 * then works with what they have freed. So exit(3) waits for the pumps, which take it as if their descriptors were
 * closed. The handler is registered once there is a connection, hence behind the libraries' own, and so is called
 * before them. */
#include "backends/pump.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sandbox/clock.h"
#include "sandbox/log.h"

#define PIECE (64u << 10)
#define ROOM (4 * PIECE)               /* for what one piece may become */
#define INNER_MARK (PUMP_BUFFER_BYTES - ROOM) /* either buffer's fill while the engine is read */
#define HAND_MARK (INNER_MARK / 2)     /* the outer buffer's fill while the descriptor is read */
#define PIECES_A_TURN 4                /* then the other side has its turn */
#define KEEP_BYTES (64u << 10)         /* an empty buffer keeps no more memory */
#define STACK_BYTES (512u << 10)
#define LEAVE_MS (PUMP_LINGER_MS + 1000) /* that exit(3) waits at most */

/* Bytes on their way; those before `head` are gone. */
struct lane {
    struct buffer bytes;
    size_t head;
};

struct pump {
    struct pump *next; /* of those at work */
    struct http_stream *stream;
    const struct pump_codec *codec;
    void *state;
    int fd;             /* our end of the descriptor's pair */
    struct lane inner;  /* to the descriptor */
    struct lane outer;  /* to the engine */
    bool unread;        /* the engine's connection may hold bytes that poll does not see */
    bool engine_ended;  /* nothing more comes from it, nothing is sent to it */
    bool engine_hung;   /* poll told of a hang-up */
    bool shut;          /* nothing more comes from the descriptor */
    bool told_shut;
    bool closed;        /* the descriptor is closed */
    bool failed;        /* by `err` */
    uint64_t linger_ms; /* until when, once it is closed */
    uint64_t tick_ms;   /* when the next tick is due; 0: never */
    struct error err;
    uint8_t piece[PIECE];
};

/* What exit(3) must know of. A thread that ends waits for the one that did so before it, so that one at most is left
 * to be waited for. */
static struct {
    pthread_once_t once;
    pthread_mutex_t lock;
    pthread_cond_t less;    /* `running` has become less */
    struct pump *at_work;
    atomic_uint running;    /* threads that still use a library */
    bool has_ended;
    pthread_t ended;
} pumps = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER, .less = PTHREAD_COND_INITIALIZER};

unsigned pump_count(void)
{
    return atomic_load(&pumps.running);
}

/* ---- Lanes ------------------------------------------------------------------------------------ */

static size_t lane_length(const struct lane *lane)
{
    return lane->bytes.length - lane->head;
}

/* Before something is appended. */
static struct buffer *lane_end(struct lane *lane)
{
    buffer_consume(&lane->bytes, lane->head);
    lane->head = 0;
    return &lane->bytes;
}

static void lane_consume(struct lane *lane, size_t length)
{
    lane->head += length;
    if (lane->head == lane->bytes.length) {
        lane->head = 0;
        buffer_clear(&lane->bytes);
        if (lane->bytes.capacity > KEEP_BYTES) {
            buffer_release(&lane->bytes);
        }
    }
}

static void lane_drop(struct lane *lane)
{
    lane->head = 0;
    buffer_release(&lane->bytes);
}

/* ---- The engine's side ------------------------------------------------------------------------ */

/* Nothing more from it or to it. What it said before is still for the descriptor. */
static void end_engine(struct pump *pump, const struct error *err)
{
    if (err != NULL && !pump->failed) {
        pump->failed = true;
        pump->err = *err;
    }
    pump->engine_ended = true;
    pump->unread = false;
    lane_drop(&pump->outer);
}

static bool may_decode(const struct pump *pump)
{
    return !pump->engine_ended && !pump->closed && lane_length(&pump->inner) <= INNER_MARK &&
           lane_length(&pump->outer) <= INNER_MARK;
}

static void read_engine(struct pump *pump)
{
    struct error err;

    for (unsigned i = 0; i < PIECES_A_TURN && may_decode(pump); i++) {
        ssize_t n = http_stream_recv(pump->stream, pump->piece, PIECE, &err);

        if (n == HTTP_AGAIN) {
            pump->unread = false;
            return;
        }
        if (n <= 0) {
            end_engine(pump, n < 0 ? &err : NULL);
        } else if (pump->codec->decode(pump->state, pump->piece, (size_t)n, lane_end(&pump->inner),
                                       lane_end(&pump->outer), &err) < 0) {
            end_engine(pump, &err);
        }
    }
    pump->unread = !pump->engine_ended;
}

static void write_engine(struct pump *pump)
{
    struct error err;

    while (!pump->engine_ended && lane_length(&pump->outer) > 0) {
        ssize_t n = http_stream_send(pump->stream, pump->outer.bytes.data + pump->outer.head,
                                     lane_length(&pump->outer), &err);

        if (n == HTTP_AGAIN) {
            return;
        }
        if (n < 0) {
            end_engine(pump, &err);
        } else {
            lane_consume(&pump->outer, (size_t)n);
        }
    }
}

/* Once, behind the last bytes. */
static void tell_shut(struct pump *pump)
{
    struct error err;

    if (!pump->shut || pump->told_shut || pump->engine_ended) {
        return;
    }
    if (pump->codec->finish != NULL) {
        pump->told_shut = true;
        if (pump->codec->finish(pump->state, lane_end(&pump->outer), &err) < 0) {
            end_engine(pump, &err);
        }
        write_engine(pump);
    } else if (lane_length(&pump->outer) == 0) {
        pump->told_shut = true;
        (void)http_stream_shutdown(pump->stream); /* else the engine learns it when the stream is closed */
    }
}

static void tick(struct pump *pump)
{
    struct error err;

    if (pump->tick_ms == 0 || pump->engine_ended || clock_now_ms() < pump->tick_ms) {
        return;
    }
    pump->tick_ms = clock_now_ms() + pump->codec->tick_ms;
    if (pump->codec->tick(pump->state, lane_end(&pump->outer), &err) < 0) {
        end_engine(pump, &err);
    }
}

/* ---- The descriptor's side -------------------------------------------------------------------- */

static void hand_closed(struct pump *pump)
{
    if (!pump->closed) {
        pump->closed = true;
        pump->linger_ms = clock_now_ms() + PUMP_LINGER_MS;
        pump->unread = false;
        lane_drop(&pump->inner);
    }
}

static bool may_encode(const struct pump *pump)
{
    return !pump->engine_ended && !pump->shut && lane_length(&pump->outer) <= HAND_MARK;
}

static void read_hand(struct pump *pump)
{
    struct error err;

    for (unsigned i = 0; i < PIECES_A_TURN && may_encode(pump); i++) {
        ssize_t n = recv(pump->fd, pump->piece, PIECE, 0);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n <= 0) {
            pump->shut = true;
            if (n < 0) {
                hand_closed(pump);
            }
        } else if (pump->codec->encode(pump->state, pump->piece, (size_t)n, lane_end(&pump->outer), &err) < 0) {
            end_engine(pump, &err);
        }
    }
}

static void write_hand(struct pump *pump)
{
    while (!pump->closed && lane_length(&pump->inner) > 0) {
        ssize_t n = send(pump->fd, pump->inner.bytes.data + pump->inner.head, lane_length(&pump->inner),
                         MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            return;
        }
        if (n < 0) {
            hand_closed(pump);
        } else {
            lane_consume(&pump->inner, (size_t)n);
        }
    }
}

/* ---- The thread ------------------------------------------------------------------------------- */

static bool over(const struct pump *pump)
{
    if (pump->closed) {
        return pump->engine_ended || clock_now_ms() >= pump->linger_ms ||
               (pump->shut && lane_length(&pump->outer) == 0);
    }
    return pump->engine_ended && lane_length(&pump->inner) == 0;
}

static int patience(const struct pump *pump)
{
    uint64_t until = pump->closed ? pump->linger_ms : UINT64_MAX;
    uint64_t now = clock_now_ms();

    if (pump->unread && may_decode(pump)) {
        return 0;
    }
    if (pump->tick_ms != 0 && !pump->engine_ended && pump->tick_ms < until) {
        until = pump->tick_ms;
    }
    if (until == UINT64_MAX) {
        return -1;
    }
    return until <= now ? 0 : until - now < INT_MAX ? (int)(until - now) : INT_MAX;
}

/* Sleeps until something can be moved, and notes who is gone. */
static void wait_for_work(struct pump *pump)
{
    short engine = (short)((may_decode(pump) ? POLLIN : 0) | (lane_length(&pump->outer) > 0 ? POLLOUT : 0));
    short hand = (short)((may_encode(pump) ? POLLIN : 0) | (lane_length(&pump->inner) > 0 ? POLLOUT : 0));
    bool ask_engine = !pump->engine_ended && (engine != 0 || !pump->engine_hung);
    bool ask_hand = hand != 0 || !pump->closed;
    struct pollfd fds[] = {
        {.fd = ask_engine ? http_stream_fd(pump->stream) : -1, .events = engine},
        {.fd = ask_hand ? pump->fd : -1, .events = hand},
    };

    if (poll(fds, 2, patience(pump)) <= 0) {
        return;
    }
    if ((fds[0].revents & (POLLHUP | POLLERR)) != 0) {
        pump->engine_hung = true;
    }
    if ((fds[1].revents & (POLLHUP | POLLERR)) != 0) {
        hand_closed(pump);
    }
    if (fds[0].revents != 0) {
        pump->unread = true;
    }
}

static void pump_free(struct pump *pump)
{
    pump->codec->ended(pump->state, pump->failed ? &pump->err : NULL);
    http_stream_close(pump->stream);
    lane_drop(&pump->inner);
    lane_drop(&pump->outer);
    if (pump->fd >= 0) {
        close(pump->fd);
    }
    free(pump);
}

static void begin_work(struct pump *pump)
{
    pthread_mutex_lock(&pumps.lock);
    pump->next = pumps.at_work;
    pumps.at_work = pump;
    atomic_fetch_add(&pumps.running, 1);
    pthread_mutex_unlock(&pumps.lock);
}

/* Before its descriptor is closed. */
static void end_work(const struct pump *pump)
{
    pthread_mutex_lock(&pumps.lock);
    for (struct pump **at = &pumps.at_work; *at != NULL; at = &(*at)->next) {
        if (*at == pump) {
            *at = pump->next;
            break;
        }
    }
    pthread_mutex_unlock(&pumps.lock);
}

/* The last that a thread does. */
static void end_thread(void)
{
    pthread_t before;
    bool wait;

    pthread_mutex_lock(&pumps.lock);
    wait = pumps.has_ended;
    before = pumps.ended;
    pumps.has_ended = true;
    pumps.ended = pthread_self();
    atomic_fetch_sub(&pumps.running, 1);
    pthread_cond_signal(&pumps.less);
    pthread_mutex_unlock(&pumps.lock);
    if (wait) {
        pthread_join(before, NULL);
    }
}

static void *run(void *arg)
{
    struct pump *pump = arg;

    for (;;) {
        tick(pump);
        if (pump->unread) {
            read_engine(pump);
        }
        write_hand(pump);
        read_hand(pump);
        write_engine(pump);
        tell_shut(pump);
        if (over(pump)) {
            break;
        }
        wait_for_work(pump);
    }
    if (pump->failed) {
        log_trace("an engine's stream broke off: %s", pump->err.message);
    }
    end_work(pump);
    pump_free(pump);
    end_thread();
    return NULL;
}

/* ---- The process' end ------------------------------------------------------------------------- */

static void leave(void)
{
    uint64_t end_ms = clock_now_ms() + LEAVE_MS;
    struct timespec end = {.tv_sec = (time_t)(end_ms / 1000), .tv_nsec = (long)(end_ms % 1000) * 1000000};
    bool done;

    pthread_mutex_lock(&pumps.lock);
    for (struct pump *pump = pumps.at_work; pump != NULL; pump = pump->next) {
        shutdown(pump->fd, SHUT_RDWR); /* what was written to it is still read */
    }
    while (pumps.running > 0 &&
           pthread_cond_clockwait(&pumps.less, &pumps.lock, CLOCK_MONOTONIC, &end) == 0) {
    }
    done = pumps.running == 0 && pumps.has_ended;
    pumps.has_ended = pumps.has_ended && !done;
    pthread_mutex_unlock(&pumps.lock);
    if (done) {
        pthread_join(pumps.ended, NULL);
    }
}

/* A child has no threads but the one that has forked, and its parent's descriptors are not its own to shut down. */
static void forget(void)
{
    pthread_mutex_init(&pumps.lock, NULL);
    pthread_cond_init(&pumps.less, NULL);
    pumps.at_work = NULL;
    pumps.running = 0;
    pumps.has_ended = false;
}

static void prepare(void)
{
    pthread_atfork(NULL, NULL, forget);
    atexit(leave);
}

/* Signals are for other threads. Gives 0 or an errno value. */
static int start_thread(struct pump *pump)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    int r;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    begin_work(pump);
    r = pthread_create(&thread, &attributes, run, pump);
    if (r != 0) {
        end_work(pump);
        atomic_fetch_sub(&pumps.running, 1);
    }
    pthread_attr_destroy(&attributes);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

int pump_start(struct http_stream *stream, const struct pump_codec *codec, void *state, int *ret_fd,
               struct error *err)
{
    struct pump *pump = calloc(1, sizeof *pump);
    int ends[2] = {-1, -1};
    int r = ENOMEM;

    pthread_once(&pumps.once, prepare);
    if (pump == NULL) {
        error_set(err, ERROR_NO_MEMORY, 0, "out of memory");
        codec->ended(state, err);
        http_stream_close(stream);
        return -1;
    }
    pump->stream = stream;
    pump->codec = codec;
    pump->state = state;
    pump->unread = true; /* what came behind the head */
    pump->tick_ms = codec->tick != NULL ? clock_now_ms() + codec->tick_ms : 0;
    buffer_init(&pump->inner.bytes, PUMP_BUFFER_BYTES);
    buffer_init(&pump->outer.bytes, PUMP_BUFFER_BYTES);
    pump->fd = -1;
    r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0 ? errno : 0;
    pump->fd = ends[0];
    if (r == 0) {
        *ret_fd = ends[1];
        r = start_thread(pump);
    }
    if (r != 0) {
        error_set_errno(err, r, "the engine's stream");
        pump->failed = true;
        pump->err = *err;
        if (ends[1] >= 0) {
            close(ends[1]);
        }
        pump_free(pump);
        return -1;
    }
    return 0;
}
