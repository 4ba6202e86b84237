/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A document made of a few kinds of blocks, and its two forms: Markdown, and one HTML file that needs no
 * network.
 *
 * The document owns what is put into it. Texts may be anybody's: both writers show them and never take them
 * for markup.
 */
#pragma once

#include "base/util.h"

enum block_kind {
    BLOCK_HEADING,
    BLOCK_TEXT,
    BLOCK_ITEM, /* of a list */
    BLOCK_TABLE,
    BLOCK_PLOT, /* HTML only: what it shows stands in a table, too */
};

#define TABLE_COLUMNS_MAX 16

struct table_block {
    size_t n_columns, n_rows, cap_rows;
    const char *headings[TABLE_COLUMNS_MAX]; /* static */
    bool is_text[TABLE_COLUMNS_MAX];         /* else numbers, to the right */
    char **cells;                            /* row by row */
};

/* Points joined by lines; both axes begin at 0. */
struct plot_block {
    const char *x_label, *y_label; /* static */
    double *x, *y;
    size_t n, cap;
    double mark_x; /* a point that is meant in particular, NAN */
};

struct block {
    enum block_kind kind;
    char *text; /* of a plot or table: its caption, may be NULL */
    union {
        struct table_block table;
        struct plot_block plot;
    };
};

struct document {
    char *title;
    struct block *blocks;
    size_t n, cap;
};

void document_heading(struct document *d, const char *text);
void document_text(struct document *d, const char *format, ...) _printf_(2, 3);
void document_item(struct document *d, const char *format, ...) _printf_(2, 3);
/* Headings are static texts, "" where a column has none; those that begin with "=" are of text. Valid until
 * the next block. */
struct table_block *document_table(struct document *d, const char *const *headings, size_t n);
/* Takes n_columns texts, NULL is "-". */
void table_row(struct table_block *t, char *const *take_cells);
struct plot_block *document_plot(struct document *d, const char *caption, const char *x_label,
                                 const char *y_label);
void plot_point(struct plot_block *p, double x, double y);
void document_done(struct document *d);

void document_markdown(const struct document *d, FILE *out);
void document_html(const struct document *d, FILE *out);
