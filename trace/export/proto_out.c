/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/export/proto_out.h"

#include <errno.h>

enum wire_type {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
};

#define VARINT_MAX 10
/* Lengths of messages take this many bytes, so that they can be filled in later. */
#define LENGTH_SIZE 4

void proto_done(struct proto *p)
{
    free(p->p);
    *p = (struct proto){0};
}

static uint8_t *room(struct proto *p, size_t size)
{
    if (p->cap - p->size < size) {
        size_t cap = MAX(2 * p->cap, p->size + size + 1024);
        uint8_t *grown = realloc(p->p, cap);

        if (!grown) {
            p->failed = true;
            return NULL;
        }
        p->p = grown;
        p->cap = cap;
    }
    return p->p + p->size;
}

static void put_bytes(struct proto *p, const void *data, size_t size)
{
    uint8_t *to = room(p, size);

    if (to) {
        memcpy(to, data, size);
        p->size += size;
    }
}

void proto_varint(struct proto *p, uint64_t value)
{
    uint8_t bytes[VARINT_MAX];
    size_t n = 0;

    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    put_bytes(p, bytes, n);
}

static void put_tag(struct proto *p, unsigned field, enum wire_type type)
{
    proto_varint(p, (uint64_t)field << 3 | type);
}

void proto_int(struct proto *p, unsigned field, int64_t value)
{
    put_tag(p, field, WIRE_VARINT);
    proto_varint(p, (uint64_t)value);
}

void proto_fixed64(struct proto *p, unsigned field, uint64_t value)
{
    put_tag(p, field, WIRE_FIXED64);
    put_bytes(p, &value, sizeof(value));
}

void proto_double(struct proto *p, unsigned field, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    proto_fixed64(p, field, bits);
}

void proto_text(struct proto *p, unsigned field, struct text value)
{
    put_tag(p, field, WIRE_BYTES);
    proto_varint(p, value.size);
    put_bytes(p, value.p, value.size);
}

size_t proto_open(struct proto *p, unsigned field)
{
    static const uint8_t length[LENGTH_SIZE];

    put_tag(p, field, WIRE_BYTES);
    put_bytes(p, length, sizeof(length));
    return p->size;
}

void proto_close(struct proto *p, size_t opened)
{
    size_t size = p->size - opened;

    if (p->failed || size >> (7 * LENGTH_SIZE) != 0) {
        p->failed = true;
        return;
    }
    for (size_t i = 0; i < LENGTH_SIZE; i++, size >>= 7)
        p->p[opened - LENGTH_SIZE + i] = (uint8_t)(size & 0x7f) | (i + 1 < LENGTH_SIZE ? 0x80 : 0);
}

int proto_flush(struct proto *p, FILE *out)
{
    if (p->failed)
        return -ENOMEM;
    fwrite(p->p, 1, p->size, out);
    p->size = 0;
    return 0;
}
