/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and memsets: bytes, bandwidth, and what the host waited for because of them. */
#include "base/array.h"
#include "trace/reports/grouping.h"
#include "trace/reports/host.h"
#include "trace/reports/interval.h"
#include "trace/reports/report.h"
#include <errno.h>
#include <math.h>

static const struct report_column memcpy_columns[] = {
    {"direction", UNIT_TEXT, "direction: HtoD, DtoH, DtoD, PtoP, ..., Memset"},
    {"from", UNIT_TEXT, "source memory: Pageable, Pinned, Host or Device"},
    {"to", UNIT_TEXT, "destination memory: Pageable, Pinned, Host or Device"},
    {"count", UNIT_COUNT, "number of copies or memsets"},
    {"sum_ns", UNIT_NS, "total duration"},
    {"exposed_ns", UNIT_NS, "part of sum_ns without a kernel on the rank", IMPORTANCE_EXTRA},
    {"bytes", UNIT_BYTES, "bytes copied or set"},
    {"bandwidth", UNIT_BYTES_PER_S, "bytes divided by sum_ns"},
    {"pageable", UNIT_COUNT,
     "number of copies from or to pageable memory, which a GPU cannot access directly"},
    {"sync_calls", UNIT_COUNT,
     "number of calls in which the host waited: the copy itself, or a wait directly after it"},
    {"sync_ns", UNIT_NS, "total duration of these calls"},
    {"name", UNIT_TEXT, "name in the trace", IMPORTANCE_EXTRA},
};

/* A wait that belongs to a copy is within this number of slices after its call, of any thread. */
#define NEXT_SLICES_MAX 256

struct memcpy_copies {
    uint64_t count, syncs;
    int64_t sum, exposed, bytes, sync_ns;
};

struct memcpy_summing {
    struct name_table names;
    struct memcpy_copies *items; /* by name */
    size_t cap;
};

static void memcpy_summing_done(struct memcpy_summing *s)
{
    name_table_done(&s->names);
    free(s->items);
}

/* -- Waits -------------------------------------------------------------------------------------------- */

static int64_t thread_of(const struct columns *c, uint64_t slice)
{
    int64_t track = columns_get(c, COL_slice_track, slice);

    return track == COLUMN_NULL ? COLUMN_NULL : columns_get(c, COL_track_thread, (uint64_t)track);
}

static void add_sync(const struct columns *c, uint64_t slice, struct memcpy_copies *ret)
{
    ret->syncs++;
    ret->sync_ns += MAX(columns_get(c, COL_slice_dur, slice), 0);
}

static enum sync_call sync_of(const struct columns *c, uint64_t slice)
{
    return sync_call_of(columns_text(c, columns_get(c, COL_slice_name, slice)));
}

/* The next call of the runtime on the thread that does anything, if that waits. */
static void find_wait_after(const struct columns *c, uint64_t launch, struct memcpy_copies *ret)
{
    uint64_t end = MIN(columns_rows(c, TABLE_slice), launch + 1 + NEXT_SLICES_MAX);
    int64_t thread = thread_of(c, launch);

    for (uint64_t next = launch + 1; next < end; next++) {
        if (thread_of(c, next) != thread ||
            host_kind_of(columns_text(c, columns_get(c, COL_slice_category, next))) != HOST_RUNTIME)
            continue;
        enum sync_call kind = sync_of(c, next);
        if (kind == SYNC_WAIT)
            add_sync(c, next, ret);
        if (kind != SYNC_ASKS)
            return;
    }
}

/* ----------------------------------------------------------------------------------------------------- */

static bool memcpy_is_set(struct text name)
{
    return memmem(name.p, name.size, "Memset", 6) != NULL;
}

static int memcpy_add_copy(struct memcpy_summing *s, const struct columns *c, const struct gpu_event *e,
                           const struct cover *kernels, struct text_numbers *numbers)
{
    int64_t number = text_numbers_get(numbers, e->name);

    if (number < 0)
        return (int)number;
    if (!ARRAY_RESERVE_ZEROED(s->items, s->cap, s->names.n))
        return -ENOMEM;
    struct memcpy_copies *copies = &s->items[number];
    int64_t bytes = e->row == SLICE_NONE ? COLUMN_NULL : columns_get(c, COL_gpu_bytes, e->row), sum;
    copies->count++;
    copies->sum += e->end - e->ts;
    copies->exposed += e->end - e->ts - cover_length(kernels, e->ts, e->end);
    if (bytes > 0 && !__builtin_add_overflow(copies->bytes, bytes, &sum))
        copies->bytes = sum;
    if (e->launch == SLICE_NONE || memcpy_is_set(s->names.items[number]))
        return 0;
    if (sync_of(c, e->launch) == SYNC_COPY)
        add_sync(c, e->launch, copies);
    else
        find_wait_after(c, e->launch, copies);
    return 0;
}

static int memcpy_make_rank(struct analysis *a, size_t rank, struct memcpy_summing *s)
{
    const struct columns *c = a->ranks[rank].columns;
    _cleanup_(text_numbers_done) struct text_numbers numbers = {.c = c, .names = &s->names};
    _cleanup_(intervals_done) struct intervals times = {0};
    _cleanup_(cover_done) struct cover kernels = {0};
    const struct gpu_work *work, *all;
    int r = analysis_gpu(a, rank, &work);

    if (r >= 0)
        r = analysis_all_gpu(a, rank, &all);
    if (r >= 0)
        r = gpu_work_busy(all, 1 << GPU_COMPUTE | 1 << GPU_COMMUNICATION, &times);
    if (r >= 0)
        r = cover_new(&times, &kernels);
    for (size_t i = 0; r >= 0 && i < work->n; i++)
        if (work->events[i].class == CLASS_MEMORY)
            r = memcpy_add_copy(s, c, &work->events[i], &kernels, &numbers);
    return r;
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

static int memcpy_make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(memcpy_summing_done) struct memcpy_summing s = {0};
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = memcpy_make_rank(a, i, &s);
    for (size_t i = 0; i < s.names.n && r >= 0; i++) {
        const struct memcpy_copies *copies = &s.items[i];
        struct copy_name name = memcpy_parse_name(s.names.items[i]);
        emit_nonempty(ret, name.direction);
        emit_nonempty(ret, name.from);
        emit_nonempty(ret, name.to);
        emit_int(ret, (int64_t)copies->count);
        emit_int(ret, copies->sum);
        emit_int(ret, copies->exposed);
        emit_int(ret, copies->bytes);
        emit_real(ret, copies->sum > 0 ? (double)copies->bytes * 1e9 / (double)copies->sum : NAN);
        emit_int(ret, is_pageable(name.from) || is_pageable(name.to) ? (int64_t)copies->count : 0);
        emit_int(ret, (int64_t)copies->syncs);
        emit_int(ret, copies->sync_ns);
        emit_text(ret, s.names.items[i]);
    }
    return r;
}

const struct report report_memcpy = {
    .name = "memcpy",
    .title = "copies and memsets: bytes, bandwidth, pageable memory, waits",
    .method = "By direction and kind of memory, as in the name. A wait belongs to a copy if the call that "
              "made it returns only when it is complete, or if the next runtime call on that thread waits "
              "for a stream, an event or the device. syncs lists all waits.",
    .needs = NEEDS_GPU,
    .sort_by = "sum_ns",
    .needs_rows = true,
    .columns = memcpy_columns,
    .n_columns = ARRAY_SIZE(memcpy_columns),
    .make = memcpy_make,
};
