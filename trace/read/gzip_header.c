/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/read/gzip_header.h"

#define FIXED_SIZE     10
#define METHOD_DEFLATE 8

/* Flags of the optional fields. They follow the fixed ones in this order, except for the checksum: it is the
 * last. */
enum {
    FIELD_TEXT = 0x01, /* a hint without a field */
    FIELD_CRC = 0x02,
    FIELD_EXTRA = 0x04,
    FIELD_NAME = 0x08,
    FIELD_COMMENT = 0x10,
    FIELD_RESERVED = 0xe0,
};

static bool end_extra(struct gzip_header *h, uint8_t byte)
{
    if (h->extra_at < 2)
        h->extra_size |= (uint32_t)byte << (8 * h->extra_at);
    return ++h->extra_at == 2 + h->extra_size;
}

/* The checksum is of the header alone and not looked at: the data has one of its own. */
static void take_optional(struct gzip_header *h, uint8_t byte)
{
    static const uint8_t order[] = {FIELD_EXTRA, FIELD_NAME, FIELD_COMMENT, FIELD_CRC};
    uint8_t field = 0;

    for (size_t i = 0; i < ARRAY_SIZE(order) && !field; i++)
        field = h->fields & order[i];
    bool ended = field == FIELD_EXTRA ? end_extra(h, byte)
                 : field == FIELD_CRC ? ++h->crc_at == 2
                                      : byte == 0;
    if (ended)
        h->fields &= (uint8_t)~field;
}

const char *gzip_header_take(struct gzip_header *h, uint8_t byte)
{
    static const uint8_t magic[] = {0x1f, 0x8b};
    uint32_t at = h->at < FIXED_SIZE ? h->at++ : FIXED_SIZE;

    if (at < sizeof(magic) && byte != magic[at])
        return "no gzip header";
    if (at == 2 && byte != METHOD_DEFLATE)
        return "gzip header names an unknown method";
    if (at == 3 && (byte & FIELD_RESERVED))
        return "gzip header has reserved flags";
    if (at == 3)
        h->fields = byte & (FIELD_CRC | FIELD_EXTRA | FIELD_NAME | FIELD_COMMENT);
    if (at == FIXED_SIZE)
        take_optional(h, byte);
    h->done = at >= FIXED_SIZE - 1 && h->fields == 0;
    return NULL;
}
