/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles in callgrind's text format, as written by valgrind, yappi (and NeMo Gym through it), Xdebug and
 * converters of Python profiles. A profile has no timeline: it is drawn as described below.
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

/*
 * Functions, their costs and their calls, drawn as slices: a profile that has no timestamps.
 *
 * Thread 1, "calls", category "callgrind": one flame graph. Roots are the costs of functions beyond the
 * part that their callers account for, the most expensive first. A slice contains the calls that its
 * function made, the most expensive first, each as long as its share: calls of a function are known only as
 * sums, so every occurrence of the function has the same mix of calls. The rest at the end of a slice is
 * the self cost. For functions that call each other in a cycle (recursion), the function through which the
 * cycle was entered holds the entire time of the cycle, once. The other members lie in it next to each
 * other, with the category CALLGRAPH_CIRCLE, each as long as its self cost and its calls out of the cycle;
 * their calls within the cycle took additional time, which is not known. Calls are not drawn, and their
 * cost stays in the slice of the caller, if they take less than 1/CALLGRAPH_PARTS of the total, lie deeper
 * than CALLGRAPH_DEPTH_MAX, or follow CALLGRAPH_SLICES_MAX slices.
 *
 * Thread 2, "self", category "callgrind_self": one slice for each function, exactly as long as its self
 * cost; the most expensive first.
 */

#define CALLGRAPH_CIRCLE     "callgrind_circle"
#define CALLGRAPH_PARTS      100000
#define CALLGRAPH_DEPTH_MAX  256
#define CALLGRAPH_SLICES_MAX (1 << 20)
/* Sums stay below this limit, so that the sum of two does not overflow. */
#define CALLGRAPH_COST_MAX (INT64_C(1) << 60)

struct callgraph;

/* Counts of calls that are not drawn. */
struct callgraph_drawn {
    uint64_t recursive, small;
};

int callgraph_new(struct callgraph **ret);
struct callgraph *callgraph_free(struct callgraph *g);
/* Returns the function with these three strings of the intake; UINT32_MAX if memory is exhausted. */
uint32_t callgraph_function(struct callgraph *g, uint32_t name, uint32_t file, uint32_t object);
/* Costs are in nanoseconds and are added up. -ERANGE beyond CALLGRAPH_COST_MAX, -ENOMEM. */
int callgraph_self(struct callgraph *g, uint32_t function, int64_t cost);
int callgraph_call(struct callgraph *g, uint32_t caller, uint32_t callee, int64_t cost);
/* Adds the slices to the intake, beginning at time 0. */
int callgraph_draw(struct callgraph *g, struct intake *in, int64_t pid, struct callgraph_drawn *ret);

DEFINE_CLEANUP(struct callgraph *, callgraph_free)
