/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/nemo_gym/function_findings.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"

#define SHARE_HIGH 0.10
#define SHARE_DEAR 0.05
/* Below it a function only passes on. */
#define OWN_LOW      0.10
#define CALLS_MANY   100
#define TAVG_DEAR_NS INT64_C(1000000)
/* Of each reading. */
#define FUNCTIONS_SHOWN 5

/* Where whoever reads this can change nothing: what is installed, and what Python itself brings. */
static bool is_library(const struct function_row *f)
{
    return strstr(f->file, "-packages/") || strstr(f->file, "/lib/python") || f->file[0] == '<';
}

/* What NeMo Gym does to answer the question itself. */
static bool is_profiler(const struct function_row *f)
{
    static const char *const files[] = {"profiling.py", "/yappi.py", "/gprof2dot.py", "/pydot.py"};

    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        if (ends_with(f->file, files[i]))
            return true;
    return ends_with(f->file, "/server_utils.py") && ends_with(f->name, "stats");
}

static double ttot_share(const struct function_scene *s)
{
    return (double)s->f->ttot_ns / s->total;
}

static double tsub_share(const struct function_scene *s)
{
    return (double)s->f->tsub_ns / s->total;
}

static bool passes_on(const struct function_scene *s)
{
    return (double)s->f->tsub_ns < OWN_LOW * (double)s->f->ttot_ns;
}

static bool has_high_ttot(const struct function_scene *s)
{
    return ttot_share(s) >= SHARE_HIGH && !passes_on(s) && !is_library(s->f);
}

static bool has_high_tsub(const struct function_scene *s)
{
    return tsub_share(s) >= SHARE_HIGH;
}

static bool is_dear_and_often(const struct function_scene *s)
{
    return s->f->calls >= CALLS_MANY && s->f->tavg_ns >= TAVG_DEAR_NS && ttot_share(s) >= SHARE_DEAR &&
           !is_library(s->f);
}

static bool delegates(const struct function_scene *s)
{
    return ttot_share(s) >= SHARE_HIGH && passes_on(s) && !is_library(s->f);
}

const struct function_reading function_readings[] = {
    {"high-ttot", "High ttot: the time goes into these and what they call", has_high_ttot, ttot_share,
     "Make blocking calls in them concurrent (asyncio.gather, a pool of threads), and cache results that "
     "recur."},
    {"high-tsub", "High tsub: the time goes into the code of these themselves", has_high_tsub, tsub_share,
     "Use better data structures (sets and dicts instead of searching lists) and fewer passes, cache "
     "results; "
     "spread what remains over processes."},
    {"high-tavg", "High tavg and many calls: each call of these is dear", is_dear_and_often, ttot_share,
     "Cache their results (functools.lru_cache), let a call take several inputs, or spread the calls over "
     "processes."},
    {"high-ttot-low-tsub", "High ttot, low tsub: the time goes through these, hardly any into them",
     delegates, ttot_share,
     "They only pass on: look at what they call, and let those calls run concurrently where none needs the "
     "other."},
};
const size_t n_function_readings = ARRAY_SIZE(function_readings);

static void add(struct function_findings *l, const struct function_reading *r, const struct function_scene *s)
{
    VEC_GROW(l->items, l->n, l->cap);
    l->items[l->n++] = (struct function_finding){.reading = r, .function = s->f, .share = r->share(s)};
}

static int larger_first(const void *x, const void *y)
{
    const struct function_finding *a = x, *b = y;
    return a->share != b->share ? (a->share < b->share ? 1 : -1)
                                : function_row_compare(a->function, b->function);
}

/* totals[i] is that of row i's worker. */
static void find(const struct function_rows *rows, const double *totals, const struct function_reading *r,
                 struct function_findings *l)
{
    size_t first = l->n;

    for (size_t i = 0; i < rows->n; i++) {
        const struct function_scene scene = {.f = &rows->items[i], .total = totals[i]};
        if (scene.total > 0 && !is_profiler(scene.f) && r->holds(&scene))
            add(l, r, &scene);
    }
    if (l->n > first)
        qsort(l->items + first, l->n - first, sizeof(*l->items), larger_first);
    l->n = MIN(l->n, first + FUNCTIONS_SHOWN);
}

void function_findings_make(const struct function_rows *rows, struct function_findings *ret)
{
    _cleanup_(freep) double *totals = xcalloc(rows->n + 1, sizeof(*totals));

    *ret = (struct function_findings){0};
    for (size_t i = 0; i < rows->n; i++)
        totals[i] = (double)function_rows_total_ns(rows, rows->items[i].worker);
    for (size_t r = 0; r < n_function_readings; r++)
        find(rows, totals, &function_readings[r], ret);
}

void function_findings_done(struct function_findings *f)
{
    free(f->items);
    *f = (struct function_findings){0};
}

char *function_finding_text(const struct function_finding *f)
{
    char ttot[UNIT_TEXT_MAX], tsub[UNIT_TEXT_MAX], tavg[UNIT_TEXT_MAX];
    const struct function_row *row = f->function;
    _cleanup_(freep) char *calls = text_count(row->calls, "call");
    _cleanup_(freep) char *often =
        row->calls > 0 ? xasprintf(", %s of %s", calls, format_duration(tavg, row->tavg_ns)) : xstrdup("");

    return xasprintf("%s %.0f %%: ttot %s, tsub %s%s", row->name, f->share * 100,
                     format_duration(ttot, row->ttot_ns), format_duration(tsub, row->tsub_ns), often);
}
