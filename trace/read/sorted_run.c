/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/sorted_run.h"

#include "trace/read/spill.h"
#include <errno.h>

/* -- Runs ----------------------------------------------------------------------------------------------- */

/* The columns of packed events. */
#define EVENT_FIELDS(F) F(ts) F(dur) F(offset) F(name) F(thread) F(category) F(phase) F(flags)
enum {
#define F(field) PACKED_##field,
    EVENT_FIELDS(F)
#undef F
        _PACKED_MAX,
};

/* Digits of the radix sort. */
#define DIGIT_BITS 11
#define DIGITS     (1 << DIGIT_BITS)

/* Rows of arguments that are turned into columns together: a cache line of each. */
#define ROWS_TURNED 8

/* Ties of at most this many events are sorted by insertion. */
#define FEW_TIES 16

struct event_run {
    size_t n;
    bool has_complete;
    size_t group_n[ARG_GROUPS];
    /* Offsets of the pieces of the events, then of each group's rows. */
    const uint64_t *group_offsets[ARG_GROUPS];
    uint64_t offsets[];
};

struct sort_key {
    uint64_t ts; /* since the batch's smallest */
    uint32_t event;
};

struct pack_scratch {
    struct sort_key keys[2][BATCH_EVENTS];
    uint32_t arg_rows[BATCH_EVENTS]; /* for each event in the current group */
    int64_t columns[PACKED_COLUMNS_MAX * BLOCK_ROWS];
};

static size_t run_pieces(size_t n)
{
    return (n + BLOCK_ROWS - 1) / BLOCK_ROWS;
}

static void run_sort_by_digit(const struct sort_key *from, size_t n, unsigned shift, struct sort_key *to)
{
    uint32_t at[DIGITS] = {0};
    uint32_t sum = 0;

    for (size_t i = 0; i < n; i++)
        at[from[i].ts >> shift & (DIGITS - 1)]++;
    for (size_t i = 0; i < DIGITS; i++) {
        uint32_t count = at[i];

        at[i] = sum;
        sum += count;
    }
    for (size_t i = 0; i < n; i++)
        to[at[from[i].ts >> shift & (DIGITS - 1)]++] = from[i];
}

static bool run_before(const struct sort_key *a, const struct sort_key *b, const struct event *events)
{
    int64_t rank_a = event_rank(&events[a->event]), rank_b = event_rank(&events[b->event]);

    return rank_a < rank_b || (rank_a == rank_b && a->event < b->event);
}

static int run_compare_ties(const void *a, const void *b, void *events)
{
    return run_before(b, a, events) - run_before(a, b, events);
}

static void run_sort_few(struct sort_key *keys, size_t n, const struct event *events)
{
    for (size_t i = 1; i < n; i++) {
        struct sort_key moved = keys[i];
        size_t at = i;

        for (; at > 0 && run_before(&moved, &keys[at - 1], events); at--)
            keys[at] = keys[at - 1];
        keys[at] = moved;
    }
}

/* Sorts events with equal timestamps by their rank. */
static void run_sort_ties(const struct batch *b, struct sort_key *keys)
{
    for (size_t first = 0, end; first < b->n; first = end) {
        for (end = first + 1; end < b->n && keys[end].ts == keys[first].ts; end++)
            ;
        if (end - first <= FEW_TIES)
            run_sort_few(keys + first, end - first, b->events);
        else
            qsort_r(keys + first, end - first, sizeof(*keys), run_compare_ties, (void *)b->events);
    }
}

/* Stable. Returns the sorted keys. */
static struct sort_key *run_sort_by_time(const struct batch *b, struct pack_scratch *scratch)
{
    struct sort_key *keys = scratch->keys[0], *other = scratch->keys[1];
    int64_t min = INT64_MAX, last = INT64_MIN;
    uint64_t span = 0;
    bool sorted = true;

    for (size_t i = 0; i < b->n; i++) {
        int64_t ts = b->events[i].ts;

        sorted = sorted && ts >= last;
        last = ts;
        min = MIN(min, ts);
    }
    for (size_t i = 0; i < b->n; i++) {
        keys[i] = (struct sort_key){(uint64_t)b->events[i].ts - (uint64_t)min, (uint32_t)i};
        span |= keys[i].ts;
    }
    if (sorted)
        return keys;
    for (unsigned shift = 0; shift < 64 && span >> shift != 0; shift += DIGIT_BITS) {
        struct sort_key *t = keys;

        run_sort_by_digit(keys, b->n, shift, other);
        keys = other;
        other = t;
    }
    return keys;
}

static int run_pack_events(const struct batch *b, const struct sort_key *keys, struct spill *spill,
                           int64_t *columns, uint64_t *ret_offsets)
{
    int r = 0;

    for (size_t first = 0; r == 0 && first < b->n; first += BLOCK_ROWS) {
        size_t n = MIN(b->n - first, (size_t)BLOCK_ROWS);

        for (size_t i = 0; i < n; i++) {
            const struct event *e = &b->events[keys[first + i].event];

#define F(field) columns[PACKED_##field * BLOCK_ROWS + i] = (int64_t)e->field;
            EVENT_FIELDS(F)
#undef F
        }
        r = packed_write(spill, columns, _PACKED_MAX, n, ret_offsets++);
    }
    return r;
}

/* Writes rows as columns: a few rows at a time, because the columns are so far apart that a cache holds few of them. */
static int run_pack_rows(const int64_t *const *rows, size_t n, size_t width, struct spill *spill,
                         int64_t *columns, uint64_t *ret_offset)
{
    for (size_t first = 0; first < n; first += ROWS_TURNED) {
        size_t some = MIN(n - first, (size_t)ROWS_TURNED);

        for (size_t k = 0; k < width; k++)
            for (size_t i = 0; i < some; i++)
                columns[k * BLOCK_ROWS + first + i] = rows[first + i][k];
    }
    return packed_write(spill, columns, (unsigned)width, n, ret_offset);
}

/* Packs the rows of a group in the order of the sorted events. */
static int run_pack_group(const struct batch *b, unsigned group, const struct sort_key *keys,
                          struct spill *spill, struct pack_scratch *scratch, uint64_t *ret_offsets)
{
    const int64_t *rows[BLOCK_ROWS];
    size_t width = arg_group_width[group], n = 0;
    uint32_t next = 0;
    int r = 0;

    if (b->group_n[group] == 0)
        return 0;
    for (size_t i = 0; i < b->n; i++)
        if (b->events[i].flags & EVENT_IN_GROUP(group))
            scratch->arg_rows[i] = next++;
    for (size_t i = 0; r == 0 && i < b->n; i++) {
        if (!(b->events[keys[i].event].flags & EVENT_IN_GROUP(group)))
            continue;
        rows[n++] = b->group_rows[group] + scratch->arg_rows[keys[i].event] * width;
        if (n == BLOCK_ROWS) {
            r = run_pack_rows(rows, n, width, spill, scratch->columns, ret_offsets++);
            n = 0;
        }
    }
    return r == 0 && n > 0 ? run_pack_rows(rows, n, width, spill, scratch->columns, ret_offsets) : r;
}

int run_pack(const struct batch *b, struct spill *spill, struct event_run **ret)
{
    _cleanup_(freep) struct pack_scratch *scratch = malloc(sizeof(*scratch));
    _cleanup_(run_freep) struct event_run *run = NULL;
    struct sort_key *keys;
    uint64_t *offsets;
    size_t n_offsets = run_pieces(b->n);
    int r;

    for (unsigned g = 0; g < ARG_GROUPS; g++)
        n_offsets += run_pieces(b->group_n[g]);
    run = malloc(sizeof(*run) + n_offsets * sizeof(*run->offsets));
    if (!run || !scratch)
        return -ENOMEM;
    run->n = b->n;

    keys = run_sort_by_time(b, scratch);
    run->has_complete = false;
    for (size_t i = 0; i < b->n && !run->has_complete; i++)
        run->has_complete = b->events[i].phase == EVENT_COMPLETE;
    if (run->has_complete)
        run_sort_ties(b, keys);
    r = run_pack_events(b, keys, spill, scratch->columns, run->offsets);
    offsets = run->offsets + run_pieces(b->n);
    for (unsigned g = 0; r == 0 && g < ARG_GROUPS; g++) {
        run->group_n[g] = b->group_n[g];
        run->group_offsets[g] = offsets;
        r = run_pack_group(b, g, keys, spill, scratch, offsets);
        offsets += run_pieces(b->group_n[g]);
    }
    if (r < 0)
        return r;
    *ret = TAKE_PTR(run);
    return 0;
}

struct event_run *run_free(struct event_run *r)
{
    free(r);
    return NULL;
}

size_t run_events(const struct event_run *r)
{
    return r->n;
}

/* The number of consumed rows of a group, and the piece that contains the current row. */
struct group_cursor {
    size_t at;
    bool loaded;
    struct packed_rows rows;
};

struct run_cursor {
    const struct event_run *run;
    struct spill *spill;
    size_t at;
    int error;
    struct event events[BLOCK_ROWS];
    struct group_cursor groups[ARG_GROUPS];
};

static void run_load_events(struct run_cursor *c)
{
    int64_t columns[_PACKED_MAX * BLOCK_ROWS];
    size_t n = MIN(c->run->n - c->at, (size_t)BLOCK_ROWS);
    int r = packed_read(c->spill, c->run->offsets[c->at / BLOCK_ROWS], _PACKED_MAX, n, columns);

    if (r < 0) {
        c->error = r;
        return;
    }
    for (size_t i = 0; i < n; i++) {
#define F(field)                                                                                             \
    c->events[i].field = (__typeof__(c->events[i].field))columns[PACKED_##field * BLOCK_ROWS + i];
        EVENT_FIELDS(F)
#undef F
    }
}

int run_cursor_new(const struct event_run *r, struct spill *spill, struct run_cursor **ret)
{
    _cleanup_(run_cursor_freep) struct run_cursor *c = calloc(1, sizeof(*c));

    if (!c)
        return -ENOMEM;
    c->run = r;
    c->spill = spill;
    if (r->n > 0)
        run_load_events(c);
    if (c->error < 0)
        return c->error;
    *ret = TAKE_PTR(c);
    return 0;
}

struct run_cursor *run_cursor_free(struct run_cursor *c)
{
    if (!c)
        return NULL;
    for (unsigned g = 0; g < ARG_GROUPS; g++)
        packed_rows_done(&c->groups[g].rows);
    free(c);
    return NULL;
}

const struct event *run_cursor_event(struct run_cursor *c)
{
    return c->error == 0 && c->at < c->run->n ? &c->events[c->at % BLOCK_ROWS] : NULL;
}

int run_cursor_args(struct run_cursor *c, unsigned group, const struct packed_rows **ret, size_t *ret_at)
{
    struct group_cursor *g = &c->groups[group];
    size_t piece = g->at / BLOCK_ROWS;

    if (!g->loaded) {
        int r = packed_rows_load(&g->rows, c->spill, c->run->group_offsets[group][piece],
                                 (unsigned)arg_group_width[group],
                                 MIN(c->run->group_n[group] - piece * BLOCK_ROWS, (size_t)BLOCK_ROWS));

        if (r < 0)
            return r;
        g->loaded = true;
    }
    *ret = &g->rows;
    *ret_at = g->at % BLOCK_ROWS;
    return 0;
}

bool run_cursor_args_loaded(const struct run_cursor *c, unsigned group)
{
    return c->groups[group].loaded;
}

void run_cursor_args_next(struct run_cursor *c, unsigned group)
{
    if (++c->groups[group].at % BLOCK_ROWS == 0)
        c->groups[group].loaded = false;
}

void run_cursor_next(struct run_cursor *c)
{
    if (++c->at % BLOCK_ROWS == 0 && c->at < c->run->n)
        run_load_events(c);
}

int run_cursor_error(const struct run_cursor *c)
{
    return c->error;
}

/* -- Events of all runs in order of time ---------------------------------------------------------------- */

struct queue_item {
    int64_t ts, rank; /* of the cursor's event */
    uint32_t order;
    uint32_t input;
    struct run_cursor *cursor;
};

/* A heap: its first item is the next event. */
struct event_queue {
    size_t n, n_all; /* finished cursors are after the others */
    bool ranked;     /* some events are complete events */
    struct queue_item items[];
};

static bool queue_before(const struct queue_item *a, const struct queue_item *b)
{
    if (a->ts != b->ts)
        return a->ts < b->ts;
    return a->rank < b->rank || (a->rank == b->rank && a->order < b->order);
}

static void queue_set_key(const struct event_queue *q, struct queue_item *item, const struct event *e)
{
    item->ts = e->ts;
    item->rank = q->ranked ? event_rank(e) : 0;
}

static bool queue_is_sorted(const struct event_queue *q)
{
    const struct queue_item *items = q->items;

    return (q->n < 2 || !queue_before(&items[1], &items[0])) &&
           (q->n < 3 || !queue_before(&items[2], &items[0]));
}

static void queue_sift_down(struct event_queue *q, size_t at)
{
    struct queue_item moved = q->items[at];

    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < q->n && queue_before(&q->items[child + 1], &q->items[child]))
            child++;
        if (child >= q->n || !queue_before(&q->items[child], &moved))
            break;
        q->items[at] = q->items[child];
        at = child;
    }
    q->items[at] = moved;
}

int queue_new(const struct merge_input *inputs, size_t n_inputs, struct spill *spill,
              struct event_queue **ret)
{
    _cleanup_(queue_freep) struct event_queue *q = NULL;
    uint32_t order = 0;
    size_t n = 0;

    for (size_t i = 0; i < n_inputs; i++)
        n += inputs[i].n_runs;
    if (n > UINT32_MAX)
        return -E2BIG;
    q = malloc(sizeof(*q) + n * sizeof(*q->items));
    if (!q)
        return -ENOMEM;
    q->n = q->n_all = 0;
    q->ranked = false;
    for (size_t i = 0; i < n_inputs; i++)
        for (size_t k = 0; k < inputs[i].n_runs; k++)
            q->ranked = q->ranked || inputs[i].runs[k]->has_complete;
    for (size_t i = 0; i < n_inputs; i++) {
        for (size_t k = 0; k < inputs[i].n_runs; k++, order++) {
            struct queue_item *item = &q->items[q->n];
            int r;

            if (inputs[i].runs[k]->n == 0)
                continue;
            *item = (struct queue_item){.order = order, .input = (uint32_t)i};
            r = run_cursor_new(inputs[i].runs[k], spill, &item->cursor);
            if (r < 0)
                return r;
            q->n = ++q->n_all;
            queue_set_key(q, item, run_cursor_event(item->cursor));
        }
    }
    for (size_t i = q->n / 2; i-- > 0;)
        queue_sift_down(q, i);
    *ret = TAKE_PTR(q);
    return 0;
}

struct event_queue *queue_free(struct event_queue *q)
{
    if (!q)
        return NULL;
    for (size_t i = 0; i < q->n_all; i++)
        run_cursor_free(q->items[i].cursor);
    free(q);
    return NULL;
}

struct run_cursor *queue_head(const struct event_queue *q)
{
    return q->n > 0 ? q->items[0].cursor : NULL;
}

size_t queue_input(const struct event_queue *q)
{
    return q->items[0].input;
}

int queue_next(struct event_queue *q)
{
    struct queue_item *head = &q->items[0];
    const struct event *e;

    run_cursor_next(head->cursor);
    e = run_cursor_event(head->cursor);
    if (e) {
        queue_set_key(q, head, e);
    } else {
        int r = run_cursor_error(head->cursor);

        if (r < 0)
            return r;
        /* The finished cursor stays alive, after the others. */
        struct queue_item finished = *head;
        *head = q->items[--q->n];
        q->items[q->n] = finished;
    }
    /* In most cases the first item stays first. */
    if (!queue_is_sorted(q))
        queue_sift_down(q, 0);
    return 0;
}
