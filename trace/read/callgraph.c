/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/callgrind.h"

#include "base/components.h"
#include "trace/read/budget.h"
#include "trace/read/scan_text.h"
#include <errno.h>

#define THREAD_CALLS 1
#define THREAD_SELF  2
#define MEMORY_MAX   (UINT64_C(512) << 20)

struct graph_function {
    uint32_t name;
    int64_t self;       /* self cost */
    int64_t own;        /* self cost and calls to functions outside of its cycle */
    int64_t calls;      /* cost of its calls to other functions */
    int64_t called;     /* cost of the calls to it by other functions */
    size_t first, last; /* its calls, after they are sorted */
};

struct graph_call {
    uint32_t caller, callee;
    int64_t cost;
};

struct callgraph {
    struct budget budget;
    struct number_map function_numbers, call_numbers;
    struct graph_function *functions;
    size_t n_functions, functions_cap;
    struct graph_call *calls;
    size_t n_calls, calls_cap;
};

struct call_cycles;

struct drawing {
    struct callgraph *g;
    const struct call_cycles *cycles;
    struct intake *in;
    uint32_t thread;
    uint16_t category, cycle_category;
    uint64_t slices;
    int64_t smallest; /* cost of a call that is drawn */
    struct callgraph_drawn *drawn;
};

int callgraph_new(struct callgraph **ret)
{
    struct callgraph *g = calloc(1, sizeof(*g));

    if (!g)
        return -ENOMEM;
    g->budget.max = MEMORY_MAX;
    g->function_numbers.budget = g->call_numbers.budget = &g->budget;
    *ret = g;
    return 0;
}

struct callgraph *callgraph_free(struct callgraph *g)
{
    if (!g)
        return NULL;
    number_map_done(&g->function_numbers);
    number_map_done(&g->call_numbers);
    BUDGET_FREE(&g->budget, g->functions, g->functions_cap);
    BUDGET_FREE(&g->budget, g->calls, g->calls_cap);
    free(g);
    return NULL;
}

uint32_t callgraph_function(struct callgraph *g, uint32_t name, uint32_t file, uint32_t object)
{
    uint32_t next = (uint32_t)g->n_functions;
    uint32_t *number = number_map_put(&g->function_numbers, (uint64_t)name << 32 | file, object, next);

    if (!number || *number < next)
        return number ? *number : UINT32_MAX;
    if (BUDGET_RESERVE(&g->budget, g->functions, g->functions_cap, next + 1) < 0)
        return UINT32_MAX;
    g->functions[g->n_functions++] = (struct graph_function){.name = name};
    return next;
}

static int callgraph_add_cost(int64_t *sum, int64_t cost)
{
    if (cost < 0 || cost > CALLGRAPH_COST_MAX - *sum)
        return -ERANGE;
    *sum += cost;
    return 0;
}

int callgraph_self(struct callgraph *g, uint32_t function, int64_t cost)
{
    return callgraph_add_cost(&g->functions[function].self, cost);
}

int callgraph_call(struct callgraph *g, uint32_t caller, uint32_t callee, int64_t cost)
{
    size_t next = g->n_calls;

    /* The cost of the function already includes its recursion. */
    if (caller == callee)
        return 0;
    uint32_t *number = number_map_put(&g->call_numbers, (uint64_t)caller << 32 | callee, 0, (uint32_t)next);
    if (!number)
        return -ENOMEM;
    if (*number == next) {
        if (BUDGET_RESERVE(&g->budget, g->calls, g->calls_cap, next + 1) < 0)
            return -ENOMEM;
        g->calls[g->n_calls++] = (struct graph_call){caller, callee, 0};
    }
    if (cost > CALLGRAPH_COST_MAX - g->functions[caller].calls ||
        cost > CALLGRAPH_COST_MAX - g->functions[callee].called)
        return -ERANGE;
    int r = callgraph_add_cost(&g->calls[*number].cost, cost);
    if (r == 0) {
        g->functions[caller].calls += cost;
        g->functions[callee].called += cost;
    }
    return r;
}

static int callgraph_compare_calls(const void *a, const void *b)
{
    const struct graph_call *x = a, *y = b;

    if (x->caller != y->caller)
        return x->caller < y->caller ? -1 : 1;
    if (x->cost != y->cost)
        return x->cost > y->cost ? -1 : 1;
    return x->callee < y->callee ? -1 : x->callee > y->callee;
}

static void callgraph_sort_calls(struct callgraph *g)
{
    if (g->n_calls > 0)
        qsort(g->calls, g->n_calls, sizeof(*g->calls), callgraph_compare_calls);
    for (size_t i = 0; i < g->n_calls; i++) {
        struct graph_function *f = &g->functions[g->calls[i].caller];
        if (i == 0 || g->calls[i - 1].caller != g->calls[i].caller)
            f->first = i;
        f->last = i + 1;
    }
}

static void callgraph_draw_slice(struct drawing *d, uint32_t name, uint16_t category, int64_t ts, int64_t dur)
{
    *intake_event(d->in) = (struct event){.ts = ts,
                                          .dur = dur,
                                          .offset = d->slices++,
                                          .name = name,
                                          .thread = d->thread,
                                          .category = category,
                                          .phase = EVENT_COMPLETE};
}

/* -- Cycles ------------------------------------------------------------------------------------------- */

/* A cycle is a set of functions that call each other, or a single function. A call from outside never lies
 * within another call of the same cycle, so the cost of a cycle is known although the costs of its members
 * are not. */
struct call_cycle {
    int64_t own;     /* of its members, with their calls to functions outside of the cycle */
    int64_t entered; /* of the calls from outside */
    uint32_t first;  /* first of its members in the list of all functions by cycle */
    uint32_t n;
};

struct call_cycles {
    uint32_t *of_function, *members;
    struct call_cycle *items;
};

static void call_cycles_done(struct call_cycles *c)
{
    free(c->of_function);
    free(c->members);
    free(c->items);
}

static bool callgraph_is_inner(const struct call_cycles *c, const struct graph_call *call)
{
    return c->of_function[call->caller] == c->of_function[call->callee];
}

static int callgraph_find_components(const struct callgraph *g, uint32_t *ret)
{
    _cleanup_(freep) uint32_t *from = calloc(g->n_calls + 1, sizeof(*from));
    _cleanup_(freep) uint32_t *to = calloc(g->n_calls + 1, sizeof(*to));
    size_t n = 0;

    if (!from || !to)
        return -ENOMEM;
    /* Calls without a cost cannot be counted twice. */
    for (size_t i = 0; i < g->n_calls; i++)
        if (g->calls[i].cost > 0) {
            from[n] = g->calls[i].caller;
            to[n++] = g->calls[i].callee;
        }
    return components_find((uint32_t)g->n_functions, from, to, n, ret);
}

static void callgraph_list_members(const struct callgraph *g, struct call_cycles *c)
{
    uint32_t offset = 0;

    for (size_t i = 0; i < g->n_functions; i++)
        c->items[c->of_function[i]].n++;
    for (size_t i = 0; i < g->n_functions; i++) {
        c->items[i].first = offset;
        offset += c->items[i].n;
        c->items[i].n = 0;
    }
    for (size_t i = 0; i < g->n_functions; i++) {
        struct call_cycle *cycle = &c->items[c->of_function[i]];
        c->members[cycle->first + cycle->n++] = (uint32_t)i;
    }
}

/* Sums saturate at the largest cost. */
static void callgraph_add_up(int64_t *sum, int64_t cost)
{
    *sum = MIN(*sum + cost, CALLGRAPH_COST_MAX);
}

static int call_cycles_find(struct callgraph *g, struct call_cycles *ret)
{
    size_t capacity = g->n_functions + 1;

    ret->of_function = calloc(capacity, sizeof(*ret->of_function));
    ret->members = calloc(capacity, sizeof(*ret->members));
    ret->items = calloc(capacity, sizeof(*ret->items));
    if (!ret->of_function || !ret->members || !ret->items)
        return -ENOMEM;
    int r = callgraph_find_components(g, ret->of_function);
    if (r < 0)
        return r;
    callgraph_list_members(g, ret);
    for (size_t i = 0; i < g->n_functions; i++) {
        g->functions[i].own = g->functions[i].self;
        callgraph_add_up(&ret->items[ret->of_function[i]].own, g->functions[i].self);
    }
    for (size_t i = 0; i < g->n_calls; i++) {
        const struct graph_call *call = &g->calls[i];
        if (callgraph_is_inner(ret, call))
            continue;
        callgraph_add_up(&g->functions[call->caller].own, call->cost);
        callgraph_add_up(&ret->items[ret->of_function[call->caller]].own, call->cost);
        callgraph_add_up(&ret->items[ret->of_function[call->callee]].entered, call->cost);
    }
    return 0;
}

static int64_t callgraph_own_cost(const struct drawing *d, uint32_t function)
{
    return d->g->functions[function].self;
}

/* The cost of a cycle that no caller accounts for belongs to its most expensive member. */
static int64_t callgraph_root_cost(const struct drawing *d, uint32_t function)
{
    const struct call_cycles *c = d->cycles;
    const struct call_cycle *cycle = &c->items[c->of_function[function]];
    uint32_t dearest = c->members[cycle->first];

    for (uint32_t i = 1; i < cycle->n; i++) {
        uint32_t other = c->members[cycle->first + i];
        if (d->g->functions[other].own > d->g->functions[dearest].own)
            dearest = other;
    }
    return function == dearest ? cycle->own - cycle->entered : 0;
}

/* -- The flame ---------------------------------------------------------------------------------------- */

static bool callgraph_has_room(const struct drawing *d, int64_t share, unsigned depth)
{
    return share >= d->smallest && depth < CALLGRAPH_DEPTH_MAX && d->slices < CALLGRAPH_SLICES_MAX;
}

static void callgraph_draw_function(struct drawing *d, uint32_t function, int64_t ts, int64_t dur,
                                    unsigned depth);

/* Draws the calls of a function to functions outside of its cycle, in `dur` of the total time `total`.
 * Returns where they end. */
static int64_t callgraph_draw_calls(struct drawing *d, const struct graph_function *f, int64_t ts,
                                    int64_t dur, int64_t total, unsigned depth)
{
    for (size_t i = f->first; i < f->last; i++) {
        const struct graph_call *c = &d->g->calls[i];
        int64_t share = (int64_t)((__int128)dur * c->cost / MAX(total, 1));

        if (callgraph_is_inner(d->cycles, c)) {
            d->drawn->recursive++;
            continue;
        }
        if (!callgraph_has_room(d, share, depth)) {
            d->drawn->small += f->last - i; /* the remaining calls cost no more */
            break;
        }
        callgraph_draw_function(d, c->callee, ts, share, depth + 1);
        ts += share;
    }
    return ts;
}

/* Draws a slice of this length for a function and its calls in it. For a cycle, the costs of the other
 * members are drawn next to each other, since the order of their calls is unknown. */
static void callgraph_draw_function(struct drawing *d, uint32_t function, int64_t ts, int64_t dur,
                                    unsigned depth)
{
    const struct graph_function *f = &d->g->functions[function];
    const struct call_cycle *cycle = &d->cycles->items[d->cycles->of_function[function]];
    /* If the callers account for less than the function costs, the rest is its self cost. */
    int64_t total = MAX(cycle->own, cycle->entered);

    callgraph_draw_slice(d, f->name, d->category, ts, dur);
    ts = callgraph_draw_calls(d, f, ts, dur, total, depth);
    for (uint32_t i = 0; i < cycle->n; i++) {
        uint32_t other = d->cycles->members[cycle->first + i];
        const struct graph_function *member = &d->g->functions[other];
        int64_t share = (int64_t)((__int128)dur * member->own / MAX(total, 1));
        if (other == function)
            continue;
        if (!callgraph_has_room(d, share, depth)) {
            d->drawn->small++;
            continue;
        }
        callgraph_draw_slice(d, member->name, d->cycle_category, ts, share);
        callgraph_draw_calls(d, member, ts, dur, total, depth + 1);
        ts += share;
    }
}

/* A function and its drawn cost. */
struct drawn_function {
    uint32_t function;
    int64_t cost;
};

static int callgraph_compare_drawn(const void *a, const void *b)
{
    const struct drawn_function *x = a, *y = b;

    if (x->cost != y->cost)
        return x->cost > y->cost ? -1 : 1;
    return x->function < y->function ? -1 : x->function > y->function;
}

/* Lists the functions with a cost of this kind, the most expensive first. */
static size_t callgraph_list_drawn(const struct drawing *d,
                                   int64_t (*cost)(const struct drawing *d, uint32_t function),
                                   struct drawn_function *ret)
{
    size_t n = 0;

    for (size_t i = 0; i < d->g->n_functions; i++)
        if (cost(d, (uint32_t)i) > 0)
            ret[n++] = (struct drawn_function){(uint32_t)i, cost(d, (uint32_t)i)};
    if (n > 0)
        qsort(ret, n, sizeof(*ret), callgraph_compare_drawn);
    return n;
}

static void callgraph_begin_thread(struct drawing *d, int64_t pid, int64_t tid, const char *name,
                                   const char *category)
{
    struct intake *in = d->in;
    uint32_t name_number = clean_text(in, name, strlen(name), 0);

    d->thread = intake_thread(in, pid, 0, tid, 0);
    d->category = intake_category(in, clean_text(in, category, strlen(category), 0));
    if (in->error == 0)
        in->threads[d->thread].name = name_number;
}

int callgraph_draw(struct callgraph *g, struct intake *in, int64_t pid, struct callgraph_drawn *ret)
{
    _cleanup_(call_cycles_done) struct call_cycles cycles = {0};
    struct drawing d = {.g = g, .in = in, .drawn = ret};
    _cleanup_(freep) struct drawn_function *parts = calloc(g->n_functions + 1, sizeof(*parts));
    int64_t ts = 0, total = 0;
    size_t n;

    if (!parts)
        return -ENOMEM;
    *ret = (struct callgraph_drawn){0};
    callgraph_sort_calls(g);
    int r = call_cycles_find(g, &cycles);
    if (r < 0)
        return r;
    d.cycles = &cycles;
    d.cycle_category = intake_category(in, clean_text(in, CALLGRAPH_CIRCLE, strlen(CALLGRAPH_CIRCLE), 0));

    callgraph_begin_thread(&d, pid, THREAD_CALLS, "calls", "callgrind");
    n = callgraph_list_drawn(&d, callgraph_root_cost, parts);
    for (size_t i = 0; i < n && callgraph_add_cost(&total, parts[i].cost) == 0; i++)
        ;
    d.smallest = MAX(1, total / CALLGRAPH_PARTS);
    for (size_t i = 0; i < n && in->error == 0; i++)
        if (parts[i].cost < d.smallest || ts + parts[i].cost > total || d.slices >= CALLGRAPH_SLICES_MAX) {
            ret->small++;
        } else {
            callgraph_draw_function(&d, parts[i].function, ts, parts[i].cost, 1);
            ts += parts[i].cost;
        }

    callgraph_begin_thread(&d, pid, THREAD_SELF, "self", "callgrind_self");
    n = callgraph_list_drawn(&d, callgraph_own_cost, parts);
    ts = 0;
    for (size_t i = 0; i < n && in->error == 0; i++) {
        callgraph_draw_slice(&d, g->functions[parts[i].function].name, d.category, ts, parts[i].cost);
        if (callgraph_add_cost(&ts, parts[i].cost) < 0)
            break;
    }
    return in->error;
}
