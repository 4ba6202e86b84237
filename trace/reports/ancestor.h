/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nearest slice around another one that is of some kind. Stacks of Python are deep and what lies close
 * together has most of them in common: where a walk leads is remembered for a while.
 */
#pragma once

#include "trace/reports/gpu.h"

/* How far is walked; parents of a damaged trace may form a circle. */
#define ANCESTORS_MAX        512
#define ANCESTORS_REMEMBERED 1024

struct ancestor_finder {
    const struct columns *c;
    bool (*matches)(void *arg, uint64_t slice);
    void *arg;
    struct {
        uint64_t slice, found;
        bool used;
    } remembered[ANCESTORS_REMEMBERED];
};

/* From slice, itself included, upwards; SLICE_NONE where there is none, and of SLICE_NONE. */
uint64_t ancestor_find(struct ancestor_finder *finder, uint64_t slice);
/* The slice around it. */
uint64_t ancestor_parent(const struct columns *c, uint64_t slice);
