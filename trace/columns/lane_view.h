/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a picture of a lane shows: runs of pixels, each with the slice that is drawn there. Answered from the
 * levels of detail, so that the time it takes depends on the pixels and hardly on the slices.
 *
 * A slice of a pixel or more touches all pixels in which it lies, a shorter one the pixel in which it begins;
 * each pixel shows the longest slice that touches it, of equal ones the first. Slices shorter than a pixel
 * that are next to each other and have the same name join in one run. An unfinished slice lasts until the
 * end of the trace.
 *
 * Slices of a lane do not overlap. Where those of a defective trace do, each pixel shows one of them.
 */
#pragma once

#include "trace/columns/lane_table.h"

#define LANE_VIEW_PIXELS_MAX (1 << 16)

/* Pixel x shows the times from `from` + x * step until the next one's. */
struct lane_view {
    int64_t from, step; /* nanoseconds; step is at least 1 */
    uint32_t pixels;    /* LANE_VIEW_PIXELS_MAX at most */
};

struct lane_run {
    uint32_t x, width; /* pixels */
    uint64_t at;       /* row of by_lane: the slice, the first one of those that join */
    int64_t busy; /* at most width * step: what slices that begin in the run last, if these are shorter than
                        * a pixel; otherwise all of it */
    int64_t name; /* of the slice: a string, or COLUMN_NULL */
};

/* The view of [from, to) on a number of pixels: its step is rounded up to nanoseconds. */
struct lane_view lane_view_of(int64_t from, int64_t to, uint32_t pixels);
/* Runs from left to right into ret, which has room for the view's pixels. Returns their number. */
size_t lane_view_read(const struct lane_table *t, uint64_t lane, const struct lane_view *view,
                      struct lane_run *ret);
/* How much of [from, to) the slices of a lane last. */
int64_t lane_busy(const struct lane_table *t, uint64_t lane, int64_t from, int64_t to);
