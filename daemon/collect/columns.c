/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The columnar file of a trace, <state>/columns/t12.columns, for traces in the store and those left in place:
 * profd-ingest writes it into a draft, a file without a row, which gets its name when the trace's row has a
 * number, in one transaction with the row's summary. A trace is complete without it: columns that are lost can
 * be made again, so only the files themselves are synced.
 */
#include "base/alloc.h"
#include "base/log.h"
#include "daemon/catalog/background.h"
#include "daemon/collect/pipeline.h"
#include "daemon/collect/store_internal.h"
#include "proto/ingest.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>

#define COLUMNS_SUFFIX ".columns"

bool columns_trace_of(const char *file_name, int64_t *ret_trace_id)
{
    _cleanup_(freep) char *id = NULL;

    if (!ends_with(file_name, COLUMNS_SUFFIX))
        return false;
    id = xstrndup(file_name, strlen(file_name) - strlen(COLUMNS_SUFFIX));
    return parse_ref(id, 't', ret_trace_id) == 't';
}

/* -- The draft -- */

void columns_open_draft(struct import_columns *draft, struct store *s, unsigned n_readers,
                        struct ingest_columns *ret)
{
    struct store_usage u;

    draft->store = s;
    int r = store_open_incoming(s, s->settings->columns_path, &ret->fd, &draft->path);
    if (r < 0)
        log_warning("cannot write columns below %s: %s", s->settings->columns_path, strerror(-r));
    else
        /* Without it, rows that do not fit into memory are an error, which is reported. */
        ret->spill_fd = open(s->settings->columns_path, O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    /* The limit is far above the usual size: half of the free space stays for other incoming files. */
    int64_t room = store_usage(s, &u) < 0 ? 0 : u.free - u.keep_free - s->incoming_bytes - s->lent_bytes;
    draft->lent_bytes = ret->room = MAX(room, INT64_C(0)) / 2 / n_readers;
    s->lent_bytes += draft->lent_bytes;
}

/* The file; the space that was lent stays. */
static void columns_unlink_draft(struct import_columns *draft)
{
    if (draft->path)
        unlink(draft->path);
    free(TAKE_PTR(draft->path));
}

void columns_drop_draft(struct import_columns *draft)
{
    columns_unlink_draft(draft);
    if (draft->store)
        draft->store->lent_bytes -= draft->lent_bytes;
    draft->lent_bytes = 0;
}

static void columns_refuse_draft(struct import_columns *draft, const char *reason, struct trace_record *row)
{
    columns_unlink_draft(draft);
    row->columns_size = RECORD_NONE;
    replace_str(&row->columns_reason, reason);
}

static bool columns_have_size(const char *path, int64_t size)
{
    struct stat st;
    return lstat(path, &st) == 0 && st.st_size == size;
}

void columns_settle(struct import_columns *draft, struct store *s, const struct columns_result *result,
                    int64_t displaces_until, struct trace_record *row)
{
    const char *reason = result->reason ? result->reason : json_get_str(result->facts, "columns_reason");
    /* Where the child came to an end, good or bad, or used up its limits, the next one would as well. Where it
     * died otherwise the next start of profd tries again. */
    bool is_final = result->used_up || json_object_get(result->facts, "columns") ||
                    json_object_get(result->facts, "columns_reason");

    row->columns_version = is_final ? INGEST_COLUMNS_VERSION : RECORD_NONE;
    replace_str(&row->columns_reason, NULL);
    if (reason || !draft->path || row->columns_size == RECORD_NONE)
        columns_refuse_draft(draft, reason, row);
    else if (!columns_have_size(draft->path, row->columns_size))
        columns_refuse_draft(draft, "profd-ingest reported another size of the columns than they have", row);
    else if (store_make_room(s, store_holder(s, row->owner_uid, row->worker_url), row->columns_size,
                             row->columns_size, displaces_until) < 0)
        columns_refuse_draft(draft, "no room in the store (see profctl du)", row);
}

/* -- In the row -- */

int columns_publish(struct import_columns *draft, struct store *s, const json_t *facts,
                    struct trace_record *row)
{
    if (!draft->path)
        return catalog_set_summary(s->catalog, row->trace_id, facts);
    _cleanup_(freep) char *path =
        xasprintf("%s/t%" PRId64 COLUMNS_SUFFIX, s->settings->columns_path, row->trace_id);
    int r = rename(draft->path, path) < 0 ? -errno : 0;
    if (r < 0) {
        log_struct(LOG_WARNING, LOG_FIELDS(.trace_id = row->trace_id),
                   "cannot keep the columns of t%" PRId64 ": %s", row->trace_id, strerror(-r));
        columns_refuse_draft(draft, strerror(-r), row);
    } else {
        free(TAKE_PTR(draft->path));
        free(row->columns);
        row->columns = TAKE_PTR(path);
        r = catalog_set_summary(s->catalog, row->trace_id, facts);
        if (r >= 0)
            r = catalog_want_background(s->catalog, BACKGROUND_SUMS, row->trace_id);
    }
    int saved = catalog_save_trace(s->catalog, row);
    return r < 0 ? r : saved;
}

void columns_unpublish(struct import_columns *draft, struct store *s, struct trace_record *row)
{
    if (draft->path || !row->columns)
        return;
    _cleanup_(freep) char *path = store_incoming_path(s, s->settings->columns_path);
    if (rename(row->columns, path) < 0)
        columns_refuse_draft(draft, "the file was gone", row);
    else
        draft->path = TAKE_PTR(path);
    replace_str(&row->columns, NULL);
}

int columns_renew(struct import_columns *draft, struct store *s, const struct columns_result *result,
                  struct trace_record *row)
{
    _cleanup_(freep) char *outdated = TAKE_PTR(row->columns);

    columns_settle(draft, s, result, row->collected_at, row);
    int r = draft->path ? columns_publish(draft, s, result->facts, row) : catalog_save_trace(s->catalog, row);
    if (r >= 0)
        r = catalog_commit(s->catalog, false);
    if (r >= 0 && outdated && !row->columns)
        store_unlink(outdated);
    return r;
}
