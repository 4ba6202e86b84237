/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/overview.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/views/bar.h"
#include "client/views/listing.h"
#include "client/views/report_text.h"
#include <errno.h>
#include <math.h>

#define BAR_COLUMNS    40
#define CLASSES_SHOWN  5
#define FINDINGS_SHOWN 5
/* Columns of a finding's cost, at the end of its line. */
#define COST_WIDTH 20
#define INDENT     4
#define SEPARATOR  " · "

/* What stands below the findings, in order. */
static const struct section {
    const char *report;
    bool of_many; /* says something only where there are several rows */
    bool of_host; /* what a trace without a GPU has instead */
    size_t most;  /* rows on this screen, whatever --top; 0: none such */
} sections[] = {{"kernels"},
                {"gaps", .most = 5},
                {"steps", .of_many = true, .most = 8},
                {"ops", .of_host = true},
                {"functions", .of_host = true},
                {"ort", .of_host = true},
                {"ranks", .of_many = true}};

#define SHEETS_MAX (4 + ARRAY_SIZE(sections))
/* Where findings are of less than this share of the span, its figures of use are not theirs. */
#define EVALUATED_ENOUGH 0.95

/* The reports that this screen is made of. */
struct sheets {
    struct made_report made[SHEETS_MAX];
    size_t n;
};

static void sheets_done(struct sheets *s)
{
    reports_done(s->made, s->n);
}

static void want(struct sheets *s, const char *name)
{
    s->made[s->n++].report = report_find(name);
}

/* NULL where the traces have nothing of it, or it was not wanted. */
static const struct made_report *find_sheet(const struct sheets *s, const char *name)
{
    for (size_t i = 0; i < s->n; i++)
        if (streq(s->made[i].report->name, name))
            return s->made[i].result >= 0 && report_rows_count(&s->made[i].rows) > 0 ? &s->made[i] : NULL;
    return NULL;
}

static int error_of(const struct sheets *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->made[i].result < 0 && s->made[i].result != -ENODATA)
            return s->made[i].result;
    return 0;
}

/* What is there of the GPU decides what else is shown, and only that is made. */
static int make_sheets(struct analysis *a, struct sheets *s, bool *ret_has_gpu)
{
    want(s, "temporal");
    reports_make(s->made, s->n, a);
    *ret_has_gpu = find_sheet(s, "temporal");
    size_t first = s->n;
    if (a->n_instances > 1) {
        want(s, "instances");
        want(s, "findings");
        reports_make(&s->made[first], s->n - first, a);
        return error_of(s);
    }
    want(s, "categories");
    want(s, "evaluated");
    want(s, "findings");
    for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
        if (!*ret_has_gpu || !sections[i].of_host)
            want(s, sections[i].report);
    if (error_of(s) == 0)
        reports_make(&s->made[first], s->n - first, a);
    return error_of(s);
}

static const struct cell *cell_of(const struct made_report *s, size_t row, const char *column)
{
    static const struct cell none = {.type = CELL_NULL};

    for (size_t i = 0; i < s->report->n_columns; i++)
        if (streq(s->report->columns[i].name, column))
            return report_rows_at(&s->rows, row, i);
    return &none;
}

static double number_of(const struct made_report *s, size_t row, const char *column)
{
    const struct cell *cell = cell_of(s, row, column);

    return cell->type == CELL_REAL ? cell->real : cell->type == CELL_INT ? (double)cell->integer : NAN;
}

static const char *text_of(const struct made_report *s, size_t row, const char *column)
{
    const struct cell *cell = cell_of(s, row, column);

    return cell->type == CELL_TEXT ? cell->text : "";
}

static double sum_of(const struct made_report *s, const char *column)
{
    double sum = 0;

    for (size_t row = 0; row < report_rows_count(&s->rows); row++)
        sum += number_of(s, row, column);
    return sum;
}

/* On a line of its own where both do not fit. */
static void print_line(struct client *c, const char *what, const char *facts)
{
    unsigned width = screen_text_width(&c->out);
    bool fits = text_columns(what) + strlen(SEPARATOR) + text_columns(facts) <= width;
    _cleanup_(freep) char *wrapped = text_wrap(facts, 0, width);

    fprintf(c->out.file, "%s%s%s%s%s\n", screen_colour(&c->out, COLOUR_BOLD), what, screen_plain(&c->out),
            !*facts ? ""
            : fits  ? SEPARATOR
                    : "\n",
            wrapped);
}

/* "2,267 GPU events", "2,260 to 2,267 GPU events each" */
static void print_events(FILE *out, struct analysis *a)
{
    size_t least = SIZE_MAX, most = 0;
    char from[32], to[32];
    const struct gpu_work *work;

    for (size_t i = 0; i < a->n; i++)
        if (analysis_gpu(a, i, &work) >= 0) {
            least = MIN(least, work->n);
            most = MAX(most, work->n);
        }
    if (least < most)
        fprintf(out, "%s to ", text_number(from, (int64_t)least));
    fprintf(out, "%s GPU events%s", text_number(to, (int64_t)most), a->n > 1 ? " each" : "");
}

/* "8 ranks · NVIDIA H200 · span 102.7 ms · 2,633 GPU events each" */
static void print_head(struct client *c, struct analysis *a, const struct made_report *temporal,
                       const char *what)
{
    struct text device = columns_meta_text(a->ranks[0].columns, META_device_name);
    _cleanup_(freep) char *ranks = text_count((int64_t)a->n, "rank"), *title = text_clean(what, false);
    char span[UNIT_TEXT_MAX];
    _cleanup_(freep) char *facts = NULL;
    size_t size;
    FILE *out = open_memstream(&facts, &size);

    if (!out)
        abort();
    if (a->n > 1)
        fprintf(out, SEPARATOR "%s", ranks);
    if (a->n_instances > 1)
        fprintf(out, " in %zu engine instances", a->n_instances);
    if (device.size > 0) {
        _cleanup_(freep) char *name = xstrndup(device.p, device.size), *clean = text_clean(name, false);
        fprintf(out, SEPARATOR "%s", clean);
    }
    if (temporal) {
        fprintf(out, SEPARATOR "span %s" SEPARATOR,
                format_duration(span, (int64_t)(sum_of(temporal, "span_ns") /
                                                (double)report_rows_count(&temporal->rows))));
        print_events(out, a);
    }
    fclose(out);
    print_line(c, title, facts + (*facts ? strlen(SEPARATOR) : 0));
}

/* The bar is of the complete span; findings may be of a small part of it, in which the use is a different
 * one. */
static void print_evaluated(FILE *out, const struct made_report *temporal,
                            const struct made_report *evaluated)
{
    double span = sum_of(temporal, "span_ns");
    double length = evaluated ? sum_of(evaluated, "evaluated_ns") : 0;
    char text[UNIT_TEXT_MAX];

    if (!(length > 0) || length >= EVALUATED_ENOUGH * span)
        return;
    size_t ranks = report_rows_count(&evaluated->rows);
    double idle = sum_of(evaluated, "idle_ns") / length;
    fprintf(out, "       findings are of %s of it%s: busy %.1f %%, idle %.1f %%\n",
            format_duration(text, (int64_t)(length / (double)ranks)), ranks > 1 ? " (mean of all ranks)" : "",
            100 * (1 - idle), 100 * idle);
}

static void print_bars(struct client *c, const struct made_report *temporal,
                       const struct made_report *evaluated, const struct made_report *categories)
{
    double busy = sum_of(temporal, "busy_ns") / sum_of(temporal, "span_ns");
    _cleanup_(freep) char *bar = bar_text(busy, BAR_COLUMNS);
    FILE *out = c->out.file;

    fprintf(out, "\nGPU    busy  %s %.1f %%   idle %.1f %%\n", bar, 100 * busy, 100 * (1 - busy));
    print_evaluated(out, temporal, evaluated);
    if (!categories)
        return;
    char *classes = NULL;
    size_t size;
    FILE *text = xmemstream(&classes, &size);
    for (size_t row = 0; text && row < MIN(report_rows_count(&categories->rows), (size_t)CLASSES_SHOWN);
         row++)
        fprintf(text, "%s%s %.0f %%", row ? SEPARATOR : "", text_of(categories, row, "category"),
                100 * number_of(categories, row, "share"));
    if (text)
        fclose(text);
    _cleanup_(freep) char *wrapped = text_wrap(classes ? classes : "", 7, screen_text_width(&c->out));
    fprintf(out, "of it  %s\n", wrapped);
    free(classes);
}

/* "57.2 ms  56 %" */
static char *cost_text(const struct made_report *s, size_t row)
{
    double cost = number_of(s, row, "cost_ns"), share = number_of(s, row, "share");
    char duration[UNIT_TEXT_MAX];

    if (!isfinite(cost))
        return xstrdup("");
    format_duration(duration, (int64_t)cost);
    return isfinite(share) ? xasprintf("%s  %2.0f %%", duration, 100 * share) : xstrdup(duration);
}

static bool is_statement(const struct made_report *s, size_t row)
{
    return cell_of(s, row, "cost_ns")->type == CELL_NULL;
}

/* What was found, with its cost at the end of the line, then the evidence, how certain it is, and what to do.
 * Statements cost nothing and have no number. */
static void print_finding(struct client *c, const struct made_report *s, size_t row, bool is_overview)
{
    static const struct {
        const char *column, *before;
    } parts[] = {{REPORT_INSTANCE, "Instance: "},
                 {"evidence", ""},
                 {"where", ""},
                 {"ground", NULL},
                 {"advice", "Try: "}};
    unsigned width = screen_text_width(&c->out), room = width - COST_WIDTH - INDENT;
    _cleanup_(freep) char *what = text_clean(text_of(s, row, "what"), false),
                          *title = text_wrap(what, INDENT, is_statement(s, row) ? width : room),
                          *cost = cost_text(s, row), *number = xasprintf("%zu", row + 1);
    size_t first = strcspn(title, "\n");
    _cleanup_(freep) char *line = xstrndup(title, first);
    FILE *out = c->out.file;

    fprintf(out, "%2s  %s%s%s%*s\n", is_statement(s, row) ? "-" : number, screen_colour(&c->out, COLOUR_BOLD),
            line, screen_plain(&c->out),
            *cost ? (int)(width - INDENT - MIN(text_columns(line), width - INDENT)) : 0, cost);
    if (title[first])
        fprintf(out, "%s\n", title + first + 1);
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        const char *before = parts[i].before                                   ? parts[i].before
                             : streq(text_of(s, row, "confidence"), "certain") ? "Certain: "
                                                                               : "Inferred: ";
        _cleanup_(freep) char *clean = text_clean(text_of(s, row, parts[i].column), false),
                              *part = xasprintf("%s%s", before, clean),
                              *wrapped = text_wrap(part, INDENT, width);
        /* Among other things, what a statement says is enough, unless it is no certainty. */
        bool is_needed =
            !is_overview || !is_statement(s, row) || streq(parts[i].column, REPORT_INSTANCE) ||
            streq(parts[i].column, "evidence") ||
            (streq(parts[i].column, "ground") && !streq(text_of(s, row, "confidence"), "certain"));
        if (*clean && is_needed)
            fprintf(out, "%*s%s\n", INDENT, "", wrapped);
    }
}

static void print_findings(struct client *c, const struct made_report *s, size_t top, bool is_overview)
{
    size_t n = report_rows_count(&s->rows), shown = 0, left = 0;

    fprintf(c->out.file, "%sFINDINGS%s\n", screen_colour(&c->out, COLOUR_BOLD), screen_plain(&c->out));
    for (size_t row = 0; row < n; row++) {
        if (!is_statement(s, row) && top > 0 && shown == top) {
            left++;
            continue;
        }
        print_finding(c, s, row, is_overview);
        shown++;
    }
    if (left > 0)
        fprintf(c->out.file, "... %zu more (--report findings --top 0)\n", left);
}

/* Before anything else: that all figures below have a step in them that findings leave out. */
static void print_outlier(struct client *c, const struct made_report *findings)
{
    for (size_t row = 0; findings && row < report_rows_count(&findings->rows); row++)
        if (streq(text_of(findings, row, "rule"), "step_outlier")) {
            const char *instance = text_of(findings, row, REPORT_INSTANCE);
            _cleanup_(freep) char *line = xasprintf("%s%s%s", instance, *instance ? ": " : "",
                                                    text_of(findings, row, "what")),
                                  *clean = text_clean(line, false),
                                  *wrapped = text_wrap(clean, 0, screen_text_width(&c->out));
            fprintf(c->out.file, "%s\n", wrapped);
        }
}

/* Instances side by side, then in what they differ: a table has no room for sentences. */
static void print_instances(struct client *c, const struct made_report *s)
{
    unsigned width = screen_text_width(&c->out);

    if (!s)
        return;
    fputc('\n', c->out.file);
    report_print_text(c, s->report, &s->rows, 0, REPORT_IS_SILENT);
    for (size_t row = 0; row < report_rows_count(&s->rows); row++) {
        _cleanup_(freep) char *clean = text_clean(text_of(s, row, "outlier"), false),
                              *wrapped = text_wrap(clean, 0, width);
        if (*clean)
            fprintf(c->out.file, "%s\n", wrapped);
    }
}

/* What else there is to see of one of several instances. */
static void print_hint(struct client *c, const struct analysis *a, const char *what)
{
    fprintf(c->out.file, "\nFor one instance: profctl analyze %s --instance '%s'\n", what,
            a->instances[0].name);
}

static void print_sections(struct client *c, const struct sheets *sheets, size_t top)
{
    bool is_cut = false;

    for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
        const struct made_report *s = find_sheet(sheets, sections[i].report);
        if (!s || (sections[i].of_many && report_rows_count(&s->rows) < 2))
            continue;
        fputc('\n', c->out.file);
        /* What ranks have in common stands behind them. */
        size_t rows = streq(sections[i].report, "ranks") ? 0
                      : sections[i].most && top > 0      ? MIN(top, sections[i].most)
                                                         : top;
        is_cut |= report_print_text(c, s->report, &s->rows, rows, REPORT_IS_SILENT);
    }
    if (is_cut && !c->no_legend)
        fprintf(c->out.file,
                "\n%sSome columns are hidden: --format wide, or --report NAME --columns LIST%s\n",
                screen_colour(&c->out, COLOUR_DIM), screen_plain(&c->out));
}

/* Findings are of the GPU's time: where none is recorded, their absence says nothing. */
static void print_findings_or_none(struct client *c, const struct analysis *a,
                                   const struct made_report *findings, size_t top, bool is_overview)
{
    if (findings && report_rows_count(&findings->rows) > 0)
        print_findings(c, findings, top, is_overview);
    else if (analysis_has_gpu(a))
        fputs("no findings: nothing stands out by the rules of docs/analysis.md\n", c->out.file);
    else
        fputs("no findings: they explain GPU time, and no GPU activity is recorded\n"
              "  --report ops,stacks,steps shows where the host's time went.\n",
              c->out.file);
}

void findings_print(struct client *c, const struct analysis *a, const struct made_report *findings,
                    size_t top)
{
    print_findings_or_none(c, a, findings, top, false);
}

int overview_print(struct client *c, struct analysis *a, const char *what, size_t top)
{
    _cleanup_(sheets_done) struct sheets sheets = {0};
    bool has_gpu;
    int r = make_sheets(a, &sheets, &has_gpu);

    if (r < 0)
        return r;
    client_page(c);
    print_outlier(c, find_sheet(&sheets, "findings"));
    print_head(c, a, find_sheet(&sheets, "temporal"), what);
    if (!has_gpu && !analysis_is_complete(a) && analysis_has_gpu(a)) {
        fputs("no GPU activity begins in the selected part of the trace\n"
              "  --report steps lists the steps and phases with their times.\n",
              c->out.file);
        return 0;
    }
    if (a->n_instances > 1)
        print_instances(c, find_sheet(&sheets, "instances"));
    else if (has_gpu)
        print_bars(c, find_sheet(&sheets, "temporal"), find_sheet(&sheets, "evaluated"),
                   find_sheet(&sheets, "categories"));
    else
        fputs("the trace contains no kernels, copies or memsets of a GPU: this is host time\n", c->out.file);
    fputc('\n', c->out.file);
    print_findings_or_none(c, a, find_sheet(&sheets, "findings"), FINDINGS_SHOWN, true);
    if (a->n_instances > 1)
        print_hint(c, a, what);
    else
        print_sections(c, &sheets, top);
    return 0;
}
