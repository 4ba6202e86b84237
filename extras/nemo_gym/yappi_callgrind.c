/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/components.h"
#include "extras/nemo_gym/yappi_internal.h"
#include "extras/nemo_gym/yappi_text.h"
#include <errno.h>

#define NUMBER_NONE (-1)
/* Microseconds that are still a number of nanoseconds, also when two are added. */
#define UNITS_MAX (YAPPI_COUNT_MAX / NS_PER_US / 2)

/* A function by its number in the text. */
struct entry {
    struct piece name, file; /* empty: not given */
    int64_t calls, self_us;
    int64_t total_us; /* with what it called; set at the end */
};

/* What one function spent in calls of another. yappi adds up outermost calls of the pair only. */
struct call_sum {
    uint32_t caller, callee;
    int64_t cost_us;
};

struct profile {
    struct entry *entries; /* by number, up to FUNCTIONS_MAX */
    size_t n, cap;
    struct call_sum *sums; /* a pair may have several */
    size_t n_sums, sums_cap;
    int64_t caller, callee;
    int64_t calls; /* of the call whose cost is next, NUMBER_NONE: the cost is the caller's own */
    int64_t pid;
    size_t n_unreadable;
    bool is_yappi;
};

static const char empty[] = "";
static const struct piece nothing = {empty, empty};

static struct entry *entry_at(struct profile *p, int64_t number)
{
    if (number < 0 || number >= FUNCTIONS_MAX)
        return NULL;
    while (p->n <= (size_t)number) {
        VEC_GROW(p->entries, p->n, p->cap);
        p->entries[p->n++] = (struct entry){.name = nothing, .file = nothing};
    }
    return &p->entries[number];
}

/* "(12) text" or "(12)": the number, and the text trimmed; NUMBER_NONE and no text where it is neither. */
static int64_t read_reference(struct piece value, struct piece *ret_text)
{
    const char *close = memchr(value.p, ')', piece_size(value));
    int64_t number;

    *ret_text = nothing;
    if (!close || *value.p != '(' || !piece_number((struct piece){value.p + 1, close}, &number))
        return NUMBER_NONE;
    *ret_text = piece_trim((struct piece){close + 1, value.end});
    return number;
}

static void take_file(struct profile *p, struct piece value)
{
    struct piece text;
    struct entry *e = entry_at(p, read_reference(value, &text));

    if (!e)
        p->n_unreadable++;
    else if (text.p < text.end)
        e->file = text;
}

static void take_function(struct profile *p, struct piece value)
{
    struct piece text;
    int64_t number = read_reference(value, &text);
    struct entry *e = entry_at(p, number);

    p->caller = e ? number : NUMBER_NONE;
    p->calls = NUMBER_NONE;
    if (!e)
        p->n_unreadable++;
    else if (text.p < text.end)
        e->name = text;
}

static void take_callee(struct profile *p, struct piece value)
{
    struct piece text;
    p->callee = read_reference(value, &text);
}

/* "calls=4 0" */
static void take_calls(struct profile *p, struct piece value)
{
    const char *space = memchr(value.p, ' ', piece_size(value));

    if (!piece_number((struct piece){value.p, space ? space : value.end}, &p->calls)) {
        p->calls = 0;
        p->n_unreadable++;
    }
}

static void take_pid(struct profile *p, struct piece value)
{
    if (!piece_number(value, &p->pid))
        p->pid = 0;
}

static void take_creator(struct profile *p, struct piece value)
{
    p->is_yappi = piece_starts(value, "yappi");
}

static const struct {
    const char *key;
    void (*take)(struct profile *p, struct piece value);
} keys[] = {
    {"fl=", take_file},     {"fn=", take_function}, {"cfn=", take_callee},
    {"calls=", take_calls}, {"pid:", take_pid},     {"creator:", take_creator},
};

static bool add(int64_t *sum, int64_t more)
{
    int64_t result;

    if (__builtin_add_overflow(*sum, more, &result) || result > UNITS_MAX || result < -UNITS_MAX)
        return false;
    *sum = result;
    return true;
}

/* "LINE COST": the caller's own, or that of the call before it. */
static void take_cost(struct profile *p, struct piece line)
{
    const char *space = memchr(line.p, ' ', piece_size(line));
    bool is_call = p->calls != NUMBER_NONE, fits;
    /* In this order: the caller's is there already, the callee's may make the table move. */
    struct entry *callee = is_call ? entry_at(p, p->callee) : NULL, *caller = entry_at(p, p->caller);
    struct piece number = piece_trim((struct piece){space ? space : line.end, line.end});
    bool minus = piece_take_minus(&number);
    int64_t cost;

    if (!caller || !piece_number(number, &cost) || (is_call && (!callee || minus))) {
        p->n_unreadable++;
    } else if (!is_call) {
        fits = add(&caller->self_us, minus ? -cost : cost);
        p->n_unreadable += !fits;
    } else {
        fits = add(&callee->calls, p->calls) && cost <= UNITS_MAX;
        p->n_unreadable += !fits;
        /* What a function spends in calls to itself is in its own time already. */
        if (fits && callee != caller) {
            VEC_GROW(p->sums, p->n_sums, p->sums_cap);
            p->sums[p->n_sums++] = (struct call_sum){(uint32_t)p->caller, (uint32_t)p->callee, cost};
        }
    }
    p->calls = NUMBER_NONE;
}

static void take_line(struct profile *p, struct piece line)
{
    if (line.p < line.end && piece_is_digit(*line.p)) {
        take_cost(p, line);
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (piece_starts(line, keys[i].key))
            keys[i].take(p, piece_trim((struct piece){line.p + strlen(keys[i].key), line.end}));
}

/* The name is "verify /app/app.py:12", and the file is also given separately: removes the file and the line
 * from the name, and returns the line. */
static int64_t take_line_number(struct piece *name, struct piece file)
{
    const char *digits = name->end;
    int64_t line;

    while (digits > name->p && piece_is_digit(digits[-1]))
        digits--;
    size_t tail = strlen(" ") + piece_size(file) + strlen(":");
    if ((size_t)(digits - name->p) <= tail)
        return 0;
    const char *end = digits - tail;
    if (*end != ' ' || digits[-1] != ':' || memcmp(end + 1, file.p, piece_size(file)) != 0 ||
        !piece_number((struct piece){digits, name->end}, &line))
        return 0;
    name->end = end;
    return line;
}

/* -- Time with what was called ------------------------------------------------------------------------ */

/* Of functions that call each other in a circle, or of one alone. */
struct circle {
    int64_t own_us;     /* of all members, with their calls of others */
    int64_t entered_us; /* of calls from outside */
};

/* Sums of one function over its calls within its circle and across its border. */
struct border {
    int64_t out_us, in_us;           /* calls of others, and by others */
    int64_t inner_us, inner_most_us; /* calls by members: their sum, and the longest of one member */
};

static int64_t sum_of(int64_t a, int64_t b)
{
    return MIN(a + b, UNITS_MAX);
}

/*
 * A call from outside is never within another of the same circle, or its caller would be in the circle as
 * well: so the circle took what its members took themselves and what they called outside, and once at that,
 * whoever called whom in it. Of one member no more is known than bounds: it ran at least as long as any one
 * caller saw it run, and at most for the calls that it got from outside and for what the circle was entered
 * for otherwise. The upper one is given, which is exact where the circle is entered at it alone.
 */
static int64_t total_of(const struct entry *e, const struct border *b, const struct circle *c, bool is_alone)
{
    int64_t whole = MAX(c->own_us, c->entered_us);

    if (is_alone)
        return whole;
    int64_t otherwise = MIN(whole - MIN(b->in_us, whole), b->inner_us), most = sum_of(b->in_us, otherwise),
            least = MAX(MAX(b->inner_most_us, b->in_us), sum_of(MAX(e->self_us, 0), b->out_us));

    return MIN(MAX(most, least), MAX(whole, e->self_us));
}

static int compare_sums(const void *x, const void *y)
{
    const struct call_sum *a = x, *b = y;

    if (a->callee != b->callee)
        return a->callee < b->callee ? -1 : 1;
    return (a->caller > b->caller) - (a->caller < b->caller);
}

/* A pair has one sum from here on. */
static void unite_sums(struct profile *p)
{
    size_t kept = 0;

    if (p->n_sums > 0)
        qsort(p->sums, p->n_sums, sizeof(*p->sums), compare_sums);
    for (size_t i = 0; i < p->n_sums; i++) {
        struct call_sum *last = kept > 0 ? &p->sums[kept - 1] : NULL;
        if (last && last->caller == p->sums[i].caller && last->callee == p->sums[i].callee)
            last->cost_us = sum_of(last->cost_us, p->sums[i].cost_us);
        else
            p->sums[kept++] = p->sums[i];
    }
    p->n_sums = kept;
}

static int find_circles(const struct profile *p, uint32_t *ret_circle)
{
    _cleanup_(freep) uint32_t *from = xcalloc(p->n_sums + 1, sizeof(*from));
    _cleanup_(freep) uint32_t *to = xcalloc(p->n_sums + 1, sizeof(*to));
    size_t n = 0;

    /* What took no time cannot count twice. */
    for (size_t i = 0; i < p->n_sums; i++)
        if (p->sums[i].cost_us > 0) {
            from[n] = p->sums[i].caller;
            to[n++] = p->sums[i].callee;
        }
    return components_find((uint32_t)p->n, from, to, n, ret_circle);
}

static int sum_up(struct profile *p)
{
    _cleanup_(freep) uint32_t *circle = xcalloc(p->n + 1, sizeof(*circle));
    _cleanup_(freep) uint32_t *members = xcalloc(p->n + 1, sizeof(*members));
    _cleanup_(freep) struct circle *circles = xcalloc(p->n + 1, sizeof(*circles));
    _cleanup_(freep) struct border *borders = xcalloc(p->n + 1, sizeof(*borders));

    unite_sums(p);
    int r = find_circles(p, circle);
    if (r < 0)
        return r;
    for (size_t i = 0; i < p->n; i++) {
        members[circle[i]]++;
        circles[circle[i]].own_us = sum_of(circles[circle[i]].own_us, p->entries[i].self_us);
    }
    for (size_t i = 0; i < p->n_sums; i++) {
        const struct call_sum *s = &p->sums[i];
        struct border *caller = &borders[s->caller], *callee = &borders[s->callee];
        if (circle[s->caller] == circle[s->callee]) {
            callee->inner_us = sum_of(callee->inner_us, s->cost_us);
            callee->inner_most_us = MAX(callee->inner_most_us, s->cost_us);
            continue;
        }
        caller->out_us = sum_of(caller->out_us, s->cost_us);
        callee->in_us = sum_of(callee->in_us, s->cost_us);
        circles[circle[s->caller]].own_us = sum_of(circles[circle[s->caller]].own_us, s->cost_us);
        circles[circle[s->callee]].entered_us = sum_of(circles[circle[s->callee]].entered_us, s->cost_us);
    }
    for (size_t i = 0; i < p->n; i++)
        p->entries[i].total_us =
            total_of(&p->entries[i], &borders[i], &circles[circle[i]], members[circle[i]] == 1);
    return 0;
}

static void add_entry(struct function_list *l, const struct entry *e)
{
    struct piece name = e->name;
    int64_t line = take_line_number(&name, e->file);

    function_list_add(l, name.p, piece_size(name), e->file.p, piece_size(e->file), line, e->calls,
                      e->self_us * NS_PER_US, e->total_us * NS_PER_US);
}

int yappi_callgrind_parse(const char *text, size_t size, struct function_list **ret)
{
    _cleanup_(function_list_freep) struct function_list *l = xcalloc(1, sizeof(*l));
    struct profile p = {.caller = NUMBER_NONE, .callee = NUMBER_NONE, .calls = NUMBER_NONE};
    struct piece rest = {text, text + size}, line;

    while (piece_line(&rest, &line))
        take_line(&p, piece_trim(line));
    int r = sum_up(&p);
    for (size_t i = 0; i < p.n && r == 0; i++)
        if (p.entries[i].name.p < p.entries[i].name.end)
            add_entry(l, &p.entries[i]);
    free(p.entries);
    free(p.sums);
    if (r < 0)
        return r;
    if (!p.is_yappi || l->n == 0)
        return -EBADMSG;
    l->pid = p.pid;
    l->n_unreadable = p.n_unreadable;
    *ret = TAKE_PTR(l);
    return 0;
}
