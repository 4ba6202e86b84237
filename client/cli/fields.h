/* SPDX-License-Identifier: Apache-2.0 */
/* "Name: value" lines with the values aligned, as `show` prints them. Values are cleaned. */
#pragma once

#include "client/cli/screen.h"

/* Nothing is printed for a value of NULL. Further lines of a value are indented below the first. */
void field_print(const struct screen *s, const char *name, const char *value);
/* The same with the values in a column of the caller's. */
void field_print_at(const struct screen *s, unsigned column, const char *name, const char *value);
void field_printf(const struct screen *s, const char *name, const char *format, ...) _printf_(3, 4);
