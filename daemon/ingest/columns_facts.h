/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a columnar file says of its trace, as profd-ingest answers it (proto/ingest.h): the facts, the
 * defects, the categories and the names that took most time. Bounded, whatever is in the file. Pure over the
 * file.
 */
#pragma once

#include "base/json.h"
#include "trace/columns/columns.h"

/* Adds to facts. -EBADMSG where the file turns out to be damaged. */
int columns_facts_put(const struct columns *c, json_t *facts);
