/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text of unknown making among the strings of an intake: for the formats that are not JSON.
 */
#pragma once

#include "trace/read/events.h"

#define CLEAN_TEXT_MAX (64 << 10)

/* The string's number; bytes that are not UTF-8 become U+FFFD and are counted as a defect at `place`.
 * STRINGS_NONE where it is longer than CLEAN_TEXT_MAX, counted as well, or where there is no memory
 * (in->error). */
uint32_t clean_text(struct intake *in, const char *p, size_t size, uint64_t place);
