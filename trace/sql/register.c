/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/report.h"
#include "trace/sql/args.h"
#include "trace/sql/report_table.h"

int sql_register(sqlite3 *db, struct sql_source source)
{
    _cleanup_(traces_unrefp) struct traces *traces = NULL;
    int r;

    if (traces_new(db, source, &traces) < 0)
        return SQLITE_NOMEM;
    r = vtab_register_tables(db, traces);
    if (r == SQLITE_OK)
        r = args_register_table(db, traces);
    if (r == SQLITE_OK)
        r = args_register_function(db, traces);
    if (r == SQLITE_OK)
        r = report_tables_register(db, traces);
    return r;
}

const char *sql_table_name(size_t i)
{
    if (i < sql_tables_count)
        return sql_tables[i].name;
    i -= sql_tables_count;
    if (i == 0)
        return "args";
    for (const char *const *name = report_table_names; *name; name++)
        if (--i == 0)
            return *name;
    return NULL;
}
