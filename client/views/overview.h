/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One screen about the time of a trace, or of all ranks of a session: its description, the GPU's time,
 * findings, the largest kernels, a comparison of ranks. All figures come from reports.
 */
#pragma once

#include "client/transport/connection.h"
#include "client/views/document.h"
#include "trace/reports/report.h"

/* What the screen shows, from columns that are here or computed on other hosts. */
struct overview_source {
    /* As reports_make(). 0, or an exit status after the problem was printed. */
    int (*make)(void *arg, struct made_report *made, size_t n);
    void *arg;
    struct analysis *analysis; /* NULL: the traces are elsewhere, and what follows is known of them */
    size_t n_ranks, world;
    char *device;      /* NULL: not known */
    bool is_complete;  /* no part of the traces is selected */
    bool has_gpu;      /* any trace has GPU activity, selected or not */
    int64_t events[2]; /* GPU events of a trace, at least and at most */
    /* After the first reports. */
    size_t n_instances;
    const char *instance; /* the first */
};

/* That of an analysis. device is freed by the caller. */
struct overview_source overview_of_analysis(struct analysis *a);
/* 0, a negative errno of a report, or an exit status after a problem was printed. what: the name on the command line. */
int overview_print(struct client *c, struct overview_source *source, const char *what, size_t top);
/* The findings under a heading, at most `top` of them (0: all), or the reason for their absence; made:
 * NULL without findings. */
void findings_add_section(struct document *d, bool has_gpu, const struct made_report *made, size_t top,
                          bool is_short);
