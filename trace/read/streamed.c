/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/streamed.h"

#include "trace/read/pipe.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>

/* A format that is not read in pieces has to fit into memory as a whole. */
#define WHOLE_MAX   (UINT64_C(4) << 30)
#define WHOLE_FIRST ((size_t)4 << 20)

struct streamed {
    struct reading *r;
    struct pipe *pipe;
    struct stream *stream;
    uint8_t *input; /* SOURCE_STEP */
    /* The scanning thread's. */
    enum trace_format format; /* by the first piece */
    int (*take)(struct streamed *s, char *p, size_t size, bool last);
    int error;
    bool refused;
    char reason[sizeof(((struct read_summary *)NULL)->reason)];
    char *whole;
    size_t whole_size, whole_cap;
};

static int take_events(struct streamed *s, char *p, size_t size, bool last)
{
    struct part *part = &s->r->parts[0];
    int err = feed_piece(part->feed, p, size, last);

    return err < 0 ? err : part->intake->error;
}

static int gather(struct streamed *s, const char *p, size_t size)
{
    uint64_t max = MIN(WHOLE_MAX, s->r->memory_max / 2);

    if (size > max - s->whole_size) {
        snprintf(s->reason, sizeof(s->reason), "%s of more than %" PRIu64 " MiB do not fit into memory",
                 format_name(s->format), max >> 20);
        return -ENOMEM;
    }
    if (s->whole_size + size > s->whole_cap) {
        size_t cap = MIN(MAX(2 * s->whole_cap, WHOLE_FIRST), (size_t)max);
        char *whole = realloc(s->whole, cap);
        if (!whole)
            return -ENOMEM;
        s->whole = whole;
        s->whole_cap = cap;
    }
    memcpy(s->whole + s->whole_size, p, size);
    s->whole_size += size;
    return 0;
}

static int take_whole(struct streamed *s, char *p, size_t size, bool last)
{
    struct intake *intake = s->r->parts[0].intake;
    int err = gather(s, p, size);

    if (err < 0 || !last)
        return err;
    err =
        reading_whole_reader(s->r, s->format)(s->whole, s->whole_size, intake, s->reason, sizeof(s->reason));
    s->refused = err == -EBADMSG;
    if (s->refused)
        return 0;
    return err < 0 ? err : intake->error;
}

/* For the formats that are refused. */
static int take_nothing(struct streamed *s _unused_, char *p _unused_, size_t size _unused_,
                        bool last _unused_)
{
    return 0;
}

static void look_at_beginning(struct streamed *s, const char *p, size_t size)
{
    struct reading *r = s->r;

    r->head_size = MIN(size, (size_t)ENDS_SIZE);
    memcpy(r->head, p, r->head_size);
    s->format = format_of(p, size);
    if (reading_whole_reader(r, s->format))
        s->take = take_whole;
    else
        s->take = s->format == FORMAT_EMPTY || s->format == FORMAT_JSON ? take_events : take_nothing;
}

static void *take_pieces(void *arg)
{
    struct streamed *s = arg;
    bool last = false;
    size_t size;
    char *p;

    while (!last && (p = pipe_next(s->pipe, &size, &last))) {
        if (!s->take)
            look_at_beginning(s, p, size);
        s->error = s->take(s, p, size, last);
        if (s->error < 0) {
            pipe_give_up(s->pipe);
            break;
        }
    }
    return NULL;
}

/* False where the other side gave up. */
static bool decode(struct streamed *s, size_t size)
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

static int read_source(struct streamed *s)
{
    struct reading *r = s->r;
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
        if (!decode(s, (size_t)n))
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

static int run(struct streamed *s)
{
    pthread_t thread;
    int err = pthread_create(&thread, NULL, take_pieces, s);

    if (err != 0)
        return -err;
    err = read_source(s);
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

int streamed_read(struct reading *r)
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
        err = run(&s);
    }
    stream_free(s.stream);
    pipe_free(s.pipe);
    free(s.input);
    free(s.whole);
    return err;
}
