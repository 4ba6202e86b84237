/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/condition.h"

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

bool condition_is_met(const struct condition *c, int64_t before_ns, int64_t after_ns)
{
    double value = (double)after_ns;

    if (c->is_change)
        value -= (double)before_ns;
    /* From nothing to something is more than any share. */
    if (c->is_share)
        value = before_ns != 0 ? value / (double)before_ns : value > 0 ? INFINITY : value < 0 ? -INFINITY : 0;
    return c->is_below ? value < c->bound : value > c->bound;
}
