/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An output stream that may be a terminal: its width and colours, a block of lines at its end that is redrawn,
 * "Name: value" fields, the pager, and single keys for displays that run until the user ends them.
 *
 * Drawing never changes the terminal's modes and never hides the cursor, so nothing has to be restored; only
 * keys_open() changes modes, and keys_close() restores them. The width is that of the terminal, or $COLUMNS;
 * a stream that is no terminal has no width, whatever $COLUMNS contains.
 */
#pragma once

#include "base/util.h"
#include <jansson.h>
#include <signal.h>
#include <sys/types.h>
#include <termios.h>

enum colour { COLOUR_NONE, COLOUR_GOOD, COLOUR_WARN, COLOUR_BAD, COLOUR_DIM, COLOUR_BOLD, _COLOUR_MAX };

struct screen {
    FILE *file;
    bool is_tty;                  /* a terminal, also a dumb one: what steers must not get there */
    bool is_terminal, has_colour; /* it can move its cursor */
    unsigned lines_drawn;         /* of the live block */
    /* Size of the terminal on which a pager prints the output; 0: no pager. */
    unsigned paged_width, paged_height;
};

/* Width of text without a terminal, and the maximum on a terminal. */
#define SCREEN_WIDTH_MAX 100

void screen_init(struct screen *s, FILE *file, bool want_colour);
/* Columns and lines of the terminal; 0: no terminal, and no limit. */
unsigned screen_width(const struct screen *s);
unsigned screen_height(const struct screen *s);
/* Where prose is wrapped. */
unsigned screen_text_width(const struct screen *s);
/* The escape sequence of a colour and of its end: "" where the screen has none. */
const char *screen_colour(const struct screen *s, enum colour c);
const char *screen_plain(const struct screen *s);

/* Prints untrusted text: the result of the format is cleaned (text_clean()). */
void screen_printf(const struct screen *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As JSON; on a terminal with everything but ASCII escaped, and DEL. */
void screen_json(const struct screen *s, const json_t *value, size_t flags);

/* Replaces the live block by the lines of text, each shortened to the width. Only for terminals. */
void screen_draw(struct screen *s, const char *text);
/* Ends the live block: later output goes below it. */
void screen_settle(struct screen *s);
/* Takes the live block away. */
void screen_clear(struct screen *s);

/* -- Fields ---------------------------------------------------------------------------------------------- */

/* "Name: value" with the values aligned, as `show` prints them. Values are cleaned; further lines of a value
 * are indented below the first; nothing is printed for NULL. */
void field_print(const struct screen *s, const char *name, const char *value);
/* The same with the values at the given column. */
void field_print_at(const struct screen *s, unsigned column, const char *name, const char *value);
void field_printf(const struct screen *s, const char *name, const char *format, ...) _printf_(3, 4);

/* -- Pager ----------------------------------------------------------------------------------------------- */

/* $PROFCTL_PAGER, else $PAGER, else less, which ends by itself where everything fits on the screen. "cat" or
 * an empty value: no pager. */
struct pager {
    pid_t pid; /* 0: none */
};

/* Redirects stdout to the pager. Does nothing without a pager or a terminal. The pager then handles
 * Ctrl-C. */
void pager_start(struct pager *p, struct screen *s);
/* Closes stdout and waits until the user has left the pager. Returns the exit status of a pager that could not
 * be run, else 0. */
int pager_wait(struct pager *p);

/* -- Keys and signals -------------------------------------------------------------------------------------- */

/* The signals that ask profctl to end: SIGINT and SIGTERM. */
sigset_t screen_signals(void);

/* Single keys of the terminal. Between keys_open() and keys_close() these signals, and SIGHUP, arrive as
 * KEY_END. */
struct keys {
    int fd; /* -1: standard input is no terminal */
    int signal_fd;
    struct termios before;
};

#define KEY_NONE (-1)
#define KEY_END  3 /* Ctrl-C, or a signal that asks profctl to end */

void keys_open(struct keys *k);
void keys_close(struct keys *k);
/* Waits for a key until the deadline (monotonic nanoseconds): its byte, KEY_END or KEY_NONE. */
int keys_wait(struct keys *k, int64_t deadline_ns);
