/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts and numbers as the export formats write them. Errors stay in the FILE, and are asked for at the end.
 */
#pragma once

#include "trace/columns/columns.h"

static inline struct text text_of(const char *s)
{
    return (struct text){s, strlen(s)};
}

void out_text(FILE *out, struct text t);
/* Escaped; with its quotes, or as a part of a string. */
void out_json_text(FILE *out, struct text t);
void out_json_part(FILE *out, struct text t);
/* As it stands where it is an array or object of JSON, otherwise as a string. */
void out_json_value(FILE *out, struct text t);
/* As it stands where it is a number of JSON, otherwise as a string. */
void out_json_digits(FILE *out, struct text t);
#define US_TEXT_MAX 32
/* In microseconds with three decimals. */
void us_text(int64_t ns, char ret[static US_TEXT_MAX]);
void out_us(FILE *out, int64_t ns);
