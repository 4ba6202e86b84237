/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which slice each moment of a thread belongs to: the innermost open one, whether the tracks of the thread nest or
 * lie across each other. A call of the GPU's runtime is always innermost: the profiler stamps it by another clock than
 * operators, so that it may begin some microseconds before the operator that it lies in.
 *
 * Made in one walk through the slices of the threads that launched GPU events. Idle times of the GPU then take the
 * parts of it that they cover.
 */
#pragma once

#include "trace/reports/gpu.h"

/* Of more tracks of a thread, the first are looked at. */
#define THREAD_TRACKS_MAX 64

/* Instead of a position: no slice is open. */
#define SELF_TIME_NONE UINT32_MAX

struct thread_time {
    uint32_t *slices; /* in order of their begin, of those that begin at once the outer one first */
    size_t n_slices;
    /* Pieces, in order: from when on the thread was in which of its slices. The last is SELF_TIME_NONE. */
    int64_t *from;
    uint32_t *at; /* position in slices */
    size_t n;
};

struct self_times {
    struct thread_time *threads; /* by number of the thread; those that launched nothing are empty */
    size_t n_threads;
    /* Private. */
    uint32_t *slices, *at;
    int64_t *from;
};

/* -ENOMEM. */
int self_times_read(const struct slice_table *slices, const struct gpu_work *work, struct self_times *ret);
void self_times_done(struct self_times *times);

/* The piece in which the time is, n before the first; near: a piece that is not far from it. */
size_t thread_time_find(const struct thread_time *t, int64_t time, size_t near);
