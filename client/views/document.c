/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/document.h"

#include "base/alloc.h"
#include "client/cli/text.h"
#include <math.h>

/* Indent of the facts of a finding on a terminal, and columns of its cost at the end of the line. */
#define FINDING_INDENT 4
#define COST_WIDTH     20u
#define ITEM_INDENT    4

/* -- Blocks ------------------------------------------------------------------------------------------- */

static struct document_block *document_add(struct document *d, enum block_kind kind, char *take_text)
{
    VEC_GROW(d->blocks, d->n, d->cap);
    d->blocks[d->n] = (struct document_block){.kind = kind, .text = take_text};
    return &d->blocks[d->n++];
}

void document_section(struct document *d, const char *name, const char *text)
{
    document_add(d, BLOCK_HEADING, xstrdup(text))->name = xstrdup(name);
}

void document_heading(struct document *d, const char *text)
{
    document_section(d, NULL, text);
}

#define DOCUMENT_PARAGRAPH(function, kind)                                                                   \
    void function(struct document *d, const char *format, ...)                                               \
    {                                                                                                        \
        va_list arguments;                                                                                   \
                                                                                                             \
        va_start(arguments, format);                                                                         \
        document_add(d, kind, xvasprintf(format, arguments));                                                \
        va_end(arguments);                                                                                   \
    }
DOCUMENT_PARAGRAPH(document_text, BLOCK_TEXT)
DOCUMENT_PARAGRAPH(document_note, BLOCK_NOTE)
DOCUMENT_PARAGRAPH(document_item, BLOCK_ITEM)

void document_field(struct document *d, const char *name, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    document_add(d, BLOCK_FIELD, xvasprintf(format, arguments))->name = xstrdup(name);
    va_end(arguments);
}

void document_state(struct document *d, const char *subject, const char *state, enum colour colour,
                    const char *rest)
{
    struct document_block *b = document_add(d, BLOCK_STATE, xstrdup(rest));

    b->name = xstrdup(subject);
    b->state = (struct state_block){xstrdup(state), colour};
}

void document_problem(struct document *d, unsigned indent, const char *text, const char *remedy)
{
    document_add(d, BLOCK_PROBLEM, xstrdup(text))->problem = (struct problem_block){xstrdup(remedy), indent};
}

void document_take_table(struct document *d, struct table *take)
{
    document_add(d, BLOCK_TABLE, NULL)->table = take;
}

struct table *document_table(struct document *d, const char *const *headings, size_t n)
{
    struct table_column *columns = xcalloc(n, sizeof(*columns));

    for (size_t i = 0; i < n; i++) {
        bool is_text = headings[i][0] == '=';
        columns[i] = (struct table_column){.name = xstrdup(headings[i] + is_text),
                                           .flags = is_text ? COLUMN_SHORTEN : COLUMN_RIGHT};
    }
    struct table *table = table_new(columns, n, true);
    table_take_columns(table, columns);
    document_take_table(d, table);
    return table;
}

void document_row(struct table *t, char *const *take_cells)
{
    table_add(t, (const char *const *)take_cells);
    for (size_t i = 0; i < table_columns(t); i++)
        free(take_cells[i]);
}

struct plot_block *document_plot(struct document *d, const char *caption, const char *x_label,
                                 const char *y_label)
{
    struct plot_block *p = &document_add(d, BLOCK_PLOT, xstrdup(caption))->plot;

    *p = (struct plot_block){.x_label = x_label, .y_label = y_label, .mark_x = NAN};
    return p;
}

void plot_point(struct plot_block *p, double x, double y)
{
    if (p->n == p->cap) {
        p->cap = p->cap ? 2 * p->cap : 16;
        p->x = xrealloc(p->x, p->cap, sizeof(*p->x));
        p->y = xrealloc(p->y, p->cap, sizeof(*p->y));
    }
    p->x[p->n] = x;
    p->y[p->n++] = y;
}

struct gpu_use_block *document_gpu_use(struct document *d, const char *caption, size_t n_bins)
{
    struct gpu_use_block *u = &document_add(d, BLOCK_GPU_USE, xstrdup(caption))->use;

    *u = (struct gpu_use_block){.n_bins = n_bins,
                                .busy = xcalloc(n_bins, sizeof(*u->busy)),
                                .communication = xcalloc(n_bins, sizeof(*u->communication))};
    return u;
}

struct finding_block *document_finding(struct document *d, const char *text)
{
    struct finding_block *f = &document_add(d, BLOCK_FINDING, xstrdup(text))->finding;

    *f = (struct finding_block){.severity = "info", .share = NAN};
    return f;
}

void finding_fact(struct finding_block *f, enum fact_style style, const char *name, const char *prefix,
                  const char *text)
{
    if (!text || !*text)
        return;
    VEC_GROW(f->facts, f->n, f->cap);
    f->facts[f->n++] =
        (struct finding_fact){.style = style, .name = name, .prefix = prefix, .text = xstrdup(text)};
}

void document_picture(struct document *d, int (*write)(const void *arg, FILE *out), const void *arg)
{
    document_add(d, BLOCK_PICTURE, NULL)->picture = (struct picture_block){write, arg};
}

static void block_done(struct document_block *b)
{
    free(b->name);
    free(b->text);
    switch (b->kind) {
    case BLOCK_STATE:
        free(b->state.state);
        break;
    case BLOCK_PROBLEM:
        free(b->problem.remedy);
        break;
    case BLOCK_TABLE:
        table_free(b->table);
        break;
    case BLOCK_PLOT:
        free(b->plot.x);
        free(b->plot.y);
        break;
    case BLOCK_GPU_USE:
        free(b->use.busy);
        free(b->use.communication);
        break;
    case BLOCK_FINDING:
        for (size_t i = 0; i < b->finding.n; i++)
            free(b->finding.facts[i].text);
        free(b->finding.facts);
        free(b->finding.cost);
        break;
    default:
        break;
    }
}

void document_done(struct document *d)
{
    for (size_t i = 0; i < d->n; i++)
        block_done(&d->blocks[i]);
    free(d->blocks);
    free(d->title);
    *d = (struct document){0};
}

/* -- On a terminal ------------------------------------------------------------------------------------ */

static void print_wrapped(const struct screen *s, const char *before, const char *text, unsigned indent,
                          enum colour colour)
{
    _cleanup_(freep) char *clean = text_clean(text, true);
    _cleanup_(freep) char *wrapped = text_wrap(clean, indent, screen_text_width(s));

    fprintf(s->file, "%s%s%s%s\n", before, screen_colour(s, colour), wrapped, screen_plain(s));
}

/* "kernels  Time by kernel" */
static void print_heading(const struct screen *s, const struct document_block *b)
{
    const char *first = b->name ? b->name : b->text;

    if (!first)
        return;
    fprintf(s->file, "%s%s%s", screen_colour(s, COLOUR_BOLD), first, screen_plain(s));
    if (b->name && b->text)
        print_wrapped(s, "  ", b->text, (unsigned)strlen(b->name) + 2, COLOUR_NONE);
    else
        fputc('\n', s->file);
}

/* "Run r3 is complete: 200 of 200 requests succeeded" */
static void print_state(const struct screen *s, const struct document_block *b)
{
    _cleanup_(freep) char *state = text_clean(b->state.state, false), *text = text_clean(b->text, false);

    screen_printf(s, "%s is ", b->name);
    fprintf(s->file, "%s%s%s%s\n", screen_colour(s, b->state.colour), state ? state : "?", screen_plain(s),
            text);
}

static void print_problem(const struct screen *s, const struct document_block *b)
{
    unsigned indent = b->problem.indent;
    _cleanup_(freep) char *spaces = xasprintf("%*s", (int)indent, "");

    print_wrapped(s, spaces, b->text, indent + 2, COLOUR_NONE);
    if (!b->problem.remedy)
        return;
    fputs("  ", s->file);
    print_wrapped(s, spaces, b->problem.remedy, indent + 2, COLOUR_NONE);
}

/* The statement, with its cost at the end of the line, then its facts. */
static void print_finding(const struct screen *s, const struct document_block *b)
{
    const struct finding_block *f = &b->finding;
    unsigned width = screen_text_width(s), available = width - FINDING_INDENT;
    _cleanup_(freep) char *clean = text_clean(b->text, false),
                          *title = text_wrap(clean, FINDING_INDENT,
                                             f->number > 0 ? width - COST_WIDTH - FINDING_INDENT : width),
                          *cost = !f->cost             ? xstrdup("")
                                  : isfinite(f->share) ? xasprintf("%s  %2.0f %%", f->cost, 100 * f->share)
                                                       : xstrdup(f->cost),
                          *number = xasprintf("%zu", f->number);
    size_t first = strcspn(title, "\n");
    _cleanup_(freep) char *line = xstrndup(title, first);

    fprintf(s->file, "%2s  %s%s%s%*s\n", f->number > 0 ? number : "-", screen_colour(s, COLOUR_BOLD), line,
            screen_plain(s), *cost ? (int)(available - MIN(text_columns(line), available)) : 0, cost);
    if (title[first])
        fprintf(s->file, "%s\n", title + first + 1);
    for (size_t i = 0; i < f->n; i++) {
        const struct finding_fact *fact = &f->facts[i];
        if (fact->style == FACT_LINK)
            continue;
        _cleanup_(freep) char *part = xasprintf("%s%s", fact->prefix, fact->text),
                              *one_line = text_clean(part, false),
                              *wrapped = text_wrap(one_line, FINDING_INDENT, width);
        fprintf(s->file, "%*s%s\n", FINDING_INDENT, "", wrapped);
    }
}

bool document_print(const struct document *d, const struct screen *s, enum table_format format)
{
    bool is_cut = false;

    for (size_t i = 0; i < d->n; i++) {
        const struct document_block *b = &d->blocks[i];
        switch (b->kind) {
        case BLOCK_HEADING:
            if (i > 0)
                fputc('\n', s->file);
            print_heading(s, b);
            break;
        case BLOCK_TEXT:
            print_wrapped(s, "", b->text, 0, COLOUR_NONE);
            break;
        case BLOCK_NOTE:
            print_wrapped(s, "", b->text, 0, COLOUR_DIM);
            break;
        case BLOCK_ITEM:
            print_wrapped(s, "  - ", b->text, ITEM_INDENT, COLOUR_NONE);
            break;
        case BLOCK_FIELD: {
            _cleanup_(freep) char *name = xasprintf("%s%s", b->name, *b->name ? ":" : "");
            field_print(s, name, b->text);
            break;
        }
        case BLOCK_STATE:
            print_state(s, b);
            break;
        case BLOCK_PROBLEM:
            print_problem(s, b);
            break;
        case BLOCK_TABLE:
            is_cut |= table_print_as(b->table, s, format);
            break;
        case BLOCK_FINDING:
            print_finding(s, b);
            break;
        default:
            break;
        }
    }
    return is_cut;
}
