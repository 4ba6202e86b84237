/* SPDX-License-Identifier: Apache-2.0 */
/* A GPU that computes nearly all the time: what it computes, and how near that is to what it can do. */
#include "base/statistics.h"
#include "base/units.h"
#include "trace/reports/name_sums.h"
#include "trace/reports/reports.h"
#include "trace/reports/rules/rules.h"

#include <errno.h>
#include <stdarg.h>

/* Of the time: with less, other things than kernels are worth more. */
#define COMPUTE_SHARE_MIN 0.80
/* Of the recording: a short burst says nothing of what bounds a program. */
#define RECORDED_SHARE_MIN 0.10
#define KERNELS_SHOWN      3
#define OPERATORS_SHOWN    2
/* Number of the largest kernels that are summed up by the names that are shown. */
#define KERNELS_COMPARED   256
#define OPERATORS_COMPARED 256

static int computing(const struct scene *scene, int64_t *ret)
{
    int r = 0;

    for (size_t i = 0; i < scene->n && r >= 0; i++) {
        _cleanup_(intervals_done) struct intervals compute = {0};
        r = gpu_work_busy(scene->ranks[i].work, 1 << GPU_COMPUTE, &compute);
        *ret = add_time(*ret, scene_within(&scene->ranks[i], &compute));
    }
    return r;
}

static void add_words(char *buf, size_t size, const char *format, ...) _printf_(3, 4);
static void add_words(char *buf, size_t size, const char *format, ...)
{
    size_t used = strlen(buf);
    va_list ap;

    va_start(ap, format);
    vsnprintf(buf + used, size - used, format, ap);
    va_end(ap);
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
static int name_kernels(const struct scene *scene, char *buf, size_t size)
{
    _cleanup_(name_sums_done) struct name_sums sums = {0};
    int r = scene_name_sums(scene, &sums);
    _cleanup_(freep) struct shown *kernels = calloc(sums.n + 1, sizeof(*kernels));
    double all = 0;
    size_t n = 0;

    if (r < 0 || !kernels)
        return r < 0 ? r : -ENOMEM;
    for (size_t i = 0; i < sums.n; i++) {
        char name[NAME_MAX_SHOWN + 1];
        if (sums.items[i].kind != GPU_COMPUTE)
            continue;
        /* Sums come the largest first: what comes late is only a part of the whole. */
        if (n < KERNELS_COMPARED)
            find_shown(kernels, &n, finding_name(name, sums.items[i].name), NULL)->time +=
                (double)sums.items[i].sum;
        all += (double)sums.items[i].sum;
    }
    qsort(kernels, n, sizeof(*kernels), compare_shown);
    for (size_t i = 0; i < MIN(n, (size_t)KERNELS_SHOWN); i++)
        add_words(buf, size, "%s%s %.0f %%", i ? ", " : "", kernels[i].name, 100 * kernels[i].time / all);
    return 0;
}

static size_t column_of(const struct report *report, const char *name)
{
    size_t i = 0;

    while (i < report->n_columns && strcmp(report->columns[i].name, name) != 0)
        i++;
    return i;
}

/* "aten::mm reaches 45 % of the GPU's compute peak": where the trace has shapes and the peaks are known; the
 * mean of an operator's shapes, weighted by their time. */
static int name_roofs(const struct scene *scene, char *buf, size_t size)
{
    struct report_rows rows;
    const struct report *report = &report_roofline;
    size_t op = column_of(report, "operator"), bound = column_of(report, "bound"),
           share = column_of(report, "roof_share"), time = column_of(report, "device_ns"), n = 0;
    int r = report_make(report, scene->analysis, &rows);
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
        add_words(buf, size, "%s%s reaches %.0f %% of the GPU's %s peak", i ? ", " : "; ", operators[i].name,
                  100 * operators[i].part / operators[i].time, operators[i].bound);
    report_rows_done(&rows);
    return !operators ? -ENOMEM : r == -ENODATA ? 0 : r;
}

/* "; step p50 12 ms; 2,048 tokens a second of step time" */
static int name_steps(const struct scene *scene, char *buf, size_t size)
{
    size_t n = 0, most = 0, with_tokens = 0;
    int64_t tokens = 0, time = 0;
    char median[UNIT_TEXT_MAX];

    for (size_t k = 0; k < scene->n; k++)
        most += scene->ranks[k].steps->n;
    _cleanup_(freep) int64_t *durs = calloc(most + 1, sizeof(*durs));
    if (!durs)
        return -ENOMEM;
    for (size_t k = 0; k < scene->n; k++)
        for (size_t i = 0; i < scene->ranks[k].steps->n; i++) {
            const struct step *step = &scene->ranks[k].steps->items[i];
            if (step->n_events == 0 || !scene_has(&scene->ranks[k], step->ts))
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
    add_words(buf, size, "; step p50 %s (%zu step%s)", format_duration(median, percentile(durs, n, 50)), n,
              n == 1 ? "" : "s");
    if (with_tokens > 0 && time > 0)
        add_words(buf, size, ", %.0f tokens per second of step time", (double)tokens / ((double)time / 1e9));
    return 0;
}

static int evaluate(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    struct finding f = {.cost = COLUMN_NULL, .confidence = CONFIDENCE_CERTAIN};
    char figures[FIGURES_MAX];
    int64_t compute = 0, recorded = 0;
    int r = computing(scene, &compute);

    for (size_t i = 0; i < scene->n; i++)
        recorded = add_time(recorded,
                            scene->ranks[i].recorded - (scene->ranks[i].edge.to - scene->ranks[i].edge.from));
    if (r < 0 || scene_share(scene, compute) < COMPUTE_SHARE_MIN ||
        (double)compute < RECORDED_SHARE_MIN * (double)recorded)
        return r;
    snprintf(f.what, sizeof(f.what), "GPU-bound: kernels compute for %s",
             finding_figures(figures, scene, compute));
    snprintf(f.evidence, sizeof(f.evidence), "of the time of computing kernels: ");
    r = name_kernels(scene, f.evidence, sizeof(f.evidence));
    if (r >= 0)
        r = name_roofs(scene, f.evidence, sizeof(f.evidence));
    if (r >= 0)
        r = name_steps(scene, f.evidence, sizeof(f.evidence));
    snprintf(f.where, sizeof(f.where),
             "the report kernels has all of them, layers and sequences what recurs");
    finding_put(scene, rule, &f, ret);
    return r;
}

const struct rule rule_gpu_bound = {
    .name = "gpu_bound",
    .report = "kernels",
    .ground = "times of the kernels, as the trace has them; peaks are those of the GPU's data sheet",
    .advice = "faster kernels for what takes most, a lower precision, or less to compute: the report "
              "roofline tells "
              "what operators reach of the GPU's peaks, if shapes were recorded",
    .look = evaluate,
};
