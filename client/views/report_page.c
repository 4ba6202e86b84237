/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/report_page.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/views/flame_svg.h"
#include "client/views/report_view.h"
#include "trace/read/sum.h"
#include <errno.h>

/* Time bins of the use of a GPU. */
#define USE_BINS 240
/* Ranks that are drawn; the others are counted. */
#define RANKS_DRAWN 64

static bool has_rows(const struct made_report *made)
{
    return made->result >= 0 && report_rows_count(&made->rows) > 0;
}

/* With several engine instances, their comparison comes first. */
static bool is_leading(const struct made_report *made, const struct analysis *a)
{
    return a->n_instances > 1 && made->report->of_instances && has_rows(made);
}

static void add_report(struct document *d, const struct made_report *made, size_t top)
{
    struct report_rows rows;

    document_section(d, made->report->name, made->report->title);
    document_note(d, "%s", made->report->method);
    for (size_t at = 0; made_report_part(made, &at, &rows);) {
        struct table *table = report_table(made->report, &rows, top, true, true);
        document_take_table(d, table);
        if (table_rows(table) < report_rows_count(&rows))
            document_note(d, "%zu more rows", report_rows_count(&rows) - table_rows(table));
    }
}

/* -- GPU use over time -------------------------------------------------------------------------------- */

/* The activity of a GPU in each bin: computing or copying, communication with nothing else running. */
static int add_use(struct document *d, struct analysis *a, size_t rank, int64_t from, int64_t to)
{
    _cleanup_(intervals_done) struct intervals exposed = {0};
    const struct intervals *all, *computing;
    const struct gpu_work *work;
    int64_t shift = a->ranks[rank].shift_ns;
    double span = (double)MAX(difference_of(to, from), INT64_C(1));
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = gpu_work_busy(work, GPU_ALL, &all);
    if (r < 0 || all->n == 0)
        return r;
    r = gpu_work_busy(work, GPU_ALL & ~(1u << GPU_COMMUNICATION), &computing);
    if (r >= 0)
        r = intervals_subtract(all, computing, &exposed);
    if (r < 0)
        return r;
    struct gpu_use_block *use = document_gpu_use(d, a->ranks[rank].label, USE_BINS);
    from = difference_of(from, shift);
    to = difference_of(to, shift);
    intervals_shares(computing, from, to, use->busy, USE_BINS);
    intervals_shares(&exposed, from, to, use->communication, USE_BINS);
    use->span_ns = (int64_t)span;
    use->busy_share = (double)intervals_length(computing) / span;
    use->communication_share = (double)intervals_length(&exposed) / span;
    return 0;
}

static int add_uses(struct document *d, struct analysis *a)
{
    int64_t from = INT64_MAX, to = INT64_MIN;
    char span[UNIT_TEXT_MAX], bin[UNIT_TEXT_MAX];
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++) {
        const struct gpu_work *work;
        r = analysis_gpu(a, i, &work);
        for (size_t k = 0; r >= 0 && k < work->n; k++) {
            from = MIN(from, sum_of(work->events[k].ts, a->ranks[i].shift_ns));
            to = MAX(to, sum_of(work->events[k].end, a->ranks[i].shift_ns));
        }
    }
    if (r < 0 || from >= to)
        return r;
    int64_t length = difference_of(to, from);
    _cleanup_(freep) char *title = xasprintf("GPU use over %s, in bins of %s", format_duration(span, length),
                                             format_duration(bin, length / USE_BINS));
    document_section(d, "use", title);
    for (size_t i = 0; i < MIN(a->n, (size_t)RANKS_DRAWN) && r >= 0; i++)
        r = add_use(d, a, i, from, to);
    if (a->n > RANKS_DRAWN)
        document_note(d, "%zu more ranks", a->n - RANKS_DRAWN);
    return r;
}

static int put_flame(const void *arg, FILE *out)
{
    return flame_svg_write(arg, &(struct flame_picture){.title = "Flame graph"}, out);
}

int report_page_write(const struct report_page *page, struct analysis *a, FILE *out)
{
    _cleanup_(flame_done) struct flame flame = {0};
    _cleanup_(document_done) struct document d = {.title = xstrdup(page->title)};

    for (size_t i = 0; i < page->n_reports; i++)
        if (page->reports[i].result < 0 && page->reports[i].result != -ENODATA)
            return page->reports[i].result;
    int r = flame_add(&flame, a, FLAME_BY_OP, false);
    for (size_t i = 0; i < page->n_reports; i++)
        if (is_leading(&page->reports[i], a))
            add_report(&d, &page->reports[i], page->top);
    for (size_t i = 0; i < page->n_reports; i++) {
        const struct made_report *made = &page->reports[i];
        if (!report_has_findings(made->report) || made->result < 0)
            continue;
        document_section(&d, made->report->name, made->report->title);
        findings_add(&d, analysis_has_gpu(a), made, page->top, false);
    }
    if (r >= 0)
        r = add_uses(&d, a);
    for (size_t i = 0; i < page->n_reports; i++) {
        const struct made_report *made = &page->reports[i];
        if (!report_has_findings(made->report) && has_rows(made) && !is_leading(made, a))
            add_report(&d, made, page->top);
    }
    if (r >= 0 && flame.frames[FLAME_ROOT].total > 0) {
        document_section(&d, "flame", "GPU time by the operators that launched it");
        document_picture(&d, put_flame, &flame);
    }
    return r < 0 ? r : document_html(&d, out);
}
