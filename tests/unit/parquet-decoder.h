/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads Parquet files of our writer, for tests: written from the specification, and shares no code with the writer.
 * Whatever is not as the specification demands, or as the statistics claim, aborts.
 */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define PQ_CHECK(condition)                                                                                  \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                                  \
            abort();                                                                                         \
        }                                                                                                    \
    } while (0)

enum { PQ_INT64 = 2, PQ_DOUBLE = 5, PQ_BYTES = 6 };

struct pq_input {
    const uint8_t *p;
    size_t n, at;
};

static inline uint8_t pq_byte(struct pq_input *in)
{
    PQ_CHECK(in->at < in->n);
    return in->p[in->at++];
}

static inline const uint8_t *pq_take(struct pq_input *in, uint64_t n)
{
    PQ_CHECK(n <= in->n - in->at);
    in->at += n;
    return in->p + in->at - n;
}

static inline uint64_t pq_varint(struct pq_input *in)
{
    uint64_t value = 0;

    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = pq_byte(in);
        PQ_CHECK(shift < 64);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return value;
    }
}

static inline int64_t pq_zigzag(struct pq_input *in)
{
    uint64_t value = pq_varint(in);

    return (int64_t)(value >> 1 ^ -(value & 1));
}

static inline uint64_t pq_fixed(struct pq_input *in, size_t n)
{
    const uint8_t *p = pq_take(in, n);
    uint64_t value = 0;

    for (size_t i = 0; i < n; i++)
        value |= (uint64_t)p[i] << (8 * i);
    return value;
}

/* CRC-32 of IEEE 802.3, as in gzip. */
static inline uint32_t pq_crc(const uint8_t *p, size_t n)
{
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? UINT32_C(0xedb88320) : 0);
    }
    return ~crc;
}

/* -- Thrift ------------------------------------------------------------------------------------------------- */

struct pq_node {
    unsigned type, id;
    int64_t number; /* or 0, 1 */
    const uint8_t *p;
    size_t size;
    struct pq_node *items; /* of a struct or list */
    size_t n;
};

static inline void pq_node_free(struct pq_node *node)
{
    for (size_t i = 0; i < node->n; i++)
        pq_node_free(&node->items[i]);
    free(node->items);
}

static inline struct pq_node *pq_node_add(struct pq_node *node)
{
    node->items = realloc(node->items, (node->n + 1) * sizeof(*node->items));
    PQ_CHECK(node->items);
    node->items[node->n] = (struct pq_node){0};
    return &node->items[node->n++];
}

static inline void pq_read_value(struct pq_input *in, struct pq_node *node);

static inline void pq_read_struct(struct pq_input *in, struct pq_node *node)
{
    unsigned id = 0;

    for (uint8_t head; (head = pq_byte(in)) != 0;) {
        struct pq_node *field = pq_node_add(node);
        id = head >> 4 ? id + (head >> 4) : (unsigned)pq_zigzag(in);
        field->id = id;
        field->type = head & 15;
        pq_read_value(in, field);
    }
}

static inline void pq_read_list(struct pq_input *in, struct pq_node *node)
{
    uint8_t head = pq_byte(in);
    uint64_t n = head >> 4 == 15 ? pq_varint(in) : head >> 4;

    for (uint64_t i = 0; i < n; i++) {
        struct pq_node *item = pq_node_add(node);
        item->type = head & 15;
        pq_read_value(in, item);
    }
}

static inline void pq_read_value(struct pq_input *in, struct pq_node *node)
{
    switch (node->type) {
    case 1:
    case 2:
        node->number = node->type == 1;
        break;
    case 5:
    case 6:
        node->number = pq_zigzag(in);
        break;
    case 8:
        node->size = pq_varint(in);
        node->p = pq_take(in, node->size);
        break;
    case 9:
        pq_read_list(in, node);
        break;
    case 12:
        pq_read_struct(in, node);
        break;
    default:
        PQ_CHECK(!"known type");
    }
}

static inline const struct pq_node *pq_find(const struct pq_node *node, unsigned id)
{
    for (size_t i = 0; node && i < node->n; i++)
        if (node->items[i].id == id)
            return &node->items[i];
    return NULL;
}

static inline const struct pq_node *pq_field(const struct pq_node *node, unsigned id)
{
    const struct pq_node *field = pq_find(node, id);

    PQ_CHECK(field);
    return field;
}

static inline int64_t pq_number(const struct pq_node *node, unsigned id)
{
    return pq_field(node, id)->number;
}

/* -- Encodings ---------------------------------------------------------------------------------------------- */

/* The bits [at, at + width) of bytes, the lowest first. */
static inline uint64_t pq_bits(const uint8_t *p, size_t at, unsigned width)
{
    uint64_t value = 0;

    for (unsigned i = 0; i < width; i++)
        value |= (uint64_t)(p[(at + i) / 8] >> ((at + i) % 8) & 1) << i;
    return value;
}

static inline void pq_read_hybrid(struct pq_input *in, unsigned width, uint32_t *ret, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint64_t head = pq_varint(in), count = head >> 1;
        if (head & 1) {
            const uint8_t *p = pq_take(in, count * width);
            PQ_CHECK(count > 0 && count * 8 < n - i + 8);
            for (size_t k = 0; k < count * 8; k++) {
                uint32_t value = (uint32_t)pq_bits(p, k * width, width);
                if (i < n)
                    ret[i++] = value;
                else
                    PQ_CHECK(value == 0);
            }
        } else {
            uint32_t value = (uint32_t)pq_fixed(in, (width + 7) / 8);
            PQ_CHECK(count > 0 && count <= n - i && (width == 32 || value >> width == 0));
            while (count-- > 0)
                ret[i++] = value;
        }
    }
}

static inline void pq_read_delta(struct pq_input *in, int64_t *ret, size_t n)
{
    uint64_t block = pq_varint(in), miniblocks = pq_varint(in), value;

    PQ_CHECK(block % 128 == 0 && miniblocks > 0 && block / miniblocks % 32 == 0);
    PQ_CHECK(pq_varint(in) == n);
    value = (uint64_t)pq_zigzag(in);
    if (n > 0)
        ret[0] = (int64_t)value;
    for (size_t i = 1; i < n;) {
        uint64_t least = (uint64_t)pq_zigzag(in);
        const uint8_t *widths = pq_take(in, miniblocks);
        for (size_t m = 0; m < miniblocks && i < n; m++) {
            size_t values = block / miniblocks;
            const uint8_t *p = pq_take(in, values * widths[m] / 8);
            PQ_CHECK(widths[m] <= 64);
            for (size_t k = 0; k < values && i < n; k++) {
                value += least + pq_bits(p, k * widths[m], widths[m]);
                ret[i++] = (int64_t)value;
            }
        }
    }
}

/* -- Column chunks ------------------------------------------------------------------------------------------ */

struct pq_value {
    bool is_present;
    int64_t number; /* of a double its bits */
    char *p;        /* of a text; owned */
    size_t size;
};

struct pq_page {
    int64_t type, encoding, values;
    uint8_t *body;
    size_t size;
};

static inline struct pq_page pq_read_page(struct pq_input *in, uint64_t *size, uint64_t *packed_size)
{
    struct pq_node head = {0};
    size_t begin = in->at;

    pq_read_struct(in, &head);
    size_t head_size = in->at - begin;
    struct pq_page page = {.type = pq_number(&head, 1), .size = (size_t)pq_number(&head, 2)};
    size_t packed = (size_t)pq_number(&head, 3);
    const uint8_t *data = pq_take(in, packed);
    PQ_CHECK((uint32_t)pq_number(&head, 4) == pq_crc(data, packed));
    const struct pq_node *more = pq_field(&head, page.type == 0 ? 5 : 7);
    page.values = pq_number(more, 1);
    page.encoding = pq_number(more, 2);
    if (page.type == 0)
        PQ_CHECK(pq_number(more, 3) == 3 && pq_number(more, 4) == 3);
    page.body = malloc(page.size + 1);
    PQ_CHECK(page.body && ZSTD_decompress(page.body, page.size, data, packed) == page.size);
    *size += head_size + page.size;
    *packed_size += head_size + packed;
    pq_node_free(&head);
    return page;
}

static inline struct pq_value pq_read_plain(struct pq_input *in, int64_t type)
{
    struct pq_value v = {.is_present = true};

    if (type != PQ_BYTES) {
        v.number = (int64_t)pq_fixed(in, 8);
        return v;
    }
    v.size = pq_fixed(in, 4);
    v.p = (char *)pq_take(in, v.size);
    return v;
}

/* p is copied, so that a value outlives its page. */
static inline struct pq_value pq_own(struct pq_value v)
{
    char *copy = malloc(v.size + 1);

    PQ_CHECK(copy);
    if (v.size > 0)
        memcpy(copy, v.p, v.size);
    v.p = copy;
    return v;
}

static inline double pq_double(int64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline int pq_compare(int64_t type, const struct pq_value *a, const struct pq_value *b)
{
    if (type == PQ_INT64)
        return (a->number > b->number) - (a->number < b->number);
    if (type == PQ_DOUBLE)
        return (pq_double(a->number) > pq_double(b->number)) - (pq_double(a->number) < pq_double(b->number));
    size_t n = a->size < b->size ? a->size : b->size;
    int order = n > 0 ? memcmp(a->p, b->p, n) : 0;
    return order ? order : (a->size > b->size) - (a->size < b->size);
}

static inline struct pq_value pq_bound(const struct pq_node *node, int64_t type)
{
    struct pq_input in = {node->p, node->size, 0};

    if (type == PQ_BYTES)
        return (struct pq_value){true, 0, (char *)node->p, node->size};
    PQ_CHECK(node->size == 8);
    return (struct pq_value){true, (int64_t)pq_fixed(&in, 8), NULL, 0};
}

/* sign: -1 for the smallest value, 1 for the largest. */
static inline void pq_check_bound(const struct pq_node *stats, int64_t type, int sign,
                                  const struct pq_value *values, size_t n)
{
    const struct pq_node *node = pq_find(stats, sign < 0 ? 6 : 5), *exact = pq_find(stats, sign < 0 ? 8 : 7);
    bool is_reached = false;

    if (!node)
        return;
    struct pq_value bound = pq_bound(node, type);
    PQ_CHECK(!(type == PQ_DOUBLE && isnan(pq_double(bound.number))));
    for (size_t i = 0; i < n; i++) {
        int order = values[i].is_present ? pq_compare(type, &values[i], &bound) : -sign;
        PQ_CHECK(order * sign <= 0);
        PQ_CHECK(!(type == PQ_DOUBLE && values[i].is_present && isnan(pq_double(values[i].number))));
        is_reached = is_reached || (values[i].is_present && order == 0);
    }
    PQ_CHECK(exact && (!exact->number || is_reached));
}

static inline void pq_check_statistics(const struct pq_node *stats, int64_t type,
                                       const struct pq_value *values, size_t n)
{
    size_t missing = 0;

    for (size_t i = 0; i < n; i++)
        missing += !values[i].is_present;
    PQ_CHECK((size_t)pq_number(stats, 3) == missing);
    PQ_CHECK(missing < n || (!pq_find(stats, 5) && !pq_find(stats, 6)));
    /* Numbers always have bounds. */
    PQ_CHECK(missing == n || type != PQ_INT64 || (pq_find(stats, 5) && pq_find(stats, 6)));
    pq_check_bound(stats, type, -1, values, n);
    pq_check_bound(stats, type, 1, values, n);
}

/* Data of a page into the values that are present. */
static inline void pq_read_data(const struct pq_page *page, bool is_required, int64_t type,
                                const struct pq_value *dictionary, size_t entries, struct pq_value *ret,
                                size_t n)
{
    struct pq_input in = {page->body, page->size, 0};
    uint32_t *codes = malloc((n + 1) * sizeof(*codes)), *levels = malloc((n + 1) * sizeof(*levels));
    int64_t *numbers = malloc((n + 1) * sizeof(*numbers));
    size_t present = 0, next = 0;

    PQ_CHECK(codes && levels && numbers);
    for (size_t i = 0; i < n; i++)
        levels[i] = 1;
    if (!is_required) {
        size_t size = pq_fixed(&in, 4);
        struct pq_input part = {pq_take(&in, size), size, 0};
        pq_read_hybrid(&part, 1, levels, n);
        PQ_CHECK(part.at == part.n);
    }
    for (size_t i = 0; i < n; i++)
        present += levels[i];
    if (page->encoding == 8)
        pq_read_hybrid(&in, pq_byte(&in), codes, present);
    else if (page->encoding == 5)
        pq_read_delta(&in, numbers, present);
    else
        PQ_CHECK(page->encoding == 0);
    for (size_t i = 0; i < n; i++) {
        ret[i] = (struct pq_value){0};
        if (!levels[i])
            continue;
        if (page->encoding == 8)
            PQ_CHECK(codes[next] < entries);
        ret[i] = page->encoding == 8   ? dictionary[codes[next]]
                 : page->encoding == 5 ? (struct pq_value){true, numbers[next], NULL, 0}
                                       : pq_read_plain(&in, type);
        next++;
        if (type == PQ_BYTES)
            ret[i] = pq_own(ret[i]);
    }
    PQ_CHECK(in.at == in.n);
    free(codes);
    free(levels);
    free(numbers);
}

/* The values of a column in a row group. */
static inline void pq_read_chunk(const uint8_t *file, size_t size, const struct pq_node *chunk,
                                 bool is_required, struct pq_value *ret, size_t n)
{
    const struct pq_node *meta = pq_field(chunk, 3), *first = pq_find(meta, 11);
    int64_t type = pq_number(meta, 1);
    uint64_t bytes = 0, packed = 0;
    struct pq_input in = {file, size, (size_t)(first ? first->number : pq_number(meta, 9))};
    struct pq_page pages[2] = {0};
    struct pq_value *dictionary = NULL;

    PQ_CHECK(pq_number(meta, 4) == 6 && pq_number(meta, 5) == (int64_t)n);
    if (first) {
        pages[0] = pq_read_page(&in, &bytes, &packed);
        PQ_CHECK(pages[0].type == 2 && pages[0].encoding == 0 && (int64_t)in.at == pq_number(meta, 9));
        struct pq_input entries = {pages[0].body, pages[0].size, 0};
        dictionary = calloc((size_t)pages[0].values + 1, sizeof(*dictionary));
        for (int64_t i = 0; i < pages[0].values; i++)
            dictionary[i] = pq_read_plain(&entries, type);
        PQ_CHECK(entries.at == entries.n);
    }
    pages[1] = pq_read_page(&in, &bytes, &packed);
    PQ_CHECK(pages[1].type == 0 && pages[1].values == (int64_t)n);
    pq_read_data(&pages[1], is_required, type, dictionary, (size_t)pages[0].values, ret, n);
    PQ_CHECK((uint64_t)pq_number(meta, 6) == bytes && (uint64_t)pq_number(meta, 7) == packed);
    pq_check_statistics(pq_field(meta, 12), type, ret, n);
    free(dictionary);
    free(pages[0].body);
    free(pages[1].body);
}

/* -- Files -------------------------------------------------------------------------------------------------- */

/* The description of a file; pq_node_free(). */
static inline struct pq_node pq_read_footer(const uint8_t *file, size_t size)
{
    struct pq_node footer = {0};

    PQ_CHECK(size >= 12 && memcmp(file, "PAR1", 4) == 0 && memcmp(file + size - 4, "PAR1", 4) == 0);
    struct pq_input length = {file, size, size - 8};
    size_t n = pq_fixed(&length, 4);
    PQ_CHECK(n <= size - 12);
    struct pq_input in = {file, size - 8, size - 8 - n};
    pq_read_struct(&in, &footer);
    PQ_CHECK(in.at == in.n);
    size_t columns = (size_t)pq_number(&pq_field(&footer, 2)->items[0], 5);
    PQ_CHECK(pq_field(&footer, 2)->n == columns + 1 && pq_field(&footer, 7)->n == columns);
    return footer;
}

/* All values of a column, of all row groups; *ret_n of them. Texts are to be freed, too: pq_values_free(). */
static inline struct pq_value *pq_read_column(const uint8_t *file, size_t size, const struct pq_node *footer,
                                              size_t column, size_t *ret_n)
{
    const struct pq_node *groups = pq_field(footer, 4);
    bool is_required = pq_number(&pq_field(footer, 2)->items[column + 1], 3) == 0;
    size_t total = (size_t)pq_number(footer, 3), n = 0;
    struct pq_value *values = calloc(total + 1, sizeof(*values));

    PQ_CHECK(values);
    for (size_t i = 0; i < groups->n; i++) {
        size_t rows = (size_t)pq_number(&groups->items[i], 3);
        PQ_CHECK(rows <= total - n);
        pq_read_chunk(file, size, &pq_field(&groups->items[i], 1)->items[column], is_required, values + n,
                      rows);
        n += rows;
    }
    PQ_CHECK(n == total);
    *ret_n = n;
    return values;
}

static inline void pq_values_free(struct pq_value *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(values[i].p);
    free(values);
}
