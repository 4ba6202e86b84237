/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/collective_instance.h"

#include "base/array.h"
#include "base/statistics.h"
#include "trace/reports/grouping.h"
#include <errno.h>

/* How many collectives one recording may begin earlier than another. */
#define OFFSET_MAX 16
/* Fewer in common prove nothing about an offset. */
#define COMMON_MIN 3
/* What a key is made of at most. */
#define KEY_TEXT_MAX 512

/* The communication of one rank: which collective (number of its key). */
struct collective_occurrence {
    const struct gpu_event *event;
    uint32_t key;
};

/* Those of one rank by key, and of one key in order of time. */
struct collective_instance_side {
    struct collective_occurrence *items;
    size_t n;
};

struct finder {
    struct analysis *a;
    struct collective_instance_side *sides;
    struct name_table keys;
    char **texts; /* of the keys, which the table only refers to */
    size_t n_texts, texts_cap;
};

static void finder_done(struct finder *f)
{
    for (size_t i = 0; f->sides && i < f->a->n; i++)
        free(f->sides[i].items);
    for (size_t i = 0; i < f->n_texts; i++)
        free(f->texts[i]);
    free(f->texts);
    free(f->sides);
    name_table_done(&f->keys);
}

/* Group, operation and the kernel's name in one text. */
static int64_t key_of_texts(struct finder *f, struct text group, struct text operation, struct text name)
{
    char text[KEY_TEXT_MAX];

    int n = snprintf(text, sizeof(text), "%.*s\n%.*s\n%.*s", (int)MIN(group.size, (size_t)64),
                     group.p ? group.p : "", (int)MIN(operation.size, (size_t)64),
                     operation.p ? operation.p : "", (int)MIN(name.size, (size_t)300), name.p ? name.p : "");
    size_t known = f->keys.n;
    char *copy = strndup(text, (size_t)n);
    if (!copy)
        return -ENOMEM;
    int64_t key = name_table_number(&f->keys, (struct text){copy, (size_t)n});
    if (key < 0 || f->keys.n == known) {
        free(copy);
        return key;
    }
    if (!ARRAY_RESERVE(f->texts, f->texts_cap, f->n_texts + 1)) {
        free(copy);
        return -ENOMEM;
    }
    f->texts[f->n_texts++] = copy;
    return key;
}

/* The keys of a rank, by the numbers of its texts: few recur all the time. */
struct rank_keys {
    const struct columns *c;
    struct groups texts; /* group, operation, name */
    int64_t *keys;       /* of each */
    size_t cap;
};

static void rank_keys_done(struct rank_keys *k)
{
    groups_done(&k->texts);
    free(k->keys);
}

static int64_t collective_instance_key_of(struct finder *f, struct rank_keys *k, const struct gpu_event *e)
{
    uint64_t row = collective_row(k->c, e->slice);
    int64_t group = columns_get(k->c, COL_collective_group_name, row),
            operation = columns_get(k->c, COL_collective_name, row);
    size_t known = k->texts.n;
    int64_t number = groups_number(&k->texts, (struct group_key){{group, operation, e->name}});

    if (number < 0)
        return number;
    if (!ARRAY_RESERVE_ZEROED(k->keys, k->cap, k->texts.n))
        return -ENOMEM;
    if (k->texts.n > known)
        k->keys[number] = key_of_texts(f, columns_text(k->c, group), columns_text(k->c, operation),
                                       columns_text(k->c, e->name));
    return k->keys[number];
}

static int collective_instance_gather(struct finder *f, size_t rank)
{
    _cleanup_(rank_keys_done) struct rank_keys keys = {.c = f->a->ranks[rank].columns};
    const struct gpu_work *work;
    struct collective_instance_side *side = &f->sides[rank];
    int r = analysis_gpu(f->a, rank, &work);

    if (r < 0)
        return r;
    _cleanup_(freep) struct sort_item *order = malloc((work->n + 1) * sizeof(*order));
    side->items = malloc((work->n + 1) * sizeof(*side->items));
    if (!order || !side->items)
        return -ENOMEM;
    for (size_t i = 0; i < work->n; i++) {
        if (work->events[i].kind != GPU_COMMUNICATION)
            continue;
        int64_t key = collective_instance_key_of(f, &keys, &work->events[i]);
        if (key < 0)
            return (int)key;
        order[side->n++] = (struct sort_item){key, i};
    }
    sort_items(order, side->n);
    for (size_t i = 0; i < side->n; i++)
        side->items[i] =
            (struct collective_occurrence){&work->events[order[i].item], (uint32_t)order[i].number};
    return 0;
}

/* Takes those of one key from the front of what is left; keys are asked for in order. */
static struct collective_instance_side collective_instance_take_key(struct collective_instance_side *left,
                                                                    uint32_t key)
{
    struct collective_instance_side taken = {.items = left->items};

    while (taken.n < left->n && left->items[taken.n].key == key)
        taken.n++;
    left->items += taken.n;
    left->n -= taken.n;
    return taken;
}

/* Mean distance of the ends, with the other's moved by `offset` positions. */
static double collective_instance_distance(const struct collective_instance_side *one, int64_t shift,
                                           const struct collective_instance_side *other, int64_t other_shift,
                                           int offset)
{
    double sum = 0;
    size_t n = 0;

    for (size_t i = 0; i < one->n; i++) {
        int64_t k = (int64_t)i + offset;
        if (k < 0 || k >= (int64_t)other->n)
            continue;
        double between = ((double)one->items[i].event->end + (double)shift) -
                         ((double)other->items[k].event->end + (double)other_shift);
        sum += between < 0 ? -between : between;
        n++;
    }
    return n < COMMON_MIN ? -1 : sum / (double)n;
}

static int best_offset(const struct collective_instance_side *one, int64_t shift,
                       const struct collective_instance_side *other, int64_t other_shift)
{
    double best = collective_instance_distance(one, shift, other, other_shift, 0);
    int offset = 0;

    for (int by = -OFFSET_MAX; by <= OFFSET_MAX; by++) {
        double d = collective_instance_distance(one, shift, other, other_shift, by);
        if (d >= 0 && (best < 0 || d < best)) {
            best = d;
            offset = by;
        }
    }
    return offset;
}

static int collective_instance_add(struct collective_instances *ret, size_t *cap_events, size_t *n_events,
                                   size_t n_ranks, struct text name,
                                   const struct collective_instance_side *sides, const int *offsets, size_t i)
{
    if (!ARRAY_RESERVE(ret->items, ret->cap, ret->n + 1))
        return -ENOMEM;
    if (!ARRAY_RESERVE(ret->events, *cap_events, *n_events + n_ranks))
        return -ENOMEM;
    for (size_t rank = 0; rank < n_ranks; rank++)
        ret->events[*n_events + rank] = sides[rank].items[(int64_t)i + offsets[rank]].event;
    *n_events += n_ranks;
    ret->items[ret->n++] = (struct collective_instance){.name = name};
    return 0;
}

/* All collective_instances of one key, of which sides[] has all. */
static int collective_instance_match(const struct analysis *a, const struct collective_instance_side *sides,
                                     int *offsets, struct collective_instances *ret, size_t *cap_events,
                                     size_t *n_events)
{
    int r = 0;

    for (size_t rank = 1; rank < a->n; rank++)
        offsets[rank] = best_offset(&sides[0], a->ranks[0].shift_ns, &sides[rank], a->ranks[rank].shift_ns);
    for (size_t i = 0; r >= 0 && i < sides[0].n; i++) {
        bool complete = true;
        for (size_t rank = 1; rank < a->n; rank++) {
            int64_t k = (int64_t)i + offsets[rank];
            complete = complete && k >= 0 && k < (int64_t)sides[rank].n;
        }
        if (complete)
            r = collective_instance_add(ret, cap_events, n_events, a->n,
                                        columns_text(a->ranks[0].columns, sides[0].items[i].event->name),
                                        sides, offsets, i);
    }
    return r;
}

static int match_all(const struct finder *f, struct collective_instances *ret)
{
    const struct analysis *a = f->a;
    _cleanup_(freep) struct collective_instance_side *left = calloc(a->n, sizeof(*left));
    _cleanup_(freep) struct collective_instance_side *sides = calloc(a->n, sizeof(*sides));
    _cleanup_(freep) int *offsets = calloc(a->n, sizeof(*offsets));
    size_t cap_events = 0, n_events = 0;
    int r = left && sides && offsets ? 0 : -ENOMEM;

    if (r >= 0)
        memcpy(left, f->sides, a->n * sizeof(*left));
    for (uint32_t key = 0; key < f->keys.n && r >= 0; key++) {
        bool everywhere = true;
        for (size_t rank = 0; rank < a->n; rank++) {
            sides[rank] = collective_instance_take_key(&left[rank], key);
            everywhere = everywhere && sides[rank].n > 0;
        }
        if (everywhere)
            r = collective_instance_match(a, sides, offsets, ret, &cap_events, &n_events);
    }
    return r;
}

static int collective_instance_compare(const void *x, const void *y, void *arg)
{
    const struct analysis *a = arg;
    int64_t one = collective_instance_start(a, x, 0), other = collective_instance_start(a, y, 0);

    return (one > other) - (one < other);
}

int collective_instances_find(struct analysis *a, struct collective_instances *ret)
{
    _cleanup_(finder_done) struct finder f = {.a = a, .sides = calloc(a->n, sizeof(*f.sides))};
    int r = f.sides ? 0 : -ENOMEM;

    *ret = (struct collective_instances){0};
    if (a->n < 2)
        return r;
    for (size_t rank = 0; rank < a->n && r >= 0; rank++)
        r = collective_instance_gather(&f, rank);
    if (r >= 0)
        r = match_all(&f, ret);
    if (r < 0)
        collective_instances_done(ret);
    for (size_t i = 0; i < ret->n; i++)
        ret->items[i].events = ret->events + i * a->n;
    if (ret->n > 1)
        qsort_r(ret->items, ret->n, sizeof(*ret->items), collective_instance_compare, a);
    return r;
}

void collective_instances_done(struct collective_instances *e)
{
    free(e->items);
    free(e->events);
    *e = (struct collective_instances){0};
}

int64_t collective_instance_start(const struct analysis *a, const struct collective_instance *e, size_t rank)
{
    return e->events[rank]->ts + a->ranks[rank].shift_ns;
}

int64_t collective_instance_end(const struct analysis *a, const struct collective_instance *e, size_t rank)
{
    return e->events[rank]->end + a->ranks[rank].shift_ns;
}

size_t collective_instance_last(const struct analysis *a, const struct collective_instance *e)
{
    size_t last = 0;

    for (size_t rank = 1; rank < a->n; rank++)
        if (collective_instance_start(a, e, rank) > collective_instance_start(a, e, last))
            last = rank;
    return last;
}

int collective_instances_clock_errors(const struct analysis *a,
                                      const struct collective_instances *collectives, int64_t *ret)
{
    _cleanup_(freep) int64_t *distances = calloc(collectives->n + 1, sizeof(*distances));

    if (!distances)
        return -ENOMEM;
    for (size_t rank = 0; rank < a->n; rank++) {
        for (size_t i = 0; i < collectives->n; i++)
            distances[i] = llabs(collective_instance_end(a, &collectives->items[i], rank) -
                                 collective_instance_end(a, &collectives->items[i], 0));
        sort_ns(distances, collectives->n);
        ret[rank] = collectives->n > 0 ? percentile(distances, collectives->n, 50) : COLUMN_NULL;
    }
    return 0;
}
