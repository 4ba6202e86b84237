/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Traces that are analysed together: which of them are of one engine instance (trace/read/instance.h), by evidence from
 * profd's catalog, from the heads and names of the files and from their collectives; their numbers within it; and how
 * far their clocks are apart. profctl and profd-report use it; all texts and columns are the caller's.
 */
#pragma once

#include "base/json.h"
#include "trace/read/instance.h"
#include "trace/reports/analysis.h"

struct set_rank {
    const struct columns *columns;
    const json_t *trace; /* as profd knows it, NULL of a file */
    const char *path;    /* as given; NULL for a trace of profd */
    const char *label;   /* rank_label() */
    const char *role;    /* of its worker; NULL where it is not known */
    double kv_use;       /* of its worker's KV cache, 0 to 1, at most; NaN: not known */
    const char *host;    /* that keeps it; NULL: not known, as of files */
    /* The clock of its host minus that of the host that coordinated its session, and the uncertainty of that. 0: the same
     * host; COLUMN_NULL: not known. */
    int64_t clock_offset_ns, clock_error_ns;
    size_t item; /* the caller's number of it */
    /* Results. */
    size_t instance;
    int64_t number; /* within its instance */
    int64_t shift_ns;
};

struct rank_set {
    struct set_rank *items; /* rank_set_done() frees the array */
    size_t n;
    /* Ranks of an instance lie next to each other. */
    struct engine_instance *instances;
    char (*names)[INSTANCE_NAME_MAX];
    size_t n_instances;
    void (*note)(void *arg, const char *text); /* NULL: nobody wants to know */
    void *note_arg;
};

void rank_set_done(struct rank_set *set);
/* For people: what was found about the clocks. */
void rank_set_note(const struct rank_set *set, const char *format, ...) _printf_(2, 3);

/*
 * Sorts the ranks by instance, numbers each within its own, and sets the instances. *ret: a rank of an analysis for
 * each, in that order, with the data that was read already; the caller frees it after analysis_done(), also after an
 * error. as_one: all traces are ranks of one instance. 0, or -ENOMEM.
 */
int rank_set_find_instances(struct rank_set *set, const struct kernel_patterns *patterns, bool as_one,
                            struct rank **ret);
/* method: auto, wall, collectives or start. Collectives are compared within an instance. -EINVAL: another method;
 * -ENODATA: no common wall clock; -ENOMSG: too few common collectives; -ENOMEM. */
int rank_set_align(struct rank_set *set, const char *method);

/* "10.0.0.1:30000 tp3", "rank 3", else the name. trace: as profd knows it, or NULL. The caller frees it. */
char *rank_label(const json_t *trace, const struct columns *columns, const char *name);
/* "tp0 dp1 prefill", "rank 3", as profd knows the trace; NULL: nothing is known. in_short: without zeros that say
 * nothing. The caller frees it. */
char *rank_text(const json_t *trace, bool in_short);
