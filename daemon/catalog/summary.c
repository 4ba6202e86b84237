/* SPDX-License-Identifier: Apache-2.0 */
/* What was read out of a trace: its categories and the names that took most time. */
#include "daemon/catalog/records.h"
#include "daemon/catalog/rows.h"

static void bind_category(sqlite3_stmt *s, int i, const json_t *group)
{
    const char *category = json_get_str(group, "category");
    bind_text(s, i, category ? category : "");
}

static int add_name(struct catalog *c, const char *name)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_ADD_NAME);
    bind_text(s, 1, name);
    return run_write(c, s);
}

static int add_trace_name(struct catalog *c, int64_t trace_id, const json_t *group)
{
    static const char *const numbers[] = {"count", "sum_ns", "min_ns", "max_ns"};
    const char *name = json_get_str(group, "name");

    if (!name)
        return 0;
    int r = add_name(c, name);
    if (r < 0)
        return r;
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_ADD_TRACE_NAME);
    bind_number(s, 1, trace_id);
    bind_category(s, 2, group);
    bind_text(s, 3, name);
    for (int i = 0; i < (int)ARRAY_SIZE(numbers); i++)
        bind_number(s, 4 + i, json_get_int(group, numbers[i], i < 2 ? 0 : RECORD_NONE));
    return run_write(c, s);
}

static int add_trace_category(struct catalog *c, int64_t trace_id, const json_t *group)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_ADD_TRACE_CATEGORY);
    bind_number(s, 1, trace_id);
    bind_category(s, 2, group);
    bind_number(s, 3, json_get_int(group, "count", 0));
    bind_number(s, 4, json_get_int(group, "sum_ns", 0));
    return run_write(c, s);
}

static int remove_of_trace(struct catalog *c, enum statement which, int64_t trace_id)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    bind_number(s, 1, trace_id);
    return run_write(c, s);
}

static const struct {
    const char *key;
    enum statement remove, list;
    int (*add)(struct catalog *c, int64_t trace_id, const json_t *group);
    const char *columns[6];
} parts[] = {
    {"names",
     STATEMENT_REMOVE_TRACE_NAMES,
     STATEMENT_TRACE_NAMES,
     add_trace_name,
     {"category", "name", "count", "sum_ns", "min_ns", "max_ns"}},
    {"categories",
     STATEMENT_REMOVE_TRACE_CATEGORIES,
     STATEMENT_TRACE_CATEGORIES,
     add_trace_category,
     {"category", "count", "sum_ns"}},
};

int catalog_set_summary(struct catalog *c, int64_t trace_id, const json_t *facts)
{
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(parts) && r >= 0; i++) {
        const json_t *group;
        size_t k;
        r = remove_of_trace(c, parts[i].remove, trace_id);
        json_array_foreach(json_object_get(facts, parts[i].key), k, group) {
            if (r >= 0)
                r = parts[i].add(c, trace_id, group);
        }
    }
    return r;
}

static json_t *row_to_json(sqlite3_stmt *s, const char *const *names, size_t n)
{
    json_t *row = json_object();

    for (int i = 0; i < (int)n && names[i]; i++) {
        if (sqlite3_column_type(s, i) == SQLITE_INTEGER)
            json_put_int(row, names[i], sqlite3_column_int64(s, i));
        else if (sqlite3_column_type(s, i) == SQLITE_TEXT)
            json_put_str(row, names[i], column_text(s, i));
    }
    return row;
}

int catalog_put_summary(struct catalog *c, int64_t trace_id, json_t *object)
{
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(parts) && r >= 0; i++) {
        _cleanup_reset_ sqlite3_stmt *s = statement(c, parts[i].list);
        json_t *list = json_array();
        bind_number(s, 1, trace_id);
        while ((r = next_row(c, s)) == 1)
            json_array_append_new(list, row_to_json(s, parts[i].columns, ARRAY_SIZE(parts[i].columns)));
        json_object_set_new(object, parts[i].key, list);
    }
    return r;
}
