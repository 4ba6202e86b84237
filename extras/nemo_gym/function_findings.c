/* SPDX-License-Identifier: Apache-2.0 */
#include "extras/nemo_gym/functions.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"

#define SHARE_HIGH   0.10
#define SHARE_TAVG   0.05
#define OWN_LOW      0.10
#define CALLS_MANY   100
#define TAVG_HIGH_NS INT64_C(1000000)
#define FINDINGS_MAX 5 /* of each rule */

/* Installed packages and Python itself, which the user does not change. */
static bool function_is_library(const struct function_row *f)
{
    return strstr(f->file, "-packages/") || strstr(f->file, "/lib/python") || f->file[0] == '<';
}

/* Code of NeMo Gym that produces the statistics. */
static bool function_is_profiler(const struct function_row *f)
{
    static const char *const files[] = {"profiling.py", "/yappi.py", "/gprof2dot.py", "/pydot.py"};

    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        if (ends_with(f->file, files[i]))
            return true;
    return ends_with(f->file, "/server_utils.py") && ends_with(f->name, "stats");
}

/* Little of its time is its own. */
static bool function_delegates(const struct function_row *f)
{
    return (double)f->tsub_ns < OWN_LOW * (double)f->ttot_ns;
}

static bool has_high_ttot(const struct function_row *f, double total_ns)
{
    return (double)f->ttot_ns >= SHARE_HIGH * total_ns && !function_delegates(f) && !function_is_library(f);
}

static bool has_high_tsub(const struct function_row *f, double total_ns)
{
    return (double)f->tsub_ns >= SHARE_HIGH * total_ns;
}

static bool has_high_tavg(const struct function_row *f, double total_ns)
{
    return f->calls >= CALLS_MANY && f->tavg_ns >= TAVG_HIGH_NS &&
           (double)f->ttot_ns >= SHARE_TAVG * total_ns && !function_is_library(f);
}

static bool has_high_ttot_low_tsub(const struct function_row *f, double total_ns)
{
    return (double)f->ttot_ns >= SHARE_HIGH * total_ns && function_delegates(f) && !function_is_library(f);
}

static const struct function_rule rules[] = {
    {"high-ttot", "High ttot: time is spent in these functions and their callees",
     "Make blocking calls in them concurrent (asyncio.gather, a thread pool), and cache results that recur.",
     has_high_ttot},
    {"high-tsub", "High tsub: time is spent in the code of these functions",
     "Use better data structures (sets and dicts instead of searching lists) and fewer passes, cache "
     "results; distribute the rest over processes.",
     has_high_tsub, .by_tsub = true},
    {"high-tavg", "High tavg and many calls: each call of these functions is expensive",
     "Cache their results (functools.lru_cache), let a call take several inputs, or distribute the calls "
     "over "
     "processes.",
     has_high_tavg},
    {"high-ttot-low-tsub", "High ttot, low tsub: time is spent in what these functions call",
     "Look at what they call, and let calls that do not need each other run concurrently.",
     has_high_ttot_low_tsub},
};

static int function_findings_compare(const void *x, const void *y)
{
    const struct function_finding *a = x, *b = y;
    return a->share != b->share ? (a->share < b->share ? 1 : -1)
                                : function_row_compare(a->function, b->function);
}

void function_findings_make(const struct function_rows *rows, struct function_findings *ret)
{
    _cleanup_(freep) double *totals = xcalloc(rows->n + 1, sizeof(*totals));
    struct function_findings l = {0};

    for (size_t i = 0; i < rows->n; i++)
        totals[i] = (double)function_rows_total_ns(rows, rows->items[i].worker);
    for (const struct function_rule *r = rules; r < rules + ARRAY_SIZE(rules); r++) {
        size_t first = l.n;
        for (size_t i = 0; i < rows->n; i++) {
            const struct function_row *row = &rows->items[i];
            if (totals[i] <= 0 || function_is_profiler(row) || !r->matches(row, totals[i]))
                continue;
            VEC_GROW(l.items, l.n, l.cap);
            l.items[l.n++] = (struct function_finding){
                r, row, (double)(r->by_tsub ? row->tsub_ns : row->ttot_ns) / totals[i]};
        }
        if (l.n > first)
            qsort(l.items + first, l.n - first, sizeof(*l.items), function_findings_compare);
        l.n = MIN(l.n, first + FINDINGS_MAX);
    }
    *ret = l;
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
