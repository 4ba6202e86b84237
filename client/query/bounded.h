/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statements in a child process that ends in time. SQLite looks at the clock between the steps of its
 * machine, and never within one call of a function: instr(), replace(), LIKE and others can take hours in one
 * call. So statements run in a forked child, which asks bounded_is_over() wherever it can and then ends by
 * itself, with all rows printed that it has. A child that has not noticed BOUNDED_GRACE_NS later is
 * killed; one that has noticed gets BOUNDED_PRINT_NS more for its rows. The first SIGINT or SIGTERM ends a
 * child in the same ways; the second one kills it at once.
 *
 * The child prints by itself, into bounded_output(). The buffer of that file is shared, so that complete rows
 * in it are printed also after a kill. Nothing else that the child changes in memory reaches the parent,
 * except the members of struct bounded that are named so.
 *
 * The child is a copy of its parent, because it queries what the parent has opened. The parent has no other
 * thread while it forks, and has blocked SIGINT and SIGTERM.
 */
#pragma once

#include "base/clock.h"
#include "base/util.h"

/* How long after its end a child may take to notice it. */
#define BOUNDED_GRACE_NS (500 * NS_PER_MS)
/* How long one that has noticed it may take to print the rows that it holds. */
#define BOUNDED_PRINT_NS   (5 * NS_PER_S)
#define BOUNDED_BUFFER_MAX (256 << 10)

/* Memory that both processes see. */
struct bounded {
    int64_t time_limit_ns; /* of a statement; 0: none */
    int64_t memory_bytes;  /* which the child may take in addition to what its parent has */

    /* From the child to its parent. */
    _Atomic bool was_ended;  /* by its bounds, before it was done */
    _Atomic bool wants_quit; /* .quit was run */
    _Atomic unsigned line;   /* of the current statement in its text, from 1 */

    /* Private. */
    _Atomic int64_t deadline_ns;
    _Atomic int signal;          /* that ends it, or 0 */
    _Atomic int64_t rows;        /* of the current statement in the output */
    _Atomic int64_t rows_before; /* those before what is being written */
    _Atomic size_t n_pending;    /* bytes of complete rows in the buffer */
    _Atomic bool is_writing;
    _Atomic bool has_noticed; /* that it is over */
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
    int status;   /* of BOUNDED_DONE: what the work returned; of BOUNDED_DIED: the signal */
    int signal;   /* that came to the parent meanwhile, or 0 */
    int64_t rows; /* of the last statement that were printed; of a table that was being printed, none */
};

/* NULL where there is no memory for it. */
struct bounded *bounded_new(int64_t time_limit_ns, int64_t memory_bytes);
struct bounded *bounded_free(struct bounded *b);

/* Runs work(arg) in a child, and waits for its end. 0, or -errno where no child could be started. */
int bounded_run(struct bounded *b, int (*work)(void *arg), void *arg, struct bounded_end *ret);

/* In the child: */

/* The file for all output, instead of stdout; is_terminal: each line is printed at once. The time that a
 * reader of the output lets the child wait is not counted. */
FILE *bounded_output(struct bounded *b, bool is_terminal);
/* Writes what is still in the buffer. 0, or -errno of this or of an earlier write. */
int bounded_flush(struct bounded *b, FILE *output);
/* A statement begins, in that line of its text, and with it its time. */
void bounded_begin(struct bounded *b, unsigned line);
/* Counts complete rows of the statement that are in the output now. */
void bounded_put_rows(struct bounded *b, FILE *output, int64_t rows);
/* Whether the statement is to end. */
bool bounded_is_over(struct bounded *b);
