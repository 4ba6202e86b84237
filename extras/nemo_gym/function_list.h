/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a profiler of functions has counted so far: one row for each function, and the difference of two such
 * counts. Plain data without I/O; a list owns its strings.
 */
#pragma once

#include "base/util.h"

/* A server of NeMo Gym with everything that it imports has a few thousand. */
#define FUNCTIONS_MAX 65536
/* Of calls and nanoseconds: the difference of two fits always. */
#define FUNCTION_COUNT_MAX (INT64_C(1) << 61)

struct function {
    char *name;
    char *file;    /* "" of what is built in */
    int64_t line;  /* 0 of what is built in */
    int64_t calls; /* 0 if the profiler did not report it; includes the inner calls of a recursive function */
    /* In the function itself, and in what it called. Of one that has not returned yet the first may be
     * negative: what it called is taken off already, its own time is to come. */
    int64_t tsub_ns, ttot_ns;
};

/* What the profiler's clock counted. */
enum function_clock {
    FUNCTION_CLOCK_UNKNOWN,
    FUNCTION_CLOCK_CPU, /* waiting is invisible */
    FUNCTION_CLOCK_WALL,
};

struct function_list {
    struct function *items;
    size_t n, cap;
    size_t text_bytes;   /* of names and files */
    size_t n_unreadable; /* rows of its text that were not understood, or too many */
    int64_t pid;         /* of the process that counted, 0 unknown */
    enum function_clock clock;
};

/* Copies both texts, of which neither needs a NUL. */
void function_list_add(struct function_list *l, const char *name, size_t name_size, const char *file,
                       size_t file_size, int64_t line, int64_t calls, int64_t tsub_ns, int64_t ttot_ns);
/* Frees what it holds and the list; accepts NULL. */
struct function_list *function_list_free(struct function_list *l);
DEFINE_CLEANUP(struct function_list *, function_list_free)

/* The memory that it takes, about. */
size_t function_list_bytes(const struct function_list *l);

/* Of a call, with what it called; 0 where the number of calls is not known. */
static inline int64_t function_average_ns(const struct function *f)
{
    return f->calls > 0 ? f->ttot_ns / f->calls : 0;
}

/* "cpu", "wall", NULL where unknown. */
const char *function_clock_name(enum function_clock c);

/*
 * What was counted between two snapshots of one server, the most expensive (ttot) first; functions that did
 * nothing meanwhile are left out, and no time is negative. Where a number of calls fell, a function is gone,
 * or another process answered (for a list without a pid: where a ttot fell), the server was
 * restarted: then *ret_restarted is true, and all of `after` is the difference. The caller frees it.
 */
struct function_list *function_list_difference(const struct function_list *before,
                                               const struct function_list *after, bool *ret_restarted);
/* The most expensive first. */
void function_list_sort(struct function_list *l);

/* -- yappi.c ------------------------------------------------------------------------------------------- */

/*
 * The table: a line "Clock type: CPU", a heading that begins with "name", and rows of a name and four
 * numbers. A name may have spaces and be cut (".."), so a row is read from its right end. "12/3" is a
 * function that recurs. Times are seconds. -EBADMSG where there is no heading; a heading without rows is an
 * empty list. The caller frees the list.
 */
int yappi_table_parse(const char *text, size_t size, struct function_list **ret);

/*
 * The profile, whose costs are microseconds. It names neither what is built in nor totals. The calls of a
 * function are those that its callers made of it; calls by way of what is built in (the steps of a coroutine,
 * a key of sorted()) are missing, and where there are no others the number is not known. Its total is the
 * larger of what its callers saw, and of its own time with that of the calls it made. Functions that call
 * each other in a circle count the circle's time once; how much of it a single one was open for is not in the
 * text, and the most that it can be is given. -EBADMSG where it is no callgrind profile of yappi's, or has
 * no function; -ENOMEM.
 */
int yappi_callgrind_parse(const char *text, size_t size, struct function_list **ret);
