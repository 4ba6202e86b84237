/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The flows between selected slices, by the slices they begin and end at.
 */
#pragma once

#include "trace/export/selection.h"

struct arrow_end {
    uint64_t slice;
    uint64_t flow; /* row */
    bool arrives;
};

struct arrows {
    struct arrow_end *ends;
    size_t n;
};

/* A zeroed struct may be given to arrows_done(). */
int arrows_init(struct arrows *a, const struct selection *s);
void arrows_done(struct arrows *a);
/* Those at a slice. */
const struct arrow_end *arrows_at(const struct arrows *a, uint64_t slice, size_t *ret_n);
