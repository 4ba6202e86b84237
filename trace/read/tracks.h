/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which track an event lies on. Tracks are made when the first slice or sample comes to lie on them, and
 * numbered in that order.
 */
#pragma once

#include "trace/columns/writer.h"
#include "trace/read/map.h"
#include "trace/read/nest.h"

#define TRACK_NONE UINT32_MAX
/* Tracks of one thread for slices that do not nest. */
#define OVERFLOW_TRACKS_MAX 4096

struct track {
    uint8_t kind;
    uint32_t name;            /* string, 0 without one */
    uint32_t thread, process; /* TRACK_NONE without one */
    uint32_t slices;
    uint32_t first; /* of its part of by_track, once that is known */
};

struct overflow_track {
    int64_t end; /* of the slice that was in the way of the last one; INT64_MIN for none */
    uint32_t track;
};

struct thread_tracks {
    uint32_t own; /* + 1, 0 for none */
    struct overflow_track *overflow;
    size_t n_overflow, overflow_cap;
};

struct tracks {
    struct budget *budget;
    struct track *list;
    size_t n, cap;
    struct thread_tracks *threads;
    size_t threads_cap;
    struct map singles; /* counters, and instants of processes and of all */
};

void tracks_init(struct tracks *t, struct budget *budget);
void tracks_done(struct tracks *t);

/* Each returns the track's number, or an error. process is the thread's. */
int64_t tracks_add(struct tracks *t, enum track_kind kind, uint32_t name, uint32_t thread, uint32_t process);
int64_t tracks_thread(struct tracks *t, uint32_t thread, uint32_t process);
/* Where a slice that overlaps others of its thread nests; -E2BIG where there are too many tracks already. */
int64_t tracks_overflow(struct tracks *t, struct nest *nest, uint32_t thread, uint32_t process, int64_t ts,
                        int64_t dur);
int64_t tracks_counter(struct tracks *t, uint32_t name, uint32_t process);
int64_t tracks_process_instants(struct tracks *t, uint32_t process);
int64_t tracks_global_instants(struct tracks *t);

/* Of a thread that may have none; TRACK_NONE then. */
static inline uint32_t tracks_known(const struct tracks *t, uint32_t thread)
{
    return thread < t->threads_cap ? t->threads[thread].own - 1 : TRACK_NONE;
}

void tracks_write(const struct tracks *t, struct columns_writer *w);
