/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop with independent iterations, run by several threads: ranks, reports, rules. The threads exist only
 * during the loop, one of them is the caller's. Loops may be nested.
 */
#pragma once

#include "base/util.h"

/* Reports are limited by memory access long before they use all processors. */
#define PARALLEL_THREADS_MAX 8

/* Calls body(arg, i) once for each i below n. Returns when all have returned: 0, or the first negative
 * result, after which no further iteration begins. If no thread can be created, the caller's thread runs
 * all. */
int parallel_each(size_t n, int (*body)(void *arg, size_t i), void *arg);
