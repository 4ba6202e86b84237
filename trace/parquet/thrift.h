/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes structs in Thrift's compact protocol, in which Parquet describes its pages and its file (apache/thrift,
 * doc/specs/thrift-compact-protocol.md). Ids of fields are below 16 and ascend within a struct.
 */
#pragma once

#include "trace/parquet/bytes.h"

enum thrift_type {
    THRIFT_TRUE = 1, /* as the type of a field, which has no value then */
    THRIFT_FALSE = 2,
    THRIFT_I32 = 5,
    THRIFT_I64 = 6,
    THRIFT_BINARY = 8,
    THRIFT_LIST = 9,
    THRIFT_STRUCT = 12,
};

/* More than the deepest struct of Parquet. */
#define THRIFT_DEPTH_MAX 8

/* Zeroed except for out; it is within its outermost struct, whose end thrift_close() writes. */
struct thrift {
    struct bytes *out;
    unsigned depth;
    uint8_t last[THRIFT_DEPTH_MAX]; /* id of the last field, of each open struct */
};

void thrift_int(struct thrift *t, unsigned id, enum thrift_type type, int64_t value);
void thrift_bool(struct thrift *t, unsigned id, bool value);
void thrift_binary(struct thrift *t, unsigned id, const void *data, size_t size);
/* n elements follow: thrift_element_...(), or thrift_open_element() and thrift_close(). */
void thrift_list(struct thrift *t, unsigned id, enum thrift_type type, size_t n);
void thrift_element_int(struct thrift *t, int64_t value);
void thrift_element_binary(struct thrift *t, const void *data, size_t size);
void thrift_open(struct thrift *t, unsigned id);
void thrift_open_element(struct thrift *t);
void thrift_close(struct thrift *t);
