/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by export and merge: the selected part of a trace, its columns, and problems of writing.
 */
#pragma once

#include "client/cli/options.h"
#include "client/cli/table.h"
#include "client/traces/ranks.h"
#include "trace/export/export.h"

struct exporting {
    int64_t from, to; /* OPTION_ABSENT, or counted from the first slice */
    const char *only;
    int64_t memory_limit;
};

/* Lines of an option table, for a member of that name in the verb's options. */
/* clang-format off */
#define EXPORTING_OPTIONS(type, member) \
    {"from", 0, "TIME", OPTION_DURATION, offsetof(type, member.from), "Start time, after the first slice: 1.5s, 250ms"}, \
    {"to", 0, "TIME", OPTION_DURATION, offsetof(type, member.to), "End time, after the first slice"}, \
    {"only", 0, "LIST", OPTION_TEXT, offsetof(type, member.only), "Only slices of these categories: kernel,cpu_op"}, \
    {"memory-limit", 0, "SIZE", OPTION_SIZE, offsetof(type, member.memory_limit), "Memory limit for reading files (default: 1.5G)"}
/* clang-format on */

/* Checks a time that --from and --to select; INT64_MIN and INT64_MAX: no limit. */
int exporting_check_times(int64_t from, int64_t to, struct problem *p);
int exporting_selection(const struct exporting *e, struct export_options *ret, struct problem *p);
/* Refuses to write an empty selection, and prints the categories of the trace. *ret_slices: its slices.
 */
int exporting_check(struct client *c, const char *name, const struct export_trace *t,
                    const struct export_options *selected, int64_t *ret_slices);
/* Notes "FILE: 7,017 slices, 3.1 MiB", and `more`; what: "slices". */
void exporting_note(struct client *c, const char *path, const char *what, int64_t n, const char *more);
/* An exit status. */
int exporting_columns(struct client *c, const struct trace_file *file, struct columns **ret);
int exporting_failed(struct client *c, const char *name, int r);
/* One trace of all of them in Chrome's format, on the clock of ranks_align(). Negative errno as of
 * export_merge(). *ret_slices: how many slices the ranks have; may be NULL. */
int ranks_export(struct named_ranks *ranks, const struct export_options *selected, FILE *out,
                 int64_t *ret_slices);
