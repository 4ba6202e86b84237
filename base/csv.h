/* SPDX-License-Identifier: Apache-2.0 */
/* Texts in a line of CSV (RFC 4180). */
#pragma once

#include <stdio.h>

/* Quoted where it must be, and where it is empty: nothing stands for no value. */
void csv_write(FILE *out, const char *text);
void csv_write_quoted(FILE *out, const char *text);
