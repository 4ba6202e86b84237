/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions, what they cost and who called whom, drawn as slices: a profile that has no times.
 *
 * Thread 1, "calls", category "callgrind": one flame. Roots are what functions cost beyond what their callers
 * account for, the most expensive first. Within a slice lie the calls that its function made, the most
 * expensive first, each as long as its share: a function's calls are known only in sum, so every occurrence
 * of it is given the same mix. What is left at the end of a slice is its own cost. Of functions that call
 * each other in a circle (recursion) the one through which it was entered holds all of the circle's time,
 * once; the others lie in it side by side, each as long as its own cost with its calls out of the circle,
 * with the category CALLGRAPH_CIRCLE: with what they called in the circle they took longer, which is not
 * known. Not drawn, so that their cost stays in the caller's slice, are calls of less than 1/CALLGRAPH_PARTS
 * of the whole, deeper than CALLGRAPH_DEPTH_MAX, or after CALLGRAPH_SLICES_MAX slices.
 *
 * Thread 2, "self", category "callgrind_self": one slice for each function, as long as its own cost, exactly;
 * the most expensive first.
 */
#pragma once

#include "trace/read/intake.h"

#define CALLGRAPH_CIRCLE     "callgrind_circle"
#define CALLGRAPH_PARTS      100000
#define CALLGRAPH_DEPTH_MAX  256
#define CALLGRAPH_SLICES_MAX (1 << 20)
/* Sums stay below it, so that no sum of two overflows. */
#define CALLGRAPH_COST_MAX (INT64_C(1) << 60)

struct callgraph;

/* Calls that are not drawn. */
struct callgraph_drawn {
    uint64_t recursive, small;
};

int callgraph_new(struct callgraph **ret);
struct callgraph *callgraph_free(struct callgraph *g);
/* A function by three strings of the intake; UINT32_MAX where there is no memory. */
uint32_t callgraph_function(struct callgraph *g, uint32_t name, uint32_t file, uint32_t object);
/* Costs are in nanoseconds and add up. -ERANGE beyond CALLGRAPH_COST_MAX, -ENOMEM. */
int callgraph_self(struct callgraph *g, uint32_t function, int64_t cost);
int callgraph_call(struct callgraph *g, uint32_t caller, uint32_t callee, int64_t cost);
/* Hands the slices to the intake, beginning at time 0. */
int callgraph_draw(struct callgraph *g, struct intake *in, int64_t pid, struct callgraph_drawn *ret);

DEFINE_CLEANUP(struct callgraph *, callgraph_free)
