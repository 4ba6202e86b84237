/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/rules/rule.h"

#include "base/units.h"
#include "trace/reports/kernel_name.h"
#include <math.h>
#include <stdarg.h>

/* Shares of the time looked at from which on a finding is called so. */
#define SEVERITY_HIGH   0.20
#define SEVERITY_MEDIUM 0.05
#define SEVERITY_LOW    0.01

/* What a text that was cut ends in. */
#define ELLIPSIS "..."

static const char *severity_of(double share)
{
    return share >= SEVERITY_HIGH     ? "high"
           : share >= SEVERITY_MEDIUM ? "medium"
           : share >= SEVERITY_LOW    ? "low"
                                      : "info";
}

static const char *confidence_name(enum confidence confidence)
{
    static const char *const words[] = {
        [CONFIDENCE_CERTAIN] = "certain",
        [CONFIDENCE_INFERRED] = "inferred",
    };

    return words[confidence];
}

/* "mean of 24 steps on 4 ranks" */
static void finding_measure(char *buf, size_t size, const struct rule_context *context)
{
    char ranks[32] = "";

    if (context->n > 1)
        snprintf(ranks, sizeof(ranks), "%zu ranks", context->n);
    if (context->is_by_step)
        snprintf(buf, size, "cost: per step, mean of %lld steps%s%s", (long long)context->units,
                 *ranks ? " on " : "", ranks);
    else
        snprintf(buf, size, "cost: over the entire span%s%s", *ranks ? ", mean of " : "", ranks);
}

static void finding_emit_advice(const struct rule_context *context, const struct rule *rule,
                                struct report_rows *ret)
{
    const char *vllm =
                   context->engine == ENGINE_VLLM || context->engine == ENGINE_UNKNOWN ? rule->vllm : NULL,
               *sglang = context->engine == ENGINE_SGLANG || context->engine == ENGINE_UNKNOWN ? rule->sglang
                                                                                               : NULL;

    emit_format(ret, "%s%s%s%s%s", rule->advice, vllm ? "; vLLM: " : "", vllm ? vllm : "",
                sglang ? "; SGLang: " : "", sglang ? sglang : "");
}

bool finding_matters(const struct rule_context *context, const struct rule *rule,
                     const struct finding *finding)
{
    return finding->cost == COLUMN_NULL ||
           (finding->cost > 0 && rule_context_share(context, finding->cost) >= rule->share_min);
}

void finding_emit(const struct rule_context *context, const struct rule *rule, const struct finding *finding,
                  struct report_rows *ret)
{
    bool is_cost = finding->cost != COLUMN_NULL;
    double share = is_cost ? rule_context_share(context, finding->cost) : 0;
    char unit[96] = "";

    if (!finding_matters(context, rule, finding))
        return;
    if (is_cost)
        finding_measure(unit, sizeof(unit), context);
    emit_str(ret, rule->name);
    emit_str(ret, severity_of(share));
    emit_int(ret, is_cost ? rule_context_mean(context, finding->cost) : COLUMN_NULL);
    emit_real(ret, is_cost ? share : NAN);
    emit_str(ret, finding->what);
    emit_str(ret, finding->where);
    emit_format(ret, "%s%s%s", finding->evidence, *finding->evidence && *unit ? "; " : "", unit);
    finding_emit_advice(context, rule, ret);
    emit_str(ret, confidence_name(finding->confidence));
    emit_str(ret, *finding->ground ? finding->ground : rule->ground);
    emit_str(ret, rule->report);
    for (size_t i = 0; i < _TIME_KIND_MAX; i++)
        emit_int(ret, is_cost ? rule_context_mean(context, finding->of[i]) : COLUMN_NULL);
}

void finding_append(char *buf, size_t size, const char *format, ...)
{
    size_t used = strlen(buf);
    va_list ap;

    va_start(ap, format);
    vsnprintf(buf + used, size - used, format, ap);
    va_end(ap);
}

char *finding_figures(char buf[FIGURES_MAX], const struct rule_context *context, int64_t cost)
{
    char part[UNIT_TEXT_MAX], whole[UNIT_TEXT_MAX];

    snprintf(buf, FIGURES_MAX, "%s of %s%s (%.0f %%)",
             format_duration(part, rule_context_mean(context, cost)),
             format_duration(whole, rule_context_mean(context, context->length)),
             context->is_by_step ? " per step" : "", 100 * rule_context_share(context, cost));
    return buf;
}

char *finding_place(char buf[PLACE_MAX], const struct rule_context *context, size_t rank, int64_t from,
                    int64_t to)
{
    int64_t since = analysis_since_first(context->analysis, rank, from),
            until = analysis_since_first(context->analysis, rank, to);
    char who[32] = "";

    if (context->n > 1)
        snprintf(who, sizeof(who), "rank %lld, ", (long long)context->analysis->ranks[rank].number);
    /* More precise than other durations, for use with --from and --to. */
    if (since != COLUMN_NULL && until != COLUMN_NULL)
        snprintf(buf, PLACE_MAX, "%s%.3f ms to %.3f ms", who, (double)since / 1e6, (double)until / 1e6);
    else
        snprintf(buf, PLACE_MAX, "%san unknown time", who);
    return buf;
}

char *finding_text(char buf[NAME_MAX_SHOWN + 1], struct text text)
{
    size_t n = text.size <= NAME_MAX_SHOWN ? text.size : NAME_MAX_SHOWN - strlen(ELLIPSIS);

    /* Bytes 10xxxxxx continue a character of UTF-8: the character that the cut divides is left out. */
    while (n < text.size && n > 0 && ((unsigned char)text.p[n] & 0xc0) == 0x80)
        n--;
    snprintf(buf, NAME_MAX_SHOWN + 1, "%.*s%s", (int)n, text.p ? text.p : "", n < text.size ? ELLIPSIS : "");
    return buf;
}

char *finding_name(char buf[NAME_MAX_SHOWN + 1], struct text name)
{
    char *normal = kernel_name_normal(name);

    finding_text(buf, (struct text){normal, normal ? strlen(normal) : 0});
    free(normal);
    return buf;
}
