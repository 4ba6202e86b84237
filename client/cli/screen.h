/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stream that people may look at: whether it is a terminal, how wide, whether it may have colour, and a
 * block of lines at its end that is drawn over and over.
 *
 * Does not touch the terminal's modes and never hides the cursor, so nothing has to be put back. The
 * width is that of the terminal, or $COLUMNS; what is no terminal has none, whatever $COLUMNS says.
 */
#pragma once

#include "base/util.h"
#include <jansson.h>

enum colour { COLOUR_NONE, COLOUR_GOOD, COLOUR_WARN, COLOUR_BAD, COLOUR_DIM, COLOUR_BOLD, _COLOUR_MAX };

struct screen {
    FILE *file;
    bool is_tty;                  /* a terminal, also a dumb one: what steers must not get there */
    bool is_terminal, has_colour; /* it can move its cursor */
    unsigned lines_drawn;         /* of the live block */
    /* Size of the terminal to which a pager (pager.h) prints what is written to file; 0: no pager. */
    unsigned paged_width, paged_height;
};

/* Width of text on what is no terminal, and at most on one that is wider. */
#define SCREEN_WIDTH_MAX 100

void screen_init(struct screen *s, FILE *file, bool want_colour);
/* Columns and lines of the terminal; 0 where there is none, which means no limit. */
unsigned screen_width(const struct screen *s);
unsigned screen_height(const struct screen *s);
/* Where prose is wrapped. */
unsigned screen_text_width(const struct screen *s);
/* The escape sequence of a colour and of its end: "" where the screen has none. */
const char *screen_colour(const struct screen *s, enum colour c);
const char *screen_plain(const struct screen *s);

/* What others said, as one text that is cleaned (text_clean()): without escape sequences of ours. */
void screen_printf(const struct screen *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* As JSON; on a terminal with everything but ASCII escaped, and DEL. */
void screen_json(const struct screen *s, const json_t *value, size_t flags);

/* Replaces the live block by the lines of text, each shortened to the width. Only for terminals. */
void screen_draw(struct screen *s, const char *text);
/* Leaves the live block where it is; what comes next goes below it. */
void screen_settle(struct screen *s);
/* Takes the live block away. */
void screen_clear(struct screen *s);
