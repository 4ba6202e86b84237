/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/stacks.h"

#include "trace/export/labels.h"
#include "trace/export/playback.h"

#include <errno.h>

#define NODES_MAX ((size_t)1 << 31)

struct collector {
    struct stacks *st;
    const struct columns *c;
    int64_t root;        /* of the track */
    int64_t *of_threads; /* of each thread, + 1; 0 where it has none yet */
};

static size_t hash_of(uint32_t parent, int64_t root, int64_t name)
{
    uint64_t hash = ((uint64_t)parent << 32 ^ (uint64_t)name) * UINT64_C(0x9e3779b97f4a7c15);

    hash = (hash ^ hash >> 29 ^ (uint64_t)root) * UINT64_C(0xd1b54a32d192ed03);
    return hash ^ hash >> 32;
}

/* Where the node's number is in the table, or will be. */
static uint32_t *find_node(struct stacks *st, uint32_t parent, int64_t root, int64_t name)
{
    for (size_t i = hash_of(parent, root, name);; i++) {
        uint32_t *number = &st->table[i & (st->table_size - 1)];
        const struct stack_node *node = &st->nodes[*number];

        if (*number == STACK_NONE || (node->parent == parent && node->root == root && node->name == name))
            return number;
    }
}

static int grow(struct stacks *st)
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
        *find_node(st, nodes[i].parent, nodes[i].root, nodes[i].name) = (uint32_t)i;
    return 0;
}

static int begin(void *arg, struct playing *slice, const struct playing *around)
{
    struct collector *k = arg;
    struct stacks *st = k->st;
    uint32_t parent = around ? around->node : STACK_NONE, *number;
    int64_t name = columns_get(k->c, COL_slice_name, slice->row);

    if (st->n == st->cap && grow(st) < 0)
        return -ENOMEM;
    number = find_node(st, parent, k->root, name);
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

static int end(void *arg, const struct playing *slice)
{
    struct collector *k = arg;
    int64_t *self = &k->st->nodes[slice->node].self;

    *self = add_ns(*self, sub_ns(sub_ns(slice->end, slice->begin), slice->inside));
    return 0;
}

/* Tracks of one thread share its root. */
static int begin_track(void *arg, uint64_t track)
{
    struct collector *k = arg;
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
    struct collector k = {.st = st, .c = s->c, .of_threads = of_threads};
    struct playback p = {
        .selection = s, .cut = true, .track_begin = begin_track, .begin = begin, .end = end, .arg = &k};

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
