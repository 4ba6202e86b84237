/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/report_html.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/views/findings_html.h"
#include "client/views/flame_svg.h"
#include "client/views/markup.h"
#include "client/views/report_format.h"
#include "trace/read/sum.h"
#include <errno.h>

/* Time bins of the plot of a GPU's use. */
#define PLOT_BINS   240
#define PLOT_HEIGHT 34.0
/* Of a name in a table; the complete name is shown to the pointer. */
#define NAME_COLUMNS 120
/* A longer text has a wide column. */
#define NAME_LONG 24
/* Of more ranks the first are drawn. */
#define RANKS_PLOTTED 64
/* A table of more columns is set in smaller type, so that a page of 1280 pixels has room for it. */
#define COLUMNS_LARGE 12

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n"
    "<style>\n"
    ":root{--bg:#fff;--fg:#222;--dim:#666;--line:#ddd;--even:#f6f7f9;--track:#ececec;--code:#eef1f5;--bar:#"
    "b9cdf0;"
    "--busy:#5b8bd9;--comm:#e39a35;--link:#1a5fb4}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#16181d;--fg:#e3e3e3;--dim:#9aa0a8;--line:#383c44;--even:#"
    "1d2026;"
    "--track:#2b2f37;--code:#272b33;--bar:#35558c;--busy:#4c7cc9;--comm:#c17f22;--link:#8ab4f8}}\n"
    "body{font:14px/1.45 "
    "system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:1240px;margin:1.5em auto;"
    "padding:0 1em}a{color:var(--link)}\n"
    "h1{font-size:1.35em;overflow-wrap:anywhere}h2{font-size:1.1em;margin:2em 0 .2em;"
    "border-bottom:1px solid var(--line)}nav{font-size:13px;margin:.5em 0}nav "
    "a{margin-right:.9em;white-space:nowrap}\n"
    "p.how{color:var(--dim);margin:.2em 0 .6em;max-width:60em}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:12.5px;max-width:100%}table.large{font-"
    "size:11px}\n"
    "th{text-align:left;color:var(--dim);font-weight:600;border-bottom:1px solid "
    "var(--dim);vertical-align:bottom}\n"
    "td,th{padding:2px 10px 2px 0}td{vertical-align:top}.large td,.large th{padding-right:7px}"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td.n{white-space:nowrap}\n"
    "td.t{font-family:monospace;overflow-wrap:break-word}td.l{overflow-wrap:anywhere;min-width:16em}.large "
    "td.l{min-width:12em}"
    "td.p{min-width:13em}\n"
    "tr:nth-child(even) "
    "td{background:var(--even)}.bar{background:var(--bar);height:.65em;display:inline-block}"
    ".large .bar{display:none}\n"
    ".more{color:var(--dim)}figure{margin:.5em 0}figcaption{color:var(--dim);font-size:12px}\n"
    "svg.use{display:block;background:var(--track)}svg.use "
    ".busy,.key.busy{fill:var(--busy);background:var(--busy)}"
    "svg.use .comm,.key.comm{fill:var(--comm);background:var(--comm)}.key.idle{background:var(--track)}\n"
    ".key{display:inline-block;width:.9em;height:.9em;margin:0 .3em 0 .9em;vertical-align:-1px}\n"
    ".axis{display:flex;justify-content:space-between;color:var(--dim);font-size:11px}.scroll{overflow-x:"
    "auto}\n";

static const char print_style[] =
    "@media "
    "print{body{margin:0;max-width:none;font-size:11px}table,table.large{font-size:8px}h2{break-after:avoid}"
    "tr,.card{break-inside:avoid}td.t,td.l,td.p{min-width:0}.wide{overflow:visible}nav{display:none}}\n"
    "</style>\n";

/* -- Tables ------------------------------------------------------------------------------------------- */

static void put_cell(FILE *out, const struct report_column *column, const struct time_scale *scale,
                     const struct cell *cell)
{
    char buf[CELL_TEXT_MAX];
    const char *text = cell_format(buf, column->unit, scale, cell);

    if (column->is_prose) {
        fputs("<td class=\"p\">", out);
        markup_put(out, text ? text : "-");
        fputs("</td>", out);
        return;
    }
    if (column->unit == UNIT_TEXT) {
        _cleanup_(freep) char *fitted = text ? kernel_name_fit(text, NAME_COLUMNS) : NULL;
        fprintf(out, "<td class=\"t%s\" title=\"", fitted && text_columns(fitted) > NAME_LONG ? " l" : "");
        markup_put(out, text ? text : "");
        fputs("\">", out);
        markup_put(out, fitted ? fitted : "-");
        fputs("</td>", out);
        return;
    }
    fputs("<td class=\"n\">", out);
    if (column->unit == UNIT_SHARE && cell->type == CELL_REAL && cell->real > 0)
        fprintf(out, "<span class=\"bar\" style=\"width:%.1fpx\"></span> ", 60 * MIN(cell->real, 1.0));
    markup_put(out, text ? text : "-");
    fputs("</td>", out);
}

/* Whether any of the first n rows has a value there. */
static bool is_column_known(const struct report_rows *rows, size_t n, size_t column)
{
    for (size_t row = 0; row < n; row++)
        if (report_rows_at(rows, row, column)->type != CELL_NULL)
            return true;
    return n == 0;
}

static void put_table(FILE *out, const struct report *report, const struct report_rows *rows, size_t top)
{
    _cleanup_(freep) const struct time_scale **scales = xcalloc(report->n_columns, sizeof(*scales));
    size_t all = report_rows_count(rows), n = top > 0 ? MIN(all, top) : all;

    _cleanup_(freep) bool *known = xcalloc(report->n_columns, sizeof(*known));
    size_t n_known = 0;

    column_scales(report, rows, n, scales);
    for (size_t i = 0; i < report->n_columns; i++)
        n_known += known[i] = is_column_known(rows, n, i);
    fprintf(out, "<div class=\"wide\"><table%s><thead><tr>",
            n_known > COLUMNS_LARGE ? " class=\"large\"" : "");
    for (size_t i = 0; i < report->n_columns; i++) {
        const struct report_column *column = &report->columns[i];
        if (!known[i])
            continue;
        _cleanup_(freep) char *heading = column_heading(column, scales[i]);
        fprintf(out, "<th%s title=\"", column->unit == UNIT_TEXT ? "" : " class=\"n\"");
        markup_put(out, column->meaning);
        fputs("\">", out);
        markup_put(out, heading);
        fputs("</th>", out);
    }
    fputs("</tr></thead><tbody>\n", out);
    for (size_t row = 0; row < n; row++) {
        fputs("<tr>", out);
        for (size_t i = 0; i < report->n_columns; i++)
            if (known[i])
                put_cell(out, &report->columns[i], scales[i], report_rows_at(rows, row, i));
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
    if (n < all)
        fprintf(out, "<p class=\"more\">%zu more rows</p>\n", all - n);
}

static bool has_rows(const struct made_report *made)
{
    return made->result >= 0 && report_rows_count(&made->rows) > 0;
}

/* Sentences are cards, not a table. */
static bool is_findings(const struct made_report *made)
{
    return streq(made->report->name, "findings");
}

/* Where there are several engine instances, they are compared before anything is said of one of them. */
static bool is_leading(const struct made_report *made, const struct analysis *a)
{
    return a->n_instances > 1 && made->report->of_instances && has_rows(made);
}

static void put_report(FILE *out, const struct made_report *made, size_t top)
{
    const struct report *report = made->report;

    fprintf(out, "<h2 id=\"%s\">%s: ", report->name, report->name);
    markup_put(out, report->title);
    fputs("</h2>\n<p class=\"how\">", out);
    markup_put(out, report->how);
    fputs("</p>\n", out);
    struct report_rows rows;
    for (size_t at = 0; made_report_part(made, &at, &rows);)
        put_table(out, report, &rows, top);
}

/* -- Use over time ------------------------------------------------------------------------------------ */

/* A stack of one kind over `below`, as steps from left to right and back. */
static void put_area(FILE *out, const char *class, const double *below, const double *shares)
{
    fprintf(out, "<path class=\"%s\" d=\"M0 %.1f", class, PLOT_HEIGHT * (1 - below[0]));
    for (int i = 0; i < PLOT_BINS; i++)
        fprintf(out, "V%.1fH%d", PLOT_HEIGHT * (1 - MIN(1.0, below[i] + shares[i])), i + 1);
    for (int i = PLOT_BINS; i-- > 0;)
        fprintf(out, "V%.1fH%d", PLOT_HEIGHT * (1 - below[i]), i);
    fputs("Z\"/>", out);
}

/* What a GPU did in each bin: computing or copying, communication with nothing else running, nothing. */
static int put_use(FILE *out, struct analysis *a, size_t rank, int64_t from, int64_t to)
{
    _cleanup_(intervals_done) struct intervals all = {0}, own = {0}, exposed = {0};
    double busy_shares[PLOT_BINS], exposed_shares[PLOT_BINS], none[PLOT_BINS] = {0};
    const struct gpu_work *work;
    int64_t shift = a->ranks[rank].shift_ns, span = MAX(difference_of(to, from), INT64_C(1));
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = gpu_work_busy(work, GPU_ALL, &all);
    if (r < 0 || all.n == 0)
        return r;
    r = gpu_work_busy(work, GPU_ALL & ~(1u << GPU_COMMUNICATION), &own);
    if (r >= 0)
        r = intervals_subtract(&all, &own, &exposed);
    if (r < 0)
        return r;
    from = difference_of(from, shift);
    to = difference_of(to, shift);
    intervals_shares(&own, from, to, busy_shares, PLOT_BINS);
    intervals_shares(&exposed, from, to, exposed_shares, PLOT_BINS);
    double busy = 100.0 * (double)intervals_length(&own) / (double)span,
           waiting = 100.0 * (double)intervals_length(&exposed) / (double)span;
    fprintf(out, "<figure><figcaption>");
    markup_put(out, a->ranks[rank].label);
    fprintf(out,
            ": busy %.1f %%, communication alone %.1f %%, idle %.1f %%</figcaption>"
            "<svg class=\"use\" viewBox=\"0 0 %d %.0f\" width=\"100%%\" height=\"%.0f\" "
            "preserveAspectRatio=\"none\" role=\"img\">",
            busy, waiting, MAX(0.0, 100 - busy - waiting), PLOT_BINS, PLOT_HEIGHT, PLOT_HEIGHT);
    put_area(out, "busy", none, busy_shares);
    put_area(out, "comm", busy_shares, exposed_shares);
    fputs("</svg></figure>\n", out);
    return 0;
}

static void put_axis(FILE *out, int64_t span)
{
    fputs("<div class=\"axis\">", out);
    for (int i = 0; i <= 4; i++) {
        char text[UNIT_TEXT_MAX];
        fprintf(out, "<span>%s</span>", i == 0 ? "0" : format_duration(text, span / 4 * i));
    }
    fputs("</div>\n", out);
}

static int put_uses(FILE *out, struct analysis *a)
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
    fprintf(out,
            "<h2 id=\"use\">GPU use over %s</h2>\n<p class=\"how\"><span class=\"key busy\"></span>busy "
            "(computing or copying)<span class=\"key comm\"></span>communication with nothing else "
            "running<span class=\"key idle\"></span>idle; each bin is %s</p>\n",
            format_duration(span, difference_of(to, from)),
            format_duration(bin, difference_of(to, from) / PLOT_BINS));
    for (size_t i = 0; i < MIN(a->n, (size_t)RANKS_PLOTTED) && r >= 0; i++)
        r = put_use(out, a, i, from, to);
    put_axis(out, difference_of(to, from));
    if (a->n > RANKS_PLOTTED)
        fprintf(out, "<p class=\"more\">%zu more ranks</p>\n", a->n - RANKS_PLOTTED);
    return r;
}

static int put_flame(FILE *out, const struct flame *f)
{
    struct flame_picture picture = {.title = "Time by what it was launched from"};

    if (f->frames[FLAME_ROOT].total == 0)
        return 0;
    fputs("<h2 id=\"flame\">Flame graph</h2>\n<div class=\"scroll\">", out);
    int r = flame_svg_write(f, &picture, out);
    fputs("</div>\n", out);
    return r;
}

/* -- The page ----------------------------------------------------------------------------------------- */

static bool has_section(void *arg, const char *name)
{
    const struct html_report *page = arg;

    for (size_t i = 0; i < page->n_reports; i++)
        if (streq(page->reports[i].report->name, name))
            return has_rows(&page->reports[i]) && !is_findings(&page->reports[i]);
    return false;
}

static void put_contents(FILE *out, const struct html_report *page, bool has_flame)
{
    fputs("<nav>", out);
    for (size_t i = 0; i < page->n_reports; i++) {
        const char *name = page->reports[i].report->name;
        if (has_section((void *)page, name))
            fprintf(out, "<a href=\"#%s\">%s</a> ", name, name);
    }
    fprintf(out, "%s</nav>\n", has_flame ? "<a href=\"#flame\">flame graph</a>" : "");
}

int report_html_write(const struct html_report *page, struct analysis *a, FILE *out)
{
    _cleanup_(flame_done) struct flame flame = {0};
    int r;

    for (size_t i = 0; i < page->n_reports; i++)
        if (page->reports[i].result < 0 && page->reports[i].result != -ENODATA)
            return page->reports[i].result;
    r = flame_add(&flame, a, FLAME_BY_OP, false);
    if (r < 0)
        return r;
    fputs(head, out);
    fputs(findings_html_style, out);
    fputs(print_style, out);
    fputs("<title>", out);
    markup_put(out, page->title);
    fputs("</title></head><body>\n<h1>", out);
    markup_put(out, page->title);
    fputs("</h1>\n", out);
    put_contents(out, page, flame.frames[FLAME_ROOT].total > 0);
    for (size_t i = 0; i < page->n_reports; i++)
        if (is_leading(&page->reports[i], a))
            put_report(out, &page->reports[i], page->top);
    for (size_t i = 0; i < page->n_reports; i++)
        if (is_findings(&page->reports[i]) && page->reports[i].result >= 0)
            findings_html_write(&page->reports[i], a, page->top, has_section, (void *)page, out);
    r = put_uses(out, a);
    for (size_t i = 0; i < page->n_reports && r >= 0; i++)
        if (!is_findings(&page->reports[i]) && has_rows(&page->reports[i]) &&
            !is_leading(&page->reports[i], a))
            put_report(out, &page->reports[i], page->top);
    if (r >= 0)
        r = put_flame(out, &flame);
    fputs("</body></html>\n", out);
    return r;
}
