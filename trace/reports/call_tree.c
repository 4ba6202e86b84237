/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "trace/reports/analysis.h"
#include "trace/reports/grouping.h"
#include "trace/reports/ops.h"
#include "trace/reports/report.h"
#include <errno.h>

#define CALL_NODE_NONE UINT32_MAX

/* Instead of the number of a text. */
#define CALL_NODE_NO_TEXT INT64_MAX

struct call_node {
    struct text name;
    int64_t text;  /* the number of its name in the rank that is being added, CALL_NODE_NO_TEXT */
    uint32_t next; /* the node of the call after its last one */
    enum host_kind kind;
    uint32_t parent, depth;
    uint64_t calls, work; /* work: with that of what is within */
    int64_t host, self, device, self_device;
};

struct call_tree {
    struct call_node *nodes; /* what is within a node follows it, what costs most first */
    size_t n;
};

/* -- Call tree ------------------------------------------------------------------------------------------- */

struct building {
    struct name_table texts;
    struct groups groups; /* parent, name, kind: a node */
    struct call_node *nodes;
    size_t cap;
    uint32_t last; /* the node of the call before */
};

static void building_done(struct building *b)
{
    name_table_done(&b->texts);
    groups_done(&b->groups);
    free(b->nodes);
}

/* Programs repeat themselves: what followed the node of the call before follows it most likely again. */
static uint32_t call_node_guess(const struct building *b, const struct host_call *call, uint32_t parent)
{
    uint32_t guess = b->last == CALL_NODE_NONE ? CALL_NODE_NONE : b->nodes[b->last].next;

    if (guess == CALL_NODE_NONE)
        return CALL_NODE_NONE;
    const struct call_node *node = &b->nodes[guess];
    return node->parent == parent && node->text == call->name && node->kind == call->kind ? guess
                                                                                          : CALL_NODE_NONE;
}

static int64_t call_node_find(struct building *b, struct text_numbers *numbers, const struct host_call *call,
                              uint32_t parent)
{
    int64_t name = op_name_number(numbers, call);
    int64_t number =
        name < 0 ? name : groups_number(&b->groups, (struct group_key){{parent, name, call->kind}});

    if (number < 0)
        return number;
    if (!ARRAY_RESERVE_ZEROED(b->nodes, b->cap, b->groups.n))
        return -ENOMEM;
    struct call_node *node = &b->nodes[number];
    if (!node->name.p)
        *node = (struct call_node){.name = b->texts.items[name],
                                   .next = CALL_NODE_NONE,
                                   .kind = call->kind,
                                   .parent = parent,
                                   .depth = parent == CALL_NODE_NONE ? 0 : b->nodes[parent].depth + 1};
    node->text = call->name;
    if (b->last != CALL_NODE_NONE)
        b->nodes[b->last].next = (uint32_t)number;
    return number;
}

static int call_tree_make_rank(struct building *b, const struct columns *c, const struct host_calls *host,
                               const struct intervals *times)
{
    _cleanup_(text_numbers_done) struct text_numbers numbers = {.c = c, .names = &b->texts};
    _cleanup_(freep) uint32_t *nodes = malloc((host->n + 1) * sizeof(*nodes));

    if (!nodes)
        return -ENOMEM;
    for (size_t i = 0; i < b->groups.n; i++)
        b->nodes[i].text = CALL_NODE_NO_TEXT;
    b->last = CALL_NODE_NONE;
    for (size_t i = 0; i < host->n; i++) {
        struct host_call call = host_call_get(host, i);
        struct host_launched launched = host_call_launched(host, i);
        uint32_t parent = call.parent == HOST_CALL_NONE ? CALL_NODE_NONE : nodes[call.parent];
        bool is_in_view = analysis_has_call(times, &call);
        nodes[i] = parent;
        if (!is_in_view && launched.work_all == 0)
            continue;
        int64_t number = call_node_guess(b, &call, parent);
        if (number == CALL_NODE_NONE)
            number = call_node_find(b, &numbers, &call, parent);
        if (number < 0)
            return (int)number;
        nodes[i] = b->last = (uint32_t)number;
        struct call_node *node = &b->nodes[number];
        node->device += launched.device_all;
        node->self_device += launched.device;
        node->work += launched.work_all;
        if (!is_in_view)
            continue;
        node->calls++;
        node->host += call.end - call.ts;
        node->self += call.self;
    }
    return 0;
}

/* -- Order -------------------------------------------------------------------------------------------- */

static int compare_siblings(const void *x, const void *y, void *arg)
{
    const struct call_node *nodes = arg, *a = &nodes[*(const uint32_t *)x], *b = &nodes[*(const uint32_t *)y];
    int64_t ns_a = MAX(a->device, a->host), ns_b = MAX(b->device, b->host);

    /* Roots, whose parent is the largest number, come first; children of one node come together. */
    return a->parent != b->parent ? (a->parent < b->parent) - (a->parent > b->parent)
           : ns_a != ns_b         ? (ns_a < ns_b) - (ns_a > ns_b)
                                  : strncmp(a->name.p, b->name.p, MIN(a->name.size, b->name.size));
}

/* Where the children of each node begin in what is sorted by parent; n where it has none. */
static void find_children(const struct building *b, const uint32_t *order, size_t *first)
{
    size_t n = b->groups.n;

    for (size_t i = 0; i <= n; i++)
        first[i] = n;
    for (size_t i = n; i > 0; i--) {
        uint32_t parent = b->nodes[order[i - 1]].parent;
        first[parent == CALL_NODE_NONE ? n : parent] = i - 1;
    }
}

static bool is_sibling(const struct building *b, const uint32_t *order, size_t at, uint32_t parent)
{
    return at < b->groups.n && b->nodes[order[at]].parent == parent;
}

/* first becomes, for each node under way, the position of its next child. */
static void call_tree_walk(const struct building *b, const uint32_t *order, size_t *first,
                           uint32_t *positions, struct call_tree *ret)
{
    uint32_t at = CALL_NODE_NONE; /* the node whose children are gone through */

    for (;;) {
        size_t *next = &first[at == CALL_NODE_NONE ? b->groups.n : at];
        if (is_sibling(b, order, *next, at)) {
            uint32_t child = order[(*next)++];
            positions[child] = (uint32_t)ret->n;
            ret->nodes[ret->n] = b->nodes[child];
            if (at != CALL_NODE_NONE)
                ret->nodes[ret->n].parent = positions[at];
            ret->n++;
            at = child;
        } else if (at == CALL_NODE_NONE) {
            return;
        } else {
            at = b->nodes[at].parent;
        }
    }
}

static int call_tree_order(const struct building *b, struct call_tree *ret)
{
    size_t n = b->groups.n;
    _cleanup_(freep) uint32_t *order = calloc(n + 1, sizeof(*order)),
                              *positions = calloc(n + 1, sizeof(*positions));
    _cleanup_(freep) size_t *first = calloc(n + 1, sizeof(*first));

    ret->nodes = calloc(n + 1, sizeof(*ret->nodes));
    if (!order || !positions || !first || !ret->nodes)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, n, sizeof(*order), compare_siblings, b->nodes);
    find_children(b, order, first);
    call_tree_walk(b, order, first, positions, ret);
    return 0;
}

static void call_tree_done(struct call_tree *tree)
{
    free(tree->nodes);
    *tree = (struct call_tree){0};
}

static int call_tree_read(struct analysis *a,
                          int (*of)(struct analysis *a, size_t rank, const struct host_calls **ret),
                          struct call_tree *ret)
{
    _cleanup_(building_done) struct building b = {0};
    const struct host_calls *host;
    const struct intervals *times;
    int r = 0;

    *ret = (struct call_tree){0};
    for (size_t i = 0; i < a->n && r >= 0; i++) {
        r = of(a, i, &host);
        if (r >= 0)
            r = analysis_times(a, i, &times);
        if (r >= 0)
            r = call_tree_make_rank(&b, a->ranks[i].columns, host, times);
    }
    if (r >= 0)
        r = call_tree_order(&b, ret);
    if (r < 0)
        call_tree_done(ret);
    return r;
}

/* -- Call tree rows -------------------------------------------------------------------------------------- */

#define CALL_TREE_COLUMNS(C)                                                                                 \
    C(depth, ID, "nesting depth")                                                                            \
    C(name, TEXT, "name of the call")                                                                        \
    C(kind, TEXT, "kind: operator, annotation or python", IMPORTANCE_EXTRA)                                  \
    C(calls, COUNT, "number of calls at this position")                                                      \
    C(host_ns, NS, "total duration of the calls")                                                            \
    C(self_host_ns, NS, "part of host_ns outside nested calls")                                              \
    C(device_ns, NS, "total duration of the GPU events launched by it and by nested calls")                  \
    C(self_device_ns, NS, "total duration of the GPU events launched by it directly")                        \
    C(kernels, COUNT, "number of GPU events launched by it and by nested calls")                             \
    C(id, ID, "node number in the tree", IMPORTANCE_EXTRA)                                                   \
    C(parent, ID, "node number of the parent", IMPORTANCE_EXTRA)
REPORT_ROW(call_tree, CALL_TREE_COLUMNS);

static void call_tree_emit(const struct call_tree *tree, struct report_rows *ret)
{
    for (size_t i = 0; i < tree->n; i++) {
        const struct call_node *node = &tree->nodes[i];
        EMIT_ROW(call_tree, ret, .depth = node->depth, .name = node->name,
                 .kind = row_str(host_kind_name(node->kind)), .calls = (int64_t)node->calls,
                 .host_ns = node->host, .self_host_ns = node->self, .device_ns = node->device,
                 .self_device_ns = node->self_device, .kernels = (int64_t)node->work, .id = (int64_t)i,
                 .parent = node->parent == CALL_NODE_NONE ? COLUMN_NULL : (int64_t)node->parent);
    }
}

/* -- Op tree --------------------------------------------------------------------------------------------- */

static int op_tree_make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(call_tree_done) struct call_tree tree = {0};
    int r = call_tree_read(a, analysis_ops, &tree);

    call_tree_emit(&tree, ret);
    return r < 0 ? r : tree.n == 0 ? -ENODATA : 0;
}

const struct report report_op_tree = {
    .name = "op_tree",
    .title = "operators and annotations as a call tree",
    .method = "Calls of one name at one position are one node; a node precedes its children, the most "
              "expensive first. Times as in ops.",
    .is_detail = true,
    REPORT_COLUMNS(call_tree),
    .make = op_tree_make,
};

/* -- Stacks ---------------------------------------------------------------------------------------------- */

static int stacks_make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(call_tree_done) struct call_tree tree = {0};
    int r = call_tree_read(a, analysis_frames, &tree);

    call_tree_emit(&tree, ret);
    return r < 0 ? r : tree.n == 0 ? -ENODATA : 0;
}

const struct report report_stacks = {
    .name = "stacks",
    .title = "Python frames, with the GPU events launched from each",
    .method = "Calls of one frame from one caller are one node; a node precedes its children, the most "
              "expensive first. GPU events belong to the innermost frame around the call that launched them"
              " (with_stack=True). The report frames lists functions by self time.",
    .is_detail = true,
    REPORT_COLUMNS(call_tree),
    .make = stacks_make,
};

/* -- By function -------------------------------------------------------------------------------------- */

#define FRAMES_COLUMNS(C)                                                                                    \
    C(name, TEXT, "function with its file and line")                                                         \
    C(calls, COUNT, "number of calls")                                                                       \
    C(self_host_ns, NS, "time in the function, without its Python callees")                                  \
    C(self_share, SHARE, "share of the self time of all functions")                                          \
    C(host_ns, NS, "time in the function and its callees; recursive calls count once")                       \
    C(self_device_ns, NS, "total duration of the GPU events launched by the function directly")              \
    C(device_ns, NS, "total duration of the GPU events launched by the function and its callees")            \
    C(kernels, COUNT, "number of GPU events launched by the function and its callees", IMPORTANCE_EXTRA)
REPORT_ROW(frames, FRAMES_COLUMNS);

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
        EMIT_ROW(frames, ret, .name = s->name, .calls = (int64_t)s->calls, .self_host_ns = s->self_host,
                 .self_share = row_share(s->self_host, total), .host_ns = s->host,
                 .self_device_ns = s->self_device, .device_ns = s->device, .kernels = (int64_t)s->kernels);
    }
    return 0;
}

const struct report report_frames = {
    .name = "frames",
    .title = "Python functions by self time, over all callers",
    .method =
        "Sums over all threads and ranks. Self time includes operators, runtime calls, and waiting: a thread "
        "that waits for a lock or a queue spends its self time in the function that waits. A call that began "
        "before the recording counts from the start of the recording (with_stack=True).",
    REPORT_COLUMNS(frames),
    .make = frames_make,
};
