/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/shared_collectives.h"

#include "base/hash_table.h"
#include "base/statistics.h"
#include "trace/reports/search.h"
#include <errno.h>

/* Fewer collectives in common prove nothing. */
#define MATCHES_MIN 4
/* Ranks are in a collective at the same time, except for small clock errors. */
#define TOGETHER_MIN 0.8
/* Clocks of hosts differ by less than this; a larger difference is another time. */
#define CLOCK_OFF_MAX_NS INT64_C(1000000000)
/* Ends of the same collectives lie closer to each other than this part of the time between two of them: by
 * accident the nearest end of another's is a quarter of it away. */
#define NEAR_PART 20

/* One collective of a rank. */
struct collective_moment {
    uint64_t key;    /* of process group and operation */
    int64_t number;  /* in its process group; COLUMN_NULL: not in the trace */
    int64_t ts, end; /* wall clock */
};

struct collective_moments {
    struct collective_moment *items; /* by key, number, end */
    size_t n;
    bool is_read;
};

int shared_collectives_init(struct shared_collectives *m, struct analysis *analysis,
                            const int64_t *wall_shifts)
{
    *m = (struct shared_collectives){.analysis = analysis,
                                     .wall_shifts = wall_shifts,
                                     .known = calloc(analysis->n + 1, sizeof(*m->known))};
    return m->known ? 0 : -ENOMEM;
}

void shared_collectives_done(struct shared_collectives *m)
{
    for (size_t i = 0; m->known && i < m->analysis->n; i++)
        free(m->known[i].items);
    free(m->known);
    m->known = NULL;
}

static int compare_moments(const void *x, const void *y)
{
    const struct collective_moment *a = x, *b = y;

    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return (a->end > b->end) - (a->end < b->end);
}

/* Hashes of texts, each computed once. */
struct text_hashes {
    const struct columns *c;
    uint64_t *known; /* of each; 0: not yet */
};

/* Also of what is no text, which is the last of all. */
static uint64_t text_hashes_get(struct text_hashes *hashes, int64_t text)
{
    uint32_t n = columns_texts(hashes->c);
    uint64_t *known = &hashes->known[text >= 0 && text < n ? text : n];

    if (*known == 0) {
        struct text found = columns_text(hashes->c, text);
        *known = hash_bytes(found.p, found.size);
    }
    return *known;
}

static bool shared_collectives_describe(const struct columns *c, struct text_hashes *hashes,
                                        const struct gpu_event *e, int64_t shift,
                                        struct collective_moment *ret)
{
    uint64_t row = collective_row(c, e->slice), none = text_hashes_get(hashes, COLUMN_NULL);
    int64_t operation = columns_get(c, COL_collective_name, row);
    uint64_t group = text_hashes_get(hashes, columns_get(c, COL_collective_group_name, row)),
             name = text_hashes_get(hashes, operation);

    if (e->collective == COLLECTIVE_SEND || e->collective == COLLECTIVE_RECV ||
        e->collective == COLLECTIVE_SEND_RECV)
        return false; /* each side has its own */
    *ret = (struct collective_moment){.number = group != none ? columns_get(c, COL_collective_seq, row)
                                                              : COLUMN_NULL};
    ret->key = hash_words(group, name != none ? name : text_hashes_get(hashes, e->name));
    return !__builtin_add_overflow(e->ts, shift, &ret->ts) &&
           !__builtin_add_overflow(e->end, shift, &ret->end);
}

static int shared_collectives_read_rank(struct shared_collectives *m, size_t rank)
{
    struct collective_moments *events = &m->known[rank];
    const struct columns *c = m->analysis->ranks[rank].columns;
    const struct gpu_work *work;
    int r = analysis_all_gpu(m->analysis, rank, &work);

    if (r < 0 || events->is_read)
        return r;
    events->items = malloc((work->n + 1) * sizeof(*events->items));
    _cleanup_(freep) uint64_t *known = calloc((size_t)columns_texts(c) + 1, sizeof(*known));
    struct text_hashes hashes = {c, known};
    if (!events->items || !known)
        return -ENOMEM;
    for (size_t i = 0; i < work->n; i++)
        if (work->events[i].kind == GPU_COMMUNICATION)
            events->n += shared_collectives_describe(c, &hashes, &work->events[i], m->wall_shifts[rank],
                                                     &events->items[events->n]);
    if (events->n > 1)
        qsort(events->items, events->n, sizeof(*events->items), compare_moments);
    events->is_read = true;
    return 0;
}

/* Median time between the ends of collectives that follow each other under one key. */
static int64_t usual_gap(const struct collective_moments *e, int64_t *values)
{
    size_t n = 0;

    for (size_t i = 1; i < e->n; i++)
        if (e->items[i].key == e->items[i - 1].key && e->items[i].end > e->items[i - 1].end)
            values[n++] = e->items[i].end - e->items[i - 1].end;
    sort_ns(values, n);
    return percentile(values, n, 50);
}

/* By process group and sequence number. */
static enum instance_belief compare_numbered(const struct collective_moments *a,
                                             const struct collective_moments *b, int64_t *values)
{
    size_t matches = 0, together = 0;

    for (size_t i = 0, k = 0; i < a->n && k < b->n;) {
        const struct collective_moment *one = &a->items[i], *other = &b->items[k];
        bool numbered = one->number != COLUMN_NULL && other->number != COLUMN_NULL;
        if (numbered && one->key == other->key && one->number == other->number) {
            together += one->ts <= other->end && other->ts <= one->end;
            values[matches++] = one->end - other->end;
            i++;
            k++;
        } else if (one->key != other->key ? one->key < other->key : one->number <= other->number) {
            i++;
        } else {
            k++;
        }
    }
    if (matches < MATCHES_MIN)
        return INSTANCE_UNDECIDED;
    if ((double)together >= TOGETHER_MIN * (double)matches)
        return INSTANCE_SAME;
    sort_ns(values, matches);
    int64_t off = percentile(values, matches, 50);
    for (size_t i = 0; i < matches; i++)
        values[i] = llabs(values[i] - off);
    sort_ns(values, matches);
    int64_t spread = percentile(values, matches, 50);
    return llabs(off) <= CLOCK_OFF_MAX_NS && spread < usual_gap(a, values) / NEAR_PART ? INSTANCE_SAME
                                                                                       : INSTANCE_DIFFERENT;
}

/* Where nothing is numbered: how near the nearest end of the other's is. */
static enum instance_belief shared_collectives_compare_ends(const struct collective_moments *a,
                                                            const struct collective_moments *b,
                                                            int64_t *values)
{
    size_t n = 0;

    for (size_t i = 0; i < a->n; i++) {
        const struct collective_moment *one = &a->items[i], *items = b->items;
        size_t behind = FIRST_THAT(k, 0, b->n, compare_moments(&items[k], one) >= 0);
        int64_t nearest = INT64_MAX;
        if (one->number != COLUMN_NULL)
            continue;
        if (behind < b->n && items[behind].key == one->key && items[behind].number == COLUMN_NULL)
            nearest = items[behind].end - one->end;
        if (behind > 0 && items[behind - 1].key == one->key && items[behind - 1].number == COLUMN_NULL)
            nearest = MIN(nearest, one->end - items[behind - 1].end);
        if (nearest < INT64_MAX)
            values[n++] = nearest;
    }
    if (n < 2 * MATCHES_MIN)
        return INSTANCE_UNDECIDED;
    sort_ns(values, n);
    int64_t near = percentile(values, n, 50);
    return near < usual_gap(a, values) / NEAR_PART ? INSTANCE_SAME : INSTANCE_UNDECIDED;
}

enum instance_belief shared_collectives_compare(void *arg, size_t one, size_t other)
{
    struct shared_collectives *m = arg;
    int r = 0;

    if (m->wall_shifts[one] == COLUMN_NULL || m->wall_shifts[other] == COLUMN_NULL)
        return INSTANCE_UNDECIDED;
    r = shared_collectives_read_rank(m, one);
    if (r >= 0)
        r = shared_collectives_read_rank(m, other);
    const struct collective_moments *a = &m->known[one], *b = &m->known[other];
    _cleanup_(freep) int64_t *values = r < 0 ? NULL : calloc(a->n + b->n + 1, sizeof(*values));
    if (!values) {
        m->error = r < 0 ? r : -ENOMEM;
        return INSTANCE_UNDECIDED;
    }
    enum instance_belief belief = compare_numbered(a, b, values);
    return belief == INSTANCE_UNDECIDED ? shared_collectives_compare_ends(a, b, values) : belief;
}
