/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes dangerous characters of untrusted texts before a terminal, a log or a table shows them. Pure.
 *
 * A character is hidden where it moves the cursor, changes how text around it is shown, or shows nothing:
 * controls (C0, DEL, C1), line and paragraph separators, controls of the direction of writing, tags and all
 * other format characters that are not part of how a language is written.
 */
#pragma once

#include "base/util.h"
#include <stddef.h>
#include <stdint.h>

/* Bytes of the character of UTF-8 (RFC 3629) at s, which is not at its end; 0 where there is none. */
size_t text_decode(const char *s, uint32_t *ret);
bool character_is_hidden(uint32_t c);

/* A copy in which hidden characters, but for '\n' where lines are kept, and bytes that are not UTF-8 are '?'.
 * NULL stays NULL. */
char *text_clean(const char *s, bool keep_lines);
/* The same in place, with the same length: each such byte becomes a space. */
void text_blank(char *line);

/* Lists as people write them: words separated by spaces, tabs or commas. Pure. */

/* Returns the length of the next word of *rest and sets *ret to its start and *rest to the byte after it; 0 if no
 * word is left. */
size_t words_next(const char **rest, const char **ret);

/* The one of n names that word is most likely a misspelling of: fewest insertions, deletions, replacements
 * and swaps of neighbours, ignoring case; at most two, and at most a third of the word. NULL: none. */
const char *nearest_name(const char *word, const char *const *names, size_t n);

/* -- URLs -- */

/* Appends text to an owned string, with everything but unreserved characters (RFC 3986) as %XX. */
void append_url_escaped(char **url, const char *text);
