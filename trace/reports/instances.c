/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engine instances side by side, as replicas of one service: how long their steps take, how busy their GPUs
 * are, and which of them differ from the others with the same role in the same phase.
 */
#include "base/array.h"
#include "base/statistics.h"
#include "trace/reports/report.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>

/* Fewer steps do not show how long an instance's steps usually are. */
#define STEPS_MIN 5
/* Replicas never take exactly as long as each other: a smaller difference is nothing to act on. */
#define FACTOR_MIN 1.1
/* The same of shares of the GPU's time. */
#define SHARE_MIN 0.1
/* Instances that one is compared with; as many traces can be looked at together. */
#define COMPARED_MAX 256

#define INSTANCES_COLUMNS(C)                                                                                 \
    C(instance, TEXT, "engine instance: the ranks that run one copy of a model", .is_identity = true)        \
    C(role, TEXT, "role: prefill, decode, ...; empty if unknown", IMPORTANCE_LOW)                            \
    C(ranks, COUNT, "number of ranks with a trace")                                                          \
    C(phase, TEXT, "phase of most of its steps; the next four columns are of that phase", IMPORTANCE_EXTRA)  \
    C(steps, COUNT, "number of steps of that phase; the ranks of a step count once")                         \
    C(step_p50_ns, NS, "median duration of a step, of the slowest rank")                                     \
    C(step_p99_ns, NS, "99th percentile of the step duration, of the slowest rank")                          \
    C(tokens_per_step, FACTOR, "mean number of tokens per step, if step names contain it", IMPORTANCE_LOW)   \
    C(busy_share, SHARE, "share of the GPU span with activity")                                              \
    C(exposed_share, SHARE, "share of the GPU span with communication and no computation")                   \
    C(kv_use, SHARE, "peak KV cache usage during the benchmark run of the session, if known",                \
      IMPORTANCE_EXTRA)                                                                                      \
    C(outlier, TEXT, "differences from the other instances of its role and phase", .is_prose = true)
REPORT_ROW(instances, INSTANCES_COLUMNS);

struct measured_instance {
    const char *name, *role;
    size_t n_ranks;
    enum step_phase phase;
    int64_t *steps; /* durations, sorted */
    size_t n_steps;
    double tokens; /* of a step; NaN unknown */
    int64_t span, busy, exposed;
    double kv_use;
    char outlier[512];
};

/* -- One instance ------------------------------------------------------------------------------------- */

struct lasting {
    int64_t index, ts, dur, tokens;
    size_t rank;
    size_t occurrence; /* among the steps of its rank with that number, by time */
};

static int compare_occurrences(const void *x, const void *y)
{
    const struct lasting *a = x, *b = y;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    return (a->ts > b->ts) - (a->ts < b->ts);
}

static int compare_lasting(const void *x, const void *y)
{
    const struct lasting *a = x, *b = y;

    if (a->index != b->index)
        return a->index < b->index ? -1 : 1;
    if (a->occurrence != b->occurrence)
        return a->occurrence < b->occurrence ? -1 : 1;
    return (a->dur < b->dur) - (a->dur > b->dur);
}

/* The steps of that phase on all ranks; those that are one step lie together, the longest first. */
static int instances_gather_steps(struct analysis *a, enum step_phase phase, struct lasting **ret,
                                  size_t *ret_n)
{
    size_t cap = 0, n = 0;

    for (size_t rank = 0; rank < a->n; rank++) {
        const struct steps *steps;
        int r = analysis_steps(a, rank, &steps);
        if (r < 0)
            return r;
        for (size_t i = 0; i < steps->n; i++) {
            const struct step *s = &steps->items[i];
            if (!analysis_has_step(a, rank, s) || s->phase != phase)
                continue;
            if (!ARRAY_RESERVE(*ret, cap, n + 1))
                return -ENOMEM;
            (*ret)[n++] = (struct lasting){s->index, s->ts, s->end - s->ts, s->tokens, rank, 0};
        }
    }
    *ret_n = n;
    if (n < 2)
        return 0;
    qsort(*ret, n, sizeof(**ret), compare_occurrences);
    for (size_t i = 1; i < n; i++)
        if ((*ret)[i].rank == (*ret)[i - 1].rank && (*ret)[i].index == (*ret)[i - 1].index)
            (*ret)[i].occurrence = (*ret)[i - 1].occurrence + 1;
    qsort(*ret, n, sizeof(**ret), compare_lasting);
    return 0;
}

static int find_phase(struct analysis *a, enum step_phase *ret)
{
    size_t counts[_STEP_PHASE_MAX] = {0};

    *ret = PHASE_UNKNOWN;
    for (size_t rank = 0; rank < a->n; rank++) {
        const struct steps *steps;
        int r = analysis_steps(a, rank, &steps);
        if (r < 0)
            return r;
        for (size_t i = 0; i < steps->n; i++)
            counts[steps->items[i].phase] += analysis_has_step(a, rank, &steps->items[i]);
    }
    for (int phase = 0; phase < _STEP_PHASE_MAX; phase++)
        if (counts[phase] > counts[*ret])
            *ret = (enum step_phase)phase;
    return 0;
}

/* A step is over when its slowest rank is done: what ranks do at once is one sample. */
static int instances_measure_steps(struct analysis *a, struct measured_instance *ret)
{
    _cleanup_(freep) struct lasting *all = NULL;
    size_t n = 0, n_tokens = 0;
    double tokens = 0;
    int r = find_phase(a, &ret->phase);

    if (r >= 0)
        r = instances_gather_steps(a, ret->phase, &all, &n);
    if (r < 0)
        return r;
    ret->steps = malloc((n + 1) * sizeof(*ret->steps));
    if (!ret->steps)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        bool follows =
            i > 0 && all[i].index == all[i - 1].index && all[i].occurrence == all[i - 1].occurrence;
        if (follows)
            continue; /* of a rank that was done before */
        ret->steps[ret->n_steps++] = all[i].dur;
        if (all[i].tokens != COLUMN_NULL) {
            tokens += (double)all[i].tokens;
            n_tokens++;
        }
    }
    sort_ns(ret->steps, ret->n_steps);
    ret->tokens = n_tokens > 0 ? tokens / (double)n_tokens : NAN;
    return 0;
}

static int instances_measure(struct analysis *a, struct measured_instance *ret)
{
    int r = instances_measure_steps(a, ret);

    for (size_t rank = 0; rank < a->n && r >= 0; rank++) {
        const struct gpu_work *work;
        struct gpu_times times;
        r = analysis_gpu(a, rank, &work);
        if (r >= 0)
            r = gpu_work_times(work, &times);
        if (r < 0)
            break;
        ret->span = add_time(ret->span, times.span);
        ret->busy = add_time(ret->busy, times.busy);
        ret->exposed = add_time(ret->exposed, times.exposed);
    }
    ret->n_ranks = a->n;
    return r;
}

/* -- Against the others ------------------------------------------------------------------------------- */

static bool instances_is_comparable(const struct measured_instance *a, const struct measured_instance *b)
{
    return strcmp(a->role ? a->role : "", b->role ? b->role : "") == 0 && a->phase == b->phase;
}

/* The median over all others that may be compared; NaN where there are none. */
static double instances_usual(const struct measured_instance *all, size_t n, size_t but,
                              double (*value)(const struct measured_instance *m), size_t *ret_others)
{
    double values[COMPARED_MAX];
    size_t n_values = 0;

    for (size_t i = 0; i < n && n_values < ARRAY_SIZE(values); i++) {
        double one = i != but && instances_is_comparable(&all[i], &all[but]) ? value(&all[i]) : NAN;
        if (isfinite(one))
            values[n_values++] = one;
    }
    *ret_others = n_values;
    return sample_median(values, n_values);
}

static double step_percentile(const struct measured_instance *m, unsigned percent)
{
    return m->n_steps < STEPS_MIN ? NAN : (double)percentile(m->steps, m->n_steps, percent);
}

static double step_p25(const struct measured_instance *m)
{
    return step_percentile(m, 25);
}

static double step_p50(const struct measured_instance *m)
{
    return step_percentile(m, 50);
}

static double step_p75(const struct measured_instance *m)
{
    return step_percentile(m, 75);
}

static double instances_tokens_of(const struct measured_instance *m)
{
    return m->tokens;
}

static double busy_of(const struct measured_instance *m)
{
    return m->span > 0 ? (double)m->busy / (double)m->span : NAN;
}

static double exposed_of(const struct measured_instance *m)
{
    return m->span > 0 ? (double)m->exposed / (double)m->span : NAN;
}

static void add_sentence(struct measured_instance *m, const char *format, ...) _printf_(2, 3);
static void add_sentence(struct measured_instance *m, const char *format, ...)
{
    size_t used = strlen(m->outlier);
    va_list ap;

    if (used > 0 && used + 2 < sizeof(m->outlier))
        used += (size_t)snprintf(m->outlier + used, sizeof(m->outlier) - used, "; ");
    va_start(ap, format);
    vsnprintf(m->outlier + used, sizeof(m->outlier) - used, format, ap);
    va_end(ap);
}

/* Steps that take longer: the middle halves of both must not overlap. */
static void instances_compare_steps(struct measured_instance *all, size_t n, size_t i)
{
    size_t others;
    struct measured_instance *m = &all[i];
    double p50 = step_p50(m), usual_p50 = instances_usual(all, n, i, step_p50, &others),
           usual_p75 = instances_usual(all, n, i, step_p75, &others), factor = p50 / usual_p50;

    if (!isfinite(factor) || factor < FACTOR_MIN || step_p25(m) <= usual_p75)
        return;
    add_sentence(m,
                 "steps of %s take %.1f times as long as those of the other instance%s (median %.3g ms "
                 "versus %.3g ms)",
                 m->name, factor, others > 1 ? "s" : "", p50 / 1e6, usual_p50 / 1e6);
    double tokens = instances_tokens_of(m),
           usual_tokens = instances_usual(all, n, i, instances_tokens_of, &others);
    if (!isfinite(tokens) || !isfinite(usual_tokens) || usual_tokens <= 0)
        return;
    if (tokens / usual_tokens >= FACTOR_MIN || usual_tokens / tokens >= FACTOR_MIN)
        add_sentence(m, "with %.4g tokens per step versus %.4g", tokens, usual_tokens);
    else
        add_sentence(m, "with a similar number of tokens per step");
}

static void compare_shares(struct measured_instance *all, size_t n, size_t i)
{
    static const struct {
        double (*value)(const struct measured_instance *m);
        const char *less, *more; /* NULL: not reported */
    } shares[] = {
        {busy_of, "its GPUs are busy %.0f %% of the time versus %.0f %%", NULL},
        {exposed_of, NULL, "communication without computation for %.0f %% of the time versus %.0f %%"},
    };

    for (size_t s = 0; s < ARRAY_SIZE(shares); s++) {
        size_t others;
        double own = shares[s].value(&all[i]), usually = instances_usual(all, n, i, shares[s].value, &others);
        const char *format = own - usually >= SHARE_MIN   ? shares[s].more
                             : usually - own >= SHARE_MIN ? shares[s].less
                                                          : NULL;
        if (format && isfinite(own) && isfinite(usually))
            add_sentence(&all[i], format, 100 * own, 100 * usually);
    }
}

/* ----------------------------------------------------------------------------------------------------- */

static void emit_instance(const struct measured_instance *m, struct report_rows *ret)
{
    EMIT_ROW(instances, ret, .instance = row_str(m->name), .role = row_str(m->role),
             .ranks = (int64_t)m->n_ranks, .phase = row_str(step_phase_name(m->phase)),
             .steps = (int64_t)m->n_steps,
             .step_p50_ns = m->n_steps > 0 ? percentile(m->steps, m->n_steps, 50) : COLUMN_NULL,
             .step_p99_ns = m->n_steps > 0 ? percentile(m->steps, m->n_steps, 99) : COLUMN_NULL,
             .tokens_per_step = m->tokens, .busy_share = busy_of(m), .exposed_share = exposed_of(m),
             .kv_use = m->kv_use, .outlier = row_str(*m->outlier ? m->outlier : NULL));
}

static int instances_make(struct analysis *a, struct report_rows *ret)
{
    const struct engine_instance only = {.n = a->n, .kv_use = NAN};
    size_t n = a->n_instances > 0 ? a->n_instances : 1;
    struct measured_instance *all = calloc(n, sizeof(*all));
    int r = all ? 0 : -ENOMEM;

    for (size_t i = 0; i < n && r >= 0; i++) {
        const struct engine_instance *instance = a->n_instances > 0 ? &a->instances[i] : &only;
        struct analysis one = a->n_instances > 0 ? analysis_of_instance(a, i) : *a;
        all[i] = (struct measured_instance){
            .name = instance->name, .role = instance->role, .kv_use = instance->kv_use, .tokens = NAN};
        if (!all[i].name)
            all[i].name = a->n > 0 ? a->ranks[0].label : "";
        r = instances_measure(&one, &all[i]);
    }
    for (size_t i = 0; i < n && r >= 0; i++) {
        instances_compare_steps(all, n, i);
        compare_shares(all, n, i);
    }
    bool any = false;
    for (size_t i = 0; i < n && r >= 0; i++)
        any = any || all[i].n_steps > 0 || all[i].span > 0;
    for (size_t i = 0; i < n && r >= 0; i++)
        emit_instance(&all[i], ret);
    for (size_t i = 0; all && i < n; i++)
        free(all[i].steps);
    free(all);
    return r < 0 || any ? r : -ENODATA;
}

const struct report report_instances = {
    .name = "instances",
    .role = REPORT_INSTANCES,
    .title = "engine instances compared: steps, tokens, GPU utilisation, outliers",
    .method = "An instance is the ranks that run one copy of a model: those of one worker, or of workers "
              "that share a model according to /server_info or to their collectives. Steps are compared in "
              "the phase of most steps of an instance, with instances of the same role and phase: an "
              "outlier has a median at least 1.1 times that of the others, and its first quartile lies "
              "above their third. Shares differ by at least 10 points.",
    .of_instances = true,
    REPORT_COLUMNS(instances),
    .make = instances_make,
};
