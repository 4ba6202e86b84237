/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/rules/rule.h"

#include "base/units.h"
#include "trace/reports/kernel_name.h"
#include <stdarg.h>

/* What a text that was cut ends in. */
#define ELLIPSIS "..."

bool finding_matters(const struct rule_context *context, const struct rule *rule,
                     const struct finding *finding)
{
    return finding->cost == COLUMN_NULL ||
           (finding->cost > 0 && rule_context_share(context, finding->cost) >= rule->share_min);
}

void finding_append(char *buf, size_t size, const char *format, ...)
{
    size_t used = strlen(buf);
    va_list ap;

    va_start(ap, format);
    vsnprintf(buf + used, size - used, format, ap);
    va_end(ap);
}

void finding_append_shares(char *buf, size_t size, const int64_t *sums, size_t n, int64_t total, double least,
                           const char *(*name)(size_t i))
{
    uint64_t named = 0;

    for (size_t shown = 0; shown < n; shown++) {
        size_t most = n;
        for (size_t i = 0; i < n; i++)
            if (!(named >> i & 1) && (most == n || sums[i] > sums[most]))
                most = i;
        if ((double)sums[most] < least * (double)total)
            return;
        named |= UINT64_C(1) << most;
        finding_append(buf, size, "%s%s %.0f %%", shown ? ", " : "", name(most),
                       100.0 * (double)sums[most] / (double)total);
    }
}

char *finding_figures(char buf[FIGURES_MAX], const struct rule_context *context, int64_t cost)
{
    char part[UNIT_TEXT_MAX], total[UNIT_TEXT_MAX];

    snprintf(buf, FIGURES_MAX, "%s of %s%s (%.0f %%)",
             format_duration(part, rule_context_mean(context, cost)),
             format_duration(total, rule_context_mean(context, context->length)),
             context->is_by_step ? " per step" : "", 100 * rule_context_share(context, cost));
    return buf;
}

void finding_set_place(struct finding *finding, const struct rule_rank *rank, int64_t from, int64_t to,
                       uint64_t slice)
{
    finding->place =
        (struct finding_place){.is_known = true, .rank = rank->rank, .from = from, .to = to, .slice = slice};
}

char *finding_location(char buf[LOCATION_MAX], const struct rule_context *context,
                       const struct finding *finding)
{
    const struct finding_place *place = &finding->place;
    int64_t since = analysis_since_first(context->analysis, place->rank, place->from),
            until = analysis_since_first(context->analysis, place->rank, place->to);
    char who[32] = "";

    if (context->n > 1)
        snprintf(who, sizeof(who), "rank %lld, ", (long long)context->analysis->ranks[place->rank].number);
    /* More precise than other durations, for use with --from and --to. */
    if (since != COLUMN_NULL && until != COLUMN_NULL)
        snprintf(buf, LOCATION_MAX, "%s%.3f ms to %.3f ms", who, (double)since / 1e6, (double)until / 1e6);
    else
        snprintf(buf, LOCATION_MAX, "%san unknown time", who);
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
