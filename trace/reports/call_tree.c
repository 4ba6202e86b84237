/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/call_tree.h"

#include "base/array.h"
#include "trace/reports/group.h"
#include "trace/reports/op_sums.h"
#include <errno.h>

struct building {
    struct name_table texts;
    struct groups groups; /* parent, name, kind: a node */
    struct call_node *nodes;
    size_t cap;
};

static void building_done(struct building *b)
{
    name_table_done(&b->texts);
    groups_done(&b->groups);
    free(b->nodes);
}

static int64_t node_of(struct building *b, struct text_numbers *numbers, const struct host_call *call,
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
                                   .kind = call->kind,
                                   .parent = parent,
                                   .depth = parent == CALL_NODE_NONE ? 0 : b->nodes[parent].depth + 1};
    return number;
}

static int add_rank(struct building *b, const struct columns *c, const struct host_calls *host,
                    const struct intervals *times)
{
    _cleanup_(text_numbers_done) struct text_numbers numbers = {.c = c, .names = &b->texts};
    _cleanup_(freep) uint32_t *nodes = calloc(host->n + 1, sizeof(*nodes));

    if (!nodes)
        return -ENOMEM;
    for (size_t i = 0; i < host->n; i++) {
        const struct host_call *call = &host->calls[i];
        uint32_t parent = call->parent == HOST_CALL_NONE ? CALL_NODE_NONE : nodes[call->parent];
        bool is_in_view = analysis_has_call(times, call);
        nodes[i] = parent;
        if (!is_in_view && call->work_all == 0)
            continue;
        int64_t number = node_of(b, &numbers, call, parent);
        if (number < 0)
            return (int)number;
        nodes[i] = (uint32_t)number;
        struct call_node *node = &b->nodes[number];
        node->device += call->device_all;
        node->self_device += call->device;
        node->work += call->work_all;
        if (!is_in_view)
            continue;
        node->calls++;
        node->host += call->end - call->ts;
        node->self += host_call_self(call);
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

/* first becomes, for each node under way, the place of its next child. */
static void walk(const struct building *b, const uint32_t *order, size_t *first, uint32_t *places,
                 struct call_tree *ret)
{
    uint32_t at = CALL_NODE_NONE; /* the node whose children are gone through */

    for (;;) {
        size_t *next = &first[at == CALL_NODE_NONE ? b->groups.n : at];
        if (is_sibling(b, order, *next, at)) {
            uint32_t child = order[(*next)++];
            places[child] = (uint32_t)ret->n;
            ret->nodes[ret->n] = b->nodes[child];
            if (at != CALL_NODE_NONE)
                ret->nodes[ret->n].parent = places[at];
            ret->n++;
            at = child;
        } else if (at == CALL_NODE_NONE) {
            return;
        } else {
            at = b->nodes[at].parent;
        }
    }
}

static int put_in_order(const struct building *b, struct call_tree *ret)
{
    size_t n = b->groups.n;
    _cleanup_(freep) uint32_t *order = calloc(n + 1, sizeof(*order)),
                              *places = calloc(n + 1, sizeof(*places));
    _cleanup_(freep) size_t *first = calloc(n + 1, sizeof(*first));

    ret->nodes = calloc(n + 1, sizeof(*ret->nodes));
    if (!order || !places || !first || !ret->nodes)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        order[i] = (uint32_t)i;
    qsort_r(order, n, sizeof(*order), compare_siblings, b->nodes);
    find_children(b, order, first);
    walk(b, order, first, places, ret);
    return 0;
}

int call_tree_read(struct analysis *a,
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
            r = add_rank(&b, a->ranks[i].columns, host, times);
    }
    if (r >= 0)
        r = put_in_order(&b, ret);
    if (r < 0)
        call_tree_done(ret);
    return r;
}

void call_tree_done(struct call_tree *tree)
{
    free(tree->nodes);
    *tree = (struct call_tree){0};
}
