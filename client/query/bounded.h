/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statements in a child process that ends in time. SQLite checks its progress handler between steps, but never within
 * one call of a function: instr(), replace(), LIKE and others can take hours in one call. Therefore statements run in
 * a forked child, which calls bounded_is_over() where it can, and then prints its rows and exits. A child that does not
 * notice its end within BOUNDED_GRACE_NS is killed; a child that does has BOUNDED_PRINT_NS more for its rows. The first
 * SIGINT or SIGTERM ends a child in the same ways; the second one kills it at once.
 *
 * The child prints into bounded_output(). The buffer of that file is shared, so that the parent prints complete rows in
 * it after a kill. Of all other memory, only the members of struct bounded reach the parent.
 *
 * The child is a copy of its parent, because it queries what the parent has opened. The parent has no other
 * thread while it forks, and has blocked SIGINT and SIGTERM.
 */
#pragma once

#include "base/clock.h"
#include "base/util.h"

/* Time for a child to notice its deadline. */
#define BOUNDED_GRACE_NS (500 * NS_PER_MS)
/* Time to print the rows that it holds, after it has noticed the deadline. */
#define BOUNDED_PRINT_NS   (5 * NS_PER_S)
#define BOUNDED_BUFFER_MAX (256 << 10)

/* Memory that both processes see. */
struct bounded {
    int64_t time_limit_ns; /* of a statement; 0: none */
    int64_t memory_bytes;  /* limit for the child, in addition to the memory of the parent */

    /* From the child to its parent. */
    _Atomic bool was_ended;  /* by its limits */
    _Atomic bool wants_quit; /* .quit was run */
    _Atomic unsigned line;   /* of the current statement in its text, from 1 */

    /* Private. */
    _Atomic int64_t deadline_ns;
    _Atomic int signal;          /* the signal that ends it, or 0 */
    _Atomic int64_t rows;        /* of the current statement in the output */
    _Atomic int64_t rows_before; /* rows before the current write */
    _Atomic size_t n_pending;    /* bytes of complete rows in the buffer */
    _Atomic bool is_writing;
    _Atomic bool has_noticed; /* the deadline */
    _Atomic int output_error; /* errno of the output, or 0 */
    char buffer[BOUNDED_BUFFER_MAX];
};

enum bounded_how {
    BOUNDED_DONE,        /* it ended by itself, with a status */
    BOUNDED_LATE,        /* at its time limit */
    BOUNDED_INTERRUPTED, /* by a signal to the parent */
    BOUNDED_DIED,        /* by a signal of the system, such as SIGSEGV */
};

struct bounded_end {
    enum bounded_how how;
    int status;   /* of BOUNDED_DONE: the result of the work; of BOUNDED_DIED: the signal */
    int signal;   /* that the parent received meanwhile, or 0 */
    int64_t rows; /* printed rows of the last statement, without those of an incomplete table */
};

/* NULL without memory. */
struct bounded *bounded_new(int64_t time_limit_ns, int64_t memory_bytes);
struct bounded *bounded_free(struct bounded *b);

/* Runs work(arg) in a child, and waits for its end. 0, or -errno if no child could be started. */
int bounded_run(struct bounded *b, int (*work)(void *arg), void *arg, struct bounded_end *ret);

/* In the child: */

/* The file for all output, instead of stdout; is_terminal: each line is printed at once. The time that a
 * reader of the output lets the child wait is not counted. */
FILE *bounded_output(struct bounded *b, bool is_terminal);
/* Writes the rest of the buffer. 0, or -errno of this or of an earlier write. */
int bounded_flush(struct bounded *b, FILE *output);
/* Begins a statement at a line of its text, and starts its time. */
void bounded_begin(struct bounded *b, unsigned line);
/* Sets the number of complete rows of the statement in the output. */
void bounded_put_rows(struct bounded *b, FILE *output, int64_t rows);
/* Whether the statement must end. */
bool bounded_is_over(struct bounded *b);
