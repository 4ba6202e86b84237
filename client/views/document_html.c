/* SPDX-License-Identifier: Apache-2.0 */
/* A document as one HTML file: one style sheet, one way to escape; plots are pictures in it (SVG). */
#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/views/document.h"
#include <ctype.h>
#include <math.h>

/* Maximum columns of a name in a table; the pointer shows the complete name. */
#define NAME_COLUMNS 120
/* A name of more columns gets a wide column. */
#define NAME_LONG 24
/* A table of more columns is set in smaller type, so that it fits into a page of 1280 pixels. */
#define COLUMNS_LARGE 12
/* Pixels of a share of 1. */
#define BAR_WIDTH   60.0
#define USE_HEIGHT  34.0
#define AXIS_TICKS  4

#define PLOT_WIDTH  640.0
#define PLOT_HEIGHT 260.0
#define PLOT_LEFT   70.0
#define PLOT_BOTTOM 40.0
#define PLOT_TOP    14.0
#define PLOT_RIGHT  16.0
#define PLOT_TICKS  5

/* clang-format off */
static const char head[] =
    "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width\">\n"
    "<meta name=\"color-scheme\" content=\"light dark\">\n<style>\n"
    ":root{--bg:#fff;--fg:#222;--dim:#666;--line:#ddd;--even:#f6f7f9;--track:#ececec;--code:#eef1f5;--bar:#b9cdf0;\n"
    "--busy:#5b8bd9;--comm:#e39a35;--link:#1a5fb4;--grid:#e4e4e4;--plot:#3b6fb6;--mark:#c2571a}\n"
    "@media(prefers-color-scheme:dark){:root{--bg:#16181d;--fg:#e3e3e3;--dim:#9aa0a8;--line:#383c44;--even:#1d2026;\n"
    "--track:#2b2f37;--code:#272b33;--bar:#35558c;--busy:#4c7cc9;--comm:#c17f22;--link:#8ab4f8;--grid:#2b2f37;\n"
    "--plot:#7aa2e3;--mark:#e39a35}}\n"
    "body{font:14px/1.45 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:1240px;margin:1.5em auto;\n"
    "padding:0 1em}a{color:var(--link)}\n"
    "h1{font-size:1.35em;overflow-wrap:anywhere}\n"
    "h2{font-size:1.1em;margin:2em 0 .2em;border-bottom:1px solid var(--line)}\n"
    "nav{font-size:13px;margin:.5em 0}nav a{margin-right:.9em;white-space:nowrap}\n"
    "p.note{color:var(--dim);margin:.2em 0 .6em;max-width:60em}\n"
    ".wide{overflow-x:auto}table{border-collapse:collapse;font-size:12.5px;max-width:100%;margin:.6em 0}\n"
    "table.large{font-size:11px}\n"
    "th{text-align:left;color:var(--dim);font-weight:600;border-bottom:1px solid var(--dim);vertical-align:bottom}\n"
    "td,th{padding:2px 10px 2px 0}td{vertical-align:top;overflow-wrap:break-word}.large td,.large th{padding-right:7px}\n"
    "td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}td.n{white-space:nowrap}\n"
    "td.t{font-family:monospace}td.l{overflow-wrap:anywhere;min-width:16em}.large td.l{min-width:12em}td.p{min-width:13em}\n"
    "tr:nth-child(even) td{background:var(--even)}\n"
    ".bar{background:var(--bar);height:.65em;display:inline-block}.large .bar{display:none}\n"
    "figure{margin:.5em 0}figcaption{color:var(--dim);font-size:12px}\n"
    "svg.plot{max-width:100%;height:auto}svg.plot text{font:11px system-ui,sans-serif;fill:var(--dim)}\n"
    "svg.use{display:block;background:var(--track)}svg.use .busy,.key.busy{fill:var(--busy);background:var(--busy)}\n"
    "svg.use .comm,.key.comm{fill:var(--comm);background:var(--comm)}.key.idle{background:var(--track)}\n"
    ".key{display:inline-block;width:.9em;height:.9em;margin:0 .3em 0 .9em;vertical-align:-1px}\n"
    ".axis{display:flex;justify-content:space-between;color:var(--dim);font-size:11px}.scroll{overflow-x:auto}\n"
    ".card{border:1px solid var(--line);border-left:5px solid var(--dim);border-radius:4px;padding:.6em .9em;\n"
    "margin:.7em 0;display:grid;grid-template-columns:1fr 15em;gap:.2em 1.5em}\n"
    ".card.high{border-left-color:#d04437}.card.medium{border-left-color:#e08e0b}.card.low{border-left-color:#6b8fd6}\n"
    ".card h3{margin:0;font-size:1.02em;overflow-wrap:anywhere}.card .cost{text-align:right}.card .cost b{font-size:1.1em}\n"
    ".card .track{background:var(--track);height:.55em;border-radius:2px;margin:.35em 0 .2em;text-align:left}\n"
    ".card .track i{display:block;height:100%;background:#d9822b;border-radius:2px}\n"
    ".card dl{grid-column:1/-1;margin:.3em 0 0;display:grid;grid-template-columns:6.5em 1fr;gap:.15em .6em}\n"
    ".card dt{color:var(--dim)}.card dd{margin:0;overflow-wrap:anywhere}\n"
    "dl.fields{display:grid;grid-template-columns:8em 1fr;gap:.15em .6em}.fields dt{color:var(--dim)}.fields dd{margin:0}\n"
    "code{font:12.5px monospace;background:var(--code);padding:0 .25em;border-radius:3px;overflow-wrap:anywhere}\n"
    "@media(max-width:700px){.card{grid-template-columns:1fr}.card .cost{text-align:left}\n"
    ".card dl{grid-template-columns:1fr}.card dd{margin-bottom:.3em}}\n"
    "@media print{body{margin:0;max-width:none;font-size:11px}table,table.large{font-size:8px}h2{break-after:avoid}\n"
    "tr,.card,figure{break-inside:avoid}td.t,td.l,td.p{min-width:0}.wide{overflow:visible}nav{display:none}}\n"
    "</style>\n";
/* clang-format on */

void html_put_text(FILE *out, const char *text)
{
    static const char special[] = "<>&\"";
    static const char *const escapes[] = {"&lt;", "&gt;", "&amp;", "&quot;"};
    _cleanup_(freep) char *clean = text_clean(text, false);

    for (const char *p = clean; p && *p; p++) {
        const char *found = strchr(special, *p);
        if (found)
            fputs(escapes[found - special], out);
        else
            fputc(*p, out);
    }
}

static void put_element(FILE *out, const char *open, const char *text, const char *close)
{
    fputs(open, out);
    html_put_text(out, text);
    fputs(close, out);
}

/* -- Tables ------------------------------------------------------------------------------------------- */

static void put_cell(FILE *out, const struct table *t, size_t row, size_t i)
{
    const struct table_column *column = table_column(t, i);
    const char *text = table_cell(t, row, i);

    if (column->flags & COLUMN_RIGHT) {
        const char *value = column->flags & COLUMN_SHARE && text ? table_value(t, row, i) : NULL;
        double share = value ? strtod(value, NULL) : 0;
        fputs("<td class=\"n\">", out);
        if (share > 0)
            fprintf(out, "<span class=\"bar\" style=\"width:%.1fpx\"></span> ", BAR_WIDTH * MIN(share, 1.0));
        put_element(out, "", text ? text : "-", "</td>");
    } else if (column->flags & COLUMN_PROSE || !column->fit) {
        put_element(out, column->flags & COLUMN_PROSE ? "<td class=\"p\">" : "<td>", text ? text : "-",
                    "</td>");
    } else {
        _cleanup_(freep) char *fitted = text ? column->fit(text, NAME_COLUMNS) : NULL;
        fprintf(out, "<td class=\"t%s\" title=\"", fitted && text_columns(fitted) > NAME_LONG ? " l" : "");
        put_element(out, "", text ? text : "", "\">");
        put_element(out, "", fitted ? fitted : "-", "</td>");
    }
}

static bool is_column_shown(const struct table *t, size_t column)
{
    bool is_shown = !(table_column(t, column)->flags & COLUMN_OPTIONAL) || table_rows(t) == 0;

    for (size_t row = 0; row < table_rows(t) && !is_shown; row++)
        is_shown = table_cell(t, row, column);
    return is_shown;
}

static void put_table(FILE *out, const struct table *t)
{
    _cleanup_(freep) bool *shown = xcalloc(table_columns(t) + 1, sizeof(*shown));
    size_t n_shown = 0;

    for (size_t i = 0; i < table_columns(t); i++)
        n_shown += shown[i] = is_column_shown(t, i);
    fprintf(out, "<div class=\"wide\"><table%s><thead><tr>",
            n_shown > COLUMNS_LARGE ? " class=\"large\"" : "");
    for (size_t i = 0; i < table_columns(t); i++) {
        const struct table_column *column = table_column(t, i);
        if (!shown[i])
            continue;
        fputs(column->flags & COLUMN_RIGHT ? "<th class=\"n\"" : "<th", out);
        if (column->meaning)
            put_element(out, " title=\"", column->meaning, "\"");
        put_element(out, ">", column->name, "</th>");
    }
    fputs("</tr></thead><tbody>\n", out);
    for (size_t row = 0; row < table_rows(t); row++) {
        fputs("<tr>", out);
        for (size_t i = 0; i < table_columns(t); i++)
            if (shown[i])
                put_cell(out, t, row, i);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

/* -- Plots -------------------------------------------------------------------------------------------- */

/* 1, 2 or 5 times a power of ten, so that about PLOT_TICKS ticks cover the values. */
static double tick_of(double largest)
{
    double raw = largest > 0 ? largest / PLOT_TICKS : 1, power = pow(10, floor(log10(raw)));

    return raw <= power ? power : raw <= 2 * power ? 2 * power : raw <= 5 * power ? 5 * power : 10 * power;
}

struct plot_axis {
    double tick, max;
};

static struct plot_axis axis_of(const double *values, size_t n)
{
    double largest = 0;

    for (size_t i = 0; i < n; i++)
        largest = MAX(largest, values[i]);
    double tick = tick_of(largest);
    return (struct plot_axis){tick, ceil(MAX(largest, tick) / tick) * tick};
}

static double plot_x(const struct plot_axis *axis, double x)
{
    return PLOT_LEFT + (PLOT_WIDTH - PLOT_LEFT - PLOT_RIGHT) * x / axis->max;
}

static double plot_y(const struct plot_axis *axis, double y)
{
    return PLOT_HEIGHT - PLOT_BOTTOM - (PLOT_HEIGHT - PLOT_BOTTOM - PLOT_TOP) * y / axis->max;
}

static void put_axes(FILE *out, const struct plot_block *p, const struct plot_axis *x,
                     const struct plot_axis *y)
{
    for (int i = 0; i * y->tick <= y->max * 1.001; i++)
        fprintf(out,
                "<path d=\"M%.0f %.1fH%.0f\" style=\"stroke:var(--grid)\"/><text x=\"%.0f\" y=\"%.1f\" "
                "text-anchor=\"end\">%g</text>",
                PLOT_LEFT, plot_y(y, i * y->tick), PLOT_WIDTH - PLOT_RIGHT, PLOT_LEFT - 6,
                plot_y(y, i * y->tick) + 4, i * y->tick);
    for (int i = 0; i * x->tick <= x->max * 1.001; i++)
        fprintf(out, "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\">%g</text>", plot_x(x, i * x->tick),
                PLOT_HEIGHT - PLOT_BOTTOM + 16, i * x->tick);
    fprintf(out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">", (PLOT_WIDTH + PLOT_LEFT) / 2,
            PLOT_HEIGHT - 6);
    html_put_text(out, p->x_label);
    fprintf(out, "</text><text transform=\"translate(14 %.0f) rotate(-90)\" text-anchor=\"middle\">",
            PLOT_HEIGHT / 2 - 10);
    put_element(out, "", p->y_label, "</text>");
}

static void put_plot(FILE *out, const struct document_block *b)
{
    const struct plot_block *p = &b->plot;
    struct plot_axis x = axis_of(p->x, p->n), y = axis_of(p->y, p->n);

    if (p->n == 0)
        return;
    put_element(out, "<figure><figcaption>", b->text, "</figcaption>");
    fprintf(out, "<svg class=\"plot\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" role=\"img\">", PLOT_WIDTH,
            PLOT_HEIGHT, PLOT_WIDTH);
    put_axes(out, p, &x, &y);
    fputs("<path fill=\"none\" style=\"stroke:var(--plot)\" stroke-width=\"2\" d=\"", out);
    for (size_t i = 0; i < p->n; i++)
        fprintf(out, "%c%.1f %.1f", i == 0 ? 'M' : 'L', plot_x(&x, p->x[i]), plot_y(&y, p->y[i]));
    fputs("\"/>", out);
    for (size_t i = 0; i < p->n; i++) {
        bool marked = p->x[i] == p->mark_x;
        fprintf(
            out,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" style=\"fill:var(%s)\"><title>%g, %g</title></circle>",
            plot_x(&x, p->x[i]), plot_y(&y, p->y[i]), marked ? 6 : 3, marked ? "--mark" : "--plot", p->x[i],
            p->y[i]);
    }
    fputs("</svg></figure>\n", out);
}

/* The shares of one kind, stacked on `below`, as steps from left to right and back. */
static void put_area(FILE *out, const char *class, size_t n, const double *below, const double *shares)
{
    double bottom = below ? below[0] : 0;

    fprintf(out, "<path class=\"%s\" d=\"M0 %.1f", class, USE_HEIGHT * (1 - bottom));
    for (size_t i = 0; i < n; i++)
        fprintf(out, "V%.1fH%zu", USE_HEIGHT * (1 - MIN(1.0, (below ? below[i] : 0) + shares[i])), i + 1);
    for (size_t i = n; i-- > 0;)
        fprintf(out, "V%.1fH%zu", USE_HEIGHT * (1 - (below ? below[i] : 0)), i);
    fputs("Z\"/>", out);
}

/* Times below the last GPU. */
static void put_time_axis(FILE *out, int64_t span_ns)
{
    fputs("<div class=\"axis\">", out);
    for (int i = 0; i <= AXIS_TICKS; i++) {
        char text[UNIT_TEXT_MAX];
        fprintf(out, "<span>%s</span>", i == 0 ? "0" : format_duration(text, span_ns / AXIS_TICKS * i));
    }
    fputs("</div>\n", out);
}

static void put_gpu_use(FILE *out, const struct document_block *b, bool is_first, bool is_last)
{
    const struct gpu_use_block *u = &b->use;

    if (is_first)
        fputs(
            "<p class=\"note\"><span class=\"key busy\"></span>busy (computing or copying)<span class=\"key "
            "comm\"></span>communication with nothing else running<span class=\"key idle\"></span>idle</p>\n",
            out);
    put_element(out, "<figure><figcaption>", b->text, "");
    fprintf(out,
            ": busy %.1f %%, communication alone %.1f %%, idle %.1f %%</figcaption>"
            "<svg class=\"use\" viewBox=\"0 0 %zu %.0f\" width=\"100%%\" height=\"%.0f\" "
            "preserveAspectRatio=\"none\" role=\"img\">",
            100 * u->busy_share, 100 * u->communication_share,
            MAX(0.0, 100 - 100 * u->busy_share - 100 * u->communication_share), u->n_bins, USE_HEIGHT,
            USE_HEIGHT);
    put_area(out, "busy", u->n_bins, NULL, u->busy);
    put_area(out, "comm", u->n_bins, u->busy, u->communication);
    fputs("</svg></figure>\n", out);
    if (is_last)
        put_time_axis(out, u->span_ns);
}

/* -- Findings ----------------------------------------------------------------------------------------- */

/* Flags, variables, calls and paths: words to be typed. */
static bool is_code(const char *word, size_t n)
{
    if (n > 2 && word[0] == '-' && (word[1] == '-' || isalpha((unsigned char)word[1])))
        return true;
    return memchr(word, '_', n) || memchr(word, '=', n) || memmem(word, n, "()", 2) ||
           (n > 6 && strncmp(word, "torch.", 6) == 0);
}

/* Bytes of a quoted JSON value that begins here, with the quotes; 0: none. */
static size_t quoted_bytes(const char *s)
{
    const char *end = *s == '\'' ? strchr(s + 1, '\'') : NULL;

    return end && (s[1] == '{' || s[1] == '[') ? (size_t)(end - s) + 1 : 0;
}

static void put_piece(FILE *out, const char *s, size_t n, const char *tag)
{
    _cleanup_(freep) char *piece = xstrndup(s, n);

    if (n == 0)
        return;
    if (tag)
        fprintf(out, "<%s>", tag);
    html_put_text(out, piece);
    if (tag)
        fprintf(out, "</%s>", tag);
}

static int open_brackets(const char *s, size_t n)
{
    int open = 0;

    for (size_t i = 0; i < n; i++)
        open += (s[i] == '(') - (s[i] == ')');
    return open;
}

/* A word, as code without the punctuation of its sentence. */
static void put_word(FILE *out, const char *s, size_t n)
{
    size_t from = 0, to = n;

    while (from < to && strchr("(\"", s[from]))
        from++;
    while (to > from && strchr(",;:.\"", s[to - 1]))
        to--;
    while (to > from && s[to - 1] == ')' && open_brackets(s + from, to - from) < 0)
        to--;
    if (!is_code(s + from, to - from)) {
        put_piece(out, s, n, NULL);
        return;
    }
    put_piece(out, s, from, NULL);
    put_piece(out, s + from, to - from, "code");
    put_piece(out, s + to, n - to, NULL);
}

/* The advice for each engine begins a new line. */
static void put_advice(FILE *out, const char *advice)
{
    static const char *const engines[] = {"vLLM:", "SGLang:"};

    for (const char *p = advice; *p;) {
        size_t quoted = quoted_bytes(p), n = quoted ? quoted : strcspn(p, " ");
        bool is_engine = false;
        for (size_t i = 0; i < ARRAY_SIZE(engines); i++)
            is_engine |= n == strlen(engines[i]) && strncmp(p, engines[i], n) == 0;
        if (is_engine) {
            fputs(p > advice ? "<br>" : "", out);
            put_piece(out, p, n, "b");
        } else if (quoted) {
            put_piece(out, p, n, "code");
        } else {
            put_word(out, p, n);
        }
        p += n;
        for (; *p == ' '; p++)
            putc(' ', out);
    }
}

static bool has_section(const struct document *d, const char *name)
{
    for (size_t i = 0; i < d->n; i++)
        if (d->blocks[i].kind == BLOCK_HEADING && streq(d->blocks[i].name, name))
            return true;
    return false;
}

static void put_fact(FILE *out, const struct document *d, const struct finding_fact *fact)
{
    if (fact->style == FACT_LINK && !has_section(d, fact->text))
        return;
    fprintf(out, "<dt>%s</dt><dd>", fact->name);
    if (fact->style == FACT_ADVICE) {
        put_advice(out, fact->text);
    } else if (fact->style == FACT_LINK) {
        put_element(out, "<a href=\"#", fact->text, "\">");
        put_element(out, "", fact->text, "</a>");
    } else {
        html_put_text(out, fact->text);
    }
    fputs("</dd>", out);
}

static void put_finding(FILE *out, const struct document *d, const struct document_block *b)
{
    const struct finding_block *f = &b->finding;

    fprintf(out, "<section class=\"card %s\"><h3>", f->severity);
    if (f->number > 0)
        fprintf(out, "%zu. ", f->number);
    put_element(out, "", b->text, "</h3><div class=\"cost\">");
    if (f->cost)
        put_element(out, "<b>", f->cost, "</b>");
    if (isfinite(f->share))
        fprintf(out, "%s%.1f %% of the time<div class=\"track\"><i style=\"width:%.1f%%\"></i></div>",
                f->cost ? ", " : "", 100 * f->share, 100 * MAX(0.0, MIN(f->share, 1.0)));
    fputs("</div><dl>", out);
    for (size_t i = 0; i < f->n; i++)
        put_fact(out, d, &f->facts[i]);
    fputs("</dl></section>\n", out);
}

/* -- The page ----------------------------------------------------------------------------------------- */

/* "kernels: Time by kernel" */
static void put_heading(FILE *out, const struct document_block *b)
{
    if (b->name)
        put_element(out, "<h2 id=\"", b->name, "\">");
    else
        fputs("<h2>", out);
    if (b->name && b->text)
        put_element(out, "", b->name, ": ");
    put_element(out, "", b->text ? b->text : b->name, "</h2>\n");
}

static void put_contents(FILE *out, const struct document *d)
{
    bool any = false;

    for (size_t i = 0; i < d->n; i++) {
        const struct document_block *b = &d->blocks[i];
        if (b->kind != BLOCK_HEADING || !b->name)
            continue;
        fputs(any ? "" : "<nav>", out);
        put_element(out, "<a href=\"#", b->name, "\">");
        put_element(out, "", b->name, "</a> ");
        any = true;
    }
    fputs(any ? "</nav>\n" : "", out);
}

static int put_block(FILE *out, const struct document *d, size_t i)
{
    const struct document_block *b = &d->blocks[i];
    enum block_kind before = i > 0 ? d->blocks[i - 1].kind : BLOCK_HEADING,
                    after = i + 1 < d->n ? d->blocks[i + 1].kind : BLOCK_HEADING;
    int r = 0;

    switch (b->kind) {
    case BLOCK_HEADING:
        if (b->name || b->text)
            put_heading(out, b);
        break;
    case BLOCK_TEXT:
        put_element(out, "<p>", b->text, "</p>\n");
        break;
    case BLOCK_NOTE:
        put_element(out, "<p class=\"note\">", b->text, "</p>\n");
        break;
    case BLOCK_ITEM:
        put_element(out, before == BLOCK_ITEM ? "<li>" : "<ul>\n<li>", b->text, "</li>\n");
        if (after != BLOCK_ITEM)
            fputs("</ul>\n", out);
        break;
    case BLOCK_FIELD:
        put_element(out, before == BLOCK_FIELD ? "<dt>" : "<dl class=\"fields\">\n<dt>", b->name, "</dt>");
        put_element(out, "<dd>", b->text, "</dd>\n");
        if (after != BLOCK_FIELD)
            fputs("</dl>\n", out);
        break;
    case BLOCK_STATE:
        put_element(out, "<p>", b->name, " is <b>");
        put_element(out, "", b->state.state, "</b>");
        put_element(out, "", b->text, "</p>\n");
        break;
    case BLOCK_PROBLEM:
        put_element(out, "<p>", b->text, "");
        if (b->problem.remedy)
            put_element(out, "<br>", b->problem.remedy, "");
        fputs("</p>\n", out);
        break;
    case BLOCK_TABLE:
        put_table(out, b->table);
        break;
    case BLOCK_FINDING:
        put_finding(out, d, b);
        break;
    case BLOCK_PLOT:
        put_plot(out, b);
        break;
    case BLOCK_GPU_USE:
        put_gpu_use(out, b, before != BLOCK_GPU_USE, after != BLOCK_GPU_USE);
        break;
    case BLOCK_PICTURE:
        fputs("<div class=\"scroll\">", out);
        r = b->picture.write(b->picture.arg, out);
        fputs("</div>\n", out);
        break;
    }
    return r;
}

int document_html(const struct document *d, FILE *out)
{
    int r = 0;

    fputs(head, out);
    put_element(out, "<title>", d->title, "</title></head><body>\n");
    put_element(out, "<h1>", d->title, "</h1>\n");
    put_contents(out, d);
    for (size_t i = 0; i < d->n && r >= 0; i++)
        r = put_block(out, d, i);
    fputs("</body></html>\n", out);
    return r;
}
