/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles in callgrind's text format, as valgrind, yappi (so NeMo Gym), Xdebug and converters of Python's
 * profiles write them. A profile is no timeline: callgraph.h says what is drawn of it.
 *
 * Costs are those of the first event that is listed: nanoseconds where it is a time whose unit is known
 * ("ns", "us", yappi's "Ticks", ...), otherwise one unit is drawn as one nanosecond. Functions of the same
 * name in different files or objects are different functions. Positions and jumps are stepped over; several
 * parts in one file add up.
 */
#pragma once

#include "trace/read/intake.h"

/* The whole text in memory. 0, and the reason says what is not drawn; a line that cannot be read is counted
 * as a defect. -EBADMSG with a reason where it has no costs; -ENOMEM. */
int callgrind_read(const void *data, size_t size, struct intake *intake, char *ret_reason,
                   size_t reason_size);
