/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop whose turns know nothing of each other, run by several threads: ranks, reports, rules. The threads
 * live for the loop alone, one of them is the caller's. Loops may lie in each other.
 */
#pragma once

#include "base/util.h"

/* Reports wait for memory long before they have as many processors. */
#define PARALLEL_THREADS_MAX 8

/* Calls turn(arg, i) once for each i below n. Returns when all have returned: 0, or the first negative result
 * that came, after which no further turn begins. Where no thread can be had the caller's does all. */
int parallel_each(size_t n, int (*turn)(void *arg, size_t i), void *arg);
