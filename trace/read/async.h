/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tracks of asynchronous events (b, n, e), as trace_processor's track compressor makes them: events with
 * the same process, category and id share a track, and those whose first event had the same name take over
 * each other's when nothing is open on it.
 */
#pragma once

#include "trace/read/events.h"
#include "trace/read/tracks.h"

struct async_lane {
    uint32_t track; /* TRACK_NONE until a slice lies on it */
    uint32_t owner; /* the id that uses it */
    uint32_t open;
    uint32_t next_free; /* + 1 */
    bool listed;        /* among the free ones; it may have been taken since */
};

struct async_set {
    uint32_t free; /* lane + 1 */
};

struct async_id {
    uint32_t set;
    uint32_t lane; /* of which it may not be the owner any more */
};

struct async {
    struct tracks *tracks;
    struct map numbers; /* of (process, category), of sets, of ids */
    uint32_t n_scopes;
    struct async_set *sets;
    struct async_id *ids;
    struct async_lane *lanes;
    size_t n_sets, n_ids, n_lanes, sets_cap, ids_cap, lanes_cap;
};

void async_init(struct async *a, struct tracks *tracks);
void async_done(struct async *a);
/* The track of an event, or an error; -ENOENT for an end on a track without slices. */
int64_t async_track(struct async *a, enum event_phase phase, uint32_t process, uint16_t category, int64_t id,
                    uint32_t name);
