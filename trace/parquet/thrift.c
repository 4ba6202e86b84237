/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/parquet/thrift.h"

#include <assert.h>

/* A list with more elements than this writes their number separately. */
#define LIST_SHORT_MAX 14

static void thrift_field(struct thrift *t, unsigned id, enum thrift_type type)
{
    uint8_t *last = &t->last[t->depth];

    assert(id > *last && id < 16);
    bytes_put_byte(t->out, (uint8_t)((id - *last) << 4 | type));
    *last = (uint8_t)id;
}

void thrift_int(struct thrift *t, unsigned id, enum thrift_type type, int64_t value)
{
    thrift_field(t, id, type);
    bytes_put_varint(t->out, zigzag_of(value));
}

void thrift_bool(struct thrift *t, unsigned id, bool value)
{
    thrift_field(t, id, value ? THRIFT_TRUE : THRIFT_FALSE);
}

void thrift_binary(struct thrift *t, unsigned id, const void *data, size_t size)
{
    thrift_field(t, id, THRIFT_BINARY);
    thrift_element_binary(t, data, size);
}

void thrift_list(struct thrift *t, unsigned id, enum thrift_type type, size_t n)
{
    thrift_field(t, id, THRIFT_LIST);
    bytes_put_byte(t->out, (uint8_t)(MIN(n, (size_t)LIST_SHORT_MAX + 1) << 4 | type));
    if (n > LIST_SHORT_MAX)
        bytes_put_varint(t->out, n);
}

void thrift_element_int(struct thrift *t, int64_t value)
{
    bytes_put_varint(t->out, zigzag_of(value));
}

void thrift_element_binary(struct thrift *t, const void *data, size_t size)
{
    bytes_put_varint(t->out, size);
    bytes_put(t->out, data, size);
}

void thrift_open(struct thrift *t, unsigned id)
{
    thrift_field(t, id, THRIFT_STRUCT);
    thrift_open_element(t);
}

void thrift_open_element(struct thrift *t)
{
    assert(t->depth + 1 < THRIFT_DEPTH_MAX);
    t->last[++t->depth] = 0;
}

void thrift_close(struct thrift *t)
{
    bytes_put_byte(t->out, 0);
    if (t->depth > 0)
        t->depth--;
}
