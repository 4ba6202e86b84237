/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The counts of a profiler of functions: one row for each function, the difference of two lists, and the parsers of
 * yappi's texts. Plain data without I/O; a list owns its strings.
 */
#pragma once

#include "base/util.h"

/* A server of NeMo Gym with everything that it imports has a few thousand. */
#define FUNCTIONS_MAX 65536
/* Of calls and nanoseconds: the difference of two fits always. */
#define FUNCTION_COUNT_MAX (INT64_C(1) << 61)

struct function {
    char *name;
    char *file;    /* "" of a built-in function */
    int64_t line;  /* 0 of a built-in function */
    int64_t calls; /* 0 if the profiler did not report it; includes the inner calls of a recursive function */
    /* Without and with callees. The first may be negative for a function that has not returned: the time of its
     * callees is subtracted already, its own time is added when it returns. */
    int64_t tsub_ns, ttot_ns;
};

/* The clock of the profiler. */
enum function_clock {
    FUNCTION_CLOCK_UNKNOWN,
    FUNCTION_CLOCK_CPU, /* waiting is invisible */
    FUNCTION_CLOCK_WALL,
};

struct function_list {
    struct function *items;
    size_t n, cap;
    size_t text_bytes;   /* of names and files */
    size_t n_unreadable; /* rows that could not be parsed, or exceed the maximum */
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
 * The difference of two snapshots of one server, the most expensive (ttot) first; functions that did not run are left
 * out, and no time is negative. If a number of calls decreased, a function is missing, or another process answered (for a
 * list without a pid: a ttot decreased), the server was restarted: then *ret_restarted is true, and all of `after` is the
 * difference. The caller frees it.
 */
struct function_list *function_list_difference(const struct function_list *before,
                                               const struct function_list *after, bool *ret_restarted);
/* The most expensive first. */
void function_list_sort(struct function_list *l);

/* -- yappi.c ------------------------------------------------------------------------------------------- */

/*
 * The table: a line "Clock type: CPU", a heading that begins with "name", and rows of a name and four numbers. A name may
 * contain spaces and be cut (".."), so a row is read from its right end. "12/3" is a recursive function. Times are
 * seconds. -EBADMSG without a heading; a heading without rows is an empty list. The caller frees the list.
 */
int yappi_table_parse(const char *text, size_t size, struct function_list **ret);

/*
 * The profile in callgrind's format. Costs are microseconds. It contains neither built-in functions nor totals. The calls
 * of a function are those of its callers; calls by built-in functions (the steps of a coroutine, a key of sorted()) are
 * missing, and without others the number is 0. The total is the larger of what its callers saw, and of its own time with
 * that of its calls. Functions that call each other in a circle count the time of the circle once; the share of a single
 * one is not in the text, and its upper bound is given. -EBADMSG: not a callgrind profile of yappi, or without functions;
 * -ENOMEM.
 */
int yappi_callgrind_parse(const char *text, size_t size, struct function_list **ret);
