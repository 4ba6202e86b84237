/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/sample.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/statistics.h"

/* A gap has two halves: all are counted by the upper one, and where a rank is wanted, by the lower. */
#define HALF_BITS   16
#define HALF_VALUES (1u << HALF_BITS)

static const char *const figure_names[_FIGURE_MAX] = {
    [FIGURE_TTFT] = "ttft_ms",
    [FIGURE_ITL] = "itl_ms",
    [FIGURE_TPOT] = "tpot_ms",
    [FIGURE_E2E] = "e2e_ms",
    [FIGURE_LATENESS] = "send_lateness_ms",
};

const char *figure_name(enum figure f)
{
    return figure_names[f];
}

bool figure_of(enum figure f, const struct request_record *r, int64_t *ret)
{
    switch (f) {
    case FIGURE_TTFT:
        *ret = r->first_ns - r->intended_ns;
        return r->first_ns >= 0;
    case FIGURE_E2E:
        *ret = r->end_ns - r->intended_ns;
        return r->end_ns >= 0;
    case FIGURE_LATENESS:
        *ret = r->sent_ns - r->intended_ns;
        return r->sent_ns >= 0;
    case FIGURE_TPOT:
        /* Tokens that all came at one moment say nothing of the time between them. */
        if (r->output_tokens < 2 || r->first_ns < 0 || r->end_ns < 0 || r->last_ns == r->first_ns)
            return false;
        *ret = (r->end_ns - r->first_ns) / (r->output_tokens - 1);
        return true;
    default:
        return false;
    }
}

static void count_coarse(struct sample *s)
{
    s->coarse = xcalloc(HALF_VALUES, sizeof(*s->coarse));
    for (size_t i = 0; i < s->n_requests; i++)
        for (uint32_t g = 0; g < s->requests[i]->n_gaps; g++)
            s->coarse[s->requests[i]->gaps_us[g] >> HALF_BITS]++;
}

void sample_of(enum figure f, const struct request_record *records, size_t n,
               bool (*belongs)(const struct request_record *r), struct sample *ret)
{
    struct sample s = {.figure = f};

    s.requests = xcalloc(n, sizeof(*s.requests));
    if (f != FIGURE_ITL)
        s.values = xcalloc(n, sizeof(*s.values));
    for (size_t i = 0; i < n; i++) {
        const struct request_record *r = &records[i];
        if (!belongs(r) || (f == FIGURE_ITL ? r->n_gaps == 0 : !figure_of(f, r, &s.values[s.n_requests])))
            continue;
        s.requests[s.n_requests++] = r;
        s.n += f == FIGURE_ITL ? r->n_gaps : 1;
    }
    if (f == FIGURE_ITL) {
        count_coarse(&s);
    } else {
        s.sorted = xcalloc(s.n, sizeof(*s.sorted));
        if (s.n > 0)
            memcpy(s.sorted, s.values, s.n * sizeof(*s.sorted));
        sort_ns(s.sorted, s.n);
    }
    *ret = s;
}

void sample_done(struct sample *s)
{
    free(s->requests);
    free(s->values);
    free(s->sorted);
    free(s->coarse);
    *s = (struct sample){0};
}

/* The value whose counts hold a rank; *rank becomes what is left of it among its equals. */
static uint32_t counted_at(const uint64_t *counts, uint64_t *rank)
{
    uint32_t value = 0;

    while (*rank >= counts[value])
        *rank -= counts[value++];
    return value;
}

static void gaps_at(const struct sample *s, const uint64_t *ranks, size_t n, int64_t *ret)
{
    _cleanup_(freep) uint64_t *fine = xcalloc(n * HALF_VALUES, sizeof(*fine));
    _cleanup_(freep) uint64_t **wanted = xcalloc(HALF_VALUES, sizeof(*wanted));
    uint64_t left[SAMPLE_RANKS_MAX];
    uint32_t upper[SAMPLE_RANKS_MAX];

    for (size_t k = 0; k < n; k++) {
        left[k] = ranks[k];
        upper[k] = counted_at(s->coarse, &left[k]);
        if (!wanted[upper[k]])
            wanted[upper[k]] = fine + k * HALF_VALUES;
    }
    for (size_t i = 0; i < s->n_requests; i++)
        for (uint32_t g = 0; g < s->requests[i]->n_gaps; g++) {
            uint32_t gap = s->requests[i]->gaps_us[g];
            if (wanted[gap >> HALF_BITS])
                wanted[gap >> HALF_BITS][gap & (HALF_VALUES - 1)]++;
        }
    for (size_t k = 0; k < n; k++)
        ret[k] = (((int64_t)upper[k] << HALF_BITS) + counted_at(wanted[upper[k]], &left[k])) * NS_PER_US;
}

void sample_at(const struct sample *s, const uint64_t *ranks, size_t n, int64_t *ret)
{
    if (s->figure == FIGURE_ITL) {
        gaps_at(s, ranks, n, ret);
        return;
    }
    for (size_t k = 0; k < n; k++)
        ret[k] = s->sorted[ranks[k]];
}

static void part_add(struct sample_part *part, double value, double centre, double bound)
{
    part->sum += value;
    part->squares += (value - centre) * (value - centre);
    part->n++;
    part->below += value <= bound;
}

struct sample_part sample_part(const struct sample *s, size_t request, double centre, double bound)
{
    const struct request_record *r = s->requests[request];
    struct sample_part part = {0};

    if (s->figure != FIGURE_ITL)
        part_add(&part, (double)s->values[request], centre, bound);
    else
        for (uint32_t g = 0; g < r->n_gaps; g++)
            part_add(&part, (double)r->gaps_us[g] * NS_PER_US, centre, bound);
    return part;
}
