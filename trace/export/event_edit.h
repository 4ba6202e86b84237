/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text of an event with some of its members replaced: every other byte of it stays as it is.
 */
#pragma once

#include "trace/export/text_out.h"
#include "trace/read/json_text.h"

struct edit {
    const char *key;
    char value[US_TEXT_MAX]; /* as JSON */
};

/* The value of the last member with this key; false where there is none. */
bool event_member(struct text event, const char *key, struct slice *ret);
/* Whether that value is this many nanoseconds, written as microseconds. */
bool event_has_ns(struct text event, const char *key, int64_t ns);
#define EDITS_MAX 8
/* Members that are not there are added at the end. At most EDITS_MAX. */
void event_write(FILE *out, struct text event, const struct edit *edits, size_t n);
