/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/catalog/rows.h"

#include "base/alloc.h"
#include <errno.h>

int add_record(struct catalog *c, enum statement which, const struct field_list *l, const void *record,
               int64_t *ret_id)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    fields_bind(l, s, record);
    int r = run_write(c, s);
    if (r < 0)
        return r;
    *ret_id = sqlite3_last_insert_rowid(c->db);
    return 0;
}

int append_record(struct catalog *c, enum statement which, const struct field_list *l, const void *record)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    fields_bind(l, s, record);
    return write_or_defer(c, s, NULL);
}

int save_record(struct catalog *c, enum statement which, const struct field_list *l, const void *record)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    fields_bind(l, s, record);
    int r = run_write(c, s);
    if (r < 0)
        return r;
    return sqlite3_changes(c->db) > 0 ? 0 : -ENOENT;
}

int get_record(struct catalog *c, sqlite3_stmt *s, const struct field_list *l, void *record)
{
    int r = next_row(c, s);
    if (r <= 0)
        return r < 0 ? r : -ENOENT;
    fields_read(l, s, record);
    return 0;
}

int change_row(struct catalog *c, enum statement which, int64_t id, int64_t value)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, which);
    bind_number(s, 1, id);
    if (value != RECORD_NONE)
        bind_number(s, 2, value);
    int r = run_write(c, s);
    if (r < 0)
        return r;
    return sqlite3_changes(c->db) > 0 ? 0 : -ENOENT;
}

int read_records(struct catalog *c, sqlite3_stmt *s, const struct field_list *l, size_t record_size,
                 void **ret, size_t *ret_n)
{
    char *records = NULL;
    size_t n = 0, cap = 0;
    int r;

    while ((r = next_row(c, s)) == 1) {
        if (n == cap) {
            cap = cap ? cap * 2 : 16;
            records = xrealloc(records, cap, record_size);
        }
        fields_read(l, s, records + n++ * record_size);
    }
    if (r < 0) {
        free_records(l, record_size, records, n);
        return r;
    }
    *ret = records;
    *ret_n = n;
    return 0;
}

void free_records(const struct field_list *l, size_t record_size, void *records, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fields_done(l, (char *)records + i * record_size);
    free(records);
}
