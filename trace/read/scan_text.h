/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings of JSON that are not plain: escapes undone, control characters let pass, what is not UTF-8
 * replaced.
 */
#pragma once

#include "base/util.h"

/* Of its input's size, what the cleaned text may at most have. */
#define SCAN_TEXT_GROWTH 3

/* Both take what stands between the quotes, write into out (size * SCAN_TEXT_GROWTH bytes) and return the
 * size of it. ret_flaws gets a bit (1 << DEFECT_...) for what was wrong. */
size_t scan_text_unescape(const char *p, size_t size, char *out, uint32_t *ret_flaws);
/* The same for JSON that is kept as it is written: only bytes that are not UTF-8 are replaced. */
size_t scan_text_repair(const char *p, size_t size, char *out, uint32_t *ret_flaws);
