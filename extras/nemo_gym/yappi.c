/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of yappi as lists of functions: its table (print_all() of its function statistics) and its profile in
 * callgrind's format (save() with type CALLGRIND). Pure over bytes that anybody may have sent; memory is bounded by a
 * small multiple of the text and a few megabytes.
 *
 * trace/read/callgrind.h makes a flame graph of such a profile; here the calls of each function are counted.
 */
#include "extras/nemo_gym/function_list.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/components.h"
#include <errno.h>

/* -- Pieces of text ----------------------------------------------------------------------------------- */

struct piece {
    const char *p, *end;
};

/* More is nonsense: sums of two still fit. */
#define YAPPI_COUNT_MAX (INT64_C(1) << 60)

static size_t piece_size(struct piece s)
{
    return (size_t)(s.end - s.p);
}

static bool piece_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool piece_starts(struct piece s, const char *prefix)
{
    size_t n = strlen(prefix);
    return piece_size(s) >= n && memcmp(s.p, prefix, n) == 0;
}

static struct piece piece_trim(struct piece s)
{
    while (s.p < s.end && (*s.p == ' ' || *s.p == '\t'))
        s.p++;
    while (s.end > s.p && (s.end[-1] == ' ' || s.end[-1] == '\t' || s.end[-1] == '\r'))
        s.end--;
    return s;
}

/* The next line of the rest, without its end; false after the last. */
static bool piece_line(struct piece *rest, struct piece *ret)
{
    if (rest->p == rest->end)
        return false;
    const char *newline = memchr(rest->p, '\n', piece_size(*rest));
    *ret = (struct piece){rest->p, newline ? newline : rest->end};
    rest->p = newline ? newline + 1 : rest->end;
    return true;
}

/* All of it a number, at most YAPPI_COUNT_MAX. */
static bool piece_number(struct piece s, int64_t *ret)
{
    int64_t n = 0;

    if (s.p == s.end)
        return false;
    for (; s.p < s.end; s.p++) {
        if (!piece_is_digit(*s.p) || n > YAPPI_COUNT_MAX / 10)
            return false;
        n = n * 10 + (*s.p - '0');
    }
    *ret = n;
    return true;
}

/* Takes the sign off; true where it is a minus. */
static bool piece_take_minus(struct piece *s)
{
    bool minus = s->p < s->end && *s->p == '-';
    s->p += minus;
    return minus;
}

/* -- The table ----------------------------------------------------------------------------------------- */

#define CLOCK_TYPE "Clock type: "

static const struct {
    const char *word;
    enum function_clock clock;
} clocks[] = {
    {"CPU", FUNCTION_CLOCK_CPU},
    {"WALL", FUNCTION_CLOCK_WALL},
};

/* The last word, which goes from the line. */
static struct piece table_take_word(struct piece *line)
{
    struct piece word;

    *line = piece_trim(*line);
    word = (struct piece){line->end, line->end};
    while (word.p > line->p && word.p[-1] != ' ')
        word.p--;
    line->end = word.p;
    return word;
}

/* "0.000123", as nanoseconds. What is finer than these is cut. */
static bool table_read_seconds(struct piece s, int64_t *ret)
{
    bool minus = piece_take_minus(&s);
    const char *point = memchr(s.p, '.', piece_size(s));
    int64_t seconds, part = 0, unit = NS_PER_S;

    if (!piece_number((struct piece){s.p, point ? point : s.end}, &seconds) ||
        seconds > YAPPI_COUNT_MAX / NS_PER_S)
        return false;
    for (const char *p = point ? point + 1 : s.end; p < s.end; p++) {
        if (!piece_is_digit(*p))
            return false;
        unit /= 10;
        part += unit * (*p - '0');
    }
    *ret = (seconds * NS_PER_S + part) * (minus ? -1 : 1);
    return true;
}

/* Of "12/3" the 12: calls with those that recur. */
static bool table_read_calls(struct piece s, int64_t *ret)
{
    const char *slash = memchr(s.p, '/', piece_size(s));
    return piece_number((struct piece){s.p, slash ? slash : s.end}, ret);
}

/* "/app/app.py:12 verify"; what is built in, "builtins.sorted", has no line. */
static void table_add(struct function_list *l, struct piece full, int64_t calls, int64_t tsub, int64_t ttot)
{
    for (const char *colon = full.p; (colon = memchr(colon, ':', (size_t)(full.end - colon))); colon++) {
        struct piece digits = {colon + 1, colon + 1};
        int64_t line;
        while (digits.end < full.end && piece_is_digit(*digits.end))
            digits.end++;
        if (digits.end == full.end || *digits.end != ' ' || !piece_number(digits, &line))
            continue;
        function_list_add(l, digits.end + 1, (size_t)(full.end - digits.end - 1), full.p,
                          (size_t)(colon - full.p), line, calls, tsub, ttot);
        return;
    }
    function_list_add(l, full.p, piece_size(full), "", 0, 0, calls, tsub, ttot);
}

static void table_take_row(struct function_list *l, struct piece line)
{
    int64_t calls, tsub, ttot, average;
    struct piece tavg_word = table_take_word(&line), ttot_word = table_take_word(&line),
                 tsub_word = table_take_word(&line), calls_word = table_take_word(&line),
                 full = piece_trim(line);

    if (full.p == full.end || l->n == FUNCTIONS_MAX || !table_read_seconds(tavg_word, &average) ||
        !table_read_seconds(ttot_word, &ttot) || !table_read_seconds(tsub_word, &tsub) ||
        !table_read_calls(calls_word, &calls) || ttot < 0)
        l->n_unreadable++;
    else
        table_add(l, full, calls, tsub, ttot);
}

int yappi_table_parse(const char *text, size_t size, struct function_list **ret)
{
    _cleanup_(function_list_freep) struct function_list *l = xcalloc(1, sizeof(*l));
    struct piece rest = {text, text + size}, line;
    bool past_heading = false;

    while (piece_line(&rest, &line)) {
        line = piece_trim(line);
        if (past_heading && line.p < line.end)
            table_take_row(l, line);
        for (size_t i = 0; !past_heading && i < ARRAY_SIZE(clocks); i++)
            if (piece_starts(line, CLOCK_TYPE) &&
                piece_starts((struct piece){line.p + strlen(CLOCK_TYPE), line.end}, clocks[i].word))
                l->clock = clocks[i].clock;
        past_heading = past_heading || piece_starts(line, "name ");
    }
    if (!past_heading)
        return -EBADMSG;
    *ret = TAKE_PTR(l);
    return 0;
}

/* -- The profile --------------------------------------------------------------------------------------- */

#define NUMBER_NONE (-1)
/* Microseconds that are still a number of nanoseconds, also when two are added. */
#define UNITS_MAX (YAPPI_COUNT_MAX / NS_PER_US / 2)

/* A function by its number in the text. */
struct profile_entry {
    struct piece name, file; /* empty: not given */
    int64_t calls, self_us;
    int64_t total_us; /* with what it called; set at the end */
};

/* What one function spent in calls of another. yappi adds up outermost calls of the pair only. */
struct profile_sum {
    uint32_t caller, callee;
    int64_t cost_us;
};

struct callgrind_profile {
    struct profile_entry *entries; /* by number, up to FUNCTIONS_MAX */
    size_t n, cap;
    struct profile_sum *sums; /* a pair may have several */
    size_t n_sums, sums_cap;
    int64_t caller, callee;
    int64_t calls; /* of the call whose cost is next, NUMBER_NONE: the cost is the caller's own */
    int64_t pid;
    size_t n_unreadable;
    bool is_yappi;
};

static const char empty[] = "";
static const struct piece nothing = {empty, empty};

static struct profile_entry *profile_entry(struct callgrind_profile *p, int64_t number)
{
    if (number < 0 || number >= FUNCTIONS_MAX)
        return NULL;
    while (p->n <= (size_t)number) {
        VEC_GROW(p->entries, p->n, p->cap);
        p->entries[p->n++] = (struct profile_entry){.name = nothing, .file = nothing};
    }
    return &p->entries[number];
}

/* "(12) text" or "(12)": the number, and the text trimmed; NUMBER_NONE and no text where it is neither. */
static int64_t profile_read_reference(struct piece value, struct piece *ret_text)
{
    const char *close = memchr(value.p, ')', piece_size(value));
    int64_t number;

    *ret_text = nothing;
    if (!close || *value.p != '(' || !piece_number((struct piece){value.p + 1, close}, &number))
        return NUMBER_NONE;
    *ret_text = piece_trim((struct piece){close + 1, value.end});
    return number;
}

static void profile_take_file(struct callgrind_profile *p, struct piece value)
{
    struct piece text;
    struct profile_entry *e = profile_entry(p, profile_read_reference(value, &text));

    if (!e)
        p->n_unreadable++;
    else if (text.p < text.end)
        e->file = text;
}

static void profile_take_function(struct callgrind_profile *p, struct piece value)
{
    struct piece text;
    int64_t number = profile_read_reference(value, &text);
    struct profile_entry *e = profile_entry(p, number);

    p->caller = e ? number : NUMBER_NONE;
    p->calls = NUMBER_NONE;
    if (!e)
        p->n_unreadable++;
    else if (text.p < text.end)
        e->name = text;
}

static void profile_take_callee(struct callgrind_profile *p, struct piece value)
{
    struct piece text;
    p->callee = profile_read_reference(value, &text);
}

/* "calls=4 0" */
static void profile_take_calls(struct callgrind_profile *p, struct piece value)
{
    const char *space = memchr(value.p, ' ', piece_size(value));

    if (!piece_number((struct piece){value.p, space ? space : value.end}, &p->calls)) {
        p->calls = 0;
        p->n_unreadable++;
    }
}

static void profile_take_pid(struct callgrind_profile *p, struct piece value)
{
    if (!piece_number(value, &p->pid))
        p->pid = 0;
}

static void profile_take_creator(struct callgrind_profile *p, struct piece value)
{
    p->is_yappi = piece_starts(value, "yappi");
}

static const struct {
    const char *key;
    void (*take)(struct callgrind_profile *p, struct piece value);
} keys[] = {
    {"fl=", profile_take_file},     {"fn=", profile_take_function}, {"cfn=", profile_take_callee},
    {"calls=", profile_take_calls}, {"pid:", profile_take_pid},     {"creator:", profile_take_creator},
};

static bool profile_add(int64_t *sum, int64_t more)
{
    int64_t result;

    if (__builtin_add_overflow(*sum, more, &result) || result > UNITS_MAX || result < -UNITS_MAX)
        return false;
    *sum = result;
    return true;
}

/* "LINE COST": the caller's own, or that of the call before it. */
static void profile_take_cost(struct callgrind_profile *p, struct piece line)
{
    const char *space = memchr(line.p, ' ', piece_size(line));
    bool is_call = p->calls != NUMBER_NONE, fits;
    /* In this order: the caller's is there already, the callee's may make the table move. */
    struct profile_entry *callee = is_call ? profile_entry(p, p->callee) : NULL,
                         *caller = profile_entry(p, p->caller);
    struct piece number = piece_trim((struct piece){space ? space : line.end, line.end});
    bool minus = piece_take_minus(&number);
    int64_t cost;

    if (!caller || !piece_number(number, &cost) || (is_call && (!callee || minus))) {
        p->n_unreadable++;
    } else if (!is_call) {
        fits = profile_add(&caller->self_us, minus ? -cost : cost);
        p->n_unreadable += !fits;
    } else {
        fits = profile_add(&callee->calls, p->calls) && cost <= UNITS_MAX;
        p->n_unreadable += !fits;
        /* What a function spends in calls to itself is in its own time already. */
        if (fits && callee != caller) {
            VEC_GROW(p->sums, p->n_sums, p->sums_cap);
            p->sums[p->n_sums++] = (struct profile_sum){(uint32_t)p->caller, (uint32_t)p->callee, cost};
        }
    }
    p->calls = NUMBER_NONE;
}

static void profile_take_line(struct callgrind_profile *p, struct piece line)
{
    if (line.p < line.end && piece_is_digit(*line.p)) {
        profile_take_cost(p, line);
        return;
    }
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (piece_starts(line, keys[i].key))
            keys[i].take(p, piece_trim((struct piece){line.p + strlen(keys[i].key), line.end}));
}

/* The name is "verify /app/app.py:12", and the file is also given separately: removes the file and the line
 * from the name, and returns the line. */
static int64_t profile_take_line_number(struct piece *name, struct piece file)
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
struct profile_circle {
    int64_t own_us;     /* of all members, with their calls of others */
    int64_t entered_us; /* of calls from outside */
};

/* Sums of one function over its calls within its circle and across its border. */
struct profile_border {
    int64_t out_us, in_us;           /* calls of others, and by others */
    int64_t inner_us, inner_most_us; /* calls by members: their sum, and the longest of one member */
};

static int64_t profile_sum(int64_t a, int64_t b)
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
static int64_t profile_total(const struct profile_entry *e, const struct profile_border *b,
                             const struct profile_circle *c, bool is_alone)
{
    int64_t total = MAX(c->own_us, c->entered_us);

    if (is_alone)
        return total;
    int64_t otherwise = MIN(total - MIN(b->in_us, total), b->inner_us),
            most = profile_sum(b->in_us, otherwise),
            least = MAX(MAX(b->inner_most_us, b->in_us), profile_sum(MAX(e->self_us, 0), b->out_us));

    return MIN(MAX(most, least), MAX(total, e->self_us));
}

static int profile_compare_sums(const void *x, const void *y)
{
    const struct profile_sum *a = x, *b = y;

    if (a->callee != b->callee)
        return a->callee < b->callee ? -1 : 1;
    return (a->caller > b->caller) - (a->caller < b->caller);
}

/* A pair has one sum from here on. */
static void profile_unite_sums(struct callgrind_profile *p)
{
    size_t kept = 0;

    if (p->n_sums > 0)
        qsort(p->sums, p->n_sums, sizeof(*p->sums), profile_compare_sums);
    for (size_t i = 0; i < p->n_sums; i++) {
        struct profile_sum *last = kept > 0 ? &p->sums[kept - 1] : NULL;
        if (last && last->caller == p->sums[i].caller && last->callee == p->sums[i].callee)
            last->cost_us = profile_sum(last->cost_us, p->sums[i].cost_us);
        else
            p->sums[kept++] = p->sums[i];
    }
    p->n_sums = kept;
}

static int profile_find_circles(const struct callgrind_profile *p, uint32_t *ret_circle)
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

static int profile_sum_up(struct callgrind_profile *p)
{
    _cleanup_(freep) uint32_t *circle = xcalloc(p->n + 1, sizeof(*circle));
    _cleanup_(freep) uint32_t *members = xcalloc(p->n + 1, sizeof(*members));
    _cleanup_(freep) struct profile_circle *circles = xcalloc(p->n + 1, sizeof(*circles));
    _cleanup_(freep) struct profile_border *borders = xcalloc(p->n + 1, sizeof(*borders));

    profile_unite_sums(p);
    int r = profile_find_circles(p, circle);
    if (r < 0)
        return r;
    for (size_t i = 0; i < p->n; i++) {
        members[circle[i]]++;
        circles[circle[i]].own_us = profile_sum(circles[circle[i]].own_us, p->entries[i].self_us);
    }
    for (size_t i = 0; i < p->n_sums; i++) {
        const struct profile_sum *s = &p->sums[i];
        struct profile_border *caller = &borders[s->caller], *callee = &borders[s->callee];
        if (circle[s->caller] == circle[s->callee]) {
            callee->inner_us = profile_sum(callee->inner_us, s->cost_us);
            callee->inner_most_us = MAX(callee->inner_most_us, s->cost_us);
            continue;
        }
        caller->out_us = profile_sum(caller->out_us, s->cost_us);
        callee->in_us = profile_sum(callee->in_us, s->cost_us);
        circles[circle[s->caller]].own_us = profile_sum(circles[circle[s->caller]].own_us, s->cost_us);
        circles[circle[s->callee]].entered_us =
            profile_sum(circles[circle[s->callee]].entered_us, s->cost_us);
    }
    for (size_t i = 0; i < p->n; i++)
        p->entries[i].total_us =
            profile_total(&p->entries[i], &borders[i], &circles[circle[i]], members[circle[i]] == 1);
    return 0;
}

static void profile_add_entry(struct function_list *l, const struct profile_entry *e)
{
    struct piece name = e->name;
    int64_t line = profile_take_line_number(&name, e->file);

    function_list_add(l, name.p, piece_size(name), e->file.p, piece_size(e->file), line, e->calls,
                      e->self_us * NS_PER_US, e->total_us * NS_PER_US);
}

int yappi_callgrind_parse(const char *text, size_t size, struct function_list **ret)
{
    _cleanup_(function_list_freep) struct function_list *l = xcalloc(1, sizeof(*l));
    struct callgrind_profile p = {.caller = NUMBER_NONE, .callee = NUMBER_NONE, .calls = NUMBER_NONE};
    struct piece rest = {text, text + size}, line;

    while (piece_line(&rest, &line))
        profile_take_line(&p, piece_trim(line));
    int r = profile_sum_up(&p);
    for (size_t i = 0; i < p.n && r == 0; i++)
        if (p.entries[i].name.p < p.entries[i].name.end)
            profile_add_entry(l, &p.entries[i]);
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
