/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU that computes nearly all the time: what it computes, and how near that is to what it can do. */
#include "base/statistics.h"
#include "base/units.h"
#include "trace/reports/report.h"
#include "trace/reports/rules/rule.h"

#include <errno.h>

/* Of the time: with less, other things than kernels are worth more. */
#define COMPUTE_SHARE_MIN 0.80
/* Of the recording: a short burst does not show what bounds a program. */
#define RECORDED_SHARE_MIN 0.10
#define KERNELS_SHOWN      3
#define OPERATORS_SHOWN    2
/* Number of the largest kernels that are summed up by the names that are shown. */
#define KERNELS_COMPARED   256
#define OPERATORS_COMPARED 256

static int gpu_bound_computing(const struct rule_context *context, int64_t *ret)
{
    int r = 0;

    for (size_t i = 0; i < context->n && r >= 0; i++) {
        const struct intervals *compute;
        r = gpu_work_busy(context->ranks[i].work, 1 << GPU_COMPUTE, &compute);
        if (r >= 0)
            *ret = add_time(*ret, rule_context_within(&context->ranks[i], compute));
    }
    return r;
}

/* What a sentence names, with how much of it there is. */
struct shown {
    char name[NAME_MAX_SHOWN + 1];
    const char *bound; /* of an operator; NULL */
    double time, part; /* part: sum of shares, weighted by time */
};

/* Names that look alike to a reader are one. */
static struct shown *find_shown(struct shown *items, size_t *n, const char *name, const char *bound)
{
    for (size_t i = 0; i < *n; i++)
        if (strcmp(items[i].name, name) == 0 && (!bound || strcmp(items[i].bound, bound) == 0))
            return &items[i];
    struct shown *ret = &items[(*n)++];
    snprintf(ret->name, sizeof(ret->name), "%s", name);
    ret->bound = bound;
    return ret;
}

static int compare_shown(const void *x, const void *y)
{
    const struct shown *a = x, *b = y;

    return (a->time < b->time) - (a->time > b->time);
}

/* "gemm_kernel 35 %, attention_kernel 30 %": of the sum of all computing kernels that are looked at. */
static int name_kernels(const struct rule_context *context, char *buf, size_t size)
{
    _cleanup_(aggregated_done) struct aggregated names = {0};
    int r = rule_context_names(context, &names);
    _cleanup_(freep) struct shown *kernels = calloc(names.n + 1, sizeof(*kernels));
    double all = 0;
    size_t n = 0;

    if (r < 0 || !kernels)
        return r < 0 ? r : -ENOMEM;
    for (size_t i = 0; i < names.n; i++) {
        char name[NAME_MAX_SHOWN + 1];
        const struct group *g = &names.items[i];
        if (g->key.part[2] != GPU_COMPUTE)
            continue;
        /* Sums come the largest first: late ones are only a part of the sum. */
        if (n < KERNELS_COMPARED)
            find_shown(kernels, &n, finding_name(name, group_text(&names, g, 0)), NULL)->time +=
                (double)g->values[0].sum;
        all += (double)g->values[0].sum;
    }
    qsort(kernels, n, sizeof(*kernels), compare_shown);
    for (size_t i = 0; i < MIN(n, (size_t)KERNELS_SHOWN); i++)
        finding_append(buf, size, "%s%s %.0f %%", i ? ", " : "", kernels[i].name,
                       100 * kernels[i].time / all);
    return 0;
}

/* "aten::mm reaches 45 % of the GPU's compute peak": where the trace has shapes and the peaks are known; the
 * mean of an operator's shapes, weighted by their time. */
static int name_roofs(const struct rule_context *context, char *buf, size_t size)
{
    struct report_rows rows;
    const struct report *report = &report_roofline;
    size_t op = report_column_find(report, "operator"), bound = report_column_find(report, "bound"),
           share = report_column_find(report, "roof_share"), time = report_column_find(report, "device_ns"),
           n = 0;
    int r = report_make(report, context->analysis, &rows);
    _cleanup_(freep) struct shown *operators = calloc(report_rows_count(&rows) + 1, sizeof(*operators));

    for (size_t i = 0; operators && r >= 0 && i < report_rows_count(&rows) && n < OPERATORS_COMPARED; i++) {
        const struct cell *name = report_rows_at(&rows, i, op), *what = report_rows_at(&rows, i, bound),
                          *part = report_rows_at(&rows, i, share), *ns = report_rows_at(&rows, i, time);
        char shown[NAME_MAX_SHOWN + 1];
        if (name->type != CELL_TEXT || what->type != CELL_TEXT || part->type != CELL_REAL ||
            ns->type != CELL_INT)
            continue;
        finding_text(shown, (struct text){name->text, strlen(name->text)});
        struct shown *item = find_shown(operators, &n, shown, what->text);
        item->time += (double)ns->integer;
        item->part += part->real * (double)ns->integer;
    }
    if (operators)
        qsort(operators, n, sizeof(*operators), compare_shown);
    for (size_t i = 0; operators && i < MIN(n, (size_t)OPERATORS_SHOWN); i++)
        finding_append(buf, size, "%s%s reaches %.0f %% of the GPU's %s peak", i ? ", " : "; ",
                       operators[i].name, 100 * operators[i].part / operators[i].time, operators[i].bound);
    report_rows_done(&rows);
    return !operators ? -ENOMEM : r == -ENODATA ? 0 : r;
}

/* "; step p50 12 ms; 2,048 tokens a second of step time" */
static int name_steps(const struct rule_context *context, char *buf, size_t size)
{
    size_t n = 0, most = 0, with_tokens = 0;
    int64_t tokens = 0, time = 0;
    char median[UNIT_TEXT_MAX];

    for (size_t k = 0; k < context->n; k++)
        most += context->ranks[k].steps->n;
    _cleanup_(freep) int64_t *durs = calloc(most + 1, sizeof(*durs));
    if (!durs)
        return -ENOMEM;
    for (size_t k = 0; k < context->n; k++)
        for (size_t i = 0; i < context->ranks[k].steps->n; i++) {
            const struct step *step = &context->ranks[k].steps->items[i];
            if (step->n_events == 0 || !rule_context_has(&context->ranks[k], step->ts))
                continue;
            durs[n++] = step->end - step->ts;
            if (step->tokens == COLUMN_NULL || step->tokens <= 0)
                continue;
            tokens = add_time(tokens, step->tokens);
            time = add_time(time, step->end - step->ts);
            with_tokens++;
        }
    if (n == 0)
        return 0;
    sort_ns(durs, n);
    finding_append(buf, size, "; step p50 %s (%zu step%s)", format_duration(median, percentile(durs, n, 50)),
                   n, n == 1 ? "" : "s");
    if (with_tokens > 0 && time > 0)
        finding_append(buf, size, ", %.0f tokens per second of step time",
                       (double)tokens / ((double)time / 1e9));
    return 0;
}

static int gpu_bound_evaluate(const struct rule_context *context, const struct rule *rule,
                              struct report_rows *ret)
{
    struct finding f = {.cost = COLUMN_NULL, .confidence = CONFIDENCE_CERTAIN};
    char figures[FIGURES_MAX];
    int64_t compute = 0, recorded = 0;
    int r = gpu_bound_computing(context, &compute);

    for (size_t i = 0; i < context->n; i++)
        recorded = add_time(recorded, context->ranks[i].recorded -
                                          (context->ranks[i].edge.to - context->ranks[i].edge.from));
    if (r < 0 || rule_context_share(context, compute) < COMPUTE_SHARE_MIN ||
        (double)compute < RECORDED_SHARE_MIN * (double)recorded)
        return r;
    snprintf(f.what, sizeof(f.what), "GPU-bound: kernels compute for %s",
             finding_figures(figures, context, compute));
    snprintf(f.evidence, sizeof(f.evidence), "share of computing kernel time: ");
    r = name_kernels(context, f.evidence, sizeof(f.evidence));
    if (r >= 0)
        r = name_roofs(context, f.evidence, sizeof(f.evidence));
    if (r >= 0)
        r = name_steps(context, f.evidence, sizeof(f.evidence));
    snprintf(f.where, sizeof(f.where), "see the reports kernels, layers and sequences");
    finding_emit(context, rule, &f, ret);
    return r;
}

const struct rule rule_gpu_bound = {
    .name = "gpu_bound",
    .report = "kernels",
    .ground = "kernel times in the trace; peaks from the data sheet of the GPU",
    .advice = "use faster kernels for the largest shares, a lower precision, or less computation; the report "
              "roofline shows the achieved share of the GPU's peaks, if shapes were recorded",
    .evaluate = gpu_bound_evaluate,
};
