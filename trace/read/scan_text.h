/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cleans text that is not plain: escapes are decoded, control characters are accepted, bytes that are not
 * UTF-8 are replaced.
 */
#pragma once

#include "trace/read/intake.h"
#include "trace/read/json_text.h"

/* Maximum size of the cleaned text, as a multiple of its input. */
#define SCAN_TEXT_GROWTH 3

/* Cleans the text between two quotes, or, without unescape, JSON that is kept in its written form. Writes into
 * out (the size of the text * SCAN_TEXT_GROWTH bytes) and returns the size. ret_flaws gets a bit (1 <<
 * DEFECT_...) for each flaw. */
size_t scan_text_clean(struct slice text, bool unescape, char *out, uint32_t *ret_flaws);

#define CLEAN_TEXT_MAX (64 << 10)

/* Interns text of a format other than JSON. Returns the string's number; bytes that are not UTF-8 become U+FFFD
 * and are counted as a defect at `offset`. STRINGS_NONE if it is longer than CLEAN_TEXT_MAX, counted as well, or
 * if memory is exhausted (in->error). */
uint32_t clean_text(struct intake *in, const char *p, size_t size, uint64_t offset);
