/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/merge_ranks.h"

#include "base/statistics.h"
#include "trace/export/chrome.h"
#include "trace/export/export.h"
#include "trace/export/writers.h"
#include <errno.h>
#include <inttypes.h>

/* -- Clocks --------------------------------------------------------------------------------------------- */

/* September 2001: smaller stamps are relative to something. */
#define EPOCH_PLAUSIBLE_NS INT64_C(1000000000000000000)

struct collective_end {
    struct text group, name;
    int64_t number; /* as the process group counts them, or in order of appearance */
    int64_t end;
};

struct collective_ends {
    struct collective_end *items;
    size_t n;
};

static void collective_ends_done(struct collective_ends *m)
{
    free(m->items);
}

static int compare_text(struct text a, struct text b)
{
    int r = memcmp(a.p, b.p, MIN(a.size, b.size));
    return r != 0 ? r : (a.size > b.size) - (a.size < b.size);
}

static int compare_kind(const struct collective_end *a, const struct collective_end *b)
{
    int r = compare_text(a->group, b->group);
    return r != 0 ? r : compare_text(a->name, b->name);
}

static int compare_collectives(const struct collective_end *a, const struct collective_end *b)
{
    int r = compare_kind(a, b);
    return r != 0 ? r : (a->number > b->number) - (a->number < b->number);
}

static int compare_collective_ends(const void *x, const void *y)
{
    const struct collective_end *a = x, *b = y;
    int r = compare_collectives(a, b);

    return r != 0 ? r : (a->end > b->end) - (a->end < b->end);
}

/* All ranks of a group take part in a collective; a send and its receive have other names and partners. */
static bool is_common_collective(const struct columns *c, uint64_t row, int64_t slice)
{
    struct text category = columns_text(c, columns_get(c, COL_slice_category, (uint64_t)slice));
    struct text name = columns_text(c, columns_get(c, COL_collective_name, row));

    return text_is(category, "kernel") && name.size > 0 && !text_is(name, "send") && !text_is(name, "recv");
}

/* Collectives without a number are numbered in order of appearance. */
static void number_collectives(struct collective_ends *m)
{
    for (size_t i = 0; i < m->n; i++) {
        bool follows = i > 0 && compare_kind(&m->items[i], &m->items[i - 1]) == 0;
        if (m->items[i].number == COLUMN_NULL)
            m->items[i].number = follows ? m->items[i - 1].number + 1 : 0;
    }
}

static int find_collective_ends(const struct columns *c, int64_t shift_ns, struct collective_ends *ret)
{
    uint64_t rows = columns_rows(c, TABLE_collective);

    *ret = (struct collective_ends){.items = calloc(MAX(rows, (uint64_t)1), sizeof(struct collective_end))};
    if (!ret->items)
        return -ENOMEM;
    for (uint64_t row = 0; row < rows; row++) {
        int64_t slice = columns_get(c, COL_collective_slice, row), end;
        if (slice == COLUMN_NULL || !is_common_collective(c, row, slice))
            continue;
        int64_t ts = columns_get(c, COL_slice_ts, (uint64_t)slice);
        int64_t dur = columns_get(c, COL_slice_dur, (uint64_t)slice);
        if (__builtin_add_overflow(ts, dur, &end) || __builtin_add_overflow(end, shift_ns, &end))
            continue;
        ret->items[ret->n++] = (struct collective_end){
            .group = columns_text(c, columns_get(c, COL_collective_group_name, row)),
            .name = columns_text(c, columns_get(c, COL_collective_name, row)),
            .number = columns_get(c, COL_collective_seq, row),
            .end = end,
        };
    }
    qsort(ret->items, ret->n, sizeof(struct collective_end), compare_collective_ends);
    number_collectives(ret);
    return 0;
}

/* The caller's values are in order afterwards. */
static int64_t median(int64_t *values, size_t n)
{
    sort_ns(values, n);
    return percentile(values, n, 50);
}

/* For each collective of both, how much later it ended by the clock of the reference; both lists are sorted. */
static size_t compare_ends(const struct collective_ends *a, const struct collective_ends *b,
                           int64_t *ret_later)
{
    size_t n = 0;

    for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
        int r = compare_collectives(&a->items[i], &b->items[j]);
        if (r == 0 && !__builtin_sub_overflow(a->items[i].end, b->items[j].end, &ret_later[n]))
            n++;
        i += r <= 0;
        j += r >= 0;
    }
    return n;
}

int align_collectives(const struct columns *reference, int64_t reference_shift_ns,
                      const struct columns *other, int64_t other_shift_ns, struct alignment *ret)
{
    _cleanup_(collective_ends_done) struct collective_ends a = {0}, b = {0};

    *ret = (struct alignment){0};
    if (find_collective_ends(reference, reference_shift_ns, &a) < 0 ||
        find_collective_ends(other, other_shift_ns, &b) < 0)
        return -ENOMEM;
    _cleanup_(freep) int64_t *later = calloc(MIN(a.n, b.n) + 1, sizeof(*later));
    if (!later)
        return -ENOMEM;
    ret->matches = compare_ends(&a, &b, later);
    if (ret->matches < ALIGN_MATCHES_MIN)
        return 0;
    ret->shift_ns = median(later, ret->matches);
    for (size_t i = 0; i < ret->matches; i++) {
        int64_t distance;
        bool far = __builtin_sub_overflow(later[i], ret->shift_ns, &distance) || distance == INT64_MIN;
        later[i] = far ? INT64_MAX : llabs(distance);
    }
    ret->spread_ns = median(later, ret->matches);
    return 0;
}

bool alignment_is_needed(const struct alignment *a)
{
    int64_t shift = a->shift_ns == INT64_MIN ? INT64_MAX : llabs(a->shift_ns);
    return a->matches >= ALIGN_MATCHES_MIN && shift > ALIGN_TOLERANCE_NS && a->spread_ns < shift / 4;
}

int64_t align_wall_shift(const struct columns *c)
{
    int64_t base = columns_meta(c, META_base_time_ns), first = columns_meta(c, META_first_ns), wall;

    if (first == COLUMN_NULL)
        return 0;
    if (first >= EPOCH_PLAUSIBLE_NS)
        return 0;
    if (base == COLUMN_NULL || __builtin_add_overflow(first, base, &wall) || wall < EPOCH_PLAUSIBLE_NS)
        return COLUMN_NULL;
    return base;
}

/* -- One file ------------------------------------------------------------------------------------------- */

/* The earliest slice of all, to which merged timestamps are relative. */
static int merge_find_start(const struct export_trace *traces, size_t n, int64_t *ret)
{
    bool any = false;

    *ret = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t first = columns_get(traces[i].columns, COL_slice_ts, 0), at;

        if (first == COLUMN_NULL)
            continue;
        if (__builtin_add_overflow(first, traces[i].shift_ns, &at))
            return -ERANGE;
        *ret = any ? MIN(*ret, at) : at;
        any = true;
    }
    return 0;
}

struct merge_order {
    int64_t sort_index;
    uint64_t process;
};

static int compare_processes(const void *pa, const void *pb)
{
    const struct merge_order *a = pa, *b = pb;

    if (a->sort_index != b->sort_index)
        return a->sort_index < b->sort_index ? -1 : 1;
    return a->process < b->process ? -1 : a->process > b->process;
}

/* Numbers for processes with events, in the order in which viewers show them; 0 for the others. */
static int merge_number_processes(const struct columns *c, int64_t *next, int64_t **ret)
{
    uint64_t n = columns_rows(c, TABLE_process), tracks = columns_rows(c, TABLE_track);
    _cleanup_(freep) struct merge_order *order = calloc(n + 1, sizeof(*order));
    _cleanup_(freep) int64_t *pids = calloc(n + 1, sizeof(*pids));

    if (!order || !pids)
        return -ENOMEM;
    for (uint64_t i = 0; i < n; i++) {
        int64_t index = columns_get(c, COL_process_sort_index, i);

        order[i] = (struct merge_order){index == COLUMN_NULL ? 0 : index, i};
    }
    qsort(order, n, sizeof(order[0]), compare_processes);
    for (uint64_t track = 0; track < tracks; track++) {
        int64_t process = columns_get(c, COL_track_process, track);

        if (process != COLUMN_NULL)
            pids[process] = 1;
    }
    for (uint64_t i = 0; i < n; i++) {
        if (pids[order[i].process] > 0)
            pids[order[i].process] = (*next)++;
    }
    *ret = TAKE_PTR(pids);
    return 0;
}

struct merge {
    struct chrome_out o;
    const struct export_options *options;
    int64_t start;
    int64_t next_pid;
};

static int merge_put_trace(struct merge *m, const struct export_trace *t, const int64_t *pids)
{
    _cleanup_(selection_done) struct selection s = {0};
    struct chrome_merged merged = {.label = t->label};
    int64_t zero = difference_of(m->options->relative ? m->start : 0, t->shift_ns);
    int r;

    merged.add_ns = difference_of(t->shift_ns, m->start);
    merged.pids = pids;
    r = selection_init(&s, t->columns, selection_bound(m->options->from, zero),
                       selection_bound(m->options->to, zero), m->options->only);
    return r < 0 ? r : chrome_put_trace(&m->o, t, &s, &merged);
}

/* The processes of each trace, with consecutive numbers. */
struct merged_processes {
    int64_t *pids;
    int64_t first, last;
};

/* The trace of each process, and the heads of the traces, so that a reader can separate them again. */
static void merge_put_parts(const struct export_trace *traces, const struct merged_processes *numbered,
                            size_t n, FILE *out)
{
    fputs(",\n\"profdMerged\":[", out);
    for (size_t i = 0; i < n; i++) {
        fprintf(out, "%s\n{\"firstPid\":%" PRId64 ",\"lastPid\":%" PRId64 ",\"label\":", i > 0 ? "," : "",
                numbered[i].first, numbered[i].last);
        out_json_text(out, text_of(traces[i].label ? traces[i].label : ""));
        if (traces[i].origin)
            fprintf(out, ",\"trace\":%s", traces[i].origin);
        fputs("}", out);
    }
    fputs("],\n\"profdMergedHeads\":[", out);
    for (size_t i = 0; i < n; i++) {
        fputs(i > 0 ? ",\n{" : "\n{", out);
        chrome_put_facts(traces[i].columns, "", out);
        fputs("}", out);
    }
    fputs("]", out);
}

int export_merge(const struct export_trace *traces, size_t n, const struct export_options *options, FILE *out)
{
    struct merge m = {.o.out = out, .options = options, .next_pid = 1};
    struct merged_processes *numbered = calloc(n + 1, sizeof(*numbered));
    int r = numbered ? merge_find_start(traces, n, &m.start) : -ENOMEM;

    for (size_t i = 0; i < n && r >= 0; i++) {
        numbered[i].first = m.next_pid;
        r = merge_number_processes(traces[i].columns, &m.next_pid, &numbered[i].pids);
        numbered[i].last = m.next_pid - 1;
    }
    if (r >= 0) {
        fprintf(out, "{\n\"displayTimeUnit\":\"ms\",\n\"baseTimeNanoseconds\":%" PRId64, m.start);
        merge_put_parts(traces, numbered, n, out);
        fputs(",\n\"traceEvents\":[", out);
        for (size_t i = 0; i < n && r == 0; i++)
            r = merge_put_trace(&m, &traces[i], numbered[i].pids);
        fputs("\n]}\n", out);
        r = export_outcome(r, traces, n, out);
    }
    for (size_t i = 0; numbered && i < n; i++)
        free(numbered[i].pids);
    free(numbered);
    return r;
}
