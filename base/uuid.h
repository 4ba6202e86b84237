/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UUIDs (RFC 9562) as text: 36 characters, lower case. They name sessions, traces, runs and catalogs of many hosts,
 * where numbers begin again on each of them.
 */
#pragma once

#include "base/util.h"
#include <stdbool.h>

#define UUID_LENGTH 36
/* Of a text with its end. */
#define UUID_SIZE (UUID_LENGTH + 1)
/* A prefix that may stand for one. Two UUIDs of a fleet rarely share its characters. */
#define UUID_PREFIX_LENGTH 8

/* A random one (version 4). The caller frees it. Aborts where the kernel has no random numbers. */
char *uuid_new(void);
/* Whether text is a complete UUID in lower case, of any version. NULL is none. */
bool uuid_is(const char *text);
/*
 * Whether text can be the beginning of a UUID, or all of it: at least UUID_PREFIX_LENGTH of its characters, with a hyphen or a
 * letter among them. A text of digits alone is a number.
 */
bool uuid_is_prefix(const char *text);
/* Whether text would be a prefix if it were longer. */
bool uuid_is_too_short(const char *text);
