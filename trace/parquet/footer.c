/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/parquet/footer.h"

#include "trace/parquet/thrift.h"

#define FILE_VERSION     2
#define CODEC_ZSTD       6
#define CONVERTED_TEXT   0
#define CONVERTED_MICROS 10

enum physical_type { PHYSICAL_INT64 = 2, PHYSICAL_DOUBLE = 5, PHYSICAL_BYTES = 6 };

static const enum physical_type physical_types[] = {
    [PARQUET_INT64] = PHYSICAL_INT64,
    [PARQUET_MICROS] = PHYSICAL_INT64,
    [PARQUET_DOUBLE] = PHYSICAL_DOUBLE,
    [PARQUET_TEXT] = PHYSICAL_BYTES,
};

void footer_put_page(struct bytes *out, const struct page_head *head)
{
    struct thrift t = {.out = out};

    thrift_int(&t, 1, THRIFT_I32, head->type);
    thrift_int(&t, 2, THRIFT_I32, head->size);
    thrift_int(&t, 3, THRIFT_I32, head->compressed_size);
    thrift_int(&t, 4, THRIFT_I32, (int32_t)head->crc);
    thrift_open(&t, head->type == PAGE_DATA ? 5 : 7);
    thrift_int(&t, 1, THRIFT_I32, head->values);
    thrift_int(&t, 2, THRIFT_I32, head->encoding);
    if (head->type == PAGE_DATA) {
        thrift_int(&t, 3, THRIFT_I32, ENCODING_RLE);
        thrift_int(&t, 4, THRIFT_I32, ENCODING_RLE);
    }
    thrift_close(&t);
    thrift_close(&t);
}

/* -- Schema ------------------------------------------------------------------------------------------------- */

static void footer_put_text(struct thrift *t, unsigned id, const char *text)
{
    thrift_binary(t, id, text, strlen(text));
}

/* LogicalType: a union, of which one field is set. */
static void footer_put_logical_type(struct thrift *t, enum parquet_type type)
{
    thrift_open(t, 10);
    if (type == PARQUET_TEXT) {
        thrift_open(t, 1);
    } else {
        thrift_open(t, 8);
        thrift_bool(t, 1, true); /* adjusted to UTC */
        thrift_open(t, 2);
        thrift_open(t, 2); /* microseconds */
        thrift_close(t);
        thrift_close(t);
    }
    thrift_close(t);
    thrift_close(t);
}

static void footer_put_column(struct thrift *t, const struct parquet_column *column)
{
    bool is_annotated = column->type == PARQUET_TEXT || column->type == PARQUET_MICROS;

    thrift_open_element(t);
    thrift_int(t, 1, THRIFT_I32, physical_types[column->type]);
    thrift_int(t, 3, THRIFT_I32, !column->is_required);
    footer_put_text(t, 4, column->name);
    if (is_annotated)
        thrift_int(t, 6, THRIFT_I32, column->type == PARQUET_TEXT ? CONVERTED_TEXT : CONVERTED_MICROS);
    thrift_int(t, 9, THRIFT_I32, column->field_id);
    if (is_annotated)
        footer_put_logical_type(t, column->type);
    thrift_close(t);
}

static void footer_put_schema(struct thrift *t, const struct parquet_schema *schema)
{
    thrift_list(t, 2, THRIFT_STRUCT, schema->n_columns + 1);
    thrift_open_element(t);
    footer_put_text(t, 4, "schema");
    thrift_int(t, 5, THRIFT_I32, (int64_t)schema->n_columns);
    thrift_close(t);
    for (size_t i = 0; i < schema->n_columns; i++)
        footer_put_column(t, &schema->columns[i]);
}

/* -- Row groups --------------------------------------------------------------------------------------------- */

static void footer_put_statistics(struct thrift *t, const struct column_chunk *chunk)
{
    thrift_open(t, 12);
    thrift_int(t, 3, THRIFT_I64, chunk->missing);
    if (chunk->max.is_set)
        thrift_binary(t, 5, chunk->max.p, chunk->max.size);
    if (chunk->min.is_set)
        thrift_binary(t, 6, chunk->min.p, chunk->min.size);
    if (chunk->max.is_set)
        thrift_bool(t, 7, chunk->max.is_exact);
    if (chunk->min.is_set)
        thrift_bool(t, 8, chunk->min.is_exact);
    thrift_close(t);
}

static void footer_put_chunk(struct thrift *t, const struct parquet_column *column,
                             const struct column_chunk *chunk, uint32_t rows)
{
    bool has_dictionary = chunk->dictionary_size > 0;

    thrift_open_element(t);
    thrift_int(t, 2, THRIFT_I64, 0);
    thrift_open(t, 3);
    thrift_int(t, 1, THRIFT_I32, physical_types[column->type]);
    thrift_list(t, 2, THRIFT_I32, has_dictionary ? 3 : 2);
    thrift_element_int(t, chunk->encoding);
    thrift_element_int(t, ENCODING_RLE);
    if (has_dictionary)
        thrift_element_int(t, ENCODING_PLAIN);
    thrift_list(t, 3, THRIFT_BINARY, 1);
    thrift_element_binary(t, column->name, strlen(column->name));
    thrift_int(t, 4, THRIFT_I32, CODEC_ZSTD);
    thrift_int(t, 5, THRIFT_I64, rows);
    thrift_int(t, 6, THRIFT_I64, (int64_t)chunk->size);
    thrift_int(t, 7, THRIFT_I64, (int64_t)chunk->packed_size);
    thrift_int(t, 9, THRIFT_I64, (int64_t)(chunk->offset + chunk->dictionary_size));
    if (has_dictionary)
        thrift_int(t, 11, THRIFT_I64, (int64_t)chunk->offset);
    footer_put_statistics(t, chunk);
    thrift_close(t);
    thrift_close(t);
}

static void footer_put_group(struct thrift *t, const struct parquet_schema *schema,
                             const struct row_group *group)
{
    uint64_t size = 0, packed_size = 0;

    thrift_open_element(t);
    thrift_list(t, 1, THRIFT_STRUCT, schema->n_columns);
    for (size_t i = 0; i < schema->n_columns; i++) {
        footer_put_chunk(t, &schema->columns[i], &group->chunks[i], group->rows);
        size += group->chunks[i].size;
        packed_size += group->chunks[i].packed_size;
    }
    thrift_int(t, 2, THRIFT_I64, (int64_t)size);
    thrift_int(t, 3, THRIFT_I64, group->rows);
    thrift_int(t, 5, THRIFT_I64, (int64_t)group->chunks[0].offset);
    thrift_int(t, 6, THRIFT_I64, (int64_t)packed_size);
    thrift_close(t);
}

static void footer_put_facts(struct thrift *t, const struct parquet_schema *schema)
{
    if (schema->n_facts == 0)
        return;
    thrift_list(t, 5, THRIFT_STRUCT, schema->n_facts);
    for (size_t i = 0; i < schema->n_facts; i++) {
        thrift_open_element(t);
        footer_put_text(t, 1, schema->facts[i].key);
        footer_put_text(t, 2, schema->facts[i].value);
        thrift_close(t);
    }
}

/* Without them, readers do not use bounds of texts: these are in the order of their bytes. */
static void footer_put_orders(struct thrift *t, const struct parquet_schema *schema)
{
    thrift_list(t, 7, THRIFT_STRUCT, schema->n_columns);
    for (size_t i = 0; i < schema->n_columns; i++) {
        thrift_open_element(t);
        thrift_open(t, 1);
        thrift_close(t);
        thrift_close(t);
    }
}

void footer_put(struct bytes *out, const struct parquet_schema *schema, const struct row_group *groups,
                size_t n)
{
    struct thrift t = {.out = out};
    size_t begin = out->n;
    int64_t rows = 0;

    for (size_t i = 0; i < n; i++)
        rows += groups[i].rows;
    thrift_int(&t, 1, THRIFT_I32, FILE_VERSION);
    footer_put_schema(&t, schema);
    thrift_int(&t, 3, THRIFT_I64, rows);
    thrift_list(&t, 4, THRIFT_STRUCT, n);
    for (size_t i = 0; i < n; i++)
        footer_put_group(&t, schema, &groups[i]);
    footer_put_facts(&t, schema);
    footer_put_text(&t, 6, schema->created_by);
    footer_put_orders(&t, schema);
    thrift_close(&t);
    bytes_put_fixed(out, out->n - begin, 4);
    bytes_put(out, "PAR1", 4);
}
