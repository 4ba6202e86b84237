/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a report is: one file each, one struct each, listed in reports.c. Text, JSON, CSV, HTML and the SQL
 * table are all made from this description.
 */
#pragma once

#include "base/importance.h"
#include "trace/reports/analysis.h"
#include "trace/reports/report_rows.h"

enum report_unit {
    UNIT_TEXT,
    UNIT_ID,    /* a number that names something: a rank, a stream, a step */
    UNIT_COUNT, /* how many */
    UNIT_NS,
    UNIT_BYTES,
    UNIT_BYTES_PER_S,
    UNIT_SHARE, /* 0 to 1, printed as a percentage */
    UNIT_FACTOR /* anything else with a fraction */
};

struct aggregated;
struct aggregation;
struct group;

/* What a cell of a report that only groups and sums is of its group (aggregation.h). */
enum figure_kind {
    FIGURE_NONE,
    FIGURE_TEXT,  /* a key that is a text */
    FIGURE_KEY,   /* any other key */
    FIGURE_FIRST, /* the value of the first item */
    FIGURE_RANK,  /* number of the rank of the group */
    FIGURE_COUNT, /* number of items that have the value */
    FIGURE_SUM,
    FIGURE_MEAN,
    FIGURE_PART, /* the mean, as a share */
    FIGURE_MIN,
    FIGURE_MAX,
    FIGURE_MEDIAN, /* the mean of the middle two of an even number */
    FIGURE_P50,    /* nearest rank */
    FIGURE_P99,
    FIGURE_DEVIATION, /* standard deviation of a sample */
    FIGURE_SHARE,     /* of the sum of all groups, of the rank if groups are of ranks; of value 0 */
    FIGURE_MIN_RANK,  /* where the item with the smallest value is found */
    FIGURE_MIN_SLICE,
    FIGURE_MIN_START,
    FIGURE_MAX_RANK,
    FIGURE_MAX_SLICE,
    FIGURE_MAX_START,
    FIGURE_OTHER, /* by emit() */
};

struct figure {
    enum figure_kind kind;
    unsigned of; /* number of the key or the value */
    void (*emit)(const struct aggregated *all, const struct group *group, struct report_rows *ret);
};

struct report_column {
    const char *name;
    enum report_unit unit;
    const char *meaning;
    int importance;       /* enum importance: what is left out first where the line is short */
    bool is_prose;        /* sentences: a page shows them completely */
    bool is_identity;     /* whose row it is: hidden only if all rows have the same value */
    struct figure figure; /* of a report with an aggregation */
};

/* The columns of a report in its struct. */
#define REPORT_COLUMNS(report) .columns = report##_columns, .n_columns = ARRAY_SIZE(report##_columns)

/* The column that most reports begin with. */
#define RANK_COLUMN(C) C(rank, ID, "rank number", .is_identity = true)

/* Requirements of a report. */
enum report_needs {
    NEEDS_GPU = 1,    /* GPU events */
    NEEDS_RANKS = 2,  /* more than one trace */
    NEEDS_OPS = 4,    /* operators of the host */
    NEEDS_MEMORY = 8, /* [memory] events */
};

/* Of several instances, the heading of the column that identifies the instance of a row. */
#define REPORT_INSTANCE "instance"

/* What a renderer does differently for a report: at most one report has each of the other roles. */
enum report_role {
    REPORT_TABLE,
    REPORT_FINDINGS,   /* sentences, too long for a table */
    REPORT_GPU_USE,    /* span_ns and busy_ns of each GPU */
    REPORT_EVALUATED,  /* evaluated_ns and idle_ns: the part of the span that findings cover */
    REPORT_CATEGORIES, /* category and share of the GPU time */
    REPORT_INSTANCES,  /* engine instances, and their differences in `outlier` */
};

/* Where the overview of profctl analyze shows the table of a report, below the findings. */
struct report_overview {
    unsigned position; /* from 1; 0: nowhere */
    bool of_many;      /* only with several rows */
    bool of_host;      /* only for a trace without GPU activity */
    size_t rows;       /* number of rows at most; 0: as for other reports */
    bool is_complete;  /* all rows: the last ones summarise the others */
};

struct report {
    const char *name;
    enum report_role role;
    struct report_overview overview;
    const char *title;  /* a line: what it shows */
    const char *method; /* how it is computed and after whom, in sentences */
    unsigned needs;     /* enum report_needs */
    bool of_instances;  /* compares instances; any other is made for each of them */
    const char *order; /* of all instances, rows are ordered by this column, the largest first; NULL: the rows
                          of one instance stay together */
    bool is_detail;    /* detail of another report: shown only on request */
    const struct report_column *columns;
    size_t n_columns;
    const char *sort_by; /* column by which rows are sorted, the largest first; NULL: as they are made */
    bool needs_rows;     /* no row is -ENODATA */
    /* One of the three: an aggregation, with its argument; all rows; or those of one rank, as ranks are
     * independent. Negative errno; -ENODATA if no trace contains any. */
    const struct aggregation *aggregation;
    const void *aggregated;
    int (*make)(struct analysis *a, struct report_rows *ret);
    int (*make_rank)(struct analysis *a, size_t rank, struct report_rows *ret);
};

/* Both: NULL after the last. */
extern const struct report *const reports[];
extern const char *const report_table_names[]; /* of their SQL tables: "report_kernels" */
/* NULL for an unknown name. */
const struct report *report_find(const char *name);

/* The position of a column, by its name; n_columns for an unknown name. */
size_t report_column_find(const struct report *report, const char *name);

/* Initialises and fills ret, which is to be done with whatever is returned. -ENODATA where report->needs are
 * not met. The ranks are of one instance, unless the report compares instances. */
int report_make(const struct report *report, struct analysis *a, struct report_rows *ret);

/* A report that was made, or why it was not. Of several instances it begins with a column that names the
 * instance, and so does its description. */
struct made_report {
    const struct report *report;
    struct report_of_instances *described; /* private: what report then is */
    struct report_rows rows;
    int result; /* of report_make() */
};
/* Makes several in parallel; made[i].report selects each. All are to be done with. */
void reports_make(struct made_report *made, size_t n, struct analysis *a);
void reports_done(struct made_report *made, size_t n);

/* The same from rows that were computed elsewhere: begin, add rows (of several instances with the name of the instance as
 * their first cell, unless the report compares instances), end. -ENOMEM. */
int made_report_begin(struct made_report *made, size_t n_instances);
void made_report_end(struct made_report *made);

/* The rows of one instance after the other, for whoever shows the first rows of each: *at is 0 at first. ret
 * borrows and is not to be done with. False after the last; once, with all rows, where there is one list. */
bool made_report_part(const struct made_report *made, size_t *at, struct report_rows *ret);

/*
 * The reports that there are, in the order in which people read them. A new one is its file and a line here;
 * its struct is named after it.
 */
/* clang-format off */
#define REPORTS(R)                                                                                           \
    R(summary)                                                                                               \
    R(instances)                                                                                             \
    R(findings)                                                                                              \
    R(evaluated)                                                                                             \
    R(temporal)                                                                                              \
    R(categories)                                                                                            \
    R(kernels)                                                                                               \
    R(streams)                                                                                               \
    R(overlap)                                                                                               \
    R(launches)                                                                                              \
    R(launch_bound)                                                                                          \
    R(queue)                                                                                                 \
    R(gaps)                                                                                                  \
    R(gap_list)                                                                                              \
    R(collectives)                                                                                           \
    R(memcpy)                                                                                                \
    R(syncs)                                                                                                 \
    R(graphs)                                                                                                \
    R(graph_list)                                                                                            \
    R(ops)                                                                                                   \
    R(op_shapes)                                                                                             \
    R(op_kernels)                                                                                            \
    R(op_tree)                                                                                               \
    R(stacks)                                                                                                \
    R(frames)                                                                                                \
    R(sequences)                                                                                             \
    R(steps)                                                                                                 \
    R(layers)                                                                                                \
    R(memory)                                                                                                \
    R(memory_holders)                                                                                        \
    R(memory_timeline)                                                                                       \
    R(roofline)                                                                                              \
    R(functions)                                                                                             \
    R(ort)                                                                                                   \
    R(nvtx)                                                                                                  \
    R(nvtx_sum)                                                                                              \
    R(cuda_api_sum)                                                                                          \
    R(cuda_gpu_kern_sum)                                                                                     \
    R(cuda_gpu_mem_size_sum)                                                                                 \
    R(cuda_gpu_mem_time_sum)                                                                                 \
    R(osrt_sum)                                                                                              \
    R(ranks)                                                                                                 \
    R(stragglers)                                                                                            \
    R(imbalance)                                                                                             \
    R(critical_path)                                                                                         \
    R(critical_path_list)

/* clang-format on */

#define R(name) extern const struct report report_##name;
REPORTS(R)
#undef R
