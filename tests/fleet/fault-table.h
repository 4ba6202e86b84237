/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be wrong with a worker: the table of faults, and how they are written on a command line
 * ("slow-stop=3@0,4-7") and kept. Pure functions over text; what a fault does is decided where it happens.
 */
#pragma once

#include "base/util.h"

enum fault {
    FAULT_NONE,
    /* What happens once, when it is asked for. */
    FAULT_DIE,
    FAULT_RELAUNCH,
    FAULT_HANG_UP,
    /* Every answer. */
    FAULT_STATUS,
    FAULT_GARBAGE,
    FAULT_CUT_ANSWER,
    FAULT_AUTH,
    FAULT_REDIRECT,
    FAULT_HTML,
    FAULT_WRONG_JSON,
    FAULT_ENDLESS_BODY,
    FAULT_ENDLESS_HEADER,
    FAULT_SLOW_BODY,
    FAULT_CLOCK,
    /* What the worker says of itself. */
    FAULT_SLOW_HEALTH,
    FAULT_UNHEALTHY,
    FAULT_SLEEPING,
    FAULT_IDLE,
    FAULT_NO_PROFILER,
    FAULT_NO_SERVER_INFO,
    FAULT_ONE_SESSION,
    /* Start. */
    FAULT_SLOW_START,
    FAULT_HOLD_START,
    FAULT_HANG_START,
    FAULT_RESET_START,
    FAULT_START_REFUSED,
    FAULT_START_404,
    FAULT_START_409,
    FAULT_START_500,
    FAULT_DRAINING,
    FAULT_ERROR_IN_BODY,
    FAULT_OLDER_PATHS,
    FAULT_OLDER_KEYS,
    /* Stop. */
    FAULT_SLOW_STOP,
    FAULT_HOLD_STOP,
    FAULT_HOLD_CLEAN,
    FAULT_HANG_STOP,
    FAULT_RESET_STOP,
    FAULT_STOP_500,
    FAULT_STOP_500_NO_TRACE,
    FAULT_STOP_ERROR_IN_BODY,
    FAULT_IDLE_STOP_500,
    FAULT_CRASH_FLUSH,
    /* What is in a trace. */
    FAULT_ZERO_BYTE,
    FAULT_TRUNCATED,
    FAULT_TRUNCATED_JSON,
    FAULT_CORRUPT_CRC,
    FAULT_HUGE,
    /* How traces appear. */
    FAULT_LATE,
    FAULT_HOLD_TRACE,
    FAULT_GROWING,
    FAULT_DUPLICATE,
    FAULT_NO_TRACE,
    FAULT_MISSING_RANK,
    FAULT_SYMLINK_TRACE,
    FAULT_FIFO_TRACE,
    FAULT_MANY_FILES,
    _FAULT_MAX,
};

/* One "NAME[=ARG][@INDEXES]". fault_spec_done() frees what it holds. */
struct fault_spec {
    enum fault fault;
    double number; /* the argument, or the fault's default */
    char *text;    /* the argument as written; only of FAULT_AUTH */
    char *indexes; /* NULL: every worker */
};

/* -EINVAL where the name is unknown or the argument is not of its kind. */
int fault_spec_parse(const char *spec, struct fault_spec *ret);
/* The same from its parts; arg may be NULL. "none" is FAULT_NONE. */
int fault_spec_make(const char *name, const char *arg, struct fault_spec *ret);
void fault_spec_done(struct fault_spec *s);

/* The faults that one worker has. */
struct fault_set {
    uint64_t on;
    double number[_FAULT_MAX];
    char *token;
};

static inline bool fault_set_has(const struct fault_set *set, enum fault f)
{
    return set->on >> f & 1;
}

/* Adds to those already there; FAULT_NONE clears them all. */
void fault_set_add(struct fault_set *set, const struct fault_spec *spec);
void fault_set_clear(struct fault_set *set);

/*
 * "0,3-7", or "10%" for every tenth: marks what is meant in chosen[n]. -EINVAL for other text, -ERANGE for an
 * index that is not below n.
 */
int indexes_parse(const char *text, bool *chosen, size_t n);

void fault_table_print(FILE *out);
