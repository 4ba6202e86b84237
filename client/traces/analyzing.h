/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What analyze, diff and flame share: the traces that a person named, opened as an analysis, and which part
 * of them is looked at.
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
#define ANALYZING_OPTIONS(type, member)                                                                       \
    {"from", 0, "TIME", OPTION_DURATION, offsetof(type, member.from), "from so long after the first slice"},  \
        {"to", 0, "TIME", OPTION_DURATION, offsetof(type, member.to), "until so long after the first slice"}, \
        {"step", 0, "N", OPTION_NUMBER, offsetof(type, member.step), "one step, by its number"},              \
        {"phase",                                                                                             \
         0,                                                                                                   \
         "PHASE",                                                                                             \
         OPTION_TEXT,                                                                                         \
         offsetof(type, member.phase),                                                                        \
         "steps of a phase: prefill, decode, mixed, training"},                                               \
        {"all-ranks",                                                                                         \
         'a',                                                                                                 \
         NULL,                                                                                                \
         OPTION_FLAG,                                                                                         \
         offsetof(type, member.all_ranks),                                                                    \
         "with the other ranks of its session, or of its directory"},                                         \
        {"rank", 0, "N", OPTION_NUMBER, offsetof(type, member.rank), "one rank of several"},                  \
        {"instance",                                                                                          \
         0,                                                                                                   \
         "NAME",                                                                                              \
         OPTION_TEXT,                                                                                         \
         offsetof(type, member.instance),                                                                     \
         "One engine instance, by its name in report instances"},                                             \
        {"classes",                                                                                           \
         0,                                                                                                   \
         "FILE",                                                                                              \
         OPTION_TEXT,                                                                                         \
         offsetof(type, member.classes),                                                                      \
         "further patterns of kernel names: lines \"class pattern\""},                                        \
        {"hta",                                                                                               \
         0,                                                                                                   \
         NULL,                                                                                                \
         OPTION_FLAG,                                                                                         \
         offsetof(type, member.hta),                                                                          \
         "by Holistic Trace Analysis' own rules, for comparison"},                                            \
    {                                                                                                         \
        "memory-limit", 0, "SIZE", OPTION_SIZE, offsetof(type, member.memory_limit),                          \
            "what reading a file may use; default 1.5G"                                                       \
    }

/* Opened traces and the analysis over them. Not to be moved once it is open. */
struct analyzed {
    struct named_ranks ranks;
    struct engine_instance *instances; /* of which ranks are analysed */
    struct kernel_patterns patterns;
    struct analysis analysis;
};

/* words: traces (t12), sessions (s7), files, directories. EXIT_DONE, or an exit status, having said why. */
int analyzed_open(struct client *c, const struct analyzing *options, int n_words, char **words,
                  struct analyzed *ret);
void analyzed_done(struct analyzed *a);
