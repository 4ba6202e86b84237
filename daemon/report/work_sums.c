/* SPDX-License-Identifier: Apache-2.0 */
/* What the catalog keeps of a trace for questions over many traces. */
#include "base/alloc.h"
#include "daemon/report/work.h"
#include "trace/reports/analysis.h"
#include "trace/reports/report.h"
#include <errno.h>

/* A longer beginning of a finding is a sentence, no name. */
#define LABEL_BYTES_MAX 64

/* -- Steps -------------------------------------------------------------------------------------------- */

struct phase_times {
    int64_t *ns;
    size_t n, cap;
};

static int sums_compare(const void *x, const void *y)
{
    const int64_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

/* Of sorted values: the smallest that at least `percent` of them do not exceed. */
static int64_t sums_percentile(const struct phase_times *t, size_t percent)
{
    size_t rank = (t->n * percent + 99) / 100;
    return t->ns[rank > 0 ? rank - 1 : 0];
}

static json_t *sums_of_phase(enum step_phase phase, const struct phase_times *t)
{
    json_t *j = json_object();
    int64_t sum = 0;

    qsort(t->ns, t->n, sizeof(*t->ns), sums_compare);
    for (size_t i = 0; i < t->n; i++)
        if (__builtin_add_overflow(sum, t->ns[i], &sum))
            sum = INT64_MAX;
    json_put_str(j, "phase", step_phase_name(phase));
    json_put_int(j, "steps", (int64_t)t->n);
    json_put_int(j, "sum_ns", sum);
    json_put_int(j, "p50_ns", sums_percentile(t, 50));
    json_put_int(j, "p99_ns", sums_percentile(t, 99));
    json_put_int(j, "max_ns", t->ns[t->n - 1]);
    return j;
}

static json_t *sums_of_steps(struct analysis *a)
{
    struct phase_times phases[_STEP_PHASE_MAX] = {0};
    const struct steps *steps;
    json_t *list = json_array();

    for (size_t rank = 0; rank < a->n; rank++) {
        if (analysis_steps(a, rank, &steps) < 0)
            continue;
        for (size_t i = 0; i < steps->n; i++) {
            const struct step *step = &steps->items[i];
            struct phase_times *t = &phases[step->phase];
            int64_t ns;
            if (__builtin_sub_overflow(step->end, step->ts, &ns) || ns < 0)
                continue;
            VEC_GROW(t->ns, t->n, t->cap);
            t->ns[t->n++] = ns;
        }
    }
    for (int phase = 0; phase < _STEP_PHASE_MAX; phase++) {
        if (phases[phase].n > 0)
            json_array_append_new(list, sums_of_phase((enum step_phase)phase, &phases[phase]));
        free(phases[phase].ns);
    }
    return list;
}

/* -- Findings ----------------------------------------------------------------------------------------- */

static void sums_put_cell(json_t *object, const struct report *report, const struct report_rows *rows,
                          size_t row, const char *column)
{
    size_t place = report_column_find(report, column);
    const struct cell *cell = place < report->n_columns ? report_rows_at(rows, row, place) : NULL;

    if (cell && cell->type == CELL_INT)
        json_put_int(object, column, cell->integer);
    else if (cell && cell->type == CELL_REAL)
        json_object_set_new(object, column, json_number(cell->real));
    else if (cell && cell->type == CELL_TEXT)
        json_object_set_new(object, column, json_text(cell->text));
}

/* "Launch-bound" of "Launch-bound: the GPU was idle 64 ms ..." */
static void sums_put_label(json_t *finding)
{
    const char *what = json_get_str(finding, "what"), *colon = what ? strchr(what, ':') : NULL;

    if (!colon || colon - what > LABEL_BYTES_MAX)
        return;
    _cleanup_(freep) char *label = xstrndup(what, (size_t)(colon - what));
    json_put_str(finding, "label", label);
}

static json_t *sums_of_findings(struct analysis *a)
{
    static const char *const columns[] = {"rule", "what", "cost_ns", "share"};
    const struct report *report = report_find("findings");
    json_t *list = json_array();
    struct report_rows rows;

    if (report_make(report, a, &rows) >= 0)
        for (size_t row = 0; row < report_rows_count(&rows); row++) {
            json_t *finding = json_object();
            for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
                sums_put_cell(finding, report, &rows, row, columns[i]);
            sums_put_label(finding);
            json_array_append_new(list, finding);
        }
    report_rows_done(&rows);
    return list;
}

json_t *work_make_sums(struct analysis *a)
{
    json_t *sums = json_object();

    json_object_set_new(sums, "steps", sums_of_steps(a));
    json_object_set_new(sums, "findings", sums_of_findings(a));
    return sums;
}
