/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that servers counted while a session recorded: rows of the catalog's table function_row. */
#include "daemon/catalog/internal.h"
#include "extras/nemo_gym/engine.h"
#include "extras/nemo_gym/function_list.h"

enum {
    STATEMENT_ADD_FUNCTION = STATEMENT_EXTRA,
    STATEMENT_FUNCTIONS,
};

const char *const extra_statements[_STATEMENT_MAX - STATEMENT_EXTRA + 1] = {
    "insert into function_row (session_id, worker_id, moment, name, file, line, calls, tsub_ns, ttot_ns, "
    "tavg_ns) "
    "values (?1, (select worker_id from worker_row where url = ?2), 'difference', ?3, ?4, ?5, ?6, ?7, ?8, "
    "?9)",
    "select w.url, f.moment, f.name, f.file, f.line, f.calls, f.tsub_ns, f.ttot_ns, f.tavg_ns "
    "from function_row f left join worker_row w using (worker_id) "
    "where f.session_id = ?1 and (?2 is null or w.url = ?2) order by f.ttot_ns desc, f.function_id",
};

int catalog_add_function(struct catalog *c, int64_t session_id, const char *worker_url,
                         const struct function *f)
{
    int r = know_worker(c, worker_url);
    if (r < 0)
        return r;
    _cleanup_reset_ sqlite3_stmt *s = statement(c, (enum statement)STATEMENT_ADD_FUNCTION);
    const int64_t numbers[] = {f->line > 0 ? f->line : RECORD_NONE, f->calls, f->tsub_ns, f->ttot_ns,
                               function_average_ns(f)};

    bind_number(s, 1, session_id);
    bind_text(s, 2, worker_url);
    bind_text(s, 3, f->name);
    bind_text(s, 4, f->file[0] ? f->file : NULL);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        bind_number(s, 5 + (int)i, numbers[i]);
    return write_or_defer(c, s, NULL);
}

int catalog_functions_json(struct catalog *c, int64_t session_id, const char *worker_url, json_t **ret)
{
    static const char *const texts[] = {"worker", "moment", "name", "file"}, *const numbers[] = {
                                                                                 "line", "calls", "tsub_ns",
                                                                                 "ttot_ns", "tavg_ns"};
    _cleanup_reset_ sqlite3_stmt *s = statement(c, (enum statement)STATEMENT_FUNCTIONS);
    _cleanup_json_ list = json_array();
    int r;

    bind_number(s, 1, session_id);
    bind_text(s, 2, worker_url);
    while ((r = next_row(c, s)) == 1) {
        json_t *j = json_object();
        put_ref(j, "session", 's', session_id);
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
            json_put_str(j, texts[i], column_text(s, (int)i));
        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
            int64_t n = column_number(s, (int)(ARRAY_SIZE(texts) + i));
            if (n != RECORD_NONE)
                json_put_int(j, numbers[i], n);
        }
        json_array_append_new(list, j);
    }
    if (r == 0)
        *ret = TAKE_PTR(list);
    return r;
}
