/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The four readings of a table of functions, for the functions that they hold for: a high total, a high time
 * of its own, many calls that are dear, a high total with little of its own. Pure; thresholds are shares of
 * all time that the server's functions took.
 */
#pragma once

#include "extras/nemo_gym/function_rows.h"

/* One function in the light of all. */
struct function_scene {
    const struct function_row *f;
    double total; /* all time of its worker */
};

struct function_reading {
    const char *name;  /* "high-tsub" */
    const char *title; /* for people */
    bool (*holds)(const struct function_scene *s);
    double (*share)(const struct function_scene *s); /* of all time, 0 to 1 */
    const char *advice;
};
extern const struct function_reading function_readings[];
extern const size_t n_function_readings;

struct function_finding {
    const struct function_reading *reading;
    const struct function_row *function; /* borrowed */
    double share;
};

struct function_findings {
    struct function_finding *items;
    size_t n, cap;
};

/* By reading, the largest share first; each of a share of its own worker. What the profiler itself does to
 * answer is left out. */
void function_findings_make(const struct function_rows *rows, struct function_findings *ret);
void function_findings_done(struct function_findings *f);
/* "score 53 %: ttot 16 ms, tsub 13 ms, 24 calls of 673 us". The caller frees it. */
char *function_finding_text(const struct function_finding *f);
