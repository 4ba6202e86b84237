/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output functions of the export formats: texts and JSON into a FILE, whose errors are checked at the end,
 * and messages of Protocol Buffers, field by field into a growing buffer. If memory is exhausted, the rest
 * of a message is lost, and `failed` is set for good.
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
/* Unchanged if it is an array or object of JSON, otherwise as a string. */
void out_json_value(FILE *out, struct text t);
/* Unchanged if it is a number of JSON, otherwise as a string. */
void out_json_digits(FILE *out, struct text t);
#define US_TEXT_MAX 32
/* In microseconds with three decimals. */
void us_text(int64_t ns, char ret[static US_TEXT_MAX]);
void out_us(FILE *out, int64_t ns);

struct proto {
    uint8_t *p;
    size_t size, cap;
    bool failed;
};

/* A zeroed struct is ready. */
void proto_done(struct proto *p);

/* A field of type int32, int64, uint64, bool or an enum. */
void proto_int(struct proto *p, unsigned field, int64_t value);
void proto_fixed64(struct proto *p, unsigned field, uint64_t value);
void proto_double(struct proto *p, unsigned field, double value);
void proto_text(struct proto *p, unsigned field, struct text value);
/* A message, or packed values, as a field: it contains everything until proto_close(). */
size_t proto_open(struct proto *p, unsigned field);
void proto_close(struct proto *p, size_t opened);
/* A value without a field, for packed ones. */
void proto_varint(struct proto *p, uint64_t value);

/* Writes the buffer, unless it is incomplete, and empties it. */
void proto_flush(struct proto *p, FILE *out);
