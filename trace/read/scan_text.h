/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of characters in UTF-8, by Unicode's table 3-7. */
#pragma once

#include "base/util.h"
#include "trace/read/intake.h"
#include <stddef.h>
#include <stdint.h>

/* U+FFFD, the replacement character */
static const char utf8_replacement[3] = {'\xEF', '\xBF', '\xBD'};

/* Returns the length of the character at p, with `left` bytes available; 0 if it is invalid. */
size_t utf8_size(const char *p, size_t left);
/* Writes a code point of at most four bytes; returns its length. */
size_t utf8_put(uint32_t code, char *out);

/*
 * Cleans strings of JSON that are not plain: escapes are decoded, control characters are accepted, bytes
 * that are not UTF-8 are replaced.
 */

/* Maximum size of the cleaned text, as a multiple of its input. */
#define SCAN_TEXT_GROWTH 3

/* Both take the text between the quotes, write into out (size * SCAN_TEXT_GROWTH bytes) and return its
 * size. ret_flaws gets a bit (1 << DEFECT_...) for each flaw. */
size_t scan_text_unescape(const char *p, size_t size, char *out, uint32_t *ret_flaws);
/* The same for JSON that is kept in its written form: only bytes that are not UTF-8 are replaced. */
size_t scan_text_repair(const char *p, size_t size, char *out, uint32_t *ret_flaws);

/*
 * Interns text of unknown origin: for the formats other than JSON.
 */

#define CLEAN_TEXT_MAX (64 << 10)

/* Returns the string's number; bytes that are not UTF-8 become U+FFFD and are counted as a defect at
 * `offset`. STRINGS_NONE if it is longer than CLEAN_TEXT_MAX, counted as well, or if memory is exhausted
 * (in->error). */
uint32_t clean_text(struct intake *in, const char *p, size_t size, uint64_t offset);
