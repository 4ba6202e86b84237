/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and memsets: bytes, bandwidth, and what the host waited for because of them. */
#include "base/array.h"
#include "trace/reports/cover.h"
#include "trace/reports/reports.h"
#include "trace/reports/sync_call.h"
#include "trace/reports/text_numbers.h"
#include <errno.h>
#include <math.h>

static const struct report_column columns[] = {
    {"direction", UNIT_TEXT, "HtoD, DtoH, DtoD, PtoP, ..., Memset"},
    {"from", UNIT_TEXT, "kind of memory: Pageable, Pinned, Host, Device"},
    {"to", UNIT_TEXT, "the same"},
    {"count", UNIT_COUNT, "how many"},
    {"sum_ns", UNIT_NS, "time of all of them"},
    {"exposed_ns", UNIT_NS, "of it, with no kernel of the rank at work", IMPORTANCE_EXTRA},
    {"bytes", UNIT_BYTES, "what they moved or set"},
    {"bandwidth", UNIT_BYTES_PER_S, "bytes by their time"},
    {"pageable", UNIT_COUNT, "how many were from or to pageable memory, which a GPU cannot reach by itself"},
    {"sync_calls", UNIT_COUNT, "calls in which the host waited: the copy itself, or a wait right after it"},
    {"sync_ns", UNIT_NS, "time of these"},
    {"name", UNIT_TEXT, "as the trace names it", IMPORTANCE_EXTRA},
};
#define COLUMN_SUM 4

/* A wait that goes with a copy is among so many slices after its call, of whatever thread. */
#define NEXT_SLICES_MAX 256

struct copies {
    uint64_t count, syncs;
    int64_t sum, exposed, bytes, sync_ns;
};

struct summing {
    struct name_table names;
    struct copies *items; /* by name */
    size_t cap;
};

static void summing_done(struct summing *s)
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

static void add_sync(const struct columns *c, uint64_t slice, struct copies *ret)
{
    ret->syncs++;
    ret->sync_ns += MAX(columns_get(c, COL_slice_dur, slice), 0);
}

static enum sync_call sync_of(const struct columns *c, uint64_t slice)
{
    return sync_call_of(columns_text(c, columns_get(c, COL_slice_name, slice)));
}

/* The next call of the runtime on the thread that does anything, if that waits. */
static void find_wait_after(const struct columns *c, uint64_t launch, struct copies *ret)
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

static bool is_set(struct text name)
{
    return memmem(name.p, name.size, "Memset", 6) != NULL;
}

static int add_copy(struct summing *s, const struct columns *c, const struct gpu_event *e,
                    const struct cover *kernels, struct text_numbers *numbers)
{
    int64_t number = text_numbers_get(numbers, e->name);

    if (number < 0)
        return (int)number;
    if (!ARRAY_RESERVE_ZEROED(s->items, s->cap, s->names.n))
        return -ENOMEM;
    struct copies *copies = &s->items[number];
    int64_t bytes = e->row == SLICE_NONE ? COLUMN_NULL : columns_get(c, COL_gpu_bytes, e->row), sum;
    copies->count++;
    copies->sum += e->end - e->ts;
    copies->exposed += e->end - e->ts - cover_length(kernels, e->ts, e->end);
    if (bytes > 0 && !__builtin_add_overflow(copies->bytes, bytes, &sum))
        copies->bytes = sum;
    if (e->launch == SLICE_NONE || is_set(s->names.items[number]))
        return 0;
    if (sync_of(c, e->launch) == SYNC_COPY)
        add_sync(c, e->launch, copies);
    else
        find_wait_after(c, e->launch, copies);
    return 0;
}

static int add_rank(struct analysis *a, size_t rank, struct summing *s)
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
            r = add_copy(s, c, &work->events[i], &kernels, &numbers);
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

static struct copy_name parse_name(struct text name)
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

static int make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(summing_done) struct summing s = {0};
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = add_rank(a, i, &s);
    for (size_t i = 0; i < s.names.n && r >= 0; i++) {
        const struct copies *copies = &s.items[i];
        struct copy_name name = parse_name(s.names.items[i]);
        put_text_known(ret, name.direction);
        put_text_known(ret, name.from);
        put_text_known(ret, name.to);
        put_int(ret, (int64_t)copies->count);
        put_int(ret, copies->sum);
        put_int(ret, copies->exposed);
        put_int(ret, copies->bytes);
        put_real(ret, copies->sum > 0 ? (double)copies->bytes * 1e9 / (double)copies->sum : NAN);
        put_int(ret, is_pageable(name.from) || is_pageable(name.to) ? (int64_t)copies->count : 0);
        put_int(ret, (int64_t)copies->syncs);
        put_int(ret, copies->sync_ns);
        put_text(ret, s.names.items[i]);
    }
    return r < 0 ? r : s.names.n == 0 ? -ENODATA : report_rows_sort(ret, COLUMN_SUM, true);
}

const struct report report_memcpy = {
    .name = "memcpy",
    .title = "copies and memsets: bytes, bandwidth, pageable memory, waiting",
    .how = "By direction and kinds of memory, as their name says. A wait goes with a copy where the call "
           "that made it returns only when it is done, or where the next call of the runtime on that thread "
           "waits for a stream, an event or the device. syncs lists all waits.",
    .needs = NEEDS_GPU,
    .columns = columns,
    .n_columns = ARRAY_SIZE(columns),
    .make = make,
};
