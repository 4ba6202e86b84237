/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/stacks.h"

#include "trace/export/selection.h"
#include <errno.h>

/* -- Playback ------------------------------------------------------------------------------------------- */

struct playback_state {
    const struct playback *p;
    struct playing *open; /* from the outermost to the innermost */
    size_t n, cap;
    bool entered;  /* the track has begun */
    int64_t clock; /* of its last begin or end */
};

static int playback_end_innermost(struct playback_state *s, int64_t latest)
{
    struct playing *slice = &s->open[--s->n];

    slice->end = MAX(MIN(slice->end, latest), s->clock);
    s->clock = slice->end;
    if (s->n > 0) {
        int64_t *inside = &s->open[s->n - 1].inside;

        *inside = sum_of(*inside, difference_of(slice->end, slice->begin));
    }
    return s->p->end(s->p->arg, slice);
}

static int playback_begin(struct playback_state *s, struct playing slice)
{
    struct playing *around = NULL;

    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 64;
        struct playing *grown = reallocarray(s->open, cap, sizeof(*grown));

        if (!grown)
            return -ENOMEM;
        s->open = grown;
        s->cap = cap;
    }
    if (s->n > 0) {
        around = &s->open[s->n - 1];
        slice.end = MIN(slice.end, around->end);
    }
    slice.begin = MAX(slice.begin, s->clock);
    slice.end = MAX(slice.begin, slice.end);
    s->clock = slice.begin;
    s->open[s->n++] = slice;
    return s->p->begin(s->p->arg, &s->open[s->n - 1], around);
}

static struct playing playback_read_slice(const struct playback *p, uint64_t row)
{
    const struct selection *sel = p->selection;
    int64_t depth = columns_get(sel->c, COL_slice_depth, row);
    struct playing slice = {
        .row = row,
        .begin = columns_get(sel->c, COL_slice_ts, row),
        .end = selection_slice_end(sel, row),
        .unfinished = columns_get(sel->c, COL_slice_dur, row) < 0,
        .depth = MAX(depth, 0),
    };

    if (p->cut) {
        slice.begin = MAX(slice.begin, sel->from);
        slice.end = MIN(slice.end, sel->to);
    }
    return slice;
}

/* Before the first slice of a track. */
static int playback_enter(struct playback_state *s, uint64_t track)
{
    s->entered = true;
    s->clock = INT64_MIN;
    return s->p->track_begin ? s->p->track_begin(s->p->arg, track) : 0;
}

static int playback_slice(struct playback_state *s, uint64_t track, uint64_t row)
{
    struct playing slice = playback_read_slice(s->p, row);
    int r = s->entered ? 0 : playback_enter(s, track);

    while (r == 0 && s->n > 0 && s->open[s->n - 1].depth >= slice.depth)
        r = playback_end_innermost(s, slice.begin);
    return r == 0 ? playback_begin(s, slice) : r;
}

static int playback_track(struct playback_state *s, uint64_t track, uint64_t first, uint64_t n)
{
    const struct selection *sel = s->p->selection;
    int r = 0;

    s->entered = false;
    for (uint64_t i = first; i < first + n && r == 0; i++) {
        int64_t row = columns_get(sel->c, COL_by_track_slice, i);

        if (row >= 0 && selection_has(sel, (uint64_t)row))
            r = playback_slice(s, track, (uint64_t)row);
    }
    while (r == 0 && s->n > 0)
        r = playback_end_innermost(s, INT64_MAX);
    if (r == 0 && s->entered && s->p->track_end)
        r = s->p->track_end(s->p->arg, track);
    return r;
}

int playback_run(const struct playback *p)
{
    const struct columns *c = p->selection->c;
    uint64_t tracks = columns_rows(c, TABLE_track), left = columns_rows(c, TABLE_by_track);
    struct playback_state stage = {.p = p};
    int r = 0;

    for (uint64_t track = 0; track < tracks && r == 0; track++) {
        int64_t first = columns_get(c, COL_track_first, track),
                count = columns_get(c, COL_track_count, track);

        if (first < 0 || count <= 0)
            continue;
        r = (uint64_t)count > left ? -EBADMSG
                                   : playback_track(&stage, track, (uint64_t)first, (uint64_t)count);
        left -= (uint64_t)count;
    }
    free(stage.open);
    return r;
}

/* -- Stacks --------------------------------------------------------------------------------------------- */

#define NODES_MAX ((size_t)1 << 31)

struct stack_collector {
    struct stacks *st;
    const struct columns *c;
    int64_t root;        /* of the track */
    int64_t *of_threads; /* of each thread, + 1; 0 where it has none yet */
};

static size_t stacks_hash(uint32_t parent, int64_t root, int64_t name)
{
    uint64_t hash = ((uint64_t)parent << 32 ^ (uint64_t)name) * UINT64_C(0x9e3779b97f4a7c15);

    hash = (hash ^ hash >> 29 ^ (uint64_t)root) * UINT64_C(0xd1b54a32d192ed03);
    return hash ^ hash >> 32;
}

/* Where the node's number is in the table, or will be. */
static uint32_t *stacks_find_node(struct stacks *st, uint32_t parent, int64_t root, int64_t name)
{
    for (size_t i = stacks_hash(parent, root, name);; i++) {
        uint32_t *number = &st->table[i & (st->table_size - 1)];
        const struct stack_node *node = &st->nodes[*number];

        if (*number == STACK_NONE || (node->parent == parent && node->root == root && node->name == name))
            return number;
    }
}

static int stacks_grow(struct stacks *st)
{
    size_t cap = st->cap ? 2 * st->cap : 1024;
    struct stack_node *nodes = NULL;
    uint32_t *table;

    if (cap > NODES_MAX)
        return -ENOMEM;
    nodes = reallocarray(st->nodes, cap, sizeof(*nodes));
    if (!nodes)
        return -ENOMEM;
    st->nodes = nodes;
    table = reallocarray(st->table, 2 * cap, sizeof(*table));
    if (!table)
        return -ENOMEM;
    st->table = table;
    st->table_size = 2 * cap;
    st->cap = cap;
    memset(table, 0xff, 2 * cap * sizeof(*table));
    for (size_t i = 0; i < st->n; i++)
        *stacks_find_node(st, nodes[i].parent, nodes[i].root, nodes[i].name) = (uint32_t)i;
    return 0;
}

static int stacks_begin(void *arg, struct playing *slice, const struct playing *around)
{
    struct stack_collector *k = arg;
    struct stacks *st = k->st;
    uint32_t parent = around ? around->node : STACK_NONE, *number;
    int64_t name = columns_get(k->c, COL_slice_name, slice->row);

    if (st->n == st->cap && stacks_grow(st) < 0)
        return -ENOMEM;
    number = stacks_find_node(st, parent, k->root, name);
    if (*number == STACK_NONE) {
        uint32_t depth = around ? st->nodes[parent].depth + 1 : 0;

        *number = (uint32_t)st->n;
        st->nodes[st->n++] =
            (struct stack_node){.parent = parent, .depth = depth, .root = k->root, .name = name};
        st->deepest = MAX(st->deepest, depth);
    }
    slice->node = *number;
    st->nodes[*number].count++;
    return 0;
}

static int stacks_end(void *arg, const struct playing *slice)
{
    struct stack_collector *k = arg;
    int64_t *self = &k->st->nodes[slice->node].self;

    *self = sum_of(*self, difference_of(difference_of(slice->end, slice->begin), slice->inside));
    return 0;
}

/* Tracks of one thread share its root. */
static int stacks_begin_track(void *arg, uint64_t track)
{
    struct stack_collector *k = arg;
    struct stacks *st = k->st;
    int64_t thread = columns_get(k->c, COL_track_thread, track);

    if (thread != COLUMN_NULL && k->of_threads[thread] > 0) {
        k->root = k->of_threads[thread] - 1;
        return 0;
    }
    if (st->n_roots == st->roots_cap) {
        size_t cap = st->roots_cap ? 2 * st->roots_cap : 64;
        char **roots = reallocarray(st->roots, cap, sizeof(*roots));

        if (!roots)
            return -ENOMEM;
        st->roots = roots;
        st->roots_cap = cap;
    }
    st->roots[st->n_roots] = label_track(k->c, track);
    if (!st->roots[st->n_roots])
        return -ENOMEM;
    k->root = (int64_t)st->n_roots++;
    if (thread != COLUMN_NULL)
        k->of_threads[thread] = k->root + 1;
    return 0;
}

int stacks_collect(struct stacks *st, const struct selection *s)
{
    _cleanup_(freep) int64_t *of_threads = calloc(columns_rows(s->c, TABLE_thread) + 1, sizeof(*of_threads));
    struct stack_collector k = {.st = st, .c = s->c, .of_threads = of_threads};
    struct playback p = {.selection = s,
                         .cut = true,
                         .track_begin = stacks_begin_track,
                         .begin = stacks_begin,
                         .end = stacks_end,
                         .arg = &k};

    return of_threads ? playback_run(&p) : -ENOMEM;
}

void stacks_done(struct stacks *st)
{
    for (size_t i = 0; i < st->n_roots; i++)
        free(st->roots[i]);
    free(st->roots);
    free(st->nodes);
    free(st->table);
    *st = (struct stacks){0};
}
