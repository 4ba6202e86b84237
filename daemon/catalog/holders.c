/* SPDX-License-Identifier: Apache-2.0 */
/* In whose share of the store traces count, and what of a holder a budget may take. */
#include "base/alloc.h"
#include "daemon/catalog/records.h"
#include "daemon/catalog/rows.h"
#include <errno.h>

/* Owners that say nothing of who wrote a file: root, and the user that file servers and user namespaces show
 * for those whom they do not know. As in the column trace_row.holder. */
#define UID_ROOT   0
#define UID_NOBODY 65534

int catalog_find_holder(struct catalog *c, int64_t owner_uid, const char *worker_url, int64_t seen_since,
                        int64_t *ret_holder)
{
    if (owner_uid != RECORD_NONE && owner_uid != UID_ROOT && owner_uid != UID_NOBODY) {
        *ret_holder = owner_uid;
        return 0;
    }
    *ret_holder = HOLDER_OTHERS;
    if (!worker_url)
        return 0;
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_HOLDER_OF_WORKER);
    bind_number(s, 1, seen_since);
    bind_text(s, 2, worker_url);
    int r = next_row(c, s);
    if (r == 1)
        *ret_holder = column_number(s, 0);
    return MIN(r, 0);
}

int catalog_list_holders(struct catalog *c, int64_t seen_since, struct holder_usage **ret, size_t *ret_n)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_HOLDERS);
    struct holder_usage *list = NULL;
    size_t n = 0, cap = 0;
    int r;

    bind_number(s, 1, seen_since);
    while ((r = next_row(c, s)) == 1) {
        VEC_GROW(list, n, cap);
        list[n++] = (struct holder_usage){.holder = column_number(s, 0),
                                          .worker_url = column_text_copy(s, 1),
                                          .traces = column_number(s, 2),
                                          .bytes = column_number(s, 3)};
    }
    if (r < 0) {
        holder_usage_free(list, n);
        return r;
    }
    *ret = list;
    *ret_n = n;
    return 0;
}

void holder_usage_free(struct holder_usage *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(list[i].worker_url);
    free(list);
}

int catalog_next_evictable_of(struct catalog *c, int64_t holder, int64_t seen_since,
                              const struct trace_position *after, struct trace_record *ret)
{
    _cleanup_reset_ sqlite3_stmt *s = statement(c, STATEMENT_EVICTABLE_OF_HOLDER);
    bind_number(s, 1, seen_since);
    bind_number(s, 2, MAX(after->at, INT64_MIN + 1));
    bind_number(s, 3, after->trace_id);
    bind_number(s, 4, holder);
    return get_record(c, s, &trace_fields, ret);
}
