/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The row of an import job: what profd-ingest and the file's name report, what an earlier row of the same file
 * knows, and saving it.
 *
 * The child is trusted with a trace's content and hash: it has nothing of other files. Sizes of files in the
 * store, which count in its budget, are compared with the files.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "daemon/catalog/uploads.h"
#include "daemon/collect/pipeline.h"
#include "proto/ingest.h"
#include "trace/read/format.h"
#include <fcntl.h>
#include <inttypes.h>

/* -- Facts -- */

struct int_fact {
    const char *key;
    int64_t *value;
};

/* An absent key leaves the value. */
static void facts_get_ints(const json_t *facts, const struct int_fact *ints, size_t n)
{
    for (size_t i = 0; i < n; i++)
        *ints[i].value = json_get_int(facts, ints[i].key, *ints[i].value);
}

void row_set_facts(struct trace_record *row, const json_t *facts)
{
    const json_t *defects = json_object_get(facts, "defects");
    const struct int_fact of_file[] = {{"uncompressed", &row->uncompressed},
                                       {"rank", &row->rank},
                                       {"world_size", &row->world_size},
                                       {"pid", &row->pid},
                                       {"devices", &row->devices},
                                       {"events", &row->events},
                                       {"first_ts_ns", &row->first_event_at},
                                       {"last_ts_ns", &row->last_event_at},
                                       {"span_ns", &row->span_ns},
                                       {"size", &row->size}};
    const struct int_fact of_columns[] = {{"size", &row->columns_size},
                                          {"slices", &row->slices},
                                          {"gpu_slices", &row->gpu_slices},
                                          {"threads", &row->threads},
                                          {"flows", &row->flows}};
    const struct {
        const char *key;
        char **value;
    } texts[] = {{"sha256", &row->sha256}, {"format", &row->format}, {"device_name", &row->device_name}};

    facts_get_ints(facts, of_file, ARRAY_SIZE(of_file));
    for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
        if (json_get_str(facts, texts[i].key))
            replace_str(texts[i].value, json_get_str(facts, texts[i].key));
    for (size_t i = 0; i < ARRAY_SIZE(of_columns); i++)
        *of_columns[i].value = RECORD_NONE;
    facts_get_ints(json_object_get(facts, "columns"), of_columns, ARRAY_SIZE(of_columns));
    free(row->defects);
    row->defects = json_array_size(defects) > 0 ? json_dumps(defects, JSON_COMPACT) : NULL;
}

/* Facts of the file's content have precedence over those of its name. */
static void row_set_name(struct trace_record *row, const struct trace_name *n)
{
    const struct {
        int64_t from, *to;
    } numbers[] = {{n->dp, &row->dp}, {n->pp, &row->pp},     {n->tp, &row->tp},
                   {n->ep, &row->ep}, {n->rank, &row->rank}, {n->pid, &row->pid}};

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (numbers[i].from >= 0 && *numbers[i].to == RECORD_NONE)
            *numbers[i].to = numbers[i].from;
    if (n->stage != TRACE_STAGE_NONE)
        replace_str(&row->stage, trace_stage_name(n->stage));
    row->kind = n->kind == TRACE_NAME_FRONTEND ? TRACE_KIND_FRONTEND
                : n->kind == TRACE_NAME_RANK   ? TRACE_KIND_TRACE
                                               : TRACE_KIND_ATTACHMENT;
}

/* A writer that completed the file while it was read has changed its size and time: they are the file's from
 * now on, if its size is just what was read. The file's server is not asked, for it may not respond. */
static void row_take_later_times(struct import_job *job, int source_fd)
{
    struct statx now;

    if (!job->row.sha256 ||
        statx(source_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE | STATX_MTIME, &now) < 0)
        return;
    int64_t size = (int64_t)now.stx_size;
    int64_t mtime_ns = now.stx_mtime.tv_sec * NS_PER_S + now.stx_mtime.tv_nsec;
    bool was_completed = size == job->row.size && size > job->size;
    job->changed = !was_completed && (size != job->size || mtime_ns != job->mtime_ns);
    if (was_completed) {
        job->size = size;
        job->mtime_ns = mtime_ns;
    }
}

/* Also counts the file's blocks, where the store has it. */
static void row_check_size(struct import_job *job)
{
    const char *path = job->incoming ? job->incoming : job->origin;
    bool in_store = job->incoming || store_holds(job->collector->store, path);
    struct trace_record *row = &job->row;
    struct stat st;
    bool exists = in_store && lstat(path, &st) == 0;

    row->disk_size = exists ? st.st_blocks * STAT_BLOCK_BYTES : 0;
    if (!row->sha256 && row->size == job->size)
        return;
    if (in_store ? exists && st.st_size == row->size : row->size >= 0)
        return;
    row->state = TRACE_UNREADABLE;
    row->size = job->size;
    replace_str(&row->sha256, NULL);
    replace_str(&row->reason, "profd-ingest reported another size of the file than it has");
}

/* Engines name JSON traces, and srtctl databases of nsys; another content under such a name is no trace. */
static bool row_format_fits(const struct trace_record *row, const struct trace_name *name)
{
    int format = row->format ? format_from_name(row->format) : -1;

    return (name->kind != TRACE_NAME_RANK && name->kind != TRACE_NAME_FRONTEND) || format < 0 ||
           format == FORMAT_NSYS_SQLITE || format_is_trace_json((enum trace_format)format);
}

/* Whether the file's directory names its rank. */
static bool name_is_in_rank_dir(const char *file_name)
{
    struct trace_name name;

    trace_name_parse(file_name, &name);
    return name.writer == TRACE_WRITER_ATOM && name.kind == TRACE_NAME_RANK;
}

void row_fill(struct import_job *job, const struct ingest_result *r)
{
    struct trace_record *row = &job->row;
    struct trace_name name;

    /* The directory of a file that was discovered may name its rank. */
    if (job->file)
        name = job->file->parsed;
    else
        trace_name_parse(name_is_in_rank_dir(job->name) ? job->origin : job->name, &name);
    row->state = r->state;
    row->reason = xstrdup(r->reason);
    row->size = job->size;
    row_set_facts(row, r->facts);
    row_take_later_times(job, r->source_fd);
    row_check_size(job);
    row_set_name(row, &name);
    job->facts = json_incref(r->facts);
    row->name = xstrdup(import_stored_name(job));
    row->origin = xstrdup(job->origin);
    row->owner_uid = job->st.st_uid;
    row->device = (int64_t)job->st.st_dev;
    row->inode = (int64_t)job->st.st_ino;
    row->process_started = job->process_started;
    row->recorded_at = job->mtime_ns;
    row->collected_at = wall_ns();
    if (row->state == TRACE_COMPLETE && !row_format_fits(row, &name)) {
        row->state = TRACE_CORRUPT;
        free(row->reason);
        row->reason = xasprintf("not a JSON trace (%s)", row->format);
    }
}

static struct columns_result row_columns_result(const struct import_job *job)
{
    return (struct columns_result){
        .facts = job->facts, .reason = job->columns_reason, .used_up = job->columns_used_up};
}

/* -- Bytes that the catalog has -- */

static int row_complete_same(struct import_job *job, struct trace_record *same)
{
    const struct import_options *options = &job->options;
    struct catalog *catalog = job->collector->catalog;
    bool has_columns =
        same->columns && same->columns_version == INGEST_COLUMNS_VERSION && access(same->columns, F_OK) == 0;

    if (job->columns.path && (!has_columns || options->again)) {
        const struct columns_result result = row_columns_result(job);
        if (!result.reason)
            row_set_facts(same, result.facts);
        int r = columns_renew(&job->columns, job->collector->store, &result, same);
        if (r < 0)
            return catalog_problem(catalog, r, &job->problem, "cannot catalog the columns of %s",
                                   job->origin);
    }
    /* A trace without a session becomes part of the request's. */
    if (job->row.session_id == RECORD_NONE || same->session_id != RECORD_NONE)
        return 0;
    same->session_id = job->row.session_id;
    int r = catalog_save_trace(catalog, same);
    if (r >= 0)
        r = catalog_commit(catalog, false);
    return r < 0 ? catalog_problem(catalog, r, &job->problem, "cannot catalog the session of %s", job->origin)
                 : 0;
}

int row_find_same(struct import_job *job)
{
    struct trace_record same;
    int r = 0;

    if (catalog_find_trace_by_sha256(job->collector->catalog, job->row.sha256, &same) < 0)
        return 0;
    /* The hash is profd-ingest's; the size is the file's. */
    if (same.size == job->st.st_size) {
        r = row_complete_same(job, &same);
        job->row.trace_id = same.trace_id;
        r = r < 0 ? r : 1;
    }
    trace_record_done(&same);
    return r;
}

/* -- Saving -- */

/* The same bytes twice in a session: two names, or a file that was written again. */
static void row_mark_duplicate(struct catalog *catalog, struct trace_record *row)
{
    int64_t twin;

    if (row->session_id == RECORD_NONE || !row->sha256 || row->kind != TRACE_KIND_TRACE ||
        row->state != TRACE_COMPLETE || catalog_find_twin(catalog, row, &twin) < 0)
        return;
    row->state = TRACE_DUPLICATE;
    free(row->reason);
    row->reason = xasprintf("same bytes as t%" PRId64, twin);
}

/* A file in the store whose row says that only the archive has it: profd ended before the file was removed, or after it
 * was fetched. */
static bool row_find_archived(const struct import_job *job, struct trace_record *previous)
{
    if (job->source != IMPORT_RECOVERED || !job->row.sha256 ||
        catalog_find_trace_by_sha256(job->collector->catalog, job->row.sha256, previous) < 0)
        return false;
    if (trace_is_archived_only(previous))
        return true;
    trace_record_done(previous);
    return false;
}

/* The row that this one replaces: of the same file when it was incomplete, or of the same path. */
static bool row_find_previous(const struct import_job *job, struct trace_record *previous)
{
    struct catalog *catalog = job->collector->catalog;

    if (job->replaces_id != 0 && catalog_get_trace(catalog, job->replaces_id, previous) == 0) {
        bool is_of_another = job->row.session_id != RECORD_NONE && previous->session_id != RECORD_NONE &&
                             job->row.session_id != previous->session_id;
        if (!is_of_another)
            return true;
        trace_record_done(previous);
    }
    if (job->row.path && catalog_find_trace_by_path(catalog, job->row.path, previous) == 0)
        return true;
    return row_find_archived(job, previous);
}

/* A file that was read again keeps its number, pin, attribution and engine instance; and one that was read
 * in place, its origin. */
static void row_inherit(struct import_job *job, struct trace_record *previous)
{
    struct trace_record *row = &job->row;

    if (job->in_place) {
        row->recorded_at = previous->recorded_at;
        if (row->stored) {
            row->owner_uid = previous->owner_uid;
            row->device = previous->device;
            row->inode = previous->inode;
        }
        replace_str(&row->origin, previous->origin);
        replace_str(&row->name, previous->name);
    }
    row->trace_id = previous->trace_id;
    row->pinned = previous->pinned;
    /* Its age counts from the first sight of the file, for the budget and for who has a copy of the row. */
    row->collected_at = previous->collected_at;
    if (row->sha256 && streq(row->sha256, previous->sha256)) {
        row->archived_at = previous->archived_at;
        row->archive_key = TAKE_PTR(previous->archive_key);
    }
    if (!row->labels)
        row->labels = TAKE_PTR(previous->labels);
    if (!row->instance && (row->target_id == RECORD_NONE || row->target_id == previous->target_id))
        row->instance = TAKE_PTR(previous->instance);
    if (row->target_id != RECORD_NONE || row->candidates)
        return;
    row->session_id = previous->session_id;
    row->target_id = previous->target_id;
    row->worker_url = TAKE_PTR(previous->worker_url);
    row->candidates = TAKE_PTR(previous->candidates);
}

int row_save(struct import_job *job)
{
    struct collector *c = job->collector;
    const struct columns_result result = row_columns_result(job);
    struct trace_record *row = &job->row, previous;

    trace_record_init(&previous);
    row_mark_duplicate(c->catalog, row);
    columns_settle(&job->columns, c->store, &result, job->displaces_until, row);
    bool has_previous = row_find_previous(job, &previous);
    if (has_previous)
        row_inherit(job, &previous);
    int r = has_previous ? catalog_save_trace(c->catalog, row) : catalog_add_trace(c->catalog, row);
    if (r >= 0)
        r = columns_publish(&job->columns, c->store, job->facts, row);
    if (r >= 0)
        catalog_add_event(c->catalog, "trace-added", job->actor, row->session_id, row->target_id,
                          row->trace_id, "%s: %s%s%s", row->name, trace_state_name(row->state),
                          row->reason ? ": " : "", row->reason ? row->reason : "");
    if (r >= 0 && has_previous) {
        if (previous.stored && !streq(previous.path, row->path) && store_holds(c->store, previous.path))
            replace_str(&job->outdated_path, previous.path);
        if (previous.columns && !row->columns)
            replace_str(&job->outdated_columns, previous.columns);
    }
    trace_record_done(&previous);
    return r;
}

void row_unsave(struct import_job *job)
{
    columns_unpublish(&job->columns, job->collector->store, &job->row);
    replace_str(&job->outdated_path, NULL);
    replace_str(&job->outdated_columns, NULL);
    job->row.trace_id = 0;
    if (job->row.state == TRACE_DUPLICATE) {
        job->row.state = TRACE_COMPLETE;
        replace_str(&job->row.reason, NULL);
    }
}

void row_committed(struct import_job *job)
{
    if (job->outdated_path)
        store_unlink(job->outdated_path);
    if (job->outdated_columns)
        store_unlink(job->outdated_columns);
}
