/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What export and merge share: which part of a trace, its columns, and what is said when writing fails.
 */
#pragma once

#include "client/cli/options.h"
#include "client/cli/table.h"
#include "client/traces/trace_file.h"
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

int exporting_selection(const struct exporting *e, struct export_options *ret, struct problem *p);
/* Refuses to write what holds nothing, and says what the trace has instead. *ret_slices: how many it holds.
 */
int exporting_check(struct client *c, const char *name, const struct export_trace *t,
                    const struct export_options *selected, int64_t *ret_slices);
/* "FILE: 7,017 slices, 3.1 MiB" and what else is to be said of it. */
void exporting_say(struct client *c, const char *path, int64_t slices, const char *more);
/* An exit status. */
int exporting_columns(struct client *c, const struct trace_file *file, struct columns **ret);
int exporting_failed(struct client *c, const char *name, int r);
