/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that servers counted. */
#include "daemon/catalog/internal.h"

int catalog_add_function(struct catalog *c, struct function_record *r)
{
    int e = r->worker_url ? know_worker(c, r->worker_url) : 0;
    return e < 0 ? e : append_record(c, STATEMENT_ADD_FUNCTION, function_fields(), r);
}

int catalog_each_function(struct catalog *c, const struct function_filter *f,
                          int (*fn)(const struct function_record *r, void *arg), void *arg)
{
    _cleanup_(records_done) struct records functions = {0};
    sqlite3_stmt *s = statement(c, STATEMENT_FUNCTIONS);

    bind_number(s, 1, f->trace_id);
    bind_number(s, 2, f->session_id);
    bind_text(s, 3, f->worker_url);
    bind_number(s, 4, f->limit == RECORD_NONE ? -1 : f->limit);
    int r = records_read(c, s, function_fields(), &functions);
    for (size_t i = 0; i < functions.n && r == 0; i++)
        r = fn(record_at(&functions, i), arg);
    return r;
}

json_t *function_record_to_json(const struct function_record *r)
{
    json_t *j = json_object();
    put_ref(j, "trace", 't', r->trace_id);
    fields_put_json(function_fields(), r, j);
    return j;
}
