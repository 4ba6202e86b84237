/* SPDX-License-Identifier: Apache-2.0 */
#include "base/metrics.h"

#include "base/clock.h"
#include "base/util.h"
#include <math.h>

/* -- Histograms ----------------------------------------------------------------------------------------- */

/* clang-format off */
const struct histogram_bounds histogram_bounds[_HISTOGRAM_SCALE_MAX] = {
    [SCALE_WORK] = {14, {5 * NS_PER_MS, 10 * NS_PER_MS, 50 * NS_PER_MS, 100 * NS_PER_MS, 500 * NS_PER_MS,
                         NS_PER_S, 2 * NS_PER_S, 5 * NS_PER_S, 10 * NS_PER_S, 30 * NS_PER_S,
                         60 * NS_PER_S, 300 * NS_PER_S, 600 * NS_PER_S, 1800 * NS_PER_S}},
    [SCALE_ANSWERS] = {6, {NS_PER_MS, 10 * NS_PER_MS, 100 * NS_PER_MS, NS_PER_S, 10 * NS_PER_S, 60 * NS_PER_S}},
};
/* clang-format on */

void histogram_add(struct histogram *h, int64_t duration_ns)
{
    const struct histogram_bounds *bounds = &histogram_bounds[h->scale];
    size_t i = 0;

    while (i < bounds->n && duration_ns > bounds->ns[i])
        i++;
    h->counts[i]++;
    h->sum_ns += MAX(duration_ns, INT64_C(0));
}

/* -- Prometheus' text format ---------------------------------------------------------------------------- */

#define VALUE_TEXT_MAX 64

struct prometheus_text prometheus_text(const char *text, size_t size)
{
    return (struct prometheus_text){text, text + size};
}

/* At the quote that ends a text which began before p, or at the end. */
static const char *prometheus_quoted_end(const char *p, const char *end)
{
    while (p < end && *p != '"')
        p += *p == '\\' ? 2 : 1;
    return MIN(p, end);
}

/* At the closing brace of a label set that starts at p; NULL where it does not end. */
static const char *prometheus_labels_end(const char *p, const char *end)
{
    for (; p < end; p++) {
        if (*p == '"')
            p = prometheus_quoted_end(p + 1, end);
        else if (*p == '}')
            return p;
    }
    return NULL;
}

static bool prometheus_parse_sample(const char *line, const char *end, struct prometheus_sample *ret)
{
    struct prometheus_sample sample = {.name = line};
    char text[VALUE_TEXT_MAX];
    const char *p = line;

    while (p < end && *p != '{' && *p != ' ' && *p != '\t')
        p++;
    sample.name_len = (size_t)(p - line);
    if (sample.name_len == 0 || *line == '#' || p == end)
        return false;
    if (*p == '{') {
        sample.labels = p + 1;
        p = prometheus_labels_end(sample.labels, end);
        if (!p)
            return false;
        sample.labels_len = (size_t)(p++ - sample.labels);
    }
    size_t n = MIN((size_t)(end - p), sizeof(text) - 1);
    memcpy(text, p, n);
    text[n] = '\0';
    char *stop;
    sample.value = strtod(text, &stop);
    if (stop == text || !isfinite(sample.value))
        return false;
    *ret = sample;
    return true;
}

bool prometheus_next(struct prometheus_text *text, struct prometheus_sample *ret)
{
    while (text->next < text->end) {
        const char *line = text->next, *eol = memchr(line, '\n', (size_t)(text->end - line));
        if (!eol)
            eol = text->end;
        text->next = MIN(eol + 1, text->end);
        if (prometheus_parse_sample(line, eol, ret))
            return true;
    }
    return false;
}

bool prometheus_is(const struct prometheus_sample *sample, const char *name)
{
    return strlen(name) == sample->name_len && memcmp(name, sample->name, sample->name_len) == 0;
}

bool prometheus_label(const struct prometheus_sample *sample, const char *label, const char **ret,
                      size_t *ret_len)
{
    const char *p = sample->labels;
    size_t n = strlen(label);

    if (!p)
        return false;
    const char *end = p + sample->labels_len;
    while (p < end) {
        p += strspn(p, ", ");
        const char *name = p, *quote = memchr(p, '"', (size_t)(end - p));
        if (!quote)
            return false;
        const char *stop = prometheus_quoted_end(quote + 1, end);
        if ((size_t)(quote - name) > n && memcmp(name, label, n) == 0 && name[n] == '=') {
            *ret = quote + 1;
            *ret_len = (size_t)(stop - *ret);
            return true;
        }
        p = stop + 1;
    }
    return false;
}
