/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nsight Systems around a worker's command: its options for each mode, its reports and their export; and a command that
 * runs to its end, as a transient unit of systemd with the rights of the user of profctl, or as a child. Its output is
 * profctl's, its input is empty.
 *
 * Ctrl-C and SIGTERM, which the caller has blocked, interrupt it in order (SIGINT to its first process only, which may
 * have a report to write); a second one kills all of its processes.
 */
#pragma once

#include "base/problem.h"
#include "client/transport/connection.h"

/* -- nsys_options.c ----------------------------------------------------------------------------------- */

struct nsys_mode {
    const char *name;
    const char *const *options; /* of `nsys profile` */
    bool waits_for_range;       /* records only between cudaProfilerStart and cudaProfilerStop */
};
const struct nsys_mode *nsys_mode_find(const char *name, struct problem *p);

/* The program, to be freed; NULL with the problem, whose remedy ends with an alternative ("; ..."). */
char *nsys_find(const char *alternative, struct problem *p);
/* The command wrapped in nsys, whose reports begin with base; the array is to be freed, its words are
 * borrowed. */
char **nsys_wrap(const struct nsys_mode *mode, const char *nsys, const char *base, int n_extra,
                 const char *const *extra, int n_words, char *const *words);

struct nsys_reports {
    char **items;
    size_t n, cap;
};
/* base.nsys-rep, base.1.nsys-rep, ... */
void nsys_reports_find(const char *base, struct nsys_reports *ret);
void nsys_reports_done(struct nsys_reports *r);
bool nsys_is_report(const char *path);
/* Exports a report into a database next to it; the path is to be freed. */
int nsys_export(const char *nsys, const char *report, char **ret, struct problem *p);

/* -- running.c ---------------------------------------------------------------------------------------- */

struct systemd;
struct run_order {
    const char *unit;                      /* with its suffix */
    char **argv;                           /* the first is an absolute path */
    const struct option_list *environment; /* NAME or NAME=VALUE, in addition to what every unit inherits */
};
/* If *ret_status is set, the command ran: its exit status, 128 + N if signal N ended it. */
int run_in_unit(struct client *c, struct systemd *systemd, const struct run_order *o, int *ret_status,
                struct problem *p);
int run_as_child(struct client *c, const struct run_order *o, int *ret_status, struct problem *p);
