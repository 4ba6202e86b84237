/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for control data: small, and bounded by named limits before it is asked for.
 *
 * These never return NULL: a process that cannot have a few hundred bytes ends with a message and is
 * restarted, which the durable session state is made for. Whatever is sized by a peer or a file is checked
 * against its limit first, and large buffers use malloc with an error path.
 */
#pragma once

#include "base/array.h"
#include <stdarg.h>

void *xcalloc(size_t n, size_t size);
void *xrealloc(void *p, size_t n, size_t size);
/* NULL stays NULL. */
char *xstrdup(const char *s);
char *xstrndup(const char *s, size_t n);
char *xasprintf(const char *format, ...) _printf_(1, 2);
char *xvasprintf(const char *format, va_list ap) _printf_(1, 0);
/* A stream into memory, as open_memstream() opens it. */
FILE *xmemstream(char **text, size_t *size);
/* Replaces an owned string: frees *p, stores a copy of s (NULL allowed). */
void replace_str(char **p, const char *s);
/* Appends to an owned string; NULL is empty. */
void append_str(char **p, const char *format, ...) _printf_(2, 3);
