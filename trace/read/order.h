/* SPDX-License-Identifier: Apache-2.0 */
/* The slices by track, with the level of detail over them; and what was known only at their end. */
#pragma once

#include "trace/read/names.h"
#include "trace/read/tracks.h"

/* When all slices are finished: slice.dur and slice.child, the sums of names, by_track, mip and miplevel, and
 * where each track's part of by_track begins. last_ns: where unfinished slices end. */
int order_by_track(struct rows *rows, struct tracks *tracks, struct names *names, int64_t last_ns,
                   struct columns_writer *w);
