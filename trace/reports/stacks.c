/* SPDX-License-Identifier: Apache-2.0 */
/* Python's stacks: as a tree, and by function, wherever it was called from. */
#include "base/array.h"
#include "trace/reports/call_tree_rows.h"
#include "trace/reports/name_table.h"
#include "trace/reports/reports.h"
#include <errno.h>

static int stacks_make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(call_tree_done) struct call_tree tree = {0};
    int r = call_tree_read(a, analysis_frames, &tree);

    call_tree_put(&tree, ret);
    return r < 0 ? r : tree.n == 0 ? -ENODATA : 0;
}

const struct report report_stacks = {
    .name = "stacks",
    .title = "Python frames, with the GPU work launched from each",
    .how =
        "Calls of one frame from one place are one node; nodes come before what is within them, what costs "
        "most first. GPU work belongs to the innermost frame around the call that launched it "
        "(with_stack=True). The report frames lists functions by self time.",
    .is_detail = true,
    .columns = call_tree_columns,
    .n_columns = CALL_TREE_COLUMNS,
    .make = stacks_make,
};

/* -- By function -------------------------------------------------------------------------------------- */

static const struct report_column frames_columns[] = {
    {"name", UNIT_TEXT, "function with its file and line"},
    {"calls", UNIT_COUNT, "number of calls"},
    {"self_host_ns", UNIT_NS, "time in the function, without the Python functions that it called"},
    {"self_share", UNIT_SHARE, "share of the self time of all functions"},
    {"host_ns", UNIT_NS, "time in the function and in what it called; recursive calls count once"},
    {"self_device_ns", UNIT_NS, "time of the GPU work that the function launched itself"},
    {"device_ns", UNIT_NS, "time of the GPU work launched by the function and by what it called"},
    {"kernels", UNIT_COUNT, "GPU events launched by the function and by what it called", IMPORTANCE_EXTRA},
};

struct frame_sum {
    struct text name;
    uint64_t calls, kernels;
    int64_t self_host, host, self_device, device;
    uint64_t n_open; /* nodes of the function around the node that is being added */
};

struct frame_sums {
    struct name_table names;
    struct frame_sum *items;
    size_t cap;
};

static void frame_sums_done(struct frame_sums *s)
{
    name_table_done(&s->names);
    free(s->items);
}

/* Goes through the tree in its order, in which a node precedes what is within: open holds the functions of
 * the nodes around the current one. */
static int frame_sums_read(const struct call_tree *tree, struct frame_sums *s)
{
    _cleanup_(freep) size_t *open = calloc(tree->n + 1, sizeof(*open));
    size_t n_open = 0;

    if (!open)
        return -ENOMEM;
    for (size_t i = 0; i < tree->n; i++) {
        const struct call_node *node = &tree->nodes[i];
        int64_t number = name_table_number(&s->names, node->name);
        if (number < 0 || !ARRAY_RESERVE_ZEROED(s->items, s->cap, s->names.n))
            return -ENOMEM;
        struct frame_sum *sum = &s->items[number];
        while (n_open > node->depth)
            s->items[open[--n_open]].n_open--;
        sum->name = node->name;
        sum->calls += node->calls;
        sum->self_host += node->self;
        sum->self_device += node->self_device;
        if (sum->n_open == 0) {
            sum->host += node->host;
            sum->device += node->device;
            sum->kernels += node->work;
        }
        sum->n_open++;
        open[n_open++] = (size_t)number;
    }
    return 0;
}

static int frame_sum_compare(const void *x, const void *y)
{
    const struct frame_sum *a = x, *b = y;

    if (a->self_host != b->self_host)
        return a->self_host < b->self_host ? 1 : -1;
    return (a->self_device < b->self_device) - (a->self_device > b->self_device);
}

static int frames_make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(call_tree_done) struct call_tree tree = {0};
    _cleanup_(frame_sums_done) struct frame_sums sums = {0};
    int64_t total = 0;
    int r = call_tree_read(a, analysis_frames, &tree);

    if (r >= 0)
        r = frame_sums_read(&tree, &sums);
    if (r < 0 || sums.names.n == 0)
        return r < 0 ? r : -ENODATA;
    for (size_t i = 0; i < sums.names.n; i++)
        total += sums.items[i].self_host;
    qsort(sums.items, sums.names.n, sizeof(*sums.items), frame_sum_compare);
    for (size_t i = 0; i < sums.names.n; i++) {
        const struct frame_sum *s = &sums.items[i];
        put_text(ret, s->name);
        put_int(ret, (int64_t)s->calls);
        put_int(ret, s->self_host);
        put_share(ret, s->self_host, total);
        put_int(ret, s->host);
        put_int(ret, s->self_device);
        put_int(ret, s->device);
        put_int(ret, (int64_t)s->kernels);
    }
    return 0;
}

const struct report report_frames = {
    .name = "frames",
    .title = "Python functions by self time, wherever they were called from",
    .how =
        "Sums over all threads and ranks. Self time includes operators, runtime calls, and waiting: a thread "
        "that waits for a lock or a queue spends its self time in the function that waits. A call that began "
        "before the recording counts from the start of the recording (with_stack=True).",
    .columns = frames_columns,
    .n_columns = ARRAY_SIZE(frames_columns),
    .make = frames_make,
};
