/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A running profd-report (proto/report.h): its start with descriptors and limits, its result, its end. Whether it serves
 * one work (pool.h) or requests on one trace (viewer.h) is the starter's matter, and so are deadlines. What the child
 * writes is not trusted.
 */
#pragma once

#include "base/json.h"
#include "base/problem.h"
#include "proto/report.h"
#include <signal.h>

struct report_child {
    int result_fd, pid_fd; /* -1: it was not started */
    char result[REPORT_RESULT_MAX];
    size_t result_size;
};

/* Descriptors stay the caller's, whose numbers may be others afterwards: those that the child's would have been. -1 is none. */
struct report_child_start {
    const char *program;
    int *trace_fds; /* n of columns, then n of originals */
    size_t n;
    int *spec_fd, *answer_fd;
    int64_t memory_max, cpu_s, mapped, answer_max; /* see proto/report.h */
    bool background;                               /* at the lowest priority */
};

void report_child_init(struct report_child *child);
/* 0 or a negative errno value. */
int report_child_start(struct report_child *child, const struct report_child_start *start);
void report_child_done(struct report_child *child);

/* Reads the available part of its result. True at its end, or if it is too long: then is_full. */
bool report_child_read(struct report_child *child);
bool report_child_is_full(const struct report_child *child);
/* It ends soon, unless the kernel keeps it: its pid_fd becomes readable. */
void report_child_kill(struct report_child *child);
/* Waits for the end. */
void report_child_reap(struct report_child *child, siginfo_t *ret);
/* Why it ended without an answer; p stays empty where it had one. */
void report_child_explain(const struct report_child *child, const siginfo_t *end, struct problem *p);
/* {problem, detail, remedy} of a child becomes p, which stays empty where there is no problem. */
void report_child_read_problem(const json_t *result, struct problem *p);
/* A file in memory with the text, as the child's specification: a slow reader does not block profd. */
int report_child_spec(const char *spec);
