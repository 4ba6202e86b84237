/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problems of workers and their remedies: the same problem of a thousand workers is printed once.
 */
#pragma once

#include "client/views/document.h"

struct reasons;

struct reasons *reasons_new(void);
struct reasons *reasons_free(struct reasons *r);
DEFINE_CLEANUP(struct reasons *, reasons_free)

/* worker may be NULL; a text of NULL is ignored. Copies. */
void reasons_add(struct reasons *r, const char *worker, const char *text, const char *remedy);
size_t reasons_count(const struct reasons *r);
/* "URL and 3 more: text", each with its remedy. indent: on a terminal. */
void reasons_add_to(struct document *d, const struct reasons *r, unsigned indent);
/* The same as a document of their own. */
void reasons_print(const struct reasons *r, const struct screen *s, unsigned indent);
