/* SPDX-License-Identifier: Apache-2.0 */
#include "client/functions/function_findings.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/text/text.h"

#define SHARE_HIGH 0.10
#define SHARE_DEAR 0.05
/* Below it a function only passes on. */
#define OWN_LOW      0.10
#define CALLS_MANY   100
#define TAVG_DEAR_NS INT64_C(1000000)
/* Of each reading and worker. */
#define FUNCTIONS_MAX 3

/* One function in the light of all. */
struct scene {
    const struct function_row *f;
    double total; /* all time of its worker */
};

/* Where whoever reads this can change nothing: what is installed, and what Python itself brings. */
static bool is_library(const struct function_row *f)
{
    return strstr(f->file, "-packages/") || strstr(f->file, "/lib/python") || f->file[0] == '<';
}

static double ttot_share(const struct scene *s)
{
    return (double)s->f->ttot_ns / s->total;
}

static double tsub_share(const struct scene *s)
{
    return (double)s->f->tsub_ns / s->total;
}

static bool passes_on(const struct scene *s)
{
    return (double)s->f->tsub_ns < OWN_LOW * (double)s->f->ttot_ns;
}

static bool has_high_ttot(const struct scene *s)
{
    return ttot_share(s) >= SHARE_HIGH && !passes_on(s) && !is_library(s->f);
}

static bool has_high_tsub(const struct scene *s)
{
    return tsub_share(s) >= SHARE_HIGH;
}

static bool is_dear_and_often(const struct scene *s)
{
    return s->f->calls >= CALLS_MANY && s->f->tavg_ns >= TAVG_DEAR_NS && ttot_share(s) >= SHARE_DEAR &&
           !is_library(s->f);
}

static bool delegates(const struct scene *s)
{
    return ttot_share(s) >= SHARE_HIGH && passes_on(s) && !is_library(s->f);
}

static const struct reading {
    const char *name, *says; /* behind the function's name and its share */
    bool (*holds)(const struct scene *s);
    double (*share)(const struct scene *s);
    const char *advice;
} readings[] = {
    {"high-ttot", "of the time goes into it and what it calls", has_high_ttot, ttot_share,
     "Make blocking calls in it concurrent (asyncio.gather, a pool of threads), and cache results that "
     "recur."},
    {"high-tsub", "of the time goes into its own code", has_high_tsub, tsub_share,
     "Use better data structures (sets and dicts instead of searching lists), fewer passes, cached results; "
     "what remains can be spread over processes."},
    {"high-tavg", "of the time goes into many calls of it that are dear", is_dear_and_often, ttot_share,
     "Cache its results (functools.lru_cache), take several inputs a call, or spread the calls over "
     "processes."},
    {"high-ttot-low-tsub", "of the time goes through it, hardly any into its own code", delegates, ttot_share,
     "It only passes on: look at what it calls, and let those calls run concurrently where they do not need "
     "each "
     "other."},
};

static void add(struct function_findings *l, const struct reading *r, const struct scene *s)
{
    VEC_GROW(l->items, l->n, l->cap);
    l->items[l->n++] = (struct function_finding){
        .reading = r->name, .advice = r->advice, .function = s->f, .share = r->share(s)};
}

static int larger_first(const void *x, const void *y)
{
    const struct function_finding *a = x, *b = y;
    return a->share != b->share ? (a->share < b->share ? 1 : -1)
                                : function_row_compare(a->function, b->function);
}

static void find(const struct function_rows *rows, const char *worker, const struct reading *r,
                 struct function_findings *l)
{
    size_t first = l->n;
    double total = (double)function_rows_total_ns(rows, worker);

    for (size_t i = 0; i < rows->n; i++) {
        const struct scene scene = {.f = &rows->items[i], .total = total};
        if (streq(scene.f->worker, worker) && total > 0 && r->holds(&scene))
            add(l, r, &scene);
    }
    if (l->n > first)
        qsort(l->items + first, l->n - first, sizeof(*l->items), larger_first);
    l->n = MIN(l->n, first + FUNCTIONS_MAX);
}

void function_findings_make(const struct function_rows *rows, struct function_findings *ret)
{
    *ret = (struct function_findings){0};
    for (size_t i = 0; i < rows->n; i++) {
        bool is_first = true;
        for (size_t k = 0; k < i && is_first; k++)
            is_first = !streq(rows->items[k].worker, rows->items[i].worker);
        for (size_t r = 0; is_first && r < ARRAY_SIZE(readings); r++)
            find(rows, rows->items[i].worker, &readings[r], ret);
    }
}

void function_findings_done(struct function_findings *f)
{
    free(f->items);
    *f = (struct function_findings){0};
}

static const char *says(const struct function_finding *f)
{
    for (size_t i = 0; i < ARRAY_SIZE(readings); i++)
        if (streq(readings[i].name, f->reading))
            return readings[i].says;
    return "";
}

char *function_finding_text(const struct function_finding *f)
{
    char ttot[UNIT_TEXT_MAX], tsub[UNIT_TEXT_MAX], tavg[UNIT_TEXT_MAX], calls[32];
    const struct function_row *row = f->function;
    _cleanup_(freep) char *often = row->calls > 0
                                       ? xasprintf(", %s calls of %s", text_number(calls, row->calls),
                                                   format_duration(tavg, row->tavg_ns))
                                       : xstrdup("");

    return xasprintf("%s: %.0f %% %s: ttot %s, tsub %s%s", row->name, f->share * 100, says(f),
                     format_duration(ttot, row->ttot_ns), format_duration(tsub, row->tsub_ns), often);
}
