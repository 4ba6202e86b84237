/* SPDX-License-Identifier: Apache-2.0 */
/* One file, without scripts and without a network; plots are pictures in it (SVG). */
#include "client/views/markup.h"
#include "extras/audit/document.h"
#include <math.h>

#define PLOT_WIDTH  640.0
#define PLOT_HEIGHT 260.0
#define PLOT_LEFT   70.0
#define PLOT_BOTTOM 40.0
#define PLOT_TOP    14.0
#define PLOT_RIGHT  16.0
#define TICKS       5

static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n<style>\n"
    ":root{--bg:#fff;--fg:#222;--dim:#555;--line:#ddd;--even:#f7f7f7;--grid:#e4e4e4;--plot:#3b6fb6;--mark:#"
    "c2571a}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#16181d;--fg:#e3e3e3;--dim:#9aa0a8;--line:#383c44;--even:#"
    "1d2026;"
    "--grid:#2b2f37;--plot:#7aa2e3;--mark:#e39a35}}\n"
    "body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:980px;margin:2em "
    "auto;padding:0 1em}\n"
    "h1{font-size:1.5em}h2{font-size:1.15em;margin:2em 0 .4em;border-bottom:1px solid var(--line)}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:13px;margin:.6em 0}\n"
    "th{text-align:left;color:var(--dim);border-bottom:1px solid "
    "var(--dim);vertical-align:bottom}td,th{padding:3px 12px 3px "
    "0;vertical-align:top}\n"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td.n{white-space:nowrap}td{overflow-wrap:"
    "break-word}\n"
    "tr:nth-child(even){background:var(--even)}figure{margin:.8em "
    "0}figcaption{color:var(--dim);font-size:13px}\n"
    "svg text{font:11px system-ui,sans-serif;fill:var(--dim)}svg{max-width:100%;height:auto}\n"
    "@media "
    "print{body{margin:0;max-width:none;font-size:11px}h2{break-after:avoid}tr,figure{break-inside:avoid}}\n"
    "</style>\n";

static void put_table(const struct table_block *t, FILE *out)
{
    fputs("<div class=\"wide\"><table><thead><tr>", out);
    for (size_t i = 0; i < t->n_columns; i++) {
        fputs(t->is_text[i] ? "<th>" : "<th class=\"n\">", out);
        markup_put(out, t->headings[i]);
        fputs("</th>", out);
    }
    fputs("</tr></thead><tbody>\n", out);
    for (size_t row = 0; row < t->n_rows; row++) {
        fputs("<tr>", out);
        for (size_t i = 0; i < t->n_columns; i++) {
            fputs(t->is_text[i] ? "<td>" : "<td class=\"n\">", out);
            markup_put(out, t->cells[row * t->n_columns + i]);
            fputs("</td>", out);
        }
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* -- Plots -------------------------------------------------------------------------------------------- */

/* 1, 2 or 5 times a power of ten, TICKS of which reach to the largest value. */
static double tick_of(double largest)
{
    double raw = largest > 0 ? largest / TICKS : 1, power = pow(10, floor(log10(raw)));

    return raw <= power ? power : raw <= 2 * power ? 2 * power : raw <= 5 * power ? 5 * power : 10 * power;
}

static double largest_of(const double *values, size_t n)
{
    double largest = 0;

    for (size_t i = 0; i < n; i++)
        largest = MAX(largest, values[i]);
    return largest;
}

struct frame {
    double x_tick, y_tick, x_max, y_max;
};

static double at_x(const struct frame *f, double x)
{
    return PLOT_LEFT + (PLOT_WIDTH - PLOT_LEFT - PLOT_RIGHT) * x / f->x_max;
}

static double at_y(const struct frame *f, double y)
{
    return PLOT_HEIGHT - PLOT_BOTTOM - (PLOT_HEIGHT - PLOT_BOTTOM - PLOT_TOP) * y / f->y_max;
}

static void put_axes(const struct plot_block *p, const struct frame *f, FILE *out)
{
    for (int i = 0; i * f->y_tick <= f->y_max * 1.001; i++)
        fprintf(out,
                "<path d=\"M%.0f %.1fH%.0f\" style=\"stroke:var(--grid)\"/><text x=\"%.0f\" y=\"%.1f\" "
                "text-anchor=\"end\">%g</text>",
                PLOT_LEFT, at_y(f, i * f->y_tick), PLOT_WIDTH - PLOT_RIGHT, PLOT_LEFT - 6,
                at_y(f, i * f->y_tick) + 4, i * f->y_tick);
    for (int i = 0; i * f->x_tick <= f->x_max * 1.001; i++)
        fprintf(out, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%g</text>", at_x(f, i * f->x_tick),
                PLOT_HEIGHT - PLOT_BOTTOM + 16, i * f->x_tick);
    fprintf(out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">", (PLOT_WIDTH + PLOT_LEFT) / 2,
            PLOT_HEIGHT - 6);
    markup_put(out, p->x_label);
    fprintf(out, "</text><text transform=\"translate(14 %.0f) rotate(-90)\" text-anchor=\"middle\">",
            PLOT_HEIGHT / 2 - 10);
    markup_put(out, p->y_label);
    fputs("</text>", out);
}

static void put_plot(const struct block *b, FILE *out)
{
    const struct plot_block *p = &b->plot;
    struct frame f = {.x_tick = tick_of(largest_of(p->x, p->n)), .y_tick = tick_of(largest_of(p->y, p->n))};

    if (p->n == 0)
        return;
    f.x_max = ceil(MAX(largest_of(p->x, p->n), f.x_tick) / f.x_tick) * f.x_tick;
    f.y_max = ceil(MAX(largest_of(p->y, p->n), f.y_tick) / f.y_tick) * f.y_tick;
    fputs("<figure><figcaption>", out);
    markup_put(out, b->text);
    fprintf(out, "</figcaption><svg viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" role=\"img\">", PLOT_WIDTH,
            PLOT_HEIGHT, PLOT_WIDTH);
    put_axes(p, &f, out);
    fputs("<path fill=\"none\" style=\"stroke:var(--plot)\" stroke-width=\"2\" d=\"", out);
    for (size_t i = 0; i < p->n; i++)
        fprintf(out, "%c%.1f %.1f", i == 0 ? 'M' : 'L', at_x(&f, p->x[i]), at_y(&f, p->y[i]));
    fputs("\"/>", out);
    for (size_t i = 0; i < p->n; i++) {
        bool marked = p->x[i] == p->mark_x;
        fprintf(
            out,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" style=\"fill:var(%s)\"><title>%g, %g</title></circle>",
            at_x(&f, p->x[i]), at_y(&f, p->y[i]), marked ? 6 : 3, marked ? "--mark" : "--plot", p->x[i],
            p->y[i]);
    }
    fputs("</svg></figure>\n", out);
}

/* -- Blocks ------------------------------------------------------------------------------------------- */

static void put_element(const char *open, const char *text, const char *close, FILE *out)
{
    fputs(open, out);
    markup_put(out, text);
    fputs(close, out);
}

static void put_block(const struct document *d, size_t i, FILE *out)
{
    const struct block *b = &d->blocks[i];

    switch (b->kind) {
    case BLOCK_HEADING:
        put_element("<h2>", b->text, "</h2>\n", out);
        break;
    case BLOCK_TEXT:
        put_element("<p>", b->text, "</p>\n", out);
        break;
    case BLOCK_ITEM:
        if (i == 0 || d->blocks[i - 1].kind != BLOCK_ITEM)
            fputs("<ul>\n", out);
        put_element("<li>", b->text, "</li>\n", out);
        if (i + 1 == d->n || d->blocks[i + 1].kind != BLOCK_ITEM)
            fputs("</ul>\n", out);
        break;
    case BLOCK_TABLE:
        put_table(&b->table, out);
        break;
    case BLOCK_PLOT:
        put_plot(b, out);
        break;
    }
}

void document_html(const struct document *d, FILE *out)
{
    fputs(head, out);
    put_element("<title>", d->title, "</title></head><body>\n", out);
    put_element("<h1>", d->title, "</h1>\n", out);
    for (size_t i = 0; i < d->n; i++)
        put_block(d, i, out);
    fputs("</body></html>\n", out);
}
