/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of characters in UTF-8, by Unicode's table 3-7. */
#pragma once

#include "base/util.h"
#include "trace/read/intake.h"
#include <stddef.h>
#include <stdint.h>

/* U+FFFD, for what is no character. */
static const char utf8_replacement[3] = {'\xEF', '\xBF', '\xBD'};

/* Bytes of the character at p, of which `left` bytes are there; 0 where it is none. */
size_t utf8_size(const char *p, size_t left);
/* Writes a code point, at most four bytes; how many they are. */
size_t utf8_put(uint32_t code, char *out);

/*
 * Strings of JSON that are not plain: escapes undone, control characters let pass, what is not UTF-8
 * replaced.
 */

/* Of its input's size, what the cleaned text may at most have. */
#define SCAN_TEXT_GROWTH 3

/* Both take what stands between the quotes, write into out (size * SCAN_TEXT_GROWTH bytes) and return the
 * size of it. ret_flaws gets a bit (1 << DEFECT_...) for what was wrong. */
size_t scan_text_unescape(const char *p, size_t size, char *out, uint32_t *ret_flaws);
/* The same for JSON that is kept as it is written: only bytes that are not UTF-8 are replaced. */
size_t scan_text_repair(const char *p, size_t size, char *out, uint32_t *ret_flaws);

/*
 * Text of unknown making among the strings of an intake: for the formats that are not JSON.
 */

#define CLEAN_TEXT_MAX (64 << 10)

/* The string's number; bytes that are not UTF-8 become U+FFFD and are counted as a defect at `offset`.
 * STRINGS_NONE where it is longer than CLEAN_TEXT_MAX, counted as well, or where there is no memory
 * (in->error). */
uint32_t clean_text(struct intake *in, const char *p, size_t size, uint64_t offset);
