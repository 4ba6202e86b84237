/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The columnar file of a trace: written by profd-ingest into a file that nobody sees, given its name when its
 * row has a number, in one transaction with what was read out of it. A trace is as good without it.
 */
#include "base/alloc.h"
#include "base/log.h"
#include "daemon/collect/bringing.h"
#include "proto/ingest.h"
#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>

void columns_open_draft(struct collector *c, struct ingest_columns *ret, char **ret_draft)
{
    int r = store_columns_incoming(c->store, &ret->fd, &ret->spill_fd, ret_draft);
    if (r < 0)
        log_warning("cannot write columns below %s: %s", store_columns_path(c->store), strerror(-r));
    ret->room = store_lend_columns(c->store, ingest_children_max(c->ingest));
}

void columns_drop(char **draft)
{
    if (*draft)
        unlink(*draft);
    free(*draft);
    *draft = NULL;
}

static void forget(char **draft, const char *reason, struct trace_record *row)
{
    columns_drop(draft);
    row->columns_size = RECORD_NONE;
    replace_str(&row->columns_reason, reason);
}

/* Whether the child came to an end with it, good or bad, or used up all that it may: so would the next one.
 * Where it died otherwise the next start of profd tries again. */
static bool was_tried(const json_t *facts, bool used_up)
{
    return used_up || json_object_get(facts, "columns") || json_object_get(facts, "columns_reason");
}

static bool has_size(const char *path, int64_t size)
{
    struct stat st;
    return lstat(path, &st) == 0 && st.st_size == size;
}

static int make_room(struct collector *c, const struct trace_record *row, int64_t displaces_until)
{
    int64_t holder = store_holder(c->store, row->owner_uid, row->worker_url);
    return store_make_room_for_columns(c->store, holder, row->columns_size, displaces_until);
}

void columns_settle(struct collector *c, char **draft, const json_t *facts, const char *reason, bool used_up,
                    int64_t displaces_until, struct trace_record *row)
{
    row->columns_version = was_tried(facts, used_up) ? INGEST_COLUMNS_VERSION : RECORD_NONE;
    replace_str(&row->columns_reason, NULL);
    if (!reason)
        reason = json_get_str(facts, "columns_reason");
    if (reason || !*draft || row->columns_size == RECORD_NONE)
        forget(draft, reason, row);
    else if (!has_size(*draft, row->columns_size))
        forget(draft, "profd-ingest wrote columns of another size than it says", row);
    else if (make_room(c, row, displaces_until) < 0)
        forget(draft, "no room in the store (see profctl du)", row);
}

int columns_keep(struct collector *c, char **draft, const json_t *facts, struct trace_record *row)
{
    if (!*draft)
        return catalog_set_summary(c->catalog, row->trace_id, facts);
    int r = store_place_columns(c->store, *draft, row->trace_id, &row->columns);
    if (r < 0) {
        log_struct(LOG_WARNING, LOG_FIELDS(.trace_id = row->trace_id),
                   "cannot keep the columns of t%" PRId64 ": %s", row->trace_id, strerror(-r));
        forget(draft, strerror(-r), row);
    } else {
        free(*draft);
        *draft = NULL;
        r = catalog_set_summary(c->catalog, row->trace_id, facts);
    }
    int saved = catalog_save_trace(c->catalog, row);
    return r < 0 ? r : saved;
}

void columns_take_back(struct collector *c, char **draft, struct trace_record *row)
{
    if (*draft || !row->columns)
        return;
    if (store_take_columns_back(c->store, row->columns, draft) < 0)
        forget(draft, "the file was gone", row);
    replace_str(&row->columns, NULL);
}

int columns_renew(struct collector *c, char **draft, const json_t *facts, const char *reason, bool used_up,
                  struct trace_record *row)
{
    _cleanup_(freep) char *outdated = TAKE_PTR(row->columns);

    if (!reason)
        facts_to_row(facts, row);
    columns_settle(c, draft, facts, reason, used_up, row->collected_at, row);
    int r = *draft ? columns_keep(c, draft, facts, row) : catalog_save_trace(c->catalog, row);
    if (r >= 0)
        r = catalog_commit(c->catalog, false);
    if (r >= 0 && outdated && !row->columns)
        store_unlink(outdated);
    return r;
}
