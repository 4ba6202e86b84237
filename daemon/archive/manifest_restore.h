/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a manifest of the archive, for a catalog that lost them. */
#pragma once

#include "base/json.h"
#include "base/problem.h"

struct catalog;

struct restored {
    int64_t sessions, traces; /* added */
    int64_t known;            /* traces that the catalog had */
    int64_t left_out;         /* traces without an object in the archive, or that are not traces */
};

/* Adds to the counts. Of a manifest with an error some rows may be added; the same manifest completes them. Commits nothing. */
int manifest_restore(struct catalog *catalog, const json_t *all, struct restored *counts, struct problem *p);
