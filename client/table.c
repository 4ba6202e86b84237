/* SPDX-License-Identifier: Apache-2.0 */
#include "client/table.h"

#include "base/alloc.h"
#include "client/text.h"
#include <libsmartcols/libsmartcols.h>

struct table {
    struct libscols_table *scols;
    struct libscols_line *last;
    size_t n_columns;
};

static const char *const colour_names[_COLOUR_MAX] = {
    [COLOUR_GOOD] = "green",     [COLOUR_WARN] = "brown", [COLOUR_BAD] = "red",
    [COLOUR_DIM] = "halfbright", [COLOUR_BOLD] = "bold",
};

struct table *table_new(const struct column *columns, size_t n_columns, bool with_heading)
{
    struct table *t = xcalloc(1, sizeof(*t));

    t->scols = scols_new_table();
    t->n_columns = n_columns;
    if (!t->scols)
        abort();
    scols_table_enable_noheadings(t->scols, !with_heading);
    scols_table_set_column_separator(t->scols, "  ");
    for (size_t i = 0; i < n_columns; i++) {
        int flags = (columns[i].flags & COLUMN_RIGHT ? SCOLS_FL_RIGHT : 0) |
                    (columns[i].flags & COLUMN_SHORTEN ? SCOLS_FL_TRUNC : 0);
        scols_table_new_column(t->scols, columns[i].name, 0, flags);
    }
    return t;
}

struct table *table_free(struct table *t)
{
    if (t)
        scols_unref_table(t->scols);
    free(t);
    return NULL;
}

void table_add(struct table *t, const char *const *cells)
{
    t->last = scols_table_new_line(t->scols, NULL);
    for (size_t i = 0; i < t->n_columns; i++) {
        char *clean = text_clean(cells[i] && *cells[i] ? cells[i] : "-", false);
        scols_line_refer_data(t->last, i, clean);
    }
}

void table_colour(struct table *t, size_t column, enum colour c)
{
    if (colour_names[c])
        scols_cell_set_color(scols_line_get_cell(t->last, column), colour_names[c]);
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
    if (width > indent)
        scols_table_set_termwidth(t->scols, width - indent);
    if (scols_print_table_to_string(t->scols, &data) < 0 || !data) {
        free(data);
        return xstrdup("");
    }
    trim_lines(data);
    FILE *out = open_memstream(&text, &size);
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
    _cleanup_(freep)
    char *text = table_text(t, s, 0);
    fputs(text, s->file);
}
