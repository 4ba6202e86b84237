/* SPDX-License-Identifier: Apache-2.0 */
/* What the works of profd-report share: the traces of a specification, opened and aligned as one analysis. */
#pragma once

#include "daemon/report/work.h"
#include "trace/ranks/rank_set.h"
#include "trace/reports/report.h"

struct work_trace {
    const char *name;
    const json_t *facts; /* NULL: none */
    const char *role;
    double kv_use;
    struct columns *columns;
    char *label;
};

/* The traces of a specification as one analysis, in the order of their labels. A zeroed one is ready for work_analyse(). */
struct work_analysis {
    struct work_trace *traces;
    size_t n;
    struct rank_set set;
    struct kernel_patterns patterns;
    struct analysis analysis;
    json_t *notes;
    const char *host; /* NULL: not known */
};

/* Opens the work's traces and selects its view. Negative errno with the problem. */
int work_analyse(const struct work *work, struct work_analysis *w, struct problem *p);
void work_analysis_done(struct work_analysis *w);
/* The bounds of a view: 0, or -EINVAL with the problem. */
int work_read_view(const json_t *view, struct analysis_view *ret, struct problem *p);
/* Sets the problem of a computation that failed. Returns r. */
int work_failed(int r, const char *what, struct problem *p);

/* Copies the lists of a specification that name what its result does without. */
void work_copy_lists(const json_t *spec, json_t *answer);

int work_flame(const struct work *work, FILE *answer, struct problem *p);
int work_export(const struct work *work, FILE *answer, struct problem *p);
int work_compare(const struct work *work, FILE *answer, struct problem *p);
