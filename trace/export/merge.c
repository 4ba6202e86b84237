/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/chrome.h"
#include "trace/export/formats.h"
#include "trace/export/text_out.h"

#include <errno.h>
#include <inttypes.h>

/* The earliest slice of all: what the merged stamps are relative to. */
static int find_start(const struct export_trace *traces, size_t n, int64_t *ret)
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

struct process_order {
    int64_t sort_index;
    uint64_t process;
};

static int compare_processes(const void *pa, const void *pb)
{
    const struct process_order *a = pa, *b = pb;

    if (a->sort_index != b->sort_index)
        return a->sort_index < b->sort_index ? -1 : 1;
    return a->process < b->process ? -1 : a->process > b->process;
}

/* Numbers for the processes that did something, in the order in which viewers show them; 0 for the others. */
static int number_processes(const struct columns *c, int64_t *next, int64_t **ret)
{
    uint64_t n = columns_rows(c, TABLE_process), tracks = columns_rows(c, TABLE_track);
    _cleanup_(freep) struct process_order *order = calloc(n + 1, sizeof(*order));
    _cleanup_(freep) int64_t *pids = calloc(n + 1, sizeof(*pids));

    if (!order || !pids)
        return -ENOMEM;
    for (uint64_t i = 0; i < n; i++) {
        int64_t index = columns_get(c, COL_process_sort_index, i);

        order[i] = (struct process_order){index == COLUMN_NULL ? 0 : index, i};
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

static int put_trace(struct merge *m, const struct export_trace *t, const int64_t *pids)
{
    _cleanup_(selection_done) struct selection s = {0};
    struct chrome_place place = {.label = t->label};
    int64_t zero = sub_ns(m->options->relative ? m->start : 0, t->shift_ns);
    int r;

    place.add_ns = sub_ns(t->shift_ns, m->start);
    place.pids = pids;
    r = selection_init(&s, t->columns, selection_bound(m->options->from, zero),
                       selection_bound(m->options->to, zero), m->options->only);
    return r < 0 ? r : chrome_put_trace(&m->o, t, &s, &place);
}

/* The processes of each trace, which have numbers in a row. */
struct numbered {
    int64_t *pids;
    int64_t first, last;
};

static void free_numbered(struct numbered *all, size_t n)
{
    for (size_t i = 0; all && i < n; i++)
        free(all[i].pids);
    free(all);
}

/* Which trace each process is of, and the heads of the traces, so that they can be read as they were. */
static void put_parts(const struct export_trace *traces, const struct numbered *numbered, size_t n, FILE *out)
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
    struct numbered *numbered = calloc(n + 1, sizeof(*numbered));
    int r = numbered ? find_start(traces, n, &m.start) : -ENOMEM;

    for (size_t i = 0; i < n && r >= 0; i++) {
        numbered[i].first = m.next_pid;
        r = number_processes(traces[i].columns, &m.next_pid, &numbered[i].pids);
        numbered[i].last = m.next_pid - 1;
    }
    if (r >= 0) {
        fprintf(out, "{\n\"displayTimeUnit\":\"ms\",\n\"baseTimeNanoseconds\":%" PRId64, m.start);
        put_parts(traces, numbered, n, out);
        fputs(",\n\"traceEvents\":[", out);
        for (size_t i = 0; i < n && r == 0; i++)
            r = put_trace(&m, &traces[i], numbered[i].pids);
        fputs("\n]}\n", out);
        r = export_outcome(r, traces, n, out);
    }
    free_numbered(numbered, n);
    return r;
}
