/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/table.h"

#include "base/alloc.h"
#include "base/csv.h"
#include "client/cli/screen.h"
#include "client/cli/table_layout.h"
#include "client/cli/text.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>

#define SEPARATOR "  "
#define SCHEME    "http://"
/* Columns shown before the difference, of the word in which two texts differ. */
#define WORD_LEAST 6u
#define HEADING    SIZE_MAX /* as the number of a row */

struct table_cell {
    char *text, *value; /* NULL: none */
    bool has_value;     /* else it is the text */
    enum colour colour;
};

struct table {
    const struct table_column *columns;
    struct table_column *taken_columns; /* the same where the table owns them and their names, else NULL */
    char **keys;
    size_t n_columns;
    size_t *shown; /* indexes of the columns that are printed */
    size_t n_shown;
    unsigned indent;
    size_t first_row;
    bool is_selected, with_heading, names_hidden;
    struct table_cell **rows;
    size_t n, cap;
};

/* -- Rows --------------------------------------------------------------------------------------------- */

char *table_column_key(const struct table_column *column)
{
    if (column->key)
        return xstrdup(column->key);
    char *key = xcalloc(strlen(column->name) + 1, 1), *out = key;
    for (const char *p = column->name; *p; p++)
        if (isalnum((unsigned char)*p))
            *out++ = (char)tolower((unsigned char)*p);
        else if (*p == '%')
            out = stpcpy(out, out > key && out[-1] != '_' ? "_" : "");
        else if (out > key && out[-1] != '_')
            *out++ = '_';
    while (out > key && out[-1] == '_')
        *--out = '\0';
    return key;
}

struct table *table_new(const struct table_column *columns, size_t n_columns, bool with_heading)
{
    struct table *t = xcalloc(1, sizeof(*t));

    t->columns = columns;
    t->n_columns = t->n_shown = n_columns;
    t->with_heading = t->names_hidden = with_heading;
    t->keys = xcalloc(n_columns, sizeof(*t->keys));
    t->shown = xcalloc(n_columns, sizeof(*t->shown));
    for (size_t i = 0; i < n_columns; i++) {
        t->keys[i] = table_column_key(&columns[i]);
        t->shown[i] = i;
    }
    return t;
}

struct table *table_free(struct table *t)
{
    for (size_t i = 0; t && i < t->n; i++) {
        for (size_t k = 0; k < t->n_columns; k++) {
            free(t->rows[i][k].text);
            free(t->rows[i][k].value);
        }
        free(t->rows[i]);
    }
    for (size_t i = 0; t && i < t->n_columns; i++)
        free(t->keys[i]);
    for (size_t i = 0; t && t->taken_columns && i < t->n_columns; i++)
        free((char *)t->taken_columns[i].name);
    if (t) {
        free(t->taken_columns);
        free(t->keys);
        free(t->shown);
        free(t->rows);
    }
    free(t);
    return NULL;
}

void table_take_columns(struct table *t, struct table_column *take)
{
    t->taken_columns = take;
}

void table_select(struct table *t, const size_t *columns, size_t n)
{
    free(t->shown);
    t->shown = xcalloc(n, sizeof(*t->shown));
    memcpy(t->shown, columns, n * sizeof(*t->shown));
    t->n_shown = n;
    t->is_selected = true;
}

void table_set_first_row(struct table *t, size_t first)
{
    t->first_row = first;
}

void table_name_hidden(struct table *t, bool names_hidden)
{
    t->names_hidden = names_hidden && t->with_heading;
}

void table_indent(struct table *t, unsigned indent)
{
    t->indent = indent;
}

void table_add(struct table *t, const char *const *cells)
{
    struct table_cell *row = xcalloc(t->n_columns, sizeof(*row));

    for (size_t i = 0; i < t->n_columns; i++)
        row[i].text = xstrdup(cells[i]);
    VEC_GROW(t->rows, t->n, t->cap);
    t->rows[t->n++] = row;
}

void table_set_value(struct table *t, size_t column, const char *value)
{
    struct table_cell *cell = &t->rows[t->n - 1][column];

    replace_str(&cell->value, value);
    cell->has_value = true;
}

void table_set_int(struct table *t, size_t column, int64_t value)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, value);
    table_set_value(t, column, text);
}

void table_set_real(struct table *t, size_t column, double value)
{
    char text[32];

    snprintf(text, sizeof(text), "%.12g", value);
    table_set_value(t, column, isfinite(value) ? text : NULL);
}

size_t table_rows(const struct table *t)
{
    return t->n;
}

size_t table_columns(const struct table *t)
{
    return t->n_columns;
}

const struct table_column *table_column(const struct table *t, size_t column)
{
    return &t->columns[column];
}

const char *table_cell(const struct table *t, size_t row, size_t column)
{
    return t->rows[row][column].text;
}

const char *table_value(const struct table *t, size_t row, size_t column)
{
    const struct table_cell *cell = &t->rows[row][column];

    return cell->has_value ? cell->value : cell->text;
}

void table_colour(struct table *t, size_t column, enum colour c)
{
    t->rows[t->n - 1][column].colour = c;
}

/* -- Fitting it into a line --------------------------------------------------------------------------- */

/* A table as it is printed: cells of the columns that are shown, and the widths of these columns. */
struct table_view {
    const struct table *t;
    char **texts; /* of t->n rows and t->n_shown columns */
    struct table_layout_column *layout;
};

static char **view_text(const struct table_view *v, size_t row, size_t shown)
{
    return &v->texts[row * v->t->n_shown + shown];
}

static const struct table_column *view_column(const struct table_view *v, size_t shown)
{
    return &v->t->columns[v->t->shown[shown]];
}

/* Sets the natural and the least width of a column. */
static void view_measure(struct table_view *v, size_t shown)
{
    const struct table_column *column = view_column(v, shown);
    struct table_layout_column *l = &v->layout[shown];
    unsigned kept = 0;
    bool is_empty = true;

    l->natural = v->t->with_heading ? text_columns(column->name) : 0;
    for (size_t row = 0; row < v->t->n; row++) {
        const char *given = v->t->rows[row][v->t->shown[shown]].text;
        unsigned width = text_columns(*view_text(v, row, shown));
        l->natural = MAX(l->natural, width);
        if (column->flags & COLUMN_URL && given && strstr(given, "://") && !strchr(given, ' '))
            kept = MAX(kept, width);
        is_empty = is_empty && !(given && *given);
    }
    l->natural = MAX(l->natural, 1u);
    bool is_hidden = column->flags & COLUMN_ON_REQUEST || (is_empty && column->flags & COLUMN_OPTIONAL);
    if (is_hidden && !v->t->is_selected)
        l->natural = 0;
    l->least = !(column->flags & COLUMN_SHORTEN) ? l->natural
                                                 : MAX(kept, column->least ? column->least : SHORTENED_LEAST);
    l->least = MIN(l->least, l->natural);
    l->importance = v->t->is_selected ? IMPORTANCE_KEY : is_empty ? IMPORTANCE_EXTRA : column->importance;
}

static void view_init(struct table_view *v, const struct table *t)
{
    *v = (struct table_view){.t = t,
                             .texts = xcalloc(t->n * t->n_shown + 1, sizeof(*v->texts)),
                             .layout = xcalloc(t->n_shown + 1, sizeof(*v->layout))};
    for (size_t k = 0; k < t->n_shown; k++) {
        bool is_verbatim = view_column(v, k)->flags & COLUMN_VERBATIM;
        for (size_t row = 0; row < t->n; row++) {
            const char *text = t->rows[row][t->shown[k]].text;
            *view_text(v, row, k) =
                text_clean(is_verbatim ? (text ? text : "NULL") : (text && *text ? text : "-"), false);
        }
        view_measure(v, k);
        v->layout[k].width = v->layout[k].natural;
    }
}

static void view_done(struct table_view *v)
{
    for (size_t i = 0; i < v->t->n * v->t->n_shown; i++)
        free(v->texts[i]);
    free(v->texts);
    free(v->layout);
}

static unsigned view_width(const struct table_view *v)
{
    unsigned width = 0;

    for (size_t k = 0; k < v->t->n_shown; k++)
        width += v->layout[k].natural > 0 ? v->layout[k].natural + (unsigned)strlen(SEPARATOR) : 0;
    return width - MIN(width, (unsigned)strlen(SEPARATOR));
}

static void view_drop_scheme(struct table_view *v, size_t shown)
{
    for (size_t row = 0; row < v->t->n; row++) {
        char **text = view_text(v, row, shown);
        if (starts_with(*text, SCHEME))
            memmove(*text, *text + strlen(SCHEME), strlen(*text + strlen(SCHEME)) + 1);
    }
    view_measure(v, shown);
}

struct fitted {
    char *all, *text;
    size_t row;
};

static int fitted_compare(const void *a, const void *b)
{
    const struct fitted *x = a, *y = b;
    int r = strcmp(x->text, y->text);

    return r ? r : strcmp(x->all, y->all);
}

/* Where two texts begin to differ, at the begin of a short word, else of a character. */
static size_t first_difference(const char *a, const char *b)
{
    size_t n = 0, word;

    while (a[n] && a[n] == b[n])
        n++;
    while (n > 0 && ((unsigned char)a[n] & 0xc0) == 0x80)
        n--;
    for (word = n; word > 0 && isalnum((unsigned char)a[word - 1]);)
        word--;
    return n - word <= WORD_LEAST ? word : n;
}

/* Different texts that became one when they were shortened are shortened where they do not differ. */
static void fitted_distinguish(struct fitted *sorted, size_t n, unsigned width)
{
    for (size_t begin = 0, end; begin < n; begin = end) {
        size_t differs_at = SIZE_MAX;
        for (end = begin + 1; end < n && streq(sorted[begin].text, sorted[end].text); end++)
            if (!streq(sorted[begin].all, sorted[end].all))
                differs_at = MIN(differs_at, first_difference(sorted[begin].all, sorted[end].all));
        for (size_t i = begin; i < end && differs_at != SIZE_MAX; i++) {
            free(sorted[i].text);
            sorted[i].text = text_shorten_before(sorted[i].all, width, differs_at);
        }
    }
}

static void view_shorten(struct table_view *v, size_t shown)
{
    const struct table_column *column = view_column(v, shown);
    size_t n = v->t->n;
    unsigned width = v->layout[shown].width;
    _cleanup_(freep) struct fitted *fitted = xcalloc(n + 1, sizeof(*fitted));
    char *(*fit)(const char *text, unsigned width) = column->fit                   ? column->fit
                                                     : column->flags & COLUMN_PATH ? text_shorten_path
                                                                                   : text_shorten;

    for (size_t row = 0; row < n; row++) {
        char *all = *view_text(v, row, shown);
        fitted[row] = (struct fitted){all, text_columns(all) <= width ? xstrdup(all) : fit(all, width), row};
    }
    qsort(fitted, n, sizeof(*fitted), fitted_compare);
    fitted_distinguish(fitted, n, width);
    for (size_t i = 0; i < n; i++) {
        free(fitted[i].all);
        *view_text(v, fitted[i].row, shown) = fitted[i].text;
    }
}

/* False if not even the columns that identify a row fit into the line. */
static bool view_fit(struct table_view *v, unsigned line)
{
    for (size_t k = 0; k < v->t->n_shown && view_width(v) > line; k++)
        if (view_column(v, k)->flags & COLUMN_URL)
            view_drop_scheme(v, k);
    if (!layout_columns(v->layout, v->t->n_shown, (unsigned)strlen(SEPARATOR), line))
        return false;
    for (size_t k = 0; k < v->t->n_shown; k++)
        if (v->layout[k].width > 0 && v->layout[k].width < v->layout[k].natural)
            view_shorten(v, k);
    return true;
}

/* -- For people --------------------------------------------------------------------------------------- */

/* Texts that were shortened may be narrower than the layout allows. */
static void view_tighten(struct table_view *v)
{
    for (size_t k = 0; k < v->t->n_shown; k++) {
        unsigned width = text_columns(view_column(v, k)->name);
        for (size_t row = 0; row < v->t->n; row++)
            width = MAX(width, text_columns(*view_text(v, row, k)));
        if (v->layout[k].width > 0)
            v->layout[k].width = width;
    }
}

/* row: HEADING for the names of the columns. Spaces are printed only where a text follows. */
static void view_print_line(const struct table_view *v, const struct screen *s, unsigned indent, size_t row,
                            FILE *out)
{
    unsigned spaces = indent;

    for (size_t k = 0; k < v->t->n_shown; k++) {
        const struct table_column *column = view_column(v, k);
        _cleanup_(freep) char *name = row == HEADING ? text_clean(column->name, false) : NULL;
        const char *text = name ? name : *view_text(v, row, k);
        enum colour colour = name ? COLOUR_NONE : v->t->rows[row][v->t->shown[k]].colour;
        if (v->layout[k].width == 0)
            continue;
        unsigned width = v->layout[k].width, padding = width - MIN(width, text_columns(text));
        if (column->flags & COLUMN_RIGHT)
            spaces += padding;
        if (*text) {
            fprintf(out, "%*s%s%s%s", (int)spaces, "", screen_colour(s, colour), text,
                    colour ? screen_plain(s) : "");
            spaces = 0;
        }
        spaces += (column->flags & COLUMN_RIGHT ? 0 : padding) + (unsigned)strlen(SEPARATOR);
    }
    fputc('\n', out);
}

/* A table without rows has no heading either. */
static char *view_align(struct table_view *v, const struct screen *s, unsigned indent)
{
    char *text = NULL;
    size_t size;
    FILE *out = xmemstream(&text, &size);

    view_tighten(v);
    if (v->t->with_heading && v->t->n > 0)
        view_print_line(v, s, indent, HEADING, out);
    for (size_t row = 0; row < v->t->n; row++)
        view_print_line(v, s, indent, row, out);
    fclose(out);
    return text;
}

/* "hidden: p99_ns, mean_ns (--format wide shows all, --columns selects)"; NULL: nothing is hidden. */
static char *view_hidden_text(const struct table_view *v)
{
    char *text = NULL;

    for (size_t k = 0; k < v->t->n_shown; k++)
        if (v->layout[k].width == 0 && v->layout[k].natural > 0)
            append_str(&text, "%s%s", text ? ", " : "Hidden columns: ", v->t->keys[v->t->shown[k]]);
    if (text)
        append_str(&text, " (--format wide shows all, --columns selects)");
    return text;
}

char *table_text(struct table *t, const struct screen *s, unsigned indent)
{
    unsigned width = screen_width(s);
    struct table_view v;

    view_init(&v, t);
    if (width > indent)
        view_fit(&v, width - indent);
    char *text = view_align(&v, s, indent);
    view_done(&v);
    return text;
}

/* A line for each value, if not even the columns that identify a row fit into a line. */
static void view_print_records(const struct table_view *v, const struct screen *s)
{
    unsigned column = 0;
    char number[32];

    for (size_t k = 0; k < v->t->n_shown; k++)
        column = MAX(column, text_columns(view_column(v, k)->name) + 2);
    for (size_t row = 0; row < v->t->n; row++) {
        fprintf(s->file, "%srow %s%s\n", screen_colour(s, COLOUR_BOLD),
                text_number(number, (int64_t)(v->t->first_row + row + 1)), screen_plain(s));
        for (size_t k = 0; k < v->t->n_shown; k++) {
            /* Here, lines of a verbatim text fit as well. */
            const char *text = v->t->rows[row][v->t->shown[k]].text;
            bool is_verbatim = view_column(v, k)->flags & COLUMN_VERBATIM && text;
            if (v->layout[k].natural > 0)
                field_print_at(s, column, view_column(v, k)->name,
                               is_verbatim ? text : *view_text(v, row, k));
        }
    }
}

static bool table_print_fitted(struct table *t, const struct screen *s, unsigned width)
{
    bool is_cut = false;
    struct table_view v;

    view_init(&v, t);
    if (width > t->indent && !view_fit(&v, width - t->indent)) {
        view_print_records(&v, s);
    } else {
        _cleanup_(freep) char *text = view_align(&v, s, t->indent), *hidden = view_hidden_text(&v),
                              *wrapped = hidden ? text_wrap(hidden, t->indent + 2, width) : NULL;
        fputs(text, s->file);
        is_cut = hidden && t->n > 0;
        if (wrapped && t->names_hidden && t->n > 0)
            fprintf(s->file, "%*s%s%s%s\n", (int)t->indent, "", screen_colour(s, COLOUR_DIM), wrapped,
                    screen_plain(s));
    }
    view_done(&v);
    return is_cut;
}

/* -- For programs ------------------------------------------------------------------------------------- */

static void tsv_write(FILE *out, const char *text)
{
    static const char special[] = "\t\n\r\\", letters[] = "tnr\\";

    for (;;) {
        size_t n = strcspn(text, special);

        fwrite(text, 1, n, out);
        if (!text[n])
            return;
        fprintf(out, "\\%c", letters[strchr(special, text[n]) - special]);
        text += n + 1;
    }
}

void separated_field(const struct screen *s, enum table_format format, bool is_first, const char *text)
{
    _cleanup_(freep) char *clean = text_clean(text, true);

    separated_raw_field(s, format, is_first, clean);
}

void separated_raw_field(const struct screen *s, enum table_format format, bool is_first, const char *text)
{
    _cleanup_(freep) char *clean = s->is_tty ? text_clean(text, true) : NULL;
    const char *field = clean ? clean : text;

    if (!is_first)
        fputc(format == TABLE_CSV ? ',' : '\t', s->file);
    if (format == TABLE_TSV && field)
        tsv_write(s->file, field);
    else if (format == TABLE_TSV)
        fputs("\\N", s->file);
    else if (field)
        csv_write(s->file, field);
}

void separated_end(const struct screen *s, enum table_format format)
{
    fputs(format == TABLE_CSV ? "\r\n" : "\n", s->file);
}

static void table_print_separated(const struct table *t, const struct screen *s, enum table_format format)
{
    for (size_t k = 0; t->with_heading && k < t->n_shown; k++)
        separated_field(s, format, k == 0, t->keys[t->shown[k]]);
    if (t->with_heading)
        separated_end(s, format);
    for (size_t row = 0; row < t->n; row++) {
        for (size_t k = 0; k < t->n_shown; k++)
            separated_field(s, format, k == 0, table_value(t, row, t->shown[k]));
        separated_end(s, format);
    }
}

void table_print(struct table *t, const struct screen *s)
{
    table_print_fitted(t, s, screen_width(s));
}

bool table_print_as(struct table *t, const struct screen *s, enum table_format format)
{
    if (format != TABLE_CSV && format != TABLE_TSV)
        return table_print_fitted(t, s, format == TABLE_WIDE ? 0 : screen_width(s));
    table_print_separated(t, s, format);
    return false;
}
