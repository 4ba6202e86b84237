/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a view prints, independent of where it is printed: headings, paragraphs, fields, tables, plots and findings.
 * Reports, the overview of a trace, benchmark runs, results of queries, audits and functions make a document;
 * document_print(), document_html() and document_markdown() write it to a terminal, into one file for a browser or
 * for paper, and for GitHub.
 *
 * The document owns its content. Texts may come from traces, servers and files: each writer prints them as
 * text and never as markup, escape sequence or link.
 */
#pragma once

#include "client/cli/table.h"

enum block_kind {
    BLOCK_HEADING,
    BLOCK_TEXT,
    BLOCK_NOTE,    /* a paragraph of lesser importance */
    BLOCK_ITEM,    /* of a list */
    BLOCK_FIELD,   /* a name and its value */
    BLOCK_STATE,   /* a sentence about the state of something */
    BLOCK_PROBLEM, /* a problem and its remedy */
    BLOCK_TABLE,
    BLOCK_FINDING, /* not in Markdown */
    /* Pages only: the figures of a plot are also in a table. */
    BLOCK_PLOT,
    BLOCK_GPU_USE,
    BLOCK_PICTURE, /* SVG, made by a function */
};

/* Points joined by lines; both axes begin at 0. */
struct plot_block {
    const char *x_label, *y_label; /* static */
    double *x, *y;
    size_t n, cap;
    double mark_x; /* the point to be marked, NAN for none */
};

/* The activity of one GPU in bins of equal length: shares of 0 to 1. */
struct gpu_use_block {
    size_t n_bins;
    double *busy, *communication;           /* communication: nothing else was running */
    double busy_share, communication_share; /* of all bins */
    int64_t span_ns;                        /* of all bins */
};

enum fact_style {
    FACT_TEXT,
    FACT_ADVICE, /* words to be typed, such as flags, are set as code */
    FACT_LINK,   /* to the section of that name; pages only */
};

struct finding_fact {
    enum fact_style style;
    const char *name, *prefix; /* static: how a page and how a terminal introduces the text */
    char *text;
};

/* A statement (the text of the block) with its cost, and facts about it. */
struct finding_block {
    const char *severity; /* static: a class of the style sheet */
    size_t number;        /* among the findings with a cost; 0: it has no cost */
    char *cost;           /* a duration, NULL where it is unknown */
    double share;         /* of the time, NAN where it is unknown */
    struct finding_fact *facts;
    size_t n, cap;
};

struct picture_block {
    int (*write)(const void *arg, FILE *out); /* negative errno */
    const void *arg;                          /* borrowed */
};

/* "Run r3 is complete: 200 of 200 requests succeeded": name, state in its colour, text. */
struct state_block {
    char *state;
    enum colour colour;
};

struct problem_block {
    char *remedy;    /* or NULL */
    unsigned indent; /* on a terminal */
};

struct document_block {
    enum block_kind kind;
    char *
        name; /* of a heading: what contents and links call it, or NULL; of a field; of a state: whose it is */
    char *text; /* of a plot or of use: its caption */
    union {
        struct state_block state;
        struct problem_block problem;
        struct table *table;
        struct plot_block plot;
        struct gpu_use_block use;
        struct finding_block finding;
        struct picture_block picture;
    };
};

struct document {
    char *title;
    struct document_block *blocks;
    size_t n, cap;
};

void document_done(struct document *d);

/* name: of a section that contents and links refer to, or NULL. A heading without name and text separates. */
void document_section(struct document *d, const char *name, const char *text);
void document_heading(struct document *d, const char *text);
void document_text(struct document *d, const char *format, ...) _printf_(2, 3);
void document_note(struct document *d, const char *format, ...) _printf_(2, 3);
void document_item(struct document *d, const char *format, ...) _printf_(2, 3);
/* "Throughput", printed with a colon; "" continues the field before. */
void document_field(struct document *d, const char *name, const char *format, ...) _printf_(3, 4);
/* rest: what follows the state, with its punctuation. */
void document_state(struct document *d, const char *subject, const char *state, enum colour colour,
                    const char *rest);
void document_problem(struct document *d, unsigned indent, const char *text, const char *remedy);
/* Headings are static texts, "" where a column has none; those that begin with "=" are of text, all others of
 * numbers. The table stays the document's. */
struct table *document_table(struct document *d, const char *const *headings, size_t n);
/* A row of such a table; takes its cells, NULL is "-". */
void document_row(struct table *t, char *const *take_cells);
void document_take_table(struct document *d, struct table *take);
struct plot_block *document_plot(struct document *d, const char *caption, const char *x_label,
                                 const char *y_label);
void plot_point(struct plot_block *p, double x, double y);
/* The arrays of n_bins are zeroed. Valid until the next block, as is a finding. */
struct gpu_use_block *document_gpu_use(struct document *d, const char *caption, size_t n_bins);
struct finding_block *document_finding(struct document *d, const char *text);
/* Nothing for a text that is NULL or empty. */
void finding_fact(struct finding_block *f, enum fact_style style, const char *name, const char *prefix,
                  const char *text);
void document_picture(struct document *d, int (*write)(const void *arg, FILE *out), const void *arg);

/* For people, on a terminal or elsewhere. format: of tables. Returns whether a table left columns out. */
bool document_print(const struct document *d, const struct screen *s, enum table_format format);
/* One file without scripts of its own and without a network. 0, or the errno of a picture; whether writing
 * failed is the caller's to see. */
int document_html(const struct document *d, FILE *out);
/* As CommonMark and GitHub read it. Returns 0. */
int document_markdown(const struct document *d, FILE *out);

/* A text in HTML or SVG: cleaned as for a terminal, and escaped. */
void html_put_text(FILE *out, const char *text);
