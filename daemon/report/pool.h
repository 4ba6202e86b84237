/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profd's side of profd-report (proto/report.h): work on the columns of traces, by a bounded number of children. It
 * knows descriptors, a specification and an answer, and nothing of reports.
 *
 * A child gets a few descriptors, no rights, and a deadline; one that outlives it, or that nobody waits for any more, is
 * killed. Work that somebody waits for goes before work in the background, which runs one at a time and never in its
 * place; users take turns. The answer is a file in memory, whose bytes
 * profd passes on without reading them: a trace that takes over its child can write any answer of its own, and nothing
 * else.
 */
#pragma once

#include "base/metrics.h"
#include "base/problem.h"
#include <event2/event.h>

/* Works that may wait, without those in the background, of all users and of one. */
#define REPORTS_WAITING_MAX      64
#define REPORTS_WAITING_USER_MAX 32
/* Traces of all works that wait: each holds a descriptor or two of profd. */
#define REPORTS_TRACES_MAX 512

struct reports;
struct report_work;

struct reports_settings {
    int64_t children_max; /* at a time */
    int64_t memory_max;   /* of each, in bytes */
};

struct report_target;

/* Descriptors are taken over, whatever happens; the arrays are copied. */
struct report_job {
    const char *spec; /* the JSON text of proto/report.h; copied */
    const int *columns_fds;
    const int *source_fds; /* NULL: none; -1: not of this one */
    size_t n;
    int64_t mapped; /* bytes of all of these files */
    bool background;
    const char *user; /* who waits for it: copied; NULL: nobody */
    /* Where the answer goes to: a file that is open for writing, which is taken over. NULL: a file in memory. */
    const struct report_target *target;
};

struct report_target {
    int fd;
    int64_t size_max;    /* bytes of the answer */
    int64_t deadline_ns; /* of the work, from its start */
};

struct report_end {
    int answer_fd; /* a regular file, which done() may take with TAKE_FD(); -1 with a problem */
    int64_t size;
    struct problem problem;
    bool is_refused; /* the child explains the problem: it would again */
};

/* settings are borrowed. */
int reports_new(struct event_base *base, const char *program, const struct reports_settings *settings,
                struct reports **ret);
/* Kills what runs; done() of each work is called with a problem. Not to be called from done(). */
struct reports *reports_free(struct reports *reports);
/* The settings have changed. */
void reports_renew(struct reports *reports);
/* Nothing runs or waits. */
bool reports_are_idle(const struct reports *reports);

/* 0, or -EAGAIN with a problem: a work of that user on so many traces would not be taken. For whoever wants to know before files
 * are opened. */
int reports_check_room(const struct reports *reports, const char *user, size_t n_traces, struct problem *p);

/* done() runs later on the loop, exactly once, unless the work is cancelled before. */
struct report_work *reports_run(struct reports *reports, const struct report_job *take,
                                void (*done)(struct report_end *end, void *arg), void *arg);
/* Without done(). The child is killed. */
void reports_cancel(struct report_work *work);

struct reports_metrics {
    unsigned running, waiting;
    uint64_t answered, refused, failed, cancelled; /* refused: with a problem that the child explains */
    struct histogram durations;
};
void reports_metrics(const struct reports *reports, struct reports_metrics *ret);
