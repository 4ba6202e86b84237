/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a run: by index, and told in the order in which requests ended. They are all kept until the
 * summary is made, within RECORDS_BYTES_MAX.
 */
#pragma once

#include "daemon/load/emit.h"
#include "daemon/load/request.h"

#define RECORDS_BYTES_MAX (INT64_C(4) << 30)
#define KEPT_BYTES_MAX    (INT64_C(64) << 20)

/* An answer whose tokens no server counted: its request is told when somebody has (count.h). */
struct kept {
    int64_t index;
    char *text; /* as JSON has it, without quotes */
    size_t size;
};

struct records {
    struct request_record *items; /* n of them, by index */
    size_t n, cap;
    int64_t *ended; /* indexes, in the order of their ends */
    size_t n_ended, n_told, ended_cap;
    struct kept *kept;
    size_t n_kept, kept_cap;
    int64_t bytes, kept_bytes;
    char **errors; /* texts that records borrow */
    size_t n_errors, errors_cap;
};

void records_done(struct records *rs);
/* Takes what the record holds; its moments become those since started_ns. */
void records_add(struct records *rs, struct request *r, int64_t started_ns);
/* What was kept is told as it is. */
void records_release(struct records *rs);
bool records_full(const struct records *rs);
/* As many as there is room for; true when all have been told. */
bool records_tell(struct records *rs, struct emit *e, const struct target *targets);
