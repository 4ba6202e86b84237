/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/findings_html.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/views/markup.h"
#include <ctype.h>
#include <math.h>

const char findings_html_style[] =
    ".card{border:1px solid var(--line);border-left:5px solid var(--dim);border-radius:4px;padding:.6em .9em;"
    "margin:.7em 0;display:grid;grid-template-columns:1fr 15em;gap:.2em 1.5em}\n"
    ".card.high{border-left-color:#d04437}.card.medium{border-left-color:#e08e0b}.card.low{border-left-color:"
    "#6b8fd6}\n"
    ".card h3{margin:0;font-size:1.02em;overflow-wrap:anywhere}.card .cost{text-align:right}.card .cost "
    "b{font-size:1.1em}\n"
    ".card .track{background:var(--track);height:.55em;border-radius:2px;margin:.35em 0 "
    ".2em;text-align:left}\n"
    ".card .track i{display:block;height:100%;background:#d9822b;border-radius:2px}\n"
    ".card dl{grid-column:1/-1;margin:.3em 0 0;display:grid;grid-template-columns:6.5em 1fr;gap:.15em .6em}\n"
    ".card dt{color:var(--dim)}.card dd{margin:0;overflow-wrap:anywhere}.card "
    ".sure{color:var(--dim);font-size:.92em}\n"
    "code{font:12.5px monospace;background:var(--code);padding:0 "
    ".25em;border-radius:3px;overflow-wrap:anywhere}\n"
    "@media(max-width:700px){.card{grid-template-columns:1fr}.card .cost{text-align:left}"
    ".card dl{grid-template-columns:1fr}.card dd{margin-bottom:.3em}}\n";

static const struct cell *find_cell(const struct made_report *made, size_t row, const char *column)
{
    for (size_t i = 0; i < made->report->n_columns; i++)
        if (streq(made->report->columns[i].name, column))
            return report_rows_at(&made->rows, row, i);
    return NULL;
}

static const char *text_of(const struct made_report *made, size_t row, const char *column)
{
    const struct cell *cell = find_cell(made, row, column);

    return cell && cell->type == CELL_TEXT ? cell->text : "";
}

static double number_of(const struct made_report *made, size_t row, const char *column)
{
    const struct cell *cell = find_cell(made, row, column);

    return !cell                     ? NAN
           : cell->type == CELL_REAL ? cell->real
           : cell->type == CELL_INT  ? (double)cell->integer
                                     : NAN;
}

/* -- Advice ------------------------------------------------------------------------------------------- */

/* Flags, variables, calls and paths: what is typed and not read. */
static bool is_code(const char *word, size_t n)
{
    if (n > 2 && word[0] == '-' && (word[1] == '-' || isalpha((unsigned char)word[1])))
        return true;
    return memchr(word, '_', n) || memchr(word, '=', n) || memmem(word, n, "()", 2) ||
           (n > 6 && strncmp(word, "torch.", 6) == 0);
}

/* Bytes of what is between quotes that begin here, with the quotes; 0 where they do not end. */
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
    markup_put(out, piece);
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

/* A word without the punctuation of its sentence. */
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

/* Engines begin a line of their own. */
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

/* -- Cards -------------------------------------------------------------------------------------------- */

static void put_cost(FILE *out, const struct made_report *made, size_t row)
{
    double cost = number_of(made, row, "cost_ns"), share = number_of(made, row, "share");
    char text[UNIT_TEXT_MAX];

    fputs("<div class=\"cost\">", out);
    if (isfinite(cost))
        fprintf(out, "<b>%s</b>", format_duration(text, (int64_t)cost));
    if (isfinite(share))
        fprintf(out, "%s%.1f %% of the time<div class=\"track\"><i style=\"width:%.1f%%\"></i></div>",
                isfinite(cost) ? ", " : "", 100 * share, 100 * MAX(0.0, MIN(share, 1.0)));
    fputs("</div>", out);
}

static void put_fact(FILE *out, const char *name, const char *text)
{
    if (!*text)
        return;
    fprintf(out, "<dt>%s</dt><dd>", name);
    markup_put(out, text);
    fputs("</dd>", out);
}

static void put_card(FILE *out, const struct made_report *made, size_t row, bool leads)
{
    static const char *const severities[] = {"high", "medium", "low"};
    const char *severity = text_of(made, row, "severity"), *class = "info",
               *advice = text_of(made, row, "advice"), *confidence = text_of(made, row, "confidence"),
               *ground = text_of(made, row, "ground"), *report = text_of(made, row, "report");

    for (size_t i = 0; i < ARRAY_SIZE(severities); i++)
        if (streq(severity, severities[i]))
            class = severities[i];
    fprintf(out, "<section class=\"card %s\"><h3>", class);
    /* What has no cost is a statement about the other findings. */
    if (isfinite(number_of(made, row, "cost_ns")))
        fprintf(out, "%zu. ", row + 1);
    markup_put(out, text_of(made, row, "what"));
    fputs("</h3>", out);
    put_cost(out, made, row);
    fputs("<dl>", out);
    put_fact(out, "Instance", text_of(made, row, REPORT_INSTANCE));
    put_fact(out, "Where", text_of(made, row, "where"));
    put_fact(out, "Evidence", text_of(made, row, "evidence"));
    if (*advice) {
        fputs("<dt>Try</dt><dd>", out);
        put_advice(out, advice);
        fputs("</dd>", out);
    }
    if (*confidence && *ground) {
        fputs("<dt>Confidence</dt><dd>", out);
        markup_put(out, confidence);
        fputs(": ", out);
        markup_put(out, ground);
        fputs("</dd>", out);
    }
    if (leads) {
        fputs("<dt>Details</dt><dd><a href=\"#", out);
        markup_put(out, report);
        fputs("\">", out);
        markup_put(out, report);
        fputs("</a></dd>", out);
    }
    fputs("</dl></section>\n", out);
}

void findings_html_write(const struct made_report *findings, const struct analysis *a, size_t top,
                         bool (*has_report)(void *arg, const char *name), void *arg, FILE *out)
{
    size_t n = report_rows_count(&findings->rows), shown = top > 0 ? MIN(n, top) : n;

    fprintf(out, "<h2 id=\"findings\">Findings</h2>\n");
    if (n == 0)
        fprintf(out, "<p class=\"how\">%s</p>\n",
                analysis_has_gpu(a) ? "Nothing stands out by the rules of docs/analysis.md."
                                    : "No findings: they explain GPU time, and no GPU activity is recorded.");
    for (size_t row = 0; row < shown; row++) {
        const char *report = text_of(findings, row, "report");
        put_card(out, findings, row, *report && has_report(arg, report));
    }
    if (shown < n)
        fprintf(out, "<p class=\"more\">%zu more findings</p>\n", n - shown);
}
