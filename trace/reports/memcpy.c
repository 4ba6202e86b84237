/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and memsets: bytes, bandwidth, and what the host waited for because of them. */
#include "trace/reports/aggregation.h"
#include "trace/reports/host.h"
#include "trace/reports/interval.h"
#include <errno.h>
#include <math.h>

/* A wait that belongs to a copy is within this number of slices after its call, of any thread. */
#define NEXT_SLICES_MAX 256

enum { NS, EXPOSED, BYTES, SYNCS, SYNC_NS, _VALUE_MAX };

/* -- Waits -------------------------------------------------------------------------------------------- */

/* What calls of the runtime do, found once for each name. */
struct sync_names {
    const struct columns *c;
    const struct slice_table *slices;
    uint8_t *known; /* of each text: enum sync_call, + 1 */
};

static void sync_names_done(struct sync_names *s)
{
    free(s->known);
}

static void add_sync(const struct sync_names *s, uint64_t slice, int64_t *values)
{
    values[SYNCS] = 1;
    values[SYNC_NS] = MAX(slice_dur(s->slices, slice), 0);
}

static enum sync_call sync_of(struct sync_names *s, uint64_t slice)
{
    int64_t name = slice_name(s->slices, slice);

    if (name == COLUMN_NULL)
        return sync_call_of(columns_text(s->c, name));
    if (s->known[name] == 0)
        s->known[name] = (uint8_t)(sync_call_of(columns_text(s->c, name)) + 1);
    return (enum sync_call)(s->known[name] - 1);
}

/* The next call of the runtime on the thread that does anything, if that waits. */
static void find_wait_after(struct sync_names *s, uint64_t launch, int64_t *values)
{
    uint64_t end = MIN(s->slices->n, launch + 1 + NEXT_SLICES_MAX);
    int64_t thread = slice_thread(s->slices, launch);

    for (uint64_t next = launch + 1; next < end; next++) {
        if (slice_kind(s->slices, next) != HOST_RUNTIME || slice_thread(s->slices, next) != thread)
            continue;
        enum sync_call kind = sync_of(s, next);
        if (kind == SYNC_WAIT)
            add_sync(s, next, values);
        if (kind != SYNC_ASKS)
            return;
    }
}

/* -- Names: "Memcpy HtoD (Pageable -> Device)", "Memset (Device)", "CopyHostToDevice" ------------------ */

struct copy_name {
    struct text direction, from, to;
};

static struct text part_of(const char *begin, const char *end)
{
    return (struct text){begin, end > begin ? (size_t)(end - begin) : 0};
}

static struct copy_name memcpy_parse_name(struct text name)
{
    static const char copy[] = "Memcpy ", arrow[] = " -> ";
    const char *end = name.p + name.size, *open = memchr(name.p, '(', name.size), *close = end;
    struct copy_name ret = {.direction = part_of(name.p, open ? open : end)};

    if (ret.direction.size > sizeof(copy) - 1 && memcmp(name.p, copy, sizeof(copy) - 1) == 0)
        ret.direction = part_of(name.p + sizeof(copy) - 1, open ? open : end);
    while (ret.direction.size > 0 && ret.direction.p[ret.direction.size - 1] == ' ')
        ret.direction.size--;
    if (!open)
        return ret;
    if (close > open && close[-1] == ')')
        close--;
    const char *between = memmem(open, (size_t)(end - open), arrow, sizeof(arrow) - 1);
    if (between)
        ret.from = part_of(open + 1, between);
    ret.to = part_of(between ? between + sizeof(arrow) - 1 : open + 1, close);
    return ret;
}

static bool is_pageable(struct text memory)
{
    return text_is(memory, "Pageable");
}

static void emit_nonempty(struct report_rows *rows, struct text text)
{
    if (text.size > 0)
        emit_text(rows, text);
    else
        emit_null(rows);
}

static void emit_direction(const struct aggregated *all, const struct group *g, struct report_rows *ret)
{
    emit_nonempty(ret, memcpy_parse_name(group_text(all, g, 0)).direction);
}

static void emit_from(const struct aggregated *all, const struct group *g, struct report_rows *ret)
{
    emit_nonempty(ret, memcpy_parse_name(group_text(all, g, 0)).from);
}

static void emit_to(const struct aggregated *all, const struct group *g, struct report_rows *ret)
{
    emit_nonempty(ret, memcpy_parse_name(group_text(all, g, 0)).to);
}

static void emit_bandwidth(const struct aggregated *all, const struct group *g, struct report_rows *ret)
{
    int64_t ns = g->values[NS].sum;

    emit_real(ret, ns > 0 ? (double)g->values[BYTES].sum * 1e9 / (double)ns : NAN);
}

static void emit_pageable(const struct aggregated *all, const struct group *g, struct report_rows *ret)
{
    struct copy_name name = memcpy_parse_name(group_text(all, g, 0));

    emit_int(ret, is_pageable(name.from) || is_pageable(name.to) ? (int64_t)g->values[NS].n : 0);
}

static const struct report_column memcpy_columns[] = {
    {"direction", UNIT_TEXT, "direction: HtoD, DtoH, DtoD, PtoP, ..., Memset",
     .figure = {FIGURE_OTHER, .emit = emit_direction}},
    {"from", UNIT_TEXT, "source memory: Pageable, Pinned, Host or Device",
     .figure = {FIGURE_OTHER, .emit = emit_from}},
    {"to", UNIT_TEXT, "destination memory: Pageable, Pinned, Host or Device",
     .figure = {FIGURE_OTHER, .emit = emit_to}},
    {"count", UNIT_COUNT, "number of copies or memsets", .figure = {FIGURE_COUNT}},
    {"sum_ns", UNIT_NS, "total duration", .figure = {FIGURE_SUM, NS}},
    {"exposed_ns", UNIT_NS, "part of sum_ns without a kernel on the rank", IMPORTANCE_EXTRA,
     .figure = {FIGURE_SUM, EXPOSED}},
    {"bytes", UNIT_BYTES, "bytes copied or set", .figure = {FIGURE_SUM, BYTES}},
    {"bandwidth", UNIT_BYTES_PER_S, "bytes divided by sum_ns",
     .figure = {FIGURE_OTHER, .emit = emit_bandwidth}},
    {"pageable", UNIT_COUNT,
     "number of copies from or to pageable memory, which a GPU cannot access directly",
     .figure = {FIGURE_OTHER, .emit = emit_pageable}},
    {"sync_calls", UNIT_COUNT,
     "number of calls in which the host waited: the copy itself, or a wait directly after it",
     .figure = {FIGURE_SUM, SYNCS}},
    {"sync_ns", UNIT_NS, "total duration of these calls", .figure = {FIGURE_SUM, SYNC_NS}},
    {"name", UNIT_TEXT, "name in the trace", IMPORTANCE_EXTRA, .figure = {FIGURE_TEXT}},
};

/* -- The report --------------------------------------------------------------------------------------- */

static int memcpy_gather(struct gathering *g)
{
    const struct intervals *times;
    _cleanup_(cover_done) struct cover kernels = {0};
    _cleanup_(sync_names_done) struct sync_names names = {
        .c = g->c, .known = calloc((size_t)columns_texts(g->c) + 1, 1)};
    const struct gpu_work *work, *all;
    int r = names.known ? analysis_gpu(g->analysis, g->rank, &work) : -ENOMEM;

    if (r >= 0)
        r = analysis_slices(g->analysis, g->rank, &names.slices);

    if (r >= 0)
        r = analysis_all_gpu(g->analysis, g->rank, &all);
    if (r >= 0)
        r = gpu_work_busy(all, 1 << GPU_COMPUTE | 1 << GPU_COMMUNICATION, &times);
    if (r >= 0)
        r = cover_new(times, &kernels);
    for (size_t i = 0; r >= 0 && i < work->n; i++) {
        const struct gpu_event *e = &work->events[i];
        if (e->class != CLASS_MEMORY)
            continue;
        struct text name = columns_text(g->c, e->name);
        int64_t bytes = columns_get(g->c, COL_gpu_bytes, e->row),
                values[_VALUE_MAX] = {[NS] = e->end - e->ts,
                                      [EXPOSED] = e->end - e->ts - cover_length(&kernels, e->ts, e->end),
                                      [BYTES] = MAX(bytes, 0)};
        if (gpu_event_launch(e) != SLICE_NONE && !memmem(name.p, name.size, "Memset", 6)) {
            if (sync_of(&names, gpu_event_launch(e)) == SYNC_COPY)
                add_sync(&names, gpu_event_launch(e), values);
            else
                find_wait_after(&names, gpu_event_launch(e), values);
        }
        r = gathering_add(g, (struct group_key){{gathering_text(g, e->name)}}, values, e->slice);
    }
    return r;
}

static const struct aggregation memcpy_names = {.n_values = _VALUE_MAX, .gather = memcpy_gather};

const struct report report_memcpy = {
    .name = "memcpy",
    .title = "copies and memsets: bytes, bandwidth, pageable memory, waits",
    .method = "By direction and kind of memory, as in the name. A wait belongs to a copy if the call that "
              "made it returns only when it is complete, or if the next runtime call on that thread waits "
              "for a stream, an event or the device. syncs lists all waits.",
    .needs = NEEDS_GPU,
    .sort_by = "sum_ns",
    .needs_rows = true,
    REPORT_COLUMNS(memcpy),
    .aggregation = &memcpy_names,
};
