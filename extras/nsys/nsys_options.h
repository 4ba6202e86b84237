/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nsight Systems around a worker's command: with which options for which mode, where its reports are, and how
 * they become something that can be read.
 */
#pragma once

#include "base/problem.h"

/* Sets of options, by what the command serves. */
struct nsys_mode {
    const char *name, *about;
    const char *const *options; /* of `nsys profile` */
    bool waits_for_range;       /* records only between cudaProfilerStart and cudaProfilerStop */
};

extern const struct nsys_mode nsys_modes[]; /* ends with an empty one */
const struct nsys_mode *nsys_mode_find(const char *name, struct problem *p);

/* The program, to be freed; NULL with the problem, whose remedy ends with what does without it ("; ..."). */
char *nsys_find(const char *instead, struct problem *p);
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
/* Exports a report into a database beside it; the path is to be freed. */
int nsys_export(const char *nsys, const char *report, char **ret, struct problem *p);
