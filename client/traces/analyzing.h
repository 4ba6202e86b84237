/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by analyze, diff and flame: the named traces, opened as an analysis, and the selected part of them.
 */
#pragma once

#include "client/cli/options.h"
#include "client/traces/ranks.h"
#include "trace/reports/report.h"

struct analyzing {
    int64_t from, to; /* OPTION_ABSENT, or counted from the first slice */
    int64_t step, rank;
    const char *phase, *classes, *instance;
    int64_t memory_limit;
    bool all_ranks, hta;
};

/* Lines of an option table, for a member of that name in the verb's options. */
/* clang-format off */
#define ANALYZING_OPTIONS(type, member) \
    {"from", 0, "TIME", OPTION_DURATION, offsetof(type, member.from), "Start time, after the first slice: 1.2s, 350ms"}, \
    {"to", 0, "TIME", OPTION_DURATION, offsetof(type, member.to), "End time, after the first slice"}, \
    {"step", 0, "N", OPTION_NUMBER, offsetof(type, member.step), "Only this step, by its number"}, \
    {"phase", 0, "PHASE", OPTION_TEXT, offsetof(type, member.phase), "Only steps of a phase: prefill, decode, mixed, training"}, \
    {"all-ranks", 'a', NULL, OPTION_FLAG, offsetof(type, member.all_ranks), "Include the other ranks of the session, or of the directory"}, \
    {"rank", 0, "N", OPTION_NUMBER, offsetof(type, member.rank), "Only this rank"}, \
    {"instance", 0, "NAME", OPTION_TEXT, offsetof(type, member.instance), "Only this engine instance, by its name in report instances"}, \
    {"classes", 0, "FILE", OPTION_TEXT, offsetof(type, member.classes), "Additional patterns of kernel names: lines \"class pattern\""}, \
    {"hta", 0, NULL, OPTION_FLAG, offsetof(type, member.hta), "Use the rules of Holistic Trace Analysis, for comparison"}, \
    {"memory-limit", 0, "SIZE", OPTION_SIZE, offsetof(type, member.memory_limit), "Memory limit for reading files (default: 1.5G)"}
/* clang-format on */

/* Opened traces and the analysis over them. Not to be moved once it is open. */
struct analyzed {
    struct named_ranks ranks;
    struct engine_instance *instances; /* with ranks that are analysed */
    struct kernel_patterns patterns;
    struct analysis analysis;
};

/* words: traces (t12), sessions (s7), files, directories. EXIT_DONE, or an exit status after the problem was printed. */
int analyzed_open(struct client *c, const struct analyzing *options, int n_words, char **words,
                  struct analyzed *ret);
void analyzed_done(struct analyzed *a);
