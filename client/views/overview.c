/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/overview.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/views/listing.h"
#include "client/views/report_view.h"
#include <errno.h>
#include <langinfo.h>
#include <math.h>

#define BAR_COLUMNS    40
#define CLASSES_SHOWN  5
#define FINDINGS_SHOWN 5
#define SEPARATOR      " · "

#define REPORTS_MAX    16
/* With a smaller evaluated share of the span, the evaluated part has a line of its own. */
#define EVALUATED_ENOUGH 0.95

/* The reports of this screen. */
struct overview {
    struct made_report made[REPORTS_MAX];
    size_t n;
};

static void overview_done(struct overview *s)
{
    reports_done(s->made, s->n);
}

static void overview_want(struct overview *s, enum report_role role)
{
    for (const struct report *const *r = reports; *r && s->n < REPORTS_MAX; r++)
        if ((*r)->role == role)
            s->made[s->n++].report = *r;
}

/* The tables below the findings, in their order. */
static void overview_want_tables(struct overview *s, bool has_gpu)
{
    bool any = true;

    for (unsigned place = 1; any; place++) {
        any = false;
        for (const struct report *const *r = reports; *r && s->n < REPORTS_MAX; r++) {
            if ((*r)->overview.position != place)
                continue;
            any = true;
            if (!has_gpu || !(*r)->overview.of_host)
                s->made[s->n++].report = *r;
        }
    }
}

static bool overview_has_rows(const struct made_report *made)
{
    return made->result >= 0 && report_rows_count(&made->rows) > 0;
}

/* NULL where the traces contain nothing of it, or it was not wanted. */
static const struct made_report *overview_find(const struct overview *s, enum report_role role)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->made[i].report->role == role)
            return overview_has_rows(&s->made[i]) ? &s->made[i] : NULL;
    return NULL;
}

static int overview_error(const struct overview *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->made[i].result < 0 && s->made[i].result != -ENODATA)
            return s->made[i].result;
    return 0;
}

/* Makes the reports that are shown, which depend on GPU activity. */
static int overview_make(struct overview_source *source, struct overview *s, bool *ret_has_gpu)
{
    overview_want(s, REPORT_GPU_USE);
    int r = source->make(source->arg, s->made, s->n);
    if (r != 0)
        return r;
    *ret_has_gpu = overview_find(s, REPORT_GPU_USE);
    size_t first = s->n;
    overview_want(s, REPORT_FINDINGS);
    if (source->n_instances > 1) {
        overview_want(s, REPORT_INSTANCES);
    } else {
        overview_want(s, REPORT_CATEGORIES);
        overview_want(s, REPORT_EVALUATED);
        overview_want_tables(s, *ret_has_gpu);
    }
    r = overview_error(s);
    if (r == 0)
        r = source->make(source->arg, &s->made[first], s->n - first);
    return r != 0 ? r : overview_error(s);
}

static double overview_sum(const struct made_report *s, const char *column)
{
    double sum = 0;

    for (size_t row = 0; row < report_rows_count(&s->rows); row++)
        sum += made_report_number(s, row, column);
    return sum;
}

#define EIGHTHS 8
/* Bytes of a block element in UTF-8. */
#define UTF8_BYTES 3

/* A share of 0 to 1 as a bar: in eighths of a character in UTF-8, else in complete ones. The caller frees. */
static char *bar_text(double share, unsigned columns)
{
    static const char *const parts[EIGHTHS] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    double clean = isfinite(share) ? MAX(0.0, MIN(share, 1.0)) : 0;
    unsigned eighths = (unsigned)lround(clean * columns * EIGHTHS), whole = eighths / EIGHTHS;
    bool blocks = streq(nl_langinfo(CODESET), "UTF-8");
    char *text = xcalloc((size_t)(columns + 1) * UTF8_BYTES + 1, 1), *p = text;

    for (unsigned i = 0; i < whole; i++)
        p = stpcpy(p, blocks ? "█" : "#");
    if (blocks)
        stpcpy(p, parts[eighths % EIGHTHS]);
    return text;
}

/* "2,267 GPU events", "2,260 to 2,267 GPU events each" */
static void append_events(char **text, const struct overview_source *source)
{
    size_t least = source->analysis ? SIZE_MAX : (size_t)source->events[0],
           most = source->analysis ? 0 : (size_t)source->events[1];
    char from[32], to[32];
    const struct gpu_work *work;

    for (size_t i = 0; source->analysis && i < source->analysis->n; i++)
        if (analysis_gpu(source->analysis, i, &work) >= 0) {
            least = MIN(least, work->n);
            most = MAX(most, work->n);
        }
    append_str(text, "%s%s%s GPU events%s", least < most ? text_number(from, (int64_t)least) : "",
               least < most ? " to " : "", text_number(to, (int64_t)most),
               source->n_ranks > 1 ? " each" : "");
}

/* "8 ranks · NVIDIA H200 · span 102.7 ms · 2,633 GPU events each" after the title, or below it. */
static void print_head(struct client *c, const struct overview_source *source,
                       const struct made_report *temporal, const char *name)
{
    size_t n = source->n_ranks, world = source->world;
    _cleanup_(freep) char *ranks = world > n ? xasprintf("%zu of %zu ranks", n, world)
                                             : text_count((int64_t)n, "rank"),
                          *title = text_clean(name, false), *facts = xstrdup("");
    unsigned width = screen_text_width(&c->out);
    char span[UNIT_TEXT_MAX];

    if (n > 1)
        append_str(&facts, "%s", ranks);
    if (source->n_instances > 1)
        append_str(&facts, " in %zu engine instances", source->n_instances);
    if (source->device) {
        _cleanup_(freep) char *clean = text_clean(source->device, false);
        append_str(&facts, "%s%s", *facts ? SEPARATOR : "", clean);
    }
    if (temporal) {
        double ns = overview_sum(temporal, "span_ns") / (double)report_rows_count(&temporal->rows);
        append_str(&facts, "%sspan %s" SEPARATOR, *facts ? SEPARATOR : "",
                   format_duration(span, (int64_t)ns));
        append_events(&facts, source);
    }
    bool fits = text_columns(title) + strlen(SEPARATOR) + text_columns(facts) <= width;
    _cleanup_(freep) char *wrapped = text_wrap(facts, 0, width);
    fprintf(c->out.file, "%s%s%s%s%s\n", screen_colour(&c->out, COLOUR_BOLD), title, screen_plain(&c->out),
            !*facts ? ""
            : fits  ? SEPARATOR
                    : "\n",
            wrapped);
}

/* The bar is of the complete span; findings may be of a small part of it, in which the use is a different
 * one. */
static void print_evaluated(FILE *out, const struct made_report *temporal,
                            const struct made_report *evaluated)
{
    double span = overview_sum(temporal, "span_ns");
    double length = evaluated ? overview_sum(evaluated, "evaluated_ns") : 0;
    char text[UNIT_TEXT_MAX];

    if (!(length > 0) || length >= EVALUATED_ENOUGH * span)
        return;
    size_t ranks = report_rows_count(&evaluated->rows);
    double idle = overview_sum(evaluated, "idle_ns") / length;
    fprintf(out, "       findings are of %s of it%s: busy %.1f %%, idle %.1f %%\n",
            format_duration(text, (int64_t)(length / (double)ranks)), ranks > 1 ? " (mean of all ranks)" : "",
            100 * (1 - idle), 100 * idle);
}

/* "communication 58 % · moe 23 %": the categories with the largest shares of the busy time. The shares of
 * categories whose events overlap add up to more than 100 %. */
static char *categories_text(const struct made_report *categories)
{
    size_t n = report_rows_count(&categories->rows), shown = 0;
    _cleanup_(freep) bool *done = xcalloc(n + 1, sizeof(*done));
    char *text = xstrdup("");

    for (; shown < MIN(n, (size_t)CLASSES_SHOWN); shown++) {
        size_t most = SIZE_MAX;
        for (size_t row = 0; row < n; row++)
            if (!done[row] && (most == SIZE_MAX || made_report_number(categories, row, "busy_share") >
                                                       made_report_number(categories, most, "busy_share")))
                most = row;
        done[most] = true;
        append_str(&text, "%s%s %.0f %%", shown ? SEPARATOR : "",
                   made_report_text(categories, most, "category"),
                   100 * made_report_number(categories, most, "busy_share"));
    }
    return text;
}

static void print_bars(struct client *c, const struct made_report *temporal,
                       const struct made_report *evaluated, const struct made_report *categories)
{
    double busy = overview_sum(temporal, "busy_ns") / overview_sum(temporal, "span_ns");
    _cleanup_(freep) char *bar = bar_text(busy, BAR_COLUMNS);
    FILE *out = c->out.file;

    fprintf(out, "\nGPU    busy  %s %.1f %%   idle %.1f %%\n", bar, 100 * busy, 100 * (1 - busy));
    print_evaluated(out, temporal, evaluated);
    if (!categories)
        return;
    _cleanup_(freep) char *classes = categories_text(categories),
                          *wrapped = text_wrap(classes, 7, screen_text_width(&c->out));
    fprintf(out, "of it  %s\n", wrapped);
}

/* First of all, a step that all figures include, but findings leave out. */
static void print_outlier(struct client *c, const struct made_report *findings)
{
    for (size_t row = 0; findings && row < report_rows_count(&findings->rows); row++)
        if (streq(made_report_text(findings, row, "rule"), "step_outlier")) {
            const char *instance = made_report_text(findings, row, REPORT_INSTANCE),
                       *options = made_report_text(findings, row, "options");
            _cleanup_(freep) char *line = xasprintf("%s%s%s%s%s", instance, *instance ? ": " : "",
                                                    made_report_text(findings, row, "what"),
                                                    *options ? "; " : "", options),
                                  *clean = text_clean(line, false),
                                  *wrapped = text_wrap(clean, 0, screen_text_width(&c->out));
            fprintf(c->out.file, "%s\n", wrapped);
        }
}

/* A table of the instances, then their differences as sentences. */
static void add_instances(struct document *d, struct client *c, const struct made_report *made)
{
    if (!made)
        return;
    report_add(d, c, made->report, &made->rows, 0, false);
    for (size_t row = 0; row < report_rows_count(&made->rows); row++) {
        const char *text = made_report_text(made, row, "outlier");
        if (*text)
            document_text(d, "%s", text);
    }
}

static void add_tables(struct document *d, struct client *c, const struct overview *o, size_t top)
{
    for (size_t i = 0; i < o->n; i++) {
        const struct made_report *made = &o->made[i];
        const struct report_overview *shown = &made->report->overview;
        if (shown->position == 0 || !overview_has_rows(made) ||
            (shown->of_many && report_rows_count(&made->rows) < 2))
            continue;
        size_t rows = shown->is_complete ? 0 : shown->rows && top > 0 ? MIN(top, shown->rows) : top;
        report_add(d, c, made->report, &made->rows, rows, false);
    }
}

void findings_add_section(struct document *d, bool has_gpu, const struct made_report *made, size_t top,
                          bool is_short)
{
    document_heading(d, made && report_rows_count(&made->rows) > 0 ? "FINDINGS" : NULL);
    findings_add(d, has_gpu, made, top, is_short);
}

static int overview_make_here(void *arg, struct made_report *made, size_t n)
{
    reports_make(made, n, arg);
    return 0;
}

struct overview_source overview_of_analysis(struct analysis *a)
{
    struct text device = columns_meta_text(a->ranks[0].columns, META_device_name);

    return (struct overview_source){.make = overview_make_here,
                                    .arg = a,
                                    .analysis = a,
                                    .n_ranks = a->n,
                                    .world = analysis_world(a),
                                    .device = device.size > 0 ? xstrndup(device.p, device.size) : NULL,
                                    .is_complete = analysis_is_complete(a),
                                    .has_gpu = analysis_has_gpu(a),
                                    .n_instances = a->n_instances,
                                    .instance = a->instances[0].name};
}

int overview_print(struct client *c, struct overview_source *source, const char *what, size_t top)
{
    _cleanup_(overview_done) struct overview o = {0};
    _cleanup_(document_done) struct document d = {0};
    bool has_gpu;
    int r = overview_make(source, &o, &has_gpu);

    if (r != 0)
        return r;
    client_page(c);
    print_outlier(c, overview_find(&o, REPORT_FINDINGS));
    print_head(c, source, overview_find(&o, REPORT_GPU_USE), what);
    if (!has_gpu && !source->is_complete && source->has_gpu) {
        fputs("no GPU activity begins in the selected part of the trace\n"
              "  --report steps lists the steps and phases with their times.\n",
              c->out.file);
        return 0;
    }
    if (source->n_instances > 1)
        add_instances(&d, c, overview_find(&o, REPORT_INSTANCES));
    else if (has_gpu)
        print_bars(c, overview_find(&o, REPORT_GPU_USE), overview_find(&o, REPORT_EVALUATED),
                   overview_find(&o, REPORT_CATEGORIES));
    else
        fputs("the trace contains no kernels, copies or memsets of a GPU: this is host time\n", c->out.file);
    findings_add_section(&d, source->has_gpu, overview_find(&o, REPORT_FINDINGS), FINDINGS_SHOWN, true);
    if (source->n_instances == 1)
        add_tables(&d, c, &o, top);
    fputc('\n', c->out.file);
    bool is_cut = document_print(&d, &c->out, c->format);
    if (source->n_instances > 1)
        fprintf(c->out.file, "\nFor one instance: profctl analyze %s --instance '%s'\n", what,
                source->instance);
    else if (is_cut && !c->no_legend)
        fprintf(c->out.file,
                "\n%sSome columns are hidden: --format wide, or --report NAME --columns LIST%s\n",
                screen_colour(&c->out, COLOUR_DIM), screen_plain(&c->out));
    return 0;
}
