/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/condition.h"

#include "base/alloc.h"
#include "base/units.h"
#include <errno.h>
#include <math.h>

static const char *skip_blank(const char *p)
{
    return p + strspn(p, " \t");
}

/* "5%", "1.5 %" */
static int parse_share(const char *text, double *ret)
{
    char *end;

    if (*text < '0' || *text > '9')
        return -EINVAL;
    errno = 0;
    *ret = strtod(text, &end) / 100;
    end = (char *)skip_blank(end);
    return errno == 0 && isfinite(*ret) && end[0] == '%' && !*skip_blank(end + 1) ? 0 : -EINVAL;
}

int condition_parse(const char *text, struct condition *ret)
{
    struct condition c = {0};
    const char *p = skip_blank(text);
    size_t n = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789._");
    int64_t ns;

    if (n == 0 || n >= sizeof(c.measure))
        return -EINVAL;
    memcpy(c.measure, p, n);
    p = skip_blank(p + n);
    if (*p != '<' && *p != '>')
        return -EINVAL;
    c.is_below = *p == '<';
    p = skip_blank(p + 1);
    c.is_change = *p == '+' || *p == '-';
    bool negative = *p == '-';
    if (c.is_change)
        p = skip_blank(p + 1);
    if (parse_share(p, &c.bound) >= 0)
        c.is_share = true;
    else if (*p >= '0' && *p <= '9' && parse_duration(p, &ns) >= 0 && ns < INT64_MAX)
        c.bound = (double)ns;
    else
        return -EINVAL;
    /* A share is one of what was before: without a sign it would be of nothing. */
    if (c.is_share && !c.is_change)
        return -EINVAL;
    if (negative)
        c.bound = -c.bound;
    *ret = c;
    return 0;
}

/* The bound as a limit of after - factor * before. A share of the change is one, too: after is compared with
 * (1 + share) * before, so that the interval holds however uncertain `before` is. */
static double factor_of(const struct condition *c)
{
    return !c->is_change ? 0 : c->is_share ? 1 + c->bound : 1;
}

static double limit_of(const struct condition *c, double ns_of_unit)
{
    return c->is_share ? 0 : c->bound / ns_of_unit;
}

static bool is_beyond(const struct condition *c, double value, double limit)
{
    return c->is_below ? value < limit : value > limit;
}

struct condition_decision condition_decide(const struct condition *c, const struct estimate *before,
                                           const struct estimate *after, double ns_of_unit, bool by_estimate)
{
    double factor = factor_of(c), limit = limit_of(c, ns_of_unit);
    struct contrast beyond = estimate_contrast(before, after, factor),
                    shown = estimate_contrast(before, after, c->is_change ? 1 : 0);
    double unit = c->is_share ? before->value : 1;
    struct condition_decision d = {
        CONDITION_UNDECIDED, shown.value / unit, shown.low / unit, shown.high / unit, 0, false};

    /* No comparison with a missing value is an answer: it must not pass for a condition that is not met. */
    if (!isfinite(beyond.value))
        return d;
    d.has_values = true;
    if (by_estimate ? is_beyond(c, beyond.value, limit)
                    : is_beyond(c, beyond.low, limit) && is_beyond(c, beyond.high, limit))
        d.result = CONDITION_MET;
    else if (by_estimate ||
             (isfinite(beyond.low) && !is_beyond(c, beyond.low, limit) && !is_beyond(c, beyond.high, limit)))
        d.result = CONDITION_NOT_MET;
    else
        d.units_needed = estimate_units_needed(before, after, factor, beyond.value - limit);
    return d;
}

static char *condition_value_text(const struct condition *c, double value, double ns_of_unit)
{
    double ms = value * ns_of_unit / 1e6;

    return c->is_share    ? xasprintf("%+.1f %%", 100 * value)
           : c->is_change ? xasprintf("%+.3f ms", ms)
                          : xasprintf("%.3f ms", ms);
}

char *condition_decision_text(const struct condition *c, const struct condition_decision *d,
                              double ns_of_unit)
{
    _cleanup_(freep) char *value = condition_value_text(c, d->value, ns_of_unit),
                          *low = condition_value_text(c, d->low, ns_of_unit),
                          *high = condition_value_text(c, d->high, ns_of_unit);

    if (!d->has_values)
        return xstrdup("no value");
    if (!isfinite(d->value))
        return xstrdup("no share: the first side is zero");
    return isfinite(d->low) ? xasprintf("%s, 95 %% interval %s to %s", value, low, high)
                            : xasprintf("%s, 95 %% interval unknown", value);
}
