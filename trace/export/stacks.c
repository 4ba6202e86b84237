/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/stacks.h"

#include "base/array.h"
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

    if (!ARRAY_RESERVE(s->open, s->cap, s->n + 1))
        return -ENOMEM;
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

struct stack_collector {
    struct stacks *st;
    const struct columns *c;
    int64_t root;        /* of the track */
    int64_t *of_threads; /* of each thread, + 1; 0 where it has none yet */
};

static bool stacks_equal(const void *owner, size_t number, const void *key)
{
    const struct stack_node *node = &((const struct stacks *)owner)->nodes[number], *wanted = key;

    return node->parent == wanted->parent && node->root == wanted->root && node->name == wanted->name;
}

static int stacks_begin(void *arg, struct playing *slice, const struct playing *around)
{
    struct stack_collector *k = arg;
    struct stacks *st = k->st;
    struct stack_node node = {.parent = around ? around->node : STACK_NONE,
                              .depth = around ? st->nodes[around->node].depth + 1 : 0,
                              .root = k->root,
                              .name = columns_get(k->c, COL_slice_name, slice->row)};
    uint64_t hash = hash_words(hash_words(node.parent, (uint64_t)node.root), (uint64_t)node.name);

    if (!ARRAY_RESERVE(st->nodes, st->cap, st->n + 1))
        return -ENOMEM;
    int64_t number = hash_table_number(&st->numbers, hash, stacks_equal, st, &node);
    if (number < 0)
        return (int)number;
    if ((size_t)number == st->n) {
        st->nodes[st->n++] = node;
        st->deepest = MAX(st->deepest, node.depth);
    }
    slice->node = (uint32_t)number;
    st->nodes[number].count++;
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
    if (!ARRAY_RESERVE(st->roots, st->roots_cap, st->n_roots + 1))
        return -ENOMEM;
    st->roots[st->n_roots] = label_track(k->c, track);
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
    hash_table_done(&st->numbers);
    *st = (struct stacks){0};
}
