/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/reading.h"

#include "trace/read/json_text.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

/* Small enough to stay in a core's own cache from reading to scanning. */
#define PIECE            (256 << 10)
#define BUFFER_SIZE      (FEED_MARGIN + PIECE + SCAN_PAD)
#define PROGRESS_STEP_NS 50000000

struct split_worker {
    struct split *split;
    struct reading_part *part;
    uint64_t begin, end;
    _Atomic uint64_t at;
    int error;
    bool started;
    pthread_t thread;
    char *buffer; /* BUFFER_SIZE */
};

struct split {
    struct trace_reading *r;
    size_t n;
    _Atomic bool stop;
    struct split_worker workers[SPLIT_PARTS_MAX];
};

size_t split_parts(uint64_t size, unsigned threads, uint64_t memory)
{
    uint64_t parts = MIN((uint64_t)threads, (uint64_t)SPLIT_PARTS_MAX);

    parts = MIN(parts, size / SPLIT_PART_MIN);
    parts = MIN(parts, memory / SPLIT_PART_MEMORY);
    return (size_t)MAX(parts, (uint64_t)1);
}

static int split_read_range(struct split_worker *w, uint64_t begin, uint64_t end)
{
    struct split *s = w->split;
    char *piece = w->buffer + FEED_MARGIN;

    for (uint64_t at = begin; at < end && !atomic_load(&s->stop);) {
        ssize_t n = reading_pread(s->r, piece, (size_t)MIN((uint64_t)PIECE, end - at), at);
        if (n <= 0)
            return reading_end_error(n);
        int err = feed_piece(w->part->feed, piece, (size_t)n, false);
        if (err == 0)
            err = w->part->intake->error;
        if (err < 0)
            return err;
        at += (uint64_t)n;
        atomic_store(&w->at, at - begin);
    }
    return 0;
}

static void *split_worker_main(void *arg)
{
    struct split_worker *w = arg;

    w->error = split_read_range(w, w->begin, w->end);
    return NULL;
}

/* Returns whether the text before `p` is the end of an event and one comma. */
static bool split_follows_event(const char *begin, const char *p)
{
    while (p > begin && json_is_space(p[-1]))
        p--;
    if (p == begin || *--p != ',')
        return false;
    while (p > begin && json_is_space(p[-1]))
        p--;
    return p > begin && p[-1] == '}';
}

/* Finds an event after `at`, in the first piece; 0 if there is none. */
static uint64_t split_guess_border(struct trace_reading *r, uint64_t at, char *buffer)
{
    ssize_t n = reading_pread(r, buffer, PIECE, at);
    if (n <= 0)
        return 0;
    size_t offset = scan_guess_event(buffer, (size_t)n);
    bool found = offset < (size_t)n && split_follows_event(buffer, buffer + offset);
    return found ? at + offset : 0;
}

/* Each part ends where the next one begins; a part without a detected beginning is merged into the
 * previous part. */
static void split_assign_ranges(struct split *s, size_t n, char *buffer)
{
    uint64_t size = s->r->sum->source_bytes;

    s->n = 1;
    for (size_t i = 1; i < n; i++) {
        uint64_t border = split_guess_border(s->r, size / n * i, buffer);
        if (border <= s->workers[s->n - 1].begin)
            continue;
        s->workers[s->n - 1].end = border;
        s->workers[s->n++].begin = border;
    }
    s->workers[s->n - 1].end = size;
}

static int split_prepare(struct split *s, size_t n)
{
    struct trace_reading *r = s->r;
    bool bare = *json_skip_space(r->head, r->head + r->head_size) == '[';
    enum scan_begin begin = bare ? SCAN_IN_BARE_EVENTS : SCAN_IN_EVENTS;
    char *buffers = calloc(n, BUFFER_SIZE);

    if (!buffers)
        return -ENOMEM;
    s->workers[0].buffer = buffers;
    split_assign_ranges(s, n, buffers + FEED_MARGIN);
    int err = reading_new_parts(r, s->n, false);
    for (size_t i = 0; i < s->n && err == 0; i++) {
        struct split_worker *w = &s->workers[i];
        w->split = s;
        w->part = &r->parts[i];
        w->buffer = buffers + i * BUFFER_SIZE;
        if (i > 0)
            err = feed_new(w->part->intake, begin, w->begin, &w->part->feed);
    }
    return err;
}

static int split_start(struct split *s)
{
    for (size_t i = 0; i < s->n; i++) {
        struct split_worker *w = &s->workers[i];
        int err = pthread_create(&w->thread, NULL, split_worker_main, w);
        if (err != 0)
            return -err;
        w->started = true;
    }
    return 0;
}

static int split_report(struct split *s)
{
    uint64_t done = 0;

    for (size_t i = 0; i < s->n; i++)
        done += atomic_load(&s->workers[i].at);
    return reading_progress(s->r, done, reading_events(s->r));
}

/* Waits for a worker and reports progress meanwhile. */
static int split_join(struct split *s, struct split_worker *w)
{
    int err = 0;

    for (;;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += PROGRESS_STEP_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        if (pthread_timedjoin_np(w->thread, NULL, &until) != ETIMEDOUT)
            return err;
        if (!atomic_load(&s->stop))
            err = split_report(s);
        if (err == 0)
            err = tap_error(s->r->tap);
        if (err < 0)
            atomic_store(&s->stop, true);
    }
}

static int split_read_parts(struct split *s)
{
    int err = split_start(s);

    if (err < 0)
        atomic_store(&s->stop, true);
    for (size_t i = 0; i < s->n && s->workers[i].started; i++) {
        int r = split_join(s, &s->workers[i]);
        err = err < 0 ? err : r;
    }
    return err < 0 ? err : split_report(s);
}

/* The last of repeated values counts, as it does when one thread reads all of the text. */
static void split_keep_last_meta(struct trace_reading *r)
{
    for (enum meta_key k = 0; k < _META_MAX; k++) {
        bool is_set = false;
        for (size_t i = r->n_parts; i-- > 0;) {
            int64_t *value = &r->parts[i].intake->meta[k];
            *value = is_set ? COLUMN_NULL : *value;
            is_set = is_set || *value != COLUMN_NULL;
        }
    }
}

/* Part 0 began at the beginning; another part counts only if the previous one counts and ended exactly
 * there. */
static int split_join_parts(struct split *s)
{
    struct trace_reading *r = s->r;
    struct split_worker *w = &s->workers[0];
    size_t kept = 1;
    int err = w->error;

    for (size_t i = 1; i < s->n && err == 0; i++) {
        if (feed_between_events(w->part->feed)) {
            struct reading_part counts = r->parts[i];
            r->parts[i] = r->parts[kept];
            r->parts[kept] = counts;
            w = &s->workers[i];
            w->part = &r->parts[kept++];
            err = w->error;
        } else {
            err = split_read_range(w, s->workers[i].begin, s->workers[i].end);
        }
    }
    if (err == 0)
        err = feed_piece(w->part->feed, w->buffer + FEED_MARGIN, 0, true);
    if (err == 0)
        err = w->part->intake->error;
    reading_drop_parts(r, kept);
    split_keep_last_meta(r);
    return err;
}

static int split_read_ends(struct trace_reading *r)
{
    uint64_t size = r->sum->source_bytes;
    uint64_t tail = size - MIN(size, (uint64_t)ENDS_SIZE);
    ssize_t n = reading_pread(r, r->tail, ENDS_SIZE, tail);

    if (n < 0)
        return (int)n;
    r->tail_size = (size_t)n;
    r->sum->stream = (struct stream_summary){.coding = STREAM_PLAIN, .in = size, .out = size, .members = 1};
    return 0;
}

int split_read(struct trace_reading *r, size_t n)
{
    struct split *s = calloc(1, sizeof(*s));
    int err;

    if (!s)
        return -ENOMEM;
    s->r = r;
    err = split_prepare(s, n);
    if (err == 0 && r->options->tap)
        err = tap_start(r, &r->tap);
    if (err == 0)
        err = split_read_parts(s);
    if (err == 0)
        err = split_join_parts(s);
    if (err == 0)
        err = split_read_ends(r);
    free(s->workers[0].buffer);
    free(s);
    return err;
}
