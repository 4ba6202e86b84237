/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of Protocol Buffers, field by field into a buffer that grows. Without memory, what follows is lost
 * and `failed` says so.
 */
#pragma once

#include "trace/columns/columns.h"

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
/* A message, or packed values, as a field: what comes until proto_close() lies in it. */
size_t proto_open(struct proto *p, unsigned field);
void proto_close(struct proto *p, size_t opened);
/* A value without a field, for packed ones. */
void proto_varint(struct proto *p, uint64_t value);

/* Writes the buffer and empties it. -ENOMEM where it is not whole. */
int proto_flush(struct proto *p, FILE *out);
