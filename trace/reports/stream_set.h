/* SPDX-License-Identifier: Apache-2.0 */
/* The streams that GPU work ran on, each with a number from 0: a stream is told by its device and its id. */
#pragma once

#include "base/hash_table.h"

struct gpu_stream {
    int64_t device, id; /* COLUMN_NULL where unknown */
};

struct stream_set {
    struct gpu_stream *items; /* by number */
    size_t n, cap;
    struct hash_table numbers; /* private */
    size_t last;
};

/* The stream's number, which it gets where it is new; -ENOMEM. */
int64_t stream_set_number(struct stream_set *set, int64_t device, int64_t id);
void stream_set_done(struct stream_set *set);
