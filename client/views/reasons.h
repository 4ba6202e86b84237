/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why workers are not as one wishes, and what to do: a fleet of a thousand that all lack the same option is
 * told once.
 */
#pragma once

#include "client/cli/screen.h"

struct reasons;

struct reasons *reasons_new(void);
struct reasons *reasons_free(struct reasons *r);
DEFINE_CLEANUP(struct reasons *, reasons_free)

/* worker may be NULL; a text of NULL is ignored. Copies. */
void reasons_add(struct reasons *r, const char *worker, const char *text, const char *remedy);
size_t reasons_count(const struct reasons *r);
/* "  URL and 3 more: text", the remedy below it, each behind its indent. */
void reasons_print(const struct reasons *r, const struct screen *s, unsigned indent);
