/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts in a line of CSV (RFC 4180), also for spreadsheets: a text that one would take for a formula is
 * quoted and has a ' before it, as OWASP recommends (CSV injection). These begin with = + - @, their wide forms, a
 * tab or an end of line, and are no number.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* Quoted where necessary, and where it is empty: an empty field means no value. */
void csv_write(FILE *out, const char *text);
/* The same for a text with a size. */
void csv_write_sized(FILE *out, const char *text, size_t size);
/* Quoted in any case. */
void csv_write_quoted(FILE *out, const char *text);
