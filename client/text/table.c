/* SPDX-License-Identifier: Apache-2.0 */
#include "client/text/table.h"

#include "base/alloc.h"
#include "client/text/text.h"
#include <libsmartcols/libsmartcols.h>

#define SEPARATOR "  "
#define SCHEME    "http://"
/* What is left of a column that may be shortened tells something down to here. */
#define SHORTENED_MIN 10u

struct table {
    struct libscols_table *scols;
    struct libscols_line *last;
    const struct table_column *columns;
    unsigned *widths; /* of the widest cell of each column */
    size_t n_columns;
};

static const char *const colour_names[_COLOUR_MAX] = {
    [COLOUR_GOOD] = "green",     [COLOUR_WARN] = "brown", [COLOUR_BAD] = "red",
    [COLOUR_DIM] = "halfbright", [COLOUR_BOLD] = "bold",
};

static void scols_free_iterp(struct libscols_iter **iter)
{
    scols_free_iter(*iter);
}

struct table *table_new(const struct table_column *columns, size_t n_columns, bool with_heading)
{
    struct table *t = xcalloc(1, sizeof(*t));

    t->scols = scols_new_table();
    t->columns = columns;
    t->n_columns = n_columns;
    t->widths = xcalloc(n_columns, sizeof(*t->widths));
    if (!t->scols)
        abort();
    scols_table_enable_noheadings(t->scols, !with_heading);
    scols_table_set_column_separator(t->scols, SEPARATOR);
    for (size_t i = 0; i < n_columns; i++) {
        t->widths[i] = with_heading ? text_columns(columns[i].name) : 0;
        int flags = (columns[i].flags & COLUMN_RIGHT ? SCOLS_FL_RIGHT : 0) |
                    (columns[i].flags & COLUMN_SHORTEN ? SCOLS_FL_TRUNC : 0);
        scols_table_new_column(t->scols, columns[i].name, 0, flags);
    }
    return t;
}

struct table *table_free(struct table *t)
{
    if (t) {
        scols_unref_table(t->scols);
        free(t->widths);
    }
    free(t);
    return NULL;
}

static const char *shown_as(const char *cell, unsigned flags)
{
    if (flags & COLUMN_VERBATIM)
        return cell ? cell : "NULL";
    return cell && *cell ? cell : "-";
}

void table_add(struct table *t, const char *const *cells)
{
    t->last = scols_table_new_line(t->scols, NULL);
    for (size_t i = 0; i < t->n_columns; i++) {
        char *clean = text_clean(shown_as(cells[i], t->columns[i].flags), false);
        t->widths[i] = MAX(t->widths[i], text_columns(clean));
        scols_line_refer_data(t->last, i, clean);
    }
}

void table_colour(struct table *t, size_t column, enum colour c)
{
    if (colour_names[c])
        scols_cell_set_color(scols_line_get_cell(t->last, column), colour_names[c]);
}

/* Of a row, where as much is shortened as may be, or nothing. */
static unsigned row_width(const struct table *t, bool shortened)
{
    unsigned width = 0;

    for (size_t i = 0; i < t->n_columns; i++) {
        bool cut = shortened && t->columns[i].flags & COLUMN_SHORTEN;
        if (t->widths[i] > 0)
            width += (cut ? MIN(t->widths[i], SHORTENED_MIN) : t->widths[i]) + strlen(SEPARATOR);
    }
    return width - MIN(width, (unsigned)strlen(SEPARATOR));
}

bool table_fits(const struct table *t, const struct screen *s)
{
    return !s->is_terminal || row_width(t, true) <= screen_width(s);
}

static void drop_scheme(struct table *t, size_t column)
{
    _cleanup_(scols_free_iterp) struct libscols_iter *lines = scols_new_iter(SCOLS_ITER_FORWARD);
    struct libscols_line *line;
    unsigned widest = 0;

    while (lines && scols_table_next_line(t->scols, lines, &line) == 0) {
        const char *text = scols_cell_get_data(scols_line_get_cell(line, column));
        if (starts_with(text, SCHEME))
            scols_line_set_data(line, column, text + strlen(SCHEME));
        widest = MAX(widest, text_columns(scols_cell_get_data(scols_line_get_cell(line, column))));
    }
    t->widths[column] = MAX(widest, text_columns(t->columns[column].name));
}

static void squeeze(struct table *t, unsigned width)
{
    for (size_t i = 0; i < t->n_columns && row_width(t, false) > width; i++)
        if (t->columns[i].flags & COLUMN_URL)
            drop_scheme(t, i);
    for (size_t i = t->n_columns; i > 0 && row_width(t, true) > width; i--)
        if (t->columns[i - 1].flags & COLUMN_SPARE) {
            scols_column_set_flags(scols_table_get_column(t->scols, i - 1), SCOLS_FL_HIDDEN);
            t->widths[i - 1] = 0;
        }
}

/* Cells beside the last are padded, and so is the last one of a line: that is cut off here. */
static void trim_lines(char *text)
{
    char *out = text;
    for (char *p = text; *p;) {
        size_t n = strcspn(p, "\n"), keep = n;
        while (keep > 0 && p[keep - 1] == ' ')
            keep--;
        memmove(out, p, keep);
        out += keep;
        p += n;
        if (*p == '\n')
            *out++ = *p++;
    }
    *out = '\0';
}

char *table_text(struct table *t, const struct screen *s, unsigned indent)
{
    char *data = NULL, *text = NULL;
    size_t size;
    unsigned width = screen_width(s);

    scols_table_enable_colors(t->scols, s->has_colour);
    scols_table_set_termforce(t->scols, width > indent ? SCOLS_TERMFORCE_ALWAYS : SCOLS_TERMFORCE_NEVER);
    if (width > indent) {
        squeeze(t, width - indent);
        scols_table_set_termwidth(t->scols, width - indent);
    }
    if (scols_print_table_to_string(t->scols, &data) < 0 || !data) {
        free(data);
        return xstrdup("");
    }
    trim_lines(data);
    FILE *out = xmemstream(&text, &size);
    if (!out)
        return data;
    for (const char *p = data; *p;) {
        size_t n = strcspn(p, "\n");
        fprintf(out, "%*s%.*s\n", (int)indent, "", (int)n, p);
        p += n + (p[n] == '\n');
    }
    fclose(out);
    free(data);
    return text;
}

void table_print(struct table *t, const struct screen *s)
{
    _cleanup_(freep) char *text = table_text(t, s, 0);
    fputs(text, s->file);
}
