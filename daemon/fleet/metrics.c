/* SPDX-License-Identifier: Apache-2.0 */
/* Prometheus text, as far as a sum over one metric needs it. */
#include "daemon/fleet/engine.h"

#include <math.h>

#define SAMPLE_VALUE_MAX 64

/* Behind the closing brace of a label set that starts at p; NULL where it does not end. */
static const char *skip_labels(const char *p, const char *end)
{
    bool quoted = false;

    for (; p < end; p++) {
        if (quoted && *p == '\\')
            p++;
        else if (*p == '"')
            quoted = !quoted;
        else if (!quoted && *p == '}')
            return p + 1;
    }
    return NULL;
}

/* The value of a sample line of this metric; NAN where it is another's or none. */
static double sample_value(const char *line, const char *end, const char *metric, size_t n)
{
    char text[SAMPLE_VALUE_MAX];
    const char *p = line + n;

    if ((size_t)(end - line) <= n || memcmp(line, metric, n) != 0)
        return NAN;
    if (*p == '{')
        p = skip_labels(p, end);
    else if (*p != ' ' && *p != '\t')
        return NAN;
    if (!p)
        return NAN;
    snprintf(text, sizeof(text), "%.*s", (int)MIN((size_t)(end - p), sizeof(text) - 1), p);
    char *stop;
    double value = strtod(text, &stop);
    return stop == text || !isfinite(value) ? NAN : value;
}

bool metrics_sum(const char *text, size_t size, const char *metric, double *ret)
{
    const char *end = text + size;
    size_t n = strlen(metric);
    double sum = 0;
    bool found = false;

    for (const char *line = text; line < end;) {
        const char *eol = memchr(line, '\n', (size_t)(end - line));
        if (!eol)
            eol = end;
        double value = sample_value(line, eol, metric, n);
        if (!isnan(value)) {
            sum += value;
            found = true;
        }
        line = eol + 1;
    }
    if (found)
        *ret = sum;
    return found;
}

bool metrics_has_prefix(const char *text, size_t size, const char *prefix)
{
    const char *end = text + size;
    size_t n = strlen(prefix);

    for (const char *line = text; line < end;) {
        const char *eol = memchr(line, '\n', (size_t)(end - line));
        if (!eol)
            eol = end;
        if ((size_t)(eol - line) >= n && memcmp(line, prefix, n) == 0)
            return true;
        line = eol + 1;
    }
    return false;
}
