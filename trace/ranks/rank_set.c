/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/ranks/rank_set.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "trace/export/merge_ranks.h"
#include "trace/ranks/host_clocks.h"
#include "trace/read/instance.h"
#include "trace/read/sum.h"
#include "trace/reports/shared_collectives.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

/* Ranks with a larger difference of their begins were probably not recorded together. */
#define RECORDED_TOGETHER_NS (INT64_C(60) * NS_PER_S)

void rank_set_note(const struct rank_set *set, const char *format, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, format);
    if (set->note && vasprintf(&text, format, ap) >= 0)
        set->note(set->note_arg, text);
    va_end(ap);
    free(text);
}

static int64_t wall_clock(int64_t stamp, int64_t shift)
{
    int64_t ret;

    if (stamp == COLUMN_NULL || shift == COLUMN_NULL || __builtin_add_overflow(stamp, shift, &ret))
        return INSTANCE_UNKNOWN;
    return ret;
}

/* backend: borrowed, as are all texts. */
static struct instance_clues gather_clues(const struct set_rank *rank, int64_t shift, const char *backend)
{
    const json_t *trace = rank->trace, *ranks = json_object_get(trace, "ranks");
    const struct columns *c = rank->columns;
    struct text distributed = columns_meta_text(c, META_distributed_info);
    int64_t number = columns_meta(c, META_rank), world = columns_meta(c, META_world_size);

    return (struct instance_clues){
        .recording = json_get_str(trace, json_get_str(trace, "session") ? "session" : "recording"),
        .worker = trace ? json_get_str(trace, "worker") : NULL,
        .group = trace ? json_get_str(trace, "instance") : NULL,
        .path = trace ? json_get_str(trace, "name") : rank->path,
        .stage = trace ? json_get_str(trace, "stage") : NULL,
        .backend = backend,
        .distributed = distributed.p,
        .distributed_size = distributed.size,
        .rank = number != COLUMN_NULL ? number : json_get_int(ranks, "rank", INSTANCE_UNKNOWN),
        .world_size = world,
        .dp = json_get_int(ranks, "dp", INSTANCE_UNKNOWN),
        .from_ns = wall_clock(columns_meta(c, META_first_ns), shift),
        .to_ns = wall_clock(columns_meta(c, META_last_ns), shift),
    };
}

/* To the wall clock of the coordinator; COLUMN_NULL: the trace has no wall clock. */
static int64_t rank_wall_shift(const struct set_rank *rank)
{
    int64_t shift = align_wall_shift(rank->columns);
    bool is_plain = shift == COLUMN_NULL || rank->clock_offset_ns == COLUMN_NULL;
    return is_plain ? shift : difference_of(shift, rank->clock_offset_ns);
}

/* -- Order and numbers -------------------------------------------------------------------------------- */

struct rank_order {
    size_t instance, before; /* before: its previous index */
};

static int compare_rank_order(const void *x, const void *y)
{
    const struct rank_order *a = x, *b = y;

    if (a->instance != b->instance)
        return a->instance < b->instance ? -1 : 1;
    return a->before < b->before ? -1 : a->before > b->before;
}

/* Sorts by instance; within an instance the order stays. */
static void ranks_reorder(struct rank_set *ranks, struct rank *analysed, const size_t *numbers)
{
    _cleanup_(freep) struct rank_order *order = xcalloc(ranks->n + 1, sizeof(*order));
    _cleanup_(freep) struct set_rank *named = xcalloc(ranks->n + 1, sizeof(*named));
    _cleanup_(freep) struct rank *before = xcalloc(ranks->n + 1, sizeof(*before));

    for (size_t i = 0; i < ranks->n; i++) {
        order[i] = (struct rank_order){numbers[i], i};
        named[i] = ranks->items[i];
        before[i] = analysed[i];
    }
    qsort(order, ranks->n, sizeof(*order), compare_rank_order);
    for (size_t i = 0; i < ranks->n; i++) {
        ranks->items[i] = named[order[i].before];
        ranks->items[i].instance = order[i].instance;
        analysed[i] = before[order[i].before];
    }
}

static int64_t number_in_trace(const struct set_rank *rank)
{
    return columns_meta(rank->columns, META_rank);
}

static int64_t number_in_catalog(const struct set_rank *rank)
{
    return json_get_int(json_object_get(rank->trace, "ranks"), "rank", COLUMN_NULL);
}

/* Numbers of the ranks of one instance; false if one has no number, or that of another. */
static bool ranks_take_numbers(struct set_rank *ranks, size_t n,
                               int64_t (*number)(const struct set_rank *rank))
{
    for (size_t i = 0; i < n; i++) {
        ranks[i].number = number(&ranks[i]);
        if (ranks[i].number == COLUMN_NULL)
            return false;
        for (size_t k = 0; k < i; k++)
            if (ranks[k].number == ranks[i].number)
                return false;
    }
    return true;
}

/* Ranks without a number, or with one that another rank of the instance has, are numbered by position. */
static void ranks_number(struct set_rank *ranks, size_t n)
{
    if (ranks_take_numbers(ranks, n, number_in_trace) || ranks_take_numbers(ranks, n, number_in_catalog))
        return;
    for (size_t i = 0; i < n; i++)
        ranks[i].number = (int64_t)i;
}

/* The role of the workers of an instance, if all have the same one. */
static const char *instance_role(const struct set_rank *ranks, size_t n)
{
    const char *role = NULL;

    for (size_t i = 0; i < n; i++) {
        const json_t *trace = ranks[i].trace;
        const char *stage = trace ? json_get_str(trace, "stage") : NULL,
                   *named = stage ? stage : ranks[i].role;
        if (!named || (role && !streq(role, named)))
            return NULL;
        role = named;
    }
    return role;
}

/* Of the fullest cache, which limits the instance. */
static double instance_kv_use(const struct set_rank *ranks, size_t n)
{
    double most = NAN;

    for (size_t i = 0; i < n; i++)
        most = fmax(most, ranks[i].kv_use); /* ignores NAN */
    return most;
}

static void ranks_describe_instances(struct rank_set *ranks, struct rank *analysed,
                                     const struct instance_clues *clues, const size_t *numbers,
                                     size_t n_instances)
{
    size_t first = 0;

    ranks->names = xcalloc(n_instances + 1, sizeof(*ranks->names));
    ranks->instances = xcalloc(n_instances + 1, sizeof(*ranks->instances));
    ranks->n_instances = n_instances;
    instances_name(clues, ranks->n, numbers, n_instances, ranks->names);
    ranks_reorder(ranks, analysed, numbers);
    for (size_t i = 0; i < n_instances; i++) {
        size_t n = 0;
        while (first + n < ranks->n && ranks->items[first + n].instance == i)
            n++;
        ranks_number(&ranks->items[first], n);
        ranks->instances[i] = (struct engine_instance){.name = ranks->names[i],
                                                       .role = instance_role(&ranks->items[first], n),
                                                       .first = first,
                                                       .n = n,
                                                       .kv_use = instance_kv_use(&ranks->items[first], n)};
        first += n;
    }
}

int rank_set_find_instances(struct rank_set *set, const struct kernel_patterns *patterns, bool as_one,
                            struct rank **ret)
{
    _cleanup_(freep) struct instance_clues *clues = xcalloc(set->n + 1, sizeof(*clues));
    _cleanup_(freep) char **backends = xcalloc(set->n + 1, sizeof(*backends));
    _cleanup_(freep) int64_t *shifts = xcalloc(set->n + 1, sizeof(*shifts));
    _cleanup_(freep) size_t *numbers = xcalloc(set->n + 1, sizeof(*numbers));
    struct rank *analysed = xcalloc(set->n + 1, sizeof(*analysed));
    struct analysis analysis = {.ranks = analysed, .n = set->n, .view = VIEW_ALL, .patterns = patterns};
    _cleanup_(shared_collectives_done) struct shared_collectives common = {0};
    int64_t n_instances = 1;

    *ret = analysed;
    for (size_t i = 0; i < set->n; i++) {
        analysed[i].columns = set->items[i].columns;
        shifts[i] = rank_wall_shift(&set->items[i]);
        struct text backend = columns_meta_text(set->items[i].columns, META_backend);
        backends[i] = backend.size > 0 ? xstrndup(backend.p, backend.size) : NULL;
        clues[i] = gather_clues(&set->items[i], shifts[i], backends[i]);
    }
    if (shared_collectives_init(&common, &analysis, shifts) < 0)
        n_instances = -ENOMEM;
    else if (!as_one)
        n_instances = instances_find(clues, set->n, shared_collectives_compare, &common, numbers);
    if (n_instances >= 0 && common.error >= 0)
        ranks_describe_instances(set, analysed, clues, numbers, (size_t)n_instances);
    for (size_t i = 0; i < set->n; i++)
        free(backends[i]);
    return n_instances >= 0 && common.error >= 0 ? 0 : -ENOMEM;
}

/* -- Clocks ------------------------------------------------------------------------------------------- */

/* Timestamps of every trace become wall-clock time; -ENODATA: one has no wall clock. */
static int clocks_align_wall(struct rank_set *ranks)
{
    for (size_t i = 0; i < ranks->n; i++) {
        ranks->items[i].shift_ns = rank_wall_shift(&ranks->items[i]);
        if (ranks->items[i].shift_ns == COLUMN_NULL)
            return -ENODATA;
    }
    return 0;
}

static int clocks_align_wall_only(struct rank_set *ranks)
{
    int r = clocks_align_wall(ranks);
    return r < 0 ? r : host_clocks_align(ranks, false);
}

static int clocks_align_start(struct rank_set *ranks)
{
    int64_t zero = MAX(columns_meta(ranks->items[0].columns, META_first_ns), INT64_C(0));

    for (size_t i = 0; i < ranks->n; i++) {
        int64_t first = columns_meta(ranks->items[i].columns, META_first_ns);
        ranks->items[i].shift_ns = first == COLUMN_NULL ? 0 : difference_of(zero, first);
    }
    return 0;
}

/* Moves clocks by collectives: always, or only if the difference is significant. */
static int clocks_move(struct rank_set *ranks, bool always)
{
    size_t reference = 0;

    for (size_t i = 1; i < ranks->n; i++) {
        struct set_rank *first = &ranks->items[reference], *rank = &ranks->items[i];
        if (rank->instance != first->instance) {
            reference = i;
            continue;
        }
        char by[UNIT_TEXT_MAX];
        struct alignment a;
        int r = align_collectives(first->columns, first->shift_ns, rank->columns, rank->shift_ns, &a);
        if (r < 0)
            return r;
        if (always && a.matches < ALIGN_MATCHES_MIN)
            return -ENOMSG;
        /* Hosts were aligned by themselves, against what is known about their clocks. */
        if (!always && (!alignment_is_needed(&a) || host_clocks_differ(first, rank)))
            continue;
        rank->shift_ns = sum_of(rank->shift_ns, a.shift_ns);
        rank_set_note(ranks, "%s: clock moved by %s%s, where %" PRIu64 " collectives end as those of %s",
                      rank->label, a.shift_ns < 0 ? "-" : "",
                      format_duration(by, a.shift_ns < 0 ? difference_of(0, a.shift_ns) : a.shift_ns),
                      a.matches, first->label);
    }
    return 0;
}

static int clocks_align_collectives(struct rank_set *ranks)
{
    if (clocks_align_wall(ranks) < 0)
        clocks_align_start(ranks);
    return clocks_move(ranks, true);
}

static int clocks_align_auto(struct rank_set *ranks)
{
    if (clocks_align_wall(ranks) < 0) {
        rank_set_note(ranks, "not all traces have a wall clock: they are aligned by their first events");
        clocks_align_start(ranks);
        return clocks_move(ranks, false);
    }
    int r = host_clocks_align(ranks, true);
    return r < 0 ? r : clocks_move(ranks, false);
}

/* Notes traces of an instance that probably do not belong together. */
static void clocks_note_distance(const struct rank_set *ranks)
{
    int64_t first = 0, last = 0, most = 0;
    bool any = false;
    char by[UNIT_TEXT_MAX];

    for (size_t i = 0; i < ranks->n; i++) {
        int64_t start = columns_meta(ranks->items[i].columns, META_first_ns);
        any = any && ranks->items[i].instance == ranks->items[i - 1].instance;
        if (start == COLUMN_NULL)
            continue;
        start = sum_of(start, ranks->items[i].shift_ns);
        first = any ? MIN(first, start) : start;
        last = any ? MAX(last, start) : start;
        most = MAX(most, difference_of(last, first));
        any = true;
    }
    if (most > RECORDED_TOGETHER_NS)
        rank_set_note(ranks, "the traces begin %s apart; --align start aligns their first events",
                      format_duration(by, most));
}

static const struct {
    const char *name;
    int (*align)(struct rank_set *ranks);
} alignments[] = {
    {"auto", clocks_align_auto},
    {"wall", clocks_align_wall_only},
    {"collectives", clocks_align_collectives},
    {"start", clocks_align_start},
};

int rank_set_align(struct rank_set *set, const char *method)
{
    int r = -EINVAL;

    for (size_t i = 0; i < ARRAY_SIZE(alignments); i++)
        if (streq(alignments[i].name, method))
            r = alignments[i].align(set);
    if (r >= 0)
        clocks_note_distance(set);
    return r;
}

void rank_set_done(struct rank_set *set)
{
    free(set->items);
    free(set->instances);
    free(set->names);
}

char *rank_label(const json_t *trace, const struct columns *columns, const char *name)
{
    _cleanup_(freep) char *number_text = trace ? rank_text(trace, false) : NULL;
    const char *worker = trace ? json_get_str(trace, "worker") : NULL;
    const char *host = worker ? strstr(worker, "://") : NULL;
    int64_t number = columns_meta(columns, META_rank);

    if (number_text)
        return host ? xasprintf("%s %s", host + 3, number_text) : xstrdup(number_text);
    if (number != COLUMN_NULL)
        return xasprintf("rank %" PRId64, number);
    return xstrdup(name);
}

char *rank_text(const json_t *trace, bool in_short)
{
    static const char *const groups[] = {"dp", "pp", "tp", "ep"};
    const json_t *ranks = json_object_get(trace, "ranks");
    const char *stage = json_get_str(trace, "stage"), *kind = json_get_str(trace, "kind");
    int64_t rank = json_get_int(ranks, "rank", -1);
    /* The process of a front end writes "rank 0", but is no rank. */
    bool has_rank = !kind || streq(kind, "trace");
    char *text = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(groups) && has_rank; i++) {
        int64_t number = json_get_int(ranks, groups[i], -1);
        if (number > 0 || (number == 0 && (!in_short || streq(groups[i], "tp"))))
            append_str(&text, "%s%s%lld", text ? " " : "", groups[i], (long long)number);
    }
    if (!text && rank >= 0 && has_rank)
        append_str(&text, "rank %lld", (long long)rank);
    if (stage)
        append_str(&text, "%s%s", text ? " " : "", stage);
    return text;
}
