/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "client/verbs/verbs.h"
#include "client/views/listing.h"
#include "client/views/report_view.h"
#include "trace/reports/report.h"

static json_t *to_json(const struct report *report)
{
    json_t *one = json_object(), *columns = json_array();
    _cleanup_(freep) char *needs = report_needs_text(report);

    json_put_str(one, "report", report->name);
    json_put_str(one, "shows", report->title);
    json_put_str(one, "how", report->how);
    json_put_str(one, "needs", needs);
    for (size_t i = 0; i < report->n_columns; i++) {
        json_t *column = json_object();
        json_put_str(column, "name", report->columns[i].name);
        json_put_str(column, "meaning", report->columns[i].meaning);
        json_array_append_new(columns, column);
    }
    json_object_set_new(one, "columns", columns);
    return one;
}

static int run(struct client *c, const void *values, int n_words, char **words)
{
    static const struct table_column columns[] = {
        {"REPORT", 0, IMPORTANCE_KEY},
        {"SHOWS", COLUMN_SHORTEN, .least = 40},
        {"NEEDS", COLUMN_SHORTEN, IMPORTANCE_EXTRA},
    };
    _cleanup_(table_freep) struct table *table = NULL;
    _cleanup_json_ list = json_array();

    int status = listing_table(c, columns, ARRAY_SIZE(columns), &table);

    if (status != EXIT_DONE)
        return status;
    for (const struct report *const *r = reports; *r; r++) {
        _cleanup_(freep) char *needs = report_needs_text(*r);
        json_array_append_new(list, to_json(*r));
        table_add(table, (const char *const[]){(*r)->name, (*r)->title, needs});
    }
    if (c->json)
        return client_print_json(c, list);
    listing_print(c, table);
    return EXIT_DONE;
}

const struct verb verb_reports = {
    .name = "reports",
    .words = "",
    .summary = "List the reports of analyze",
    .has_listing = true,
    .run = run,
};
