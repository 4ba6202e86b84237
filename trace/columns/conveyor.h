/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of values on their way to one worker thread, in order. Whoever hands them over goes on meanwhile,
 * and waits only where CONVEYOR_BLOCKS are under way.
 *
 * One thread hands over, one works. Where no thread can be had the work is done at once.
 */
#pragma once

#include "base/util.h"
#include "trace/columns/block.h"

#define CONVEYOR_BLOCKS 1024

struct conveyor;

/* work() gets what was handed over, on the worker. */
int conveyor_new(void (*work)(void *arg, unsigned column, const int64_t *values, size_t n), void *arg,
                 struct conveyor **ret);
/* What is under way is worked off first. */
struct conveyor *conveyor_free(struct conveyor *c);
/* At most BLOCK_ROWS values; they are copied. */
void conveyor_put(struct conveyor *c, unsigned column, const int64_t *values, size_t n);
/* Waits until nothing is under way: from then until the next conveyor_put() the caller may touch what work()
 * does. */
void conveyor_drain(struct conveyor *c);

DEFINE_CLEANUP(struct conveyor *, conveyor_free)
