/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a finding is looked for by: one struct for each rule, in the table rules.h. A rule looks at the scene
 * (scene.h) and puts what it saw with what that costs; whether the cost is worth a word is the table's
 * `share_min` to say, so that all thresholds are read in one place.
 *
 * Costs of different rules may be of the same time: they are never summed.
 */
#pragma once

#include "trace/reports/report_rows.h"
#include "trace/reports/rules/scene.h"

enum confidence { CONFIDENCE_LOW, CONFIDENCE_MEDIUM, CONFIDENCE_HIGH };

/* Of each text of a finding. */
#define FINDING_TEXT_MAX 400

struct finding {
    int64_t cost; /* over the whole scene: a step's share of it is what people are told */
    enum confidence confidence;
    char what[FINDING_TEXT_MAX];     /* one line, with figures */
    char where[FINDING_TEXT_MAX];    /* time, kernel, rank */
    char evidence[FINDING_TEXT_MAX]; /* what it was told from */
};

struct rule {
    const char *name;
    const char *report; /* that shows more */
    double share_min;   /* of the time looked at: below it nothing is said */
    const char *advice; /* whatever the engine */
    const char *vllm;   /* its options; NULL */
    const char *sglang; /* its options; NULL */
    /* Of rules that are of idle time with one cause. */
    enum idle_cause idle;
    const char *seen;
    int (*look)(const struct scene *scene, const struct rule *rule, struct report_rows *ret);
};

/* Whether its cost is worth a word: for rules whose words take long to find. */
bool finding_matters(const struct scene *scene, const struct rule *rule, const struct finding *finding);
/* Adds a row of the report findings, unless the cost is too small. Nothing fails: report_rows_error(). */
void finding_put(const struct scene *scene, const struct rule *rule, const struct finding *finding,
                 struct report_rows *ret);

/* Texts for findings: all write into buf and return it. */
#define FIGURES_MAX    96
#define PLACE_MAX      160
#define NAME_MAX_SHOWN 64
/* "57.2 ms of 102.7 ms (56 %)", with " a step" where costs are of steps. */
char *finding_figures(char buf[FIGURES_MAX], const struct scene *scene, int64_t cost);
/* "rank 3, 98.191ms to 100.823ms": counted, and written, as --from and --to do; "an unknown time" where the
 * trace has no first slice to count from. */
char *finding_place(char buf[PLACE_MAX], const struct scene *scene, size_t rank, int64_t from, int64_t to);
/* A kernel's name without the arguments of its templates, cut to what a line holds. */
char *finding_name(char buf[NAME_MAX_SHOWN + 1], struct text name);
