/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of slices with the same category and name, and their sums. */
#pragma once

#include "trace/columns/writer.h"
#include "trace/read/map.h"
#include "trace/read/rows.h"

struct name_group {
    int64_t category; /* string, COLUMN_NULL without one */
    uint32_t name;
    uint32_t count;
    uint32_t first; /* of its part of by_name, once that is known */
    int64_t sum, min, max;
};

struct names {
    struct map numbers;
    struct name_group *groups;
    size_t n, cap;
};

void names_init(struct names *n, struct budget *budget);
void names_done(struct names *n);
/* The number of the group, or -ENOMEM. category: a number for category_string. */
int64_t names_group(struct names *n, uint16_t category, uint32_t name, int64_t category_string);
void names_add(struct names *n, uint32_t group, int64_t dur);
/* When all slices were added: the tables name and by_name. */
int names_write(struct names *n, struct rows *rows, struct columns_writer *w);
