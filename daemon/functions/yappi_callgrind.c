/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "base/clock.h"
#include "daemon/functions/yappi_internal.h"
#include "daemon/functions/yappi_text.h"
#include <errno.h>

#define NUMBER_NONE (-1)
/* Microseconds that are still a number of nanoseconds, also when two are added. */
#define UNITS_MAX (YAPPI_COUNT_MAX / NS_PER_US / 2)

/* A function by its number in the text. */
struct entry {
    struct piece name, file; /* empty: not told */
    int64_t calls, self_us;
    int64_t below_us,
        within_us; /* of the calls it made, and of those made of it, as their callers saw them */
};

struct profile {
    struct entry *entries; /* by number, up to FUNCTIONS_MAX */
    size_t n, cap;
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
        /* What a function spends in calls to itself is in its own time already. */
        fits = add(&callee->calls, p->calls) &&
               (callee == caller || (add(&caller->below_us, cost) && add(&callee->within_us, cost)));
        p->n_unreadable += !fits;
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

/* Its name is "verify /app/app.py:12", whose file is also told apart: takes both off, and gives the line. */
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

static void add_entry(struct function_list *l, const struct entry *e)
{
    struct piece name = e->name;
    int64_t line = take_line_number(&name, e->file);

    function_list_add(l, name.p, piece_size(name), e->file.p, piece_size(e->file), line, e->calls,
                      e->self_us * NS_PER_US, MAX(e->self_us + e->below_us, e->within_us) * NS_PER_US);
}

int yappi_callgrind_parse(const char *text, size_t size, struct function_list **ret)
{
    _cleanup_(function_list_freep) struct function_list *l = xcalloc(1, sizeof(*l));
    struct profile p = {.caller = NUMBER_NONE, .callee = NUMBER_NONE, .calls = NUMBER_NONE};
    struct piece rest = {text, text + size}, line;

    while (piece_line(&rest, &line))
        take_line(&p, piece_trim(line));
    for (size_t i = 0; i < p.n; i++)
        if (p.entries[i].name.p < p.entries[i].name.end)
            add_entry(l, &p.entries[i]);
    free(p.entries);
    if (!p.is_yappi || l->n == 0)
        return -EBADMSG;
    l->pid = p.pid;
    l->n_unreadable = p.n_unreadable;
    *ret = TAKE_PTR(l);
    return 0;
}
