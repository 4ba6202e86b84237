/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptions within a Parquet file (parquet.thrift): the head of a page, and the end of the file, which says
 * where each column of each row group lies and what its bounds are. Private to the writer.
 */
#pragma once

#include "trace/parquet/bytes.h"
#include "trace/parquet/writer.h"

enum page_encoding {
    ENCODING_PLAIN = 0,
    ENCODING_RLE = 3,
    ENCODING_DELTA = 5,
    ENCODING_DICTIONARY = 8,
};

enum page_type { PAGE_DATA = 0, PAGE_DICTIONARY = 2 };

struct page_head {
    enum page_type type;
    enum page_encoding encoding;
    uint32_t values; /* with missing ones */
    uint32_t size, compressed_size, crc;
};

/* A bound of the values of a column, as PLAIN encodes it; a text without its length. */
struct chunk_bound {
    uint8_t *p;
    uint32_t size;
    bool is_set, is_exact;
};

/* A column of a row group. */
struct column_chunk {
    uint64_t offset;             /* of its first page */
    uint64_t size, packed_size;  /* of its pages with their heads, before and after compression */
    uint64_t dictionary_size;    /* in the file; 0: it has no dictionary */
    enum page_encoding encoding; /* of its data page */
    uint32_t missing;
    struct chunk_bound min, max;
};

struct row_group {
    uint32_t rows;
    struct column_chunk *chunks; /* of every column */
};

void footer_put_page(struct bytes *out, const struct page_head *head);
/* From the description to the end of the file. */
void footer_put(struct bytes *out, const struct parquet_schema *schema, const struct row_group *groups,
                size_t n);
