/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of a gzip member (RFC 1952), byte by byte. ISA-L's own reader of headers judges one differently
 * when it comes in pieces.
 */
#pragma once

#include "base/util.h"

struct gzip_header {
    bool done; /* the next byte is the first of the compressed data */
    /* Private. */
    uint8_t fields; /* optional ones that are still to come */
    uint32_t at;
    uint32_t extra_size, extra_at, crc_at;
};

/* Takes the next byte into a header that began as a zeroed struct; why it is none, NULL where all is well. */
const char *gzip_header_take(struct gzip_header *h, uint8_t byte);
