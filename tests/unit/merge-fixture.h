/* SPDX-License-Identifier: Apache-2.0 */
/* Events put together by hand, and the columns that merging makes of them, for tests. */
#pragma once

#include "tests/unit/cmocka-all.h"
#include "trace/columns/columns.h"
#include "trace/read/merge.h"

#include <sys/mman.h>

#define MEMORY     (UINT64_C(256) << 20)
#define INTAKES    3
#define RUNS_MAX   64
#define DEPTH_MOST 4096 /* what merging keeps of slices that lie in each other */

/* Intakes built by hand, and the columns that became of them. */
struct trace {
    struct intake *intakes[INTAKES];
    struct event_run *runs[INTAKES][RUNS_MAX];
    size_t n_runs[INTAKES];
    size_t at; /* the intake that events go to */
    uint64_t place;
    struct spill *spool;
    struct columns *columns;
    struct merge_summary summary;
};

static inline int setup(void **state)
{
    struct trace *t = calloc(1, sizeof(*t));

    if (!t || spill_new(MEMORY, -1, &t->spool) < 0)
        return -1;
    for (size_t i = 0; i < INTAKES; i++)
        if (intake_new(MEMORY, &t->intakes[i]) < 0)
            return -1;
    *state = t;
    return 0;
}

static inline int teardown(void **state)
{
    struct trace *t = *state;

    for (size_t i = 0; i < INTAKES; i++) {
        for (size_t k = 0; k < t->n_runs[i]; k++)
            run_free(t->runs[i][k]);
        intake_free(t->intakes[i]);
    }
    spill_free(t->spool);
    columns_close(t->columns);
    free(t);
    return 0;
}

static inline uint32_t string(struct trace *t, const char *text)
{
    char padded[128] = "";

    if (!text)
        return 0;
    snprintf(padded, sizeof(padded), "%s", text);
    return strings_intern(t->intakes[t->at]->strings, padded, strlen(padded));
}

static inline uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 33;
}

/* What is packed at any time is a run: merging must not depend on it. */
static inline void end_run(struct trace *t)
{
    struct intake *in = t->intakes[t->at];

    assert_true(t->n_runs[t->at] < RUNS_MAX);
    assert_int_equal(run_pack(in->batch, t->spool, &t->runs[t->at][t->n_runs[t->at]++]), 0);
    batch_reset(in->batch);
}

static inline struct event *add(struct trace *t, enum event_phase phase, int64_t tid, int64_t ts, int64_t dur,
                                const char *category, const char *name)
{
    struct intake *in = t->intakes[t->at];
    bool of_process = phase == EVENT_INSTANT_PROCESS || phase == EVENT_ASYNC_BEGIN ||
                      phase == EVENT_ASYNC_END || phase == EVENT_ASYNC_INSTANT;
    struct event *e;

    if (in->batch->n == BATCH_EVENTS)
        end_run(t);
    e = intake_event(in);
    *e = (struct event){
        .ts = ts,
        .dur = dur,
        .offset = t->place += 10,
        .name = string(t, name),
        .thread = of_process ? intake_process(in, 1, 0) : intake_thread(in, 1, 0, tid, 0),
        .category = category ? intake_category(in, string(t, category)) : CATEGORY_NONE,
        .phase = (uint8_t)phase,
    };
    return e;
}

static inline int try_merge(struct trace *t, uint64_t memory_max, bool again)
{
    _cleanup_(closep) int fd = memfd_create("columns", MFD_CLOEXEC);
    _cleanup_(columns_writer_freep) struct columns_writer *w = NULL;
    struct merge_input inputs[INTAKES];
    uint64_t size;
    int r;

    for (t->at = 0; t->at < INTAKES; t->at++) {
        if (!again)
            end_run(t);
        inputs[t->at] = (struct merge_input){t->intakes[t->at], t->runs[t->at], t->n_runs[t->at]};
    }
    assert_int_equal(columns_writer_new(fd, &w), 0);
    r = merge_columns(inputs, INTAKES, t->spool, w, memory_max, &t->summary);
    if (r < 0)
        return r;
    assert_int_equal(columns_writer_finish(w, false, &size), 0);
    assert_int_equal(columns_open(fd, &t->columns, &(char *){NULL}), 0);
    return 0;
}

static inline void merge(struct trace *t)
{
    assert_int_equal(try_merge(t, MEMORY, false), 0);
}

static inline int64_t get(const struct trace *t, enum column column, uint64_t row)
{
    return columns_get(t->columns, column, row);
}

static inline void assert_text(const struct trace *t, enum column column, uint64_t row, const char *text)
{
    struct text found = columns_text(t->columns, get(t, column, row));

    assert_int_equal(found.size, strlen(text));
    assert_memory_equal(found.p, text, found.size);
}

static inline void assert_column(const struct trace *t, enum column column, const int64_t *values, size_t n)
{
    assert_int_equal(columns_rows(t->columns, column_specs[column].table), n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(get(t, column, i), values[i]);
}
#define ASSERT_COLUMN(t, column, ...)                                                                        \
    assert_column(t, column, (const int64_t[]){__VA_ARGS__}, ARRAY_SIZE(((const int64_t[]){__VA_ARGS__})))

static inline int64_t track_kind_of(const struct trace *t, uint64_t slice)
{
    return get(t, COL_track_kind, (uint64_t)get(t, COL_slice_track, slice));
}
