/* SPDX-License-Identifier: Apache-2.0 */
#include "client/reports/report_html.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/reports/flame_svg.h"
#include "client/reports/markup.h"
#include "client/reports/report_format.h"
#include "client/text/text.h"
#include "trace/export/selection.h"
#include <errno.h>

/* Points of the plot of a GPU's use over time. */
#define PLOT_POINTS 240
#define PLOT_HEIGHT 34.0
/* Of a name; the whole is shown to the pointer. */
#define NAME_COLUMNS 120
/* What is longer has a wide column. */
#define NAME_LONG 24
/* Of more ranks the first are drawn. */
#define RANKS_PLOTTED 64

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<style>\n"
    "body{font:14px/1.45 system-ui,sans-serif;color:#222;max-width:1240px;margin:2em auto;padding:0 1em}\n"
    "h1{font-size:1.4em}h2{font-size:1.1em;margin:2em 0 .2em;border-bottom:1px solid #ddd}\n"
    "p.how{color:#666;margin:.2em 0 .6em;max-width:60em}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:12.5px}\n"
    "th{text-align:left;color:#555;font-weight:600;border-bottom:1px solid #bbb;white-space:nowrap}\n"
    "td,th{padding:2px 10px 2px "
    "0;vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;"
    "white-space:nowrap}\n"
    "td.t{font-family:monospace;word-break:break-word;min-width:8.5em;max-width:44em}"
    "td.l{min-width:24em}td.p{min-width:13em;max-width:44em}\n"
    "tr:nth-child(even){background:#f7f7f7}.bar{background:#b9cdf0;height:.65em;display:inline-block}\n"
    ".more{color:#666}figure{margin:.6em 0}figcaption{color:#555;font-size:12px}\n"
    "@media "
    "print{body{margin:0;max-width:none;font-size:11px}table{font-size:9px}h2{break-after:avoid}tr{break-"
    "inside:avoid}"
    "td.t,td.l,td.p{min-width:0}.wide{overflow:visible}}\n"
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

static void put_table(FILE *out, const struct report *report, const struct report_rows *rows, size_t top)
{
    _cleanup_(freep) const struct time_scale **scales = xcalloc(report->n_columns, sizeof(*scales));
    size_t all = report_rows_count(rows), n = top > 0 ? MIN(all, top) : all;

    column_scales(report, rows, n, scales);
    fputs("<div class=\"wide\"><table><thead><tr>", out);
    for (size_t i = 0; i < report->n_columns; i++) {
        const struct report_column *column = &report->columns[i];
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
            put_cell(out, &report->columns[i], scales[i], report_rows_at(rows, row, i));
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
    if (n < all)
        fprintf(out, "<p class=\"more\">%zu more rows</p>\n", all - n);
}

static int put_report(FILE *out, const struct made_report *made, size_t top)
{
    const struct report *report = made->report;

    if (made->result == -ENODATA || (made->result >= 0 && report_rows_count(&made->rows) == 0))
        return 0;
    if (made->result < 0)
        return made->result;
    fprintf(out, "<h2 id=\"%s\">%s: ", report->name, report->name);
    markup_put(out, report->title);
    fputs("</h2>\n<p class=\"how\">", out);
    markup_put(out, report->how);
    fputs("</p>\n", out);
    put_table(out, report, &made->rows, top);
    return 0;
}

/* -- Pictures ----------------------------------------------------------------------------------------- */

/* How busy a GPU was over time, as an area from left to right. */
static int put_use(FILE *out, struct analysis *a, size_t rank, int64_t from, int64_t to)
{
    _cleanup_(intervals_done) struct intervals busy = {0};
    double shares[PLOT_POINTS];
    const struct gpu_work *work;
    int64_t shift = a->ranks[rank].shift_ns;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = gpu_work_busy(work, GPU_ALL, &busy);
    if (r < 0 || busy.n == 0)
        return r;
    intervals_shares(&busy, sub_ns(from, shift), sub_ns(to, shift), shares, PLOT_POINTS);
    fprintf(out, "<figure><figcaption>");
    markup_put(out, a->ranks[rank].label);
    fprintf(out,
            "</figcaption><svg viewBox=\"0 0 %d %.0f\" width=\"100%%\" height=\"%.0f\" "
            "preserveAspectRatio=\"none\">"
            "<rect width=\"%d\" height=\"%.0f\" fill=\"#f1f1f1\"/><path fill=\"#7d9fd8\" d=\"M0 %.0f",
            PLOT_POINTS, PLOT_HEIGHT, PLOT_HEIGHT, PLOT_POINTS, PLOT_HEIGHT, PLOT_HEIGHT);
    for (int i = 0; i < PLOT_POINTS; i++)
        fprintf(out, "L%d %.1fL%d %.1f", i, PLOT_HEIGHT * (1 - shares[i]), i + 1,
                PLOT_HEIGHT * (1 - shares[i]));
    fprintf(out, "L%d %.0fZ\"/></svg></figure>\n", PLOT_POINTS, PLOT_HEIGHT);
    return 0;
}

static int put_uses(FILE *out, struct analysis *a)
{
    int64_t from = INT64_MAX, to = INT64_MIN;
    char span[UNIT_TEXT_MAX];
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++) {
        const struct gpu_work *work;
        r = analysis_gpu(a, i, &work);
        for (size_t k = 0; r >= 0 && k < work->n; k++) {
            from = MIN(from, add_ns(work->events[k].ts, a->ranks[i].shift_ns));
            to = MAX(to, add_ns(work->events[k].end, a->ranks[i].shift_ns));
        }
    }
    if (r < 0 || from >= to)
        return r;
    fprintf(out, "<h2>GPU use over %s</h2>\n", format_duration(span, sub_ns(to, from)));
    for (size_t i = 0; i < MIN(a->n, (size_t)RANKS_PLOTTED) && r >= 0; i++)
        r = put_use(out, a, i, from, to);
    return r;
}

static int put_flame(FILE *out, struct analysis *a)
{
    _cleanup_(flame_done) struct flame f = {0};
    struct flame_picture picture = {.title = "Time by what it was launched from"};
    int r = flame_add(&f, a, FLAME_BY_OP, false);

    if (r < 0 || f.frames[FLAME_ROOT].total == 0)
        return r;
    fputs("<h2>Flame graph</h2>\n", out);
    return flame_svg_write(&f, &picture, out);
}

int report_html_write(const struct html_report *page, struct analysis *a, FILE *out)
{
    int r;

    fputs(head, out);
    fputs("<title>", out);
    markup_put(out, page->title);
    fputs("</title></head><body>\n<h1>", out);
    markup_put(out, page->title);
    fputs("</h1>\n", out);
    r = put_uses(out, a);
    for (size_t i = 0; i < page->n_reports && r >= 0; i++)
        r = put_report(out, &page->reports[i], page->top);
    if (r >= 0)
        r = put_flame(out, a);
    fputs("</body></html>\n", out);
    return r;
}
