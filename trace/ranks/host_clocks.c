/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/ranks/host_clocks.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "trace/export/merge_ranks.h"
#include "trace/read/sum.h"
#include <inttypes.h>

/* Of an instance, those that get a note of their own. */
#define HOSTS_NOTED 4
/* Pairs of ranks that are searched for shared collectives: those of a pipeline share none with most others. */
#define PAIRS_MAX 16
/* By how much a clock may drift after it was measured, one part in that: more than any that works. */
#define DRIFT_PARTS 10000

enum clock_source {
    CLOCK_UNKNOWN,      /* neither */
    CLOCK_MEASURED,     /* no collectives are shared */
    CLOCK_CONTRADICTED, /* the shared collectives are further apart than the clock can be wrong */
    CLOCK_COLLECTIVES,
};

struct host_clock {
    const struct set_rank *reference; /* of the first host of the instance */
    const struct set_rank *first;     /* of this host */
    enum clock_source source;
    struct alignment by;
    int64_t error_ns; /* of the measured difference between both hosts; COLUMN_NULL: not known */
};

bool host_clocks_differ(const struct set_rank *a, const struct set_rank *b)
{
    return a->host && b->host && !streq(a->host, b->host);
}

static bool is_of_host(const struct set_rank *rank, const struct set_rank *first)
{
    return rank->instance == first->instance && rank->host && first->host && streq(rank->host, first->host);
}

static int64_t magnitude(int64_t ns)
{
    return ns < 0 ? difference_of(0, ns) : ns;
}

/* Both are known: the uncertainties of two differences to the coordinator's clock add up. */
static int64_t host_clock_error(const struct set_rank *a, const struct set_rank *b)
{
    if (a->clock_error_ns == COLUMN_NULL || b->clock_error_ns == COLUMN_NULL)
        return COLUMN_NULL;
    return sum_of(a->clock_error_ns, b->clock_error_ns);
}

/* The pair of ranks of both hosts with most collectives in common. */
static int host_clock_compare(const struct rank_set *set, struct host_clock *h)
{
    size_t n_pairs = 0;

    for (size_t i = 0; i < set->n; i++) {
        for (size_t k = 0; k < set->n && is_of_host(&set->items[i], h->first); k++) {
            const struct set_rank *one = &set->items[k], *other = &set->items[i];
            struct alignment a;
            if (!is_of_host(one, h->reference) || ++n_pairs > PAIRS_MAX)
                continue;
            int r = align_collectives(one->columns, one->shift_ns, other->columns, other->shift_ns, &a);
            if (r < 0)
                return r;
            if (a.matches > h->by.matches)
                h->by = a;
            if (h->by.matches >= ALIGN_MATCHES_MIN)
                return 0;
        }
    }
    return 0;
}

/* A recording that begins one collective later on a host shifts the numbers of all that follow: then they agree with each
 * other, and not with the clocks. */
static bool host_clock_is_contradicted(const struct host_clock *h)
{
    int64_t first = columns_meta(h->first->columns, META_first_ns),
            last = columns_meta(h->first->columns, META_last_ns);
    int64_t span = first == COLUMN_NULL || last == COLUMN_NULL ? 0 : difference_of(last, first);

    return h->error_ns != COLUMN_NULL &&
           magnitude(h->by.shift_ns) > sum_of(sum_of(h->error_ns, ALIGN_TOLERANCE_NS), span / DRIFT_PARTS);
}

static void host_clock_move(struct rank_set *set, const struct host_clock *h)
{
    for (size_t i = 0; i < set->n; i++)
        if (is_of_host(&set->items[i], h->first))
            set->items[i].shift_ns = sum_of(set->items[i].shift_ns, h->by.shift_ns);
}

static int host_clock_align(struct rank_set *set, bool by_collectives, struct host_clock *h)
{
    int r = by_collectives ? host_clock_compare(set, h) : 0;

    h->error_ns = host_clock_error(h->reference, h->first);
    h->source = h->error_ns == COLUMN_NULL ? CLOCK_UNKNOWN : CLOCK_MEASURED;
    if (r < 0 || h->by.matches < ALIGN_MATCHES_MIN)
        return r;
    /* A difference that the collectives do not agree on is none. */
    bool is_clear = h->by.spread_ns < magnitude(h->by.shift_ns) / 4;
    if (is_clear && host_clock_is_contradicted(h)) {
        h->source = CLOCK_CONTRADICTED;
        return 0;
    }
    h->source = CLOCK_COLLECTIVES;
    if (is_clear)
        host_clock_move(set, h);
    return 0;
}

/* -- For people --------------------------------------------------------------------------------------- */

/* "-1min 10s" */
static const char *signed_duration(char buf[UNIT_TEXT_MAX + 1], int64_t ns)
{
    char text[UNIT_TEXT_MAX];
    snprintf(buf, UNIT_TEXT_MAX + 1, "%s%s", ns < 0 ? "-" : "", format_duration(text, magnitude(ns)));
    return buf;
}

/* Each instance is aligned by itself: notes name it where there are several. NULL: there is one. */
static const char *host_clocks_instance(const struct rank_set *set, size_t instance)
{
    return set->n_instances > 1 && set->names && *set->names[instance] ? set->names[instance] : NULL;
}

/* "gpu3", "gpu3 (10.0.0.1:30000)". The caller frees it. */
static char *host_clock_subject(const struct rank_set *set, const struct set_rank *rank)
{
    const char *instance = host_clocks_instance(set, rank->instance);
    return instance ? xasprintf("%s (%s)", rank->host, instance) : xstrdup(rank->host);
}

static void host_clock_note(const struct rank_set *set, const struct host_clock *h)
{
    _cleanup_(freep) char *host = host_clock_subject(set, h->first);
    const char *reference = h->reference->host;
    char by[UNIT_TEXT_MAX + 1], error[UNIT_TEXT_MAX], apart[UNIT_TEXT_MAX + 1];
    int64_t offset = h->first->clock_offset_ns;

    switch (h->source) {
    case CLOCK_COLLECTIVES:
        rank_set_note(set, "%s: clock aligned by %" PRIu64 " collectives shared with %s, certain to ±%s",
                      host, h->by.matches, reference,
                      format_duration(error, MAX(h->by.spread_ns, INT64_C(1))));
        break;
    case CLOCK_MEASURED:
        rank_set_note(set, "%s: clock corrected by its measured difference of %s, certain to ±%s", host,
                      signed_duration(by, offset), format_duration(error, h->error_ns));
        break;
    case CLOCK_CONTRADICTED:
        rank_set_note(set,
                      "%s: clock corrected by its measured difference of %s, certain to ±%s; the collectives "
                      "shared with %s, which end %s apart, are not used",
                      host, signed_duration(by, offset), format_duration(error, h->error_ns), reference,
                      signed_duration(apart, h->by.shift_ns));
        break;
    case CLOCK_UNKNOWN:
        rank_set_note(set, "%s: its clock was not measured: its traces may be shifted against those of %s",
                      host, reference);
        break;
    }
}

/* The rest of the hosts of an instance, by the least certain one. */
static void host_clocks_note_rest(const struct rank_set *set, size_t instance, size_t n, int64_t most_ns,
                                  bool all_known)
{
    const char *known = host_clocks_instance(set, instance);
    const char *of = known ? " of " : "", *name = known ? known : "";
    char error[UNIT_TEXT_MAX];

    if (n == 0)
        return;
    if (all_known)
        rank_set_note(set, "clocks of %zu more hosts%s%s aligned or corrected, certain to ±%s or better", n,
                      of, name, format_duration(error, most_ns));
    else
        rank_set_note(set, "clocks of %zu more hosts%s%s aligned or corrected; some were not measured", n, of,
                      name);
}

/* -- All ---------------------------------------------------------------------------------------------- */

/* The first rank of another host of the instance after `from`, of a host that none before it is of; n: none. */
static size_t host_clocks_next(const struct rank_set *set, size_t reference, size_t from)
{
    for (size_t i = from; i < set->n && set->items[i].instance == set->items[reference].instance; i++) {
        bool is_new = host_clocks_differ(&set->items[reference], &set->items[i]);
        for (size_t k = reference; k < i && is_new; k++)
            is_new = !is_of_host(&set->items[k], &set->items[i]);
        if (is_new)
            return i;
    }
    return set->n;
}

static int host_clocks_align_instance(struct rank_set *set, size_t reference, bool by_collectives)
{
    size_t n_noted = 0, n_more = 0;
    int64_t most_ns = 0;
    bool all_known = true;

    for (size_t i = host_clocks_next(set, reference, reference); i < set->n;
         i = host_clocks_next(set, reference, i + 1)) {
        struct host_clock h = {.reference = &set->items[reference], .first = &set->items[i]};
        int r = host_clock_align(set, by_collectives, &h);
        if (r < 0)
            return r;
        if (n_noted < HOSTS_NOTED) {
            host_clock_note(set, &h);
            n_noted++;
            continue;
        }
        all_known = all_known && h.source != CLOCK_UNKNOWN;
        most_ns = MAX(most_ns, h.source == CLOCK_COLLECTIVES ? h.by.spread_ns : h.error_ns);
        n_more++;
    }
    host_clocks_note_rest(set, set->items[reference].instance, n_more, most_ns, all_known);
    return 0;
}

int host_clocks_align(struct rank_set *set, bool by_collectives)
{
    int r = 0;

    for (size_t i = 0; i < set->n && r >= 0; i++)
        if (i == 0 || set->items[i].instance != set->items[i - 1].instance)
            r = host_clocks_align_instance(set, i, by_collectives);
    return r;
}
