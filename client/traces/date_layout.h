/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of Parquet files below a directory that several hosts and sessions fill, as engines expect them: by date, which
 * they take from the path (docs/parquet.md).
 */
#pragma once

#include "client/traces/ranks.h"

/* DIRECTORY/v1/TABLE/date=YYYY-MM-DD/NAME-HASH.parquet: the day (UTC) of the first slice of all traces, and a hash of
 * facts about them, so that sessions of the same name of two hosts have two files. The caller frees it. */
char *date_layout_path(const char *directory, const char *table, const struct named_ranks *ranks,
                       const char *name);
/* Makes the directories of a file. Negative errno. */
int date_layout_make_parents(const char *path);
