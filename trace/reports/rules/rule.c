/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/rules/rule.h"

#include "base/units.h"
#include "trace/reports/kernel_name.h"

#include <math.h>

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
static void measure(char *buf, size_t size, const struct scene *scene)
{
    char ranks[32] = "";

    if (scene->n > 1)
        snprintf(ranks, sizeof(ranks), " on %zu ranks", scene->n);
    if (scene->is_by_step)
        snprintf(buf, size, "cost: a step's, mean of %lld steps%s", (long long)scene->units, ranks);
    else
        snprintf(buf, size, "cost: of the whole span%s%s", scene->n > 1 ? ", mean" : "", ranks);
}

static void put_advice(const struct scene *scene, const struct rule *rule, struct report_rows *ret)
{
    const char *vllm = scene->engine == ENGINE_VLLM || scene->engine == ENGINE_UNKNOWN ? rule->vllm : NULL,
               *sglang =
                   scene->engine == ENGINE_SGLANG || scene->engine == ENGINE_UNKNOWN ? rule->sglang : NULL;

    put_format(ret, "%s%s%s%s%s", rule->advice, vllm ? "; vLLM: " : "", vllm ? vllm : "",
               sglang ? "; SGLang: " : "", sglang ? sglang : "");
}

bool finding_matters(const struct scene *scene, const struct rule *rule, const struct finding *finding)
{
    return finding->cost == COLUMN_NULL ||
           (finding->cost > 0 && scene_share(scene, finding->cost) >= rule->share_min);
}

void finding_put(const struct scene *scene, const struct rule *rule, const struct finding *finding,
                 struct report_rows *ret)
{
    bool is_cost = finding->cost != COLUMN_NULL;
    double share = is_cost ? scene_share(scene, finding->cost) : 0;
    char unit[96] = "";

    if (!finding_matters(scene, rule, finding))
        return;
    if (is_cost)
        measure(unit, sizeof(unit), scene);
    put_str(ret, rule->name);
    put_str(ret, severity_of(share));
    put_int(ret, is_cost ? scene_mean(scene, finding->cost) : COLUMN_NULL);
    put_real(ret, is_cost ? share : NAN);
    put_str(ret, finding->what);
    put_str(ret, finding->where);
    put_format(ret, "%s%s%s", finding->evidence, *finding->evidence && *unit ? "; " : "", unit);
    put_advice(scene, rule, ret);
    put_str(ret, confidence_name(finding->confidence));
    put_str(ret, *finding->ground ? finding->ground : rule->ground);
    put_str(ret, rule->report);
    for (size_t i = 0; i < _TIME_KIND_MAX; i++)
        put_int(ret, is_cost ? scene_mean(scene, finding->of[i]) : COLUMN_NULL);
}

char *finding_figures(char buf[FIGURES_MAX], const struct scene *scene, int64_t cost)
{
    char part[UNIT_TEXT_MAX], whole[UNIT_TEXT_MAX];

    snprintf(buf, FIGURES_MAX, "%s of %s%s (%.0f %%)", format_duration(part, scene_mean(scene, cost)),
             format_duration(whole, scene_mean(scene, scene->length)), scene->is_by_step ? " a step" : "",
             100 * scene_share(scene, cost));
    return buf;
}

char *finding_place(char buf[PLACE_MAX], const struct scene *scene, size_t rank, int64_t from, int64_t to)
{
    int64_t since = analysis_since_first(scene->analysis, rank, from),
            until = analysis_since_first(scene->analysis, rank, to);
    char who[32] = "";

    if (scene->n > 1)
        snprintf(who, sizeof(who), "rank %lld, ", (long long)scene->analysis->ranks[rank].number);
    /* Finer than people say durations: it is to be given to --from and --to. */
    if (since != COLUMN_NULL && until != COLUMN_NULL)
        snprintf(buf, PLACE_MAX, "%s%.3fms to %.3fms", who, (double)since / 1e6, (double)until / 1e6);
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
