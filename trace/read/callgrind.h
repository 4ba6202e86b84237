/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles in callgrind's text format, as written by valgrind, yappi (and NeMo Gym through it), Xdebug and
 * converters of Python profiles. A profile has no timeline: callgraph.h describes how it is drawn.
 *
 * Costs are those of the first event in the list: nanoseconds if the event is a time with a known unit
 * ("ns", "us", yappi's "Ticks", ...); otherwise one unit is drawn as one nanosecond. Functions of the same
 * name in different files or objects are different functions. Positions and jumps are skipped; several
 * parts in one file are added up.
 */
#pragma once

#include "trace/read/intake.h"

/* Reads the complete text from memory. Returns 0, and the reason names calls that are not drawn; an
 * unreadable line is counted as a defect. -EBADMSG with a reason if the text has no costs; -ENOMEM. */
int callgrind_read(const void *data, size_t size, struct intake *intake, char *ret_reason,
                   size_t reason_size);
