/* SPDX-License-Identifier: Apache-2.0 */
#include "client/views/json_table.h"

#include "base/alloc.h"
#include "base/units.h"
#include "client/cli/text.h"
#include "client/views/listing.h"
#include "client/views/run.h"
#include <math.h>

/* The member of a path "a/b/c"; NULL: none. */
static const json_t *json_member(const json_t *object, const char *path)
{
    for (size_t n; object && *path; path += n + (path[n] == '/')) {
        n = strcspn(path, "/");
        object = json_object_getn(object, path, n);
    }
    return object;
}

int json_table_new(struct client *c, const struct json_column *columns, size_t n, struct table **ret)
{
    struct table_column *copy = xcalloc(n, sizeof(*copy));

    for (size_t i = 0; i < n; i++) {
        copy[i] = columns[i].column;
        copy[i].name = xstrdup(copy[i].name);
    }
    int status = listing_table(c, copy, n, ret);
    if (status == EXIT_DONE) {
        table_take_columns(*ret, copy);
        return status;
    }
    for (size_t i = 0; i < n; i++)
        free((char *)copy[i].name);
    free(copy);
    return status;
}

char *json_cell_text(enum json_kind kind, const json_t *object, const char *path)
{
    const json_t *member = json_member(object, path);
    int64_t n = json_is_integer(member) ? json_integer_value(member) : kind == JSON_CELL_SPAN ? -1 : 0;
    double figure = json_is_number(member) ? json_number_value(member) : NAN;
    char text[MAX(UNIT_TEXT_MAX, 32)];

    switch (kind) {
    case JSON_CELL_LABELS:
        return labels_text(member);
    case JSON_CELL_COUNT:
        return xstrdup(text_number(text, n));
    case JSON_CELL_SIZE:
        return xstrdup(format_size(text, n));
    case JSON_CELL_TIME:
        return n == 0 ? NULL : xstrdup(format_time(text, n));
    case JSON_CELL_SPAN:
        return n < 0 ? NULL : xstrdup(format_duration(text, n));
    case JSON_CELL_FIGURE:
        return isfinite(figure) ? xstrdup(figure_text(text, figure)) : NULL;
    case JSON_CELL_GIVEN:
        return isfinite(figure) ? xasprintf("%.12g", figure) : NULL;
    default:
        return xstrdup(json_string_value(member));
    }
}

void json_table_add(struct table *t, const struct json_column *columns, const json_t *row)
{
    size_t n = table_columns(t);
    _cleanup_(freep) char **texts = xcalloc(n, sizeof(*texts));

    for (size_t i = 0; i < n; i++)
        texts[i] =
            columns[i].text ? columns[i].text(row) : json_cell_text(columns[i].kind, row, columns[i].path);
    table_add(t, (const char *const *)texts);
    for (size_t i = 0; i < n; i++) {
        const json_t *member = columns[i].path ? json_member(row, columns[i].path) : NULL;
        if (columns[i].kind >= JSON_CELL_FIGURE)
            table_set_real(t, i, json_is_number(member) ? json_number_value(member) : NAN);
        else if (columns[i].kind >= JSON_CELL_COUNT && texts[i])
            table_set_int(t, i, json_integer_value(member));
        if (columns[i].colour)
            table_colour(t, i, columns[i].colour(row));
        free(texts[i]);
    }
}
