/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text on its way to a terminal: fitting it into columns, wrapping it. Pure functions; the caller frees what
 * they return.
 *
 * Whatever profd sends may quote a worker's answer or a file name, so it never reaches a terminal without
 * text_clean().
 */
#pragma once

#include "base/text.h"
#include <jansson.h>

/* JSON in ASCII without controls. */
char *text_json(const json_t *value, size_t flags);

/* Number of bytes of s that fit into the given number of columns; SGR escape sequences cost none. Never
 * splits a character. */
size_t text_fit(const char *s, unsigned columns);
unsigned text_columns(const char *s);

/*
 * Shortens a text to a width of at least one column, with "…" in place of what is left out: at the end, in
 * the middle (both ends are kept), or at the beginning, which is best at a '/' of a path. Texts that fit are
 * copied.
 */
#define TEXT_ELLIPSIS "…"
char *text_shorten(const char *s, unsigned width);
char *text_shorten_middle(const char *s, unsigned width);
/* In the middle, so that what begins at a byte of s can be read: for texts that differ there. */
char *text_shorten_before(const char *s, unsigned width, size_t byte);
char *text_shorten_path(const char *s, unsigned width);

/*
 * Breaks lines at spaces so that each, with its indent, stays within width; words are never split, and neither are
 * numbers and their units ("12 %"). A line of the text that begins with a space is a command or an excerpt to be copied, and is not wrapped. The first
 * line gets no indent.
 */
char *text_wrap(const char *s, unsigned indent, unsigned width);

/* "1,234,567" into buf (at least 32 bytes). */
char *text_number(char *buf, int64_t n);
/* "1 trace", "2 traces": the word takes an s. */
char *text_count(int64_t n, const char *word);

/* "Did you mean NAME? REMEDY", or the remedy alone. The caller frees it. */
char *did_you_mean(const char *word, const char *const *names, size_t n, const char *remedy);

/* A kernel's name within the given columns: without "void" and its arguments before anything else is lost; a
 * Python frame without the beginning of its path. The caller frees. */
char *kernel_name_fit(const char *name, unsigned width);
/* A kernel's name without "void" and without its arguments; any other name as it is. The caller frees. */
char *kernel_name_bare(const char *name);
