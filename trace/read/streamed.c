/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/reading.h"

#include "base/util.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>

/* -- Ring of buffers ------------------------------------------------------------------------------------ */

/*
 * A ring of large buffers between the thread that decompresses and the thread that reads the output. The
 * buffers are reused: touching fresh memory costs more than scanning it.
 *
 * Every buffer except the last is handed over full, so that the end of the text is still in the ring when
 * the writer is done.
 */

/* Few enough that decompressed text is still in a cache when it is scanned. */
#define PIPE_PIECES 8
#define PIPE_PIECE  (1 << 20)

#define BUFFER_SIZE (FEED_MARGIN + PIPE_PIECE + SCAN_PAD)

struct pipe {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t given, done; /* pieces that the writer handed over, that the reader has released */
    bool taken;           /* the reader holds the piece `done` */
    bool ended, given_up;
    size_t filled; /* the writer's: bytes in the current piece */
    size_t last_size;
    char *buffers; /* PIPE_PIECES of BUFFER_SIZE */
};

static struct pipe *pipe_free(struct pipe *p)
{
    if (!p)
        return NULL;
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p->buffers);
    free(p);
    return NULL;
}

static int pipe_new(struct pipe **ret)
{
    struct pipe *p = calloc(1, sizeof(*p));

    if (!p)
        return -ENOMEM;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    /* Zeroed, since the scanner may read past the end of a piece. */
    p->buffers = calloc(PIPE_PIECES, BUFFER_SIZE);
    if (!p->buffers) {
        pipe_free(p);
        return -ENOMEM;
    }
    *ret = p;
    return 0;
}

static char *pipe_piece(const struct pipe *p, uint64_t number)
{
    return p->buffers + number % PIPE_PIECES * BUFFER_SIZE + FEED_MARGIN;
}

static bool pipe_wait_for_buffer(struct pipe *p)
{
    bool ok;

    pthread_mutex_lock(&p->lock);
    while (p->given - p->done == PIPE_PIECES && !p->given_up)
        pthread_cond_wait(&p->changed, &p->lock);
    ok = !p->given_up;
    pthread_mutex_unlock(&p->lock);
    return ok;
}

/* The writer's side. Returns the room that is left in the current buffer, at least one byte, NULL if the
 * reader has stopped; commits written bytes, which hands a full buffer to the reader; ends the text, which
 * hands over a last piece that may be empty. */
static uint8_t *pipe_room(struct pipe *p, size_t *ret_size)
{
    if (p->filled == 0 && !pipe_wait_for_buffer(p))
        return NULL;
    *ret_size = PIPE_PIECE - p->filled;
    return (uint8_t *)pipe_piece(p, p->given) + p->filled;
}

static void pipe_give(struct pipe *p, bool last)
{
    pthread_mutex_lock(&p->lock);
    if (last) {
        p->ended = true;
        p->last_size = p->filled;
    }
    p->given++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    p->filled = 0;
}

static void pipe_filled(struct pipe *p, size_t size)
{
    p->filled += size;
    if (p->filled == PIPE_PIECE)
        pipe_give(p, false);
}

static void pipe_end(struct pipe *p)
{
    if (p->filled > 0 || pipe_wait_for_buffer(p))
        pipe_give(p, true);
}

/* Copies the last bytes of the text, at most `size` and PIPE_PIECE, to ret, after pipe_end(). Returns how
 * many. */
static size_t pipe_tail(const struct pipe *p, char *ret, size_t size)
{
    size_t last = MIN(p->last_size, size), before = 0;

    if (p->given > 1)
        before = MIN((size_t)PIPE_PIECE, size) - last;
    if (before > 0)
        memcpy(ret, pipe_piece(p, p->given - 2) + PIPE_PIECE - before, before);
    if (last > 0)
        memcpy(ret + before, pipe_piece(p, p->given - 1) + p->last_size - last, last);
    return before + last;
}

/* The reader's side: returns the next piece, with FEED_MARGIN bytes before and SCAN_PAD bytes after it
 * that the reader may use until the next call; *ret_last if nothing follows. NULL if the writer has
 * stopped. */
static char *pipe_next(struct pipe *p, size_t *ret_size, bool *ret_last)
{
    char *next = NULL;

    pthread_mutex_lock(&p->lock);
    if (p->taken) {
        p->done++;
        pthread_cond_broadcast(&p->changed);
    }
    while (p->given == p->done && !p->given_up)
        pthread_cond_wait(&p->changed, &p->lock);
    p->taken = !p->given_up;
    if (p->taken) {
        *ret_last = p->ended && p->done + 1 == p->given;
        *ret_size = *ret_last ? p->last_size : PIPE_PIECE;
        next = pipe_piece(p, p->done);
    }
    pthread_mutex_unlock(&p->lock);
    return next;
}

/* Either side: the other side gets NULL from now on. */
static void pipe_give_up(struct pipe *p)
{
    pthread_mutex_lock(&p->lock);
    p->given_up = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

/* -- Reading in one stream ------------------------------------------------------------------------------ */

/* A format that is not read in pieces must fit completely into memory. */
#define TEXT_BUFFER_MAX   (UINT64_C(4) << 30)
#define TEXT_BUFFER_FIRST ((size_t)4 << 20)

struct streamed {
    struct trace_reading *r;
    struct pipe *pipe;
    struct stream *stream;
    uint8_t *input; /* SOURCE_STEP */
    /* The scanning thread's. */
    enum trace_format format; /* by the first piece */
    /* NULL: nothing is taken of a format that is refused. */
    int (*take)(struct streamed *s, char *p, size_t size, bool last);
    int error;
    bool refused;
    char reason[sizeof(((struct read_summary *)NULL)->reason)];
    char *text;
    size_t text_size, text_cap;
};

static int streamed_take_events(struct streamed *s, char *p, size_t size, bool last)
{
    struct reading_part *part = &s->r->parts[0];
    int err = feed_piece(part->feed, p, size, last);

    return err < 0 ? err : part->intake->error;
}

static int streamed_gather(struct streamed *s, const char *p, size_t size)
{
    uint64_t max = MIN(TEXT_BUFFER_MAX, s->r->memory_max / 2);

    if (size > max - s->text_size) {
        snprintf(s->reason, sizeof(s->reason), "%s of more than %" PRIu64 " MiB do not fit into memory",
                 format_name(s->format), max >> 20);
        return -ENOMEM;
    }
    if (s->text_size + size > s->text_cap) {
        size_t cap = MIN(MAX(2 * s->text_cap, TEXT_BUFFER_FIRST), (size_t)max);
        char *text = realloc(s->text, cap);
        if (!text)
            return -ENOMEM;
        s->text = text;
        s->text_cap = cap;
    }
    memcpy(s->text + s->text_size, p, size);
    s->text_size += size;
    return 0;
}

static int streamed_take_buffered(struct streamed *s, char *p, size_t size, bool last)
{
    struct intake *intake = s->r->parts[0].intake;
    int err = streamed_gather(s, p, size);

    if (err < 0 || !last)
        return err;
    err = reading_buffer_reader(s->r, s->format)(s->text, s->text_size, intake, s->reason, sizeof(s->reason));
    s->refused = err == -EBADMSG;
    if (s->refused)
        return 0;
    return err < 0 ? err : intake->error;
}

static void streamed_begin(struct streamed *s, const char *p, size_t size)
{
    struct trace_reading *r = s->r;

    r->head_size = MIN(size, (size_t)ENDS_SIZE);
    memcpy(r->head, p, r->head_size);
    s->format = format_of(p, size);
    if (reading_buffer_reader(r, s->format))
        s->take = streamed_take_buffered;
    else if (s->format == FORMAT_EMPTY || s->format == FORMAT_JSON)
        s->take = streamed_take_events;
}

static void *streamed_take_pieces(void *arg)
{
    struct streamed *s = arg;
    bool first = true, last = false;
    size_t size;
    char *p;

    while (!last && (p = pipe_next(s->pipe, &size, &last))) {
        if (first)
            streamed_begin(s, p, size);
        first = false;
        s->error = s->take ? s->take(s, p, size, last) : 0;
        if (s->error < 0) {
            pipe_give_up(s->pipe);
            break;
        }
    }
    return NULL;
}

/* False if the other side has stopped. */
static bool streamed_decode(struct streamed *s, size_t size)
{
    struct stream_io io = {.in = s->input, .in_size = size};
    bool filled;

    do {
        io.out = pipe_room(s->pipe, &io.out_size);
        if (!io.out)
            return false;
        size_t room = io.out_size;
        stream_decode(s->stream, &io);
        filled = io.out_size == 0;
        pipe_filled(s->pipe, room - io.out_size);
    } while (io.in_size > 0 || filled);
    return true;
}

static int streamed_read_source(struct streamed *s)
{
    struct trace_reading *r = s->r;
    const struct read_options *o = r->options;
    uint64_t at = 0;

    for (;;) {
        ssize_t n = reading_pread(r, s->input, SOURCE_STEP, at);
        if (n < 0)
            return reading_fail(r, (int)n, "the source cannot be read: %s", strerror((int)-n));
        if (n == 0)
            break;
        int err = o->tap ? o->tap(s->input, (size_t)n, o->arg) : 0;
        if (err < 0)
            return err;
        if (!streamed_decode(s, (size_t)n))
            return 0;
        at += (uint64_t)n;
        err = reading_progress(r, at, reading_events(r));
        if (err < 0)
            return err;
    }
    pipe_end(s->pipe);
    r->tail_size = pipe_tail(s->pipe, r->tail, ENDS_SIZE);
    return 0;
}

static int streamed_run(struct streamed *s)
{
    pthread_t thread;
    int err = pthread_create(&thread, NULL, streamed_take_pieces, s);

    if (err != 0)
        return -err;
    err = streamed_read_source(s);
    if (err < 0)
        pipe_give_up(s->pipe);
    pthread_join(thread, NULL);
    stream_finish(s->stream, &s->r->sum->stream);
    if (s->reason[0])
        reading_fail(s->r, 0, "%s", s->reason);
    if (s->refused)
        s->r->sum->state = READ_REFUSED;
    return err < 0 ? err : s->error;
}

int streamed_read(struct trace_reading *r)
{
    struct streamed s = {.r = r, .input = malloc(SOURCE_STEP)};
    struct stream_limits limits = STREAM_LIMITS_DEFAULT;
    int err;

    if (r->options->text_max > 0)
        limits.out_max = MIN(limits.out_max, r->options->text_max);
    err = s.input ? pipe_new(&s.pipe) : -ENOMEM;
    if (err == 0)
        err = stream_new(limits, &s.stream);
    if (err == 0) {
        stream_keep_checkpoints(s.stream, &r->checkpoints);
        err = streamed_run(&s);
    }
    stream_free(s.stream);
    pipe_free(s.pipe);
    free(s.input);
    free(s.text);
    return err;
}
