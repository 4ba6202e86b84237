/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest and the largest value of a column in a row group, by which readers skip row groups. Private to the
 * writer.
 */
#pragma once

#include "trace/parquet/footer.h"

/* All: of the values that are present; without any, nothing is set. 0, -ENOMEM. */
int bounds_set_numbers(struct column_chunk *chunk, const int64_t *values, uint32_t n);
/* values: the bits of doubles. */
int bounds_set_reals(struct column_chunk *chunk, const int64_t *values, uint32_t n);
/* Of the texts whose numbers are entries. */
int bounds_set_texts(struct column_chunk *chunk, const struct parquet_texts *texts, const uint32_t *entries,
                     uint32_t n);
