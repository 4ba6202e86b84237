/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups items (GPU events, calls) over all ranks and sums up their values: count, sum, extremes, percentiles. A
 * report that only groups and sums is a specification: a struct aggregation, which finds the items with their keys
 * and values, and a `figure` for each column.
 */
#pragma once

#include "trace/reports/grouping.h"
#include "trace/reports/report.h"

#define AGGREGATION_VALUES_MAX 8
#define AGGREGATION_ORDER_MAX  3

/* The column of the rank, of groups that are of ranks. */
#define RANK_FIGURE                                                                                          \
    {                                                                                                        \
        .name = "rank", .unit = UNIT_ID, .meaning = "rank number", .is_identity = true, .figure = {          \
            FIGURE_RANK                                                                                      \
        }                                                                                                    \
    }

struct gathering;

struct aggregation {
    unsigned n_values;
    bool by_rank; /* the items of each rank have groups of their own, in the order of the ranks */
    /* Values by whose sums groups are ordered, the largest first; then in order of appearance, or of key 0. */
    unsigned n_order, order[AGGREGATION_ORDER_MAX];
    bool then_by_text; /* key 0 is a text */
    /* Finds the items of one rank (gathering_add()). Negative errno. */
    int (*gather)(struct gathering *g);
};

/* The items of one rank, for gather(). */
struct gathering {
    struct analysis *analysis;
    size_t rank;
    const struct columns *c;     /* of the rank */
    const void *arg;             /* of the aggregation */
    struct text_numbers numbers; /* of the rank's texts as keys */
    /* Private. */
    struct aggregated *all;
    bool is_out_of_memory;
};

/* A number as a key, which a function returned that fails with a negative number where memory runs out. */
int64_t gathering_number(struct gathering *g, int64_t number);
/* The number of a text as a key, by its number in the rank's trace, or by itself: then it must stay. */
int64_t gathering_text(struct gathering *g, int64_t text);
int64_t gathering_name(struct gathering *g, struct text text);
/* The same, COLUMN_NULL for an empty one. */
int64_t gathering_nonempty(struct gathering *g, struct text text);
/* 1 for what was not asked before, on any rank, else 0: counts distinct things. */
int64_t gathering_is_new(struct gathering *g, struct group_key thing);
/* Adds an item. values: n_values of them, COLUMN_NULL where the item has none. slice: where the item is found. -ENOMEM,
 * also of what failed before. */
int gathering_add(struct gathering *g, struct group_key key, const int64_t *values, uint64_t slice);

/* Where an item is found. */
struct group_place {
    size_t rank;
    uint64_t slice;
};

/* One of the values of a group's items. */
struct group_value {
    uint64_t n; /* number of items that have it */
    int64_t sum, min, max, first;
    struct group_place min_at, max_at;
    int64_t *sorted; /* all n, if they are wanted */
};

struct group {
    struct group_key key;
    size_t rank;                /* of the first item */
    struct group_value *values; /* n_values */
    size_t number;              /* private: in order of appearance */
};

struct aggregated {
    const struct aggregation *aggregation;
    struct analysis *analysis;
    struct group *items; /* those that have items with value 0, in order */
    size_t n;
    struct name_table names;
    int64_t *totals; /* of each rank: sum of value 0 over its groups, which are all groups unless by_rank */
    /* Private. */
    struct groups groups, distinct;
    struct group_value *values;
    struct aggregation_sample *samples;
    size_t items_cap, values_cap, n_samples, samples_cap;
    int64_t *sorted;
    unsigned wanted;
};

/* sorted: a mask of the values whose `sorted` is wanted. ret is to be done with after any result. -ENOMEM, and what
 * gather() returns. */
int aggregate(struct analysis *a, const struct aggregation *aggregation, const void *arg, unsigned sorted,
              struct aggregated *ret);
void aggregated_done(struct aggregated *all);
/* The text of a key; no text for COLUMN_NULL. */
struct text group_text(const struct aggregated *all, const struct group *group, unsigned key);

/* GPU events by name, the largest sum first. Keys: name, enum kernel_class, enum gpu_kind; value 0: duration. arg:
 * for each rank the times in which events begin, NULL for none of its events; NULL for all of the view. */
extern const struct aggregation gpu_names;

/* Makes a report of an aggregation. */
int aggregation_make(const struct report *report, struct analysis *a, struct report_rows *ret);
