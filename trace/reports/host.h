/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host activity as nested calls: operators and annotations, or Python frames, of all threads; and the GPU
 * events that each of them launched.
 *
 * Calls are nested by time on one thread, among the selected kinds only, so that slices between them (a
 * Python frame between two operators) or across them are ignored.
 */
#pragma once

#include "base/statistics.h"
#include "trace/columns/columns.h"
#include "trace/reports/gpu.h"
#include "trace/reports/slice_table.h"

#define HOST_CALL_NONE UINT32_MAX

/* GPU events that a call launched: most calls have none. */
struct host_launched {
    int64_t device;          /* time of the GPU events that it launched itself */
    int64_t device_all;      /* and its calls within */
    uint32_t work, work_all; /* number of those GPU events */
};

struct host_calls {
    const struct slice_table *slices; /* what the calls are */
    size_t n;
    /* Of each call, in order of their start; a parent before its calls. 28 bytes each: there may be millions. */
    uint32_t *slice, *parent;
    int64_t *within;        /* time of the calls directly within it */
    uint32_t *has_launched; /* number of its item of launched, + 1; 0: it launched nothing */
    int64_t *runtime;       /* time of the GPU's runtime in it, but not in a call within it */
    struct host_launched *launched;
    size_t n_launched, launched_cap;
    uint32_t *around;   /* private: of slices on the host, the innermost call that each is, or begins in */
    uint32_t *launcher; /* for each GPU event: the innermost call that launched it */
    size_t n_work;
};

/* kinds: a mask of 1 << enum host_kind that become calls. work: what is attributed to them. -ENOMEM. */
int host_calls_read(const struct columns *c, const struct slice_table *slices, unsigned kinds,
                    const struct gpu_work *work, struct host_calls *ret);
void host_calls_done(struct host_calls *h);

/* One of the calls; parent: HOST_CALL_NONE where there is none. */
struct host_call {
    int64_t ts, end, name, self, runtime;
    uint32_t slice, parent;
    enum host_kind kind;
};

static inline struct host_call host_call_get(const struct host_calls *h, size_t i)
{
    const struct slice_table *t = h->slices;
    uint32_t slice = h->slice[i];

    return (struct host_call){.ts = t->ts[slice],
                              .end = t->ts[slice] + t->dur[slice],
                              .name = slice_name(t, slice),
                              .self = MAX(t->dur[slice] - h->within[i], INT64_C(0)),
                              .runtime = h->runtime[i],
                              .slice = slice,
                              .parent = h->parent[i],
                              .kind = (enum host_kind)t->kind[slice]};
}

static inline struct host_launched host_call_launched(const struct host_calls *h, size_t i)
{
    return h->has_launched[i] ? h->launched[h->has_launched[i] - 1] : (struct host_launched){0};
}

/* The innermost call that a slice is or begins in: a call of the runtime, a row of operators, or what launched GPU
 * events; HOST_CALL_NONE. */
static inline uint32_t host_call_around(const struct host_calls *h, int64_t slice)
{
    return h->n > 0 && slice >= 0 && (uint64_t)slice < h->slices->n && h->around[slice] < h->n
               ? h->around[slice]
               : HOST_CALL_NONE;
}

/*
 * The nearest slice of some kind around another one. Python stacks are deep and neighbours share most of
 * them: results of walks are cached for a while.
 */
/* Maximum length of a walk; parents in a damaged trace may form a cycle. */
#define ANCESTORS_MAX        512
#define ANCESTORS_REMEMBERED 1024

struct ancestor_finder {
    const struct slice_table *slices;
    bool (*matches)(void *arg, uint64_t slice);
    void *arg;
    struct {
        uint64_t slice, found;
        bool used;
    } remembered[ANCESTORS_REMEMBERED];
};

/* From slice, itself included, upwards; SLICE_NONE where there is none, and of SLICE_NONE. */
uint64_t ancestor_find(struct ancestor_finder *finder, uint64_t slice);

/* Calls of the GPU's runtime by their correlation, which is also that of the work they launched. */
struct correlations {
    struct sort_item *items; /* number: the correlation; item: the call's slice */
    size_t n;
};

/* Of calls that begin before a time. -ENOMEM. */
int correlations_read(const struct columns *c, int64_t before, struct correlations *ret);
void correlations_done(struct correlations *correlations);
/* The first of those with a correlation; n where there is none. */
size_t correlations_find(const struct correlations *correlations, int64_t correlation);

/* Which calls of a GPU's runtime wait for the GPU. Pure. */
enum sync_call {
    SYNC_NONE,
    SYNC_WAIT, /* for an event, a stream, the device */
    SYNC_COPY, /* a copy that returns when it is done */
    SYNC_FREE, /* freed memory: all events that may use it must end first */
    SYNC_ASKS, /* does nothing on the GPU: may lie between a call and its wait */
};

enum sync_call sync_call_of(struct text name);

static inline bool sync_call_waits(enum sync_call kind)
{
    return kind == SYNC_WAIT || kind == SYNC_COPY || kind == SYNC_FREE;
}

/* The slices of one name and category, as a trace groups them: positions in by_name. */
struct name_rows {
    uint64_t first, end;
};

/* Within the table, even in a damaged file. */
static inline struct name_rows name_rows_of(const struct columns *c, uint64_t group)
{
    int64_t first = columns_get(c, COL_name_first, group), count = columns_get(c, COL_name_count, group);
    uint64_t rows = columns_rows(c, TABLE_by_name);

    if (first < 0 || count < 0 || (uint64_t)first >= rows)
        return (struct name_rows){0, 0};
    return (struct name_rows){(uint64_t)first,
                              (uint64_t)first + MIN((uint64_t)count, rows - (uint64_t)first)};
}
