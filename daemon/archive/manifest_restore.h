/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a manifest of the archive, for a catalog that lost them; some at a time, because a manifest can have 100,000. */
#pragma once

#include "base/json.h"
#include "base/problem.h"

struct catalog;
struct manifest;

struct restored {
    int64_t sessions, traces; /* added */
    int64_t known;            /* traces that the catalog had */
    int64_t left_out;         /* traces without an object in the archive, or that are not traces */
    int64_t refused;          /* targets and traces that the catalog does not take */
};

/* Adds the session. Takes the manifest over; adds to the counts, which outlive it. Commits nothing, nor does manifest_restore_rows(). */
int manifest_restore_begin(struct catalog *catalog, json_t *take_all, struct restored *counts,
                           struct manifest **ret, struct problem *p);
/* Adds some more rows: 1: there are further ones; 0: that was all. Of a manifest with an error some rows may be added; the same
 * manifest completes them. */
int manifest_restore_rows(struct manifest *m, struct problem *p);
/* "3 rows are refused, the first because ..."; NULL: none is. The caller frees it. */
char *manifest_restore_remark(const struct manifest *m);
struct manifest *manifest_restore_end(struct manifest *m);
