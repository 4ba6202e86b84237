/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays the selected slices back in time, track by track: within a track each begins after those around it
 * and ends before they do, whatever the columns say, and time never runs backwards.
 */
#pragma once

#include "trace/export/selection.h"

struct playing {
    uint64_t row;
    int64_t begin, end;
    bool unfinished; /* it never ended; end is that of the trace */
    int64_t inside;  /* time of the selected slices directly in it; known when it ends */
    int64_t depth;   /* in the trace, with those that are not selected */
    uint32_t node;   /* the listener's */
};

struct playback {
    const struct selection *selection;
    bool cut; /* slices are cut to the time that is selected */
    /* Of tracks with a selected slice; either may be NULL. */
    int (*track_begin)(void *arg, uint64_t track);
    int (*track_end)(void *arg, uint64_t track);
    /* around: the selected slice it lies directly in, or NULL. */
    int (*begin)(void *arg, struct playing *slice, const struct playing *around);
    int (*end)(void *arg, const struct playing *slice);
    void *arg;
};

/* 0, -ENOMEM, what a listener answered, or -EBADMSG where tracks share slices. */
int playback_run(const struct playback *p);
