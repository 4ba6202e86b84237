/* SPDX-License-Identifier: Apache-2.0 */
#include "client/cli/table_layout.h"

/* Widths at which the texts of a column are comfortable, and easy, to read: before they become shorter
 * than the one, columns of low importance go, and before they become shorter than the other, extra ones. */
static unsigned comfortable(const struct table_layout_column *c)
{
    return MIN(c->natural, c->least * 5 / 3);
}

static unsigned at_ease(const struct table_layout_column *c)
{
    return MIN(c->natural, c->least * 5 / 2);
}

static unsigned least(const struct table_layout_column *c)
{
    return MIN(c->natural, c->least);
}

static unsigned (*width_for(int importance))(const struct table_layout_column *c)
{
    return importance < IMPORTANCE_LOW ? at_ease : importance < IMPORTANCE_NORMAL ? comfortable : least;
}

static unsigned row_width(const struct table_layout_column *columns, size_t n, unsigned gap,
                          unsigned (*width)(const struct table_layout_column *c))
{
    unsigned sum = 0;

    for (size_t i = 0; i < n; i++)
        if (columns[i].width > 0)
            sum += width(&columns[i]) + gap;
    return sum - MIN(sum, gap);
}

/* Leaves out the least important column below a limit, the last one among equals. */
static bool leave_one_out(struct table_layout_column *columns, size_t n, int below)
{
    struct table_layout_column *worst = NULL;

    for (size_t i = 0; i < n; i++)
        if (columns[i].width > 0 && columns[i].importance < below &&
            (!worst || columns[i].importance <= worst->importance))
            worst = &columns[i];
    if (worst)
        worst->width = 0;
    return worst;
}

/* Restores dropped columns that fit after a wide column was dropped, the most important first; no column is
 * restored before a more important one. */
static void bring_back(struct table_layout_column *columns, size_t n, unsigned gap, unsigned line)
{
    bool is_complete = true;

    for (int importance = IMPORTANCE_KEY; importance >= IMPORTANCE_EXTRA && is_complete; importance--)
        for (size_t i = 0; i < n; i++) {
            if (columns[i].natural == 0 || columns[i].width > 0 || columns[i].importance != importance)
                continue;
            columns[i].width = 1;
            if (row_width(columns, n, gap, width_for(importance)) > line) {
                columns[i].width = 0;
                is_complete = false;
            }
        }
}

/* Columns that are shortened share what the others leave, none getting more than it has use for. */
static void share_rest(struct table_layout_column *columns, size_t n, unsigned rest)
{
    for (bool grew = true; grew && rest > 0;) {
        unsigned n_short = 0;
        for (size_t i = 0; i < n; i++)
            n_short += columns[i].width > 0 && columns[i].width < columns[i].natural;
        grew = n_short > 0;
        for (size_t i = 0; i < n && rest > 0 && grew; i++) {
            struct table_layout_column *c = &columns[i];
            if (c->width == 0 || c->width >= c->natural)
                continue;
            unsigned more = MIN(MIN(MAX(rest / n_short, 1u), c->natural - c->width), rest);
            c->width += more;
            rest -= more;
        }
    }
}

bool layout_columns(struct table_layout_column *columns, size_t n, unsigned gap, unsigned line)
{
    for (size_t i = 0; i < n; i++)
        columns[i].width = columns[i].natural > 0;
    for (int importance = IMPORTANCE_EXTRA; importance < IMPORTANCE_KEY; importance++)
        while (row_width(columns, n, gap, width_for(importance)) > line &&
               leave_one_out(columns, n, importance + 1))
            ;
    unsigned used = row_width(columns, n, gap, least);
    if (used <= line)
        bring_back(columns, n, gap, line);
    used = row_width(columns, n, gap, least);
    for (size_t i = 0; i < n; i++)
        if (used > line)
            columns[i].width = columns[i].natural;
        else if (columns[i].width > 0)
            columns[i].width = least(&columns[i]);
    if (used <= line)
        share_rest(columns, n, line - used);
    return used <= line;
}
