/* SPDX-License-Identifier: Apache-2.0 */
/* How many requests of a run were under way when: from the first byte that left to the answer's end, that
 * moment no longer. Pure. */
#pragma once

#include "daemon/load/record.h"

struct concurrency {
    int64_t *starts, *ends; /* sorted, n each */
    size_t n;
};

void concurrency_of(const struct request_record *records, size_t n, struct concurrency *ret);
void concurrency_done(struct concurrency *c);
size_t concurrency_peak(const struct concurrency *c);
size_t concurrency_at(const struct concurrency *c, int64_t moment_ns);
