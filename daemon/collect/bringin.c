/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a finished file to its row:
 *
 *   open -> room in the store -> profd-ingest (check, hash, copy, columns) -> whose is it? -> rename and sync
 * -> row
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/collect/bringing.h"
#include "daemon/collect/original.h"
#include "daemon/collect/place.h"
#include "trace/read/format.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

#define RESAVE_INTERVAL_NS (2 * NS_PER_S)
/* What the data of a copy is rounded up to on the disk. */
#define COPY_BLOCK_BYTES INT64_C(4096)

static void bringing_free(struct bringing *b)
{
    struct collector *c = b->collector;

    if (b->incoming)
        unlink(b->incoming);
    store_incoming_done(c->store, b->holder, b->expected);
    columns_drop(&b->columns);
    store_columns_done(c->store, b->columns_room);
    c->n_bringing--;
    trace_record_done(&b->row);
    json_decref(b->facts);
    free(b->incoming);
    place_done(&b->place);
    free(b->dir_path);
    free(b->name);
    free(b->origin);
    free(b->user);
    free(b->actor);
    free(b->columns_reason);
    free(b->store_note);
    free(b->outdated_path);
    free(b->outdated_columns);
    free(b->store_dir);
    free(b);
    reconcile_go_on(c);
    reread_go_on(c);
}

void bringing_drop(struct bringing *b)
{
    if (b->kind->dropped)
        b->kind->dropped(b);
    bringing_free(b);
}

/* -- The row ------------------------------------------------------------------------------------------ */

/* The same bytes twice in a session: two names, or a file that was written again. */
static void mark_duplicate(struct collector *c, struct trace_record *row)
{
    int64_t twin;

    if (row->session_id == RECORD_NONE || !row->sha256 || row->kind != TRACE_KIND_TRACE ||
        row->state != TRACE_COMPLETE || catalog_find_twin(c->catalog, row, &twin) < 0)
        return;
    row->state = TRACE_DUPLICATE;
    free(row->reason);
    row->reason = xasprintf("same bytes as t%" PRId64, twin);
}

/* What was known of a trace before stays with the file that was read again: its worker and engine
 * instance, and that it is pinned. */
static void keep_claims(struct trace_record *row, struct trace_record *known)
{
    row->trace_id = known->trace_id;
    row->pinned = known->pinned;
    /* The same bytes are as old as they were, for the budget. */
    if (row->sha256 && streq(row->sha256, known->sha256))
        row->collected_at = known->collected_at;
    if (!row->labels)
        row->labels = TAKE_PTR(known->labels);
    if (!row->instance && (row->target_id == RECORD_NONE || row->target_id == known->target_id))
        row->instance = TAKE_PTR(known->instance);
    if (row->target_id != RECORD_NONE || row->candidates)
        return;
    row->session_id = known->session_id;
    row->target_id = known->target_id;
    row->worker_url = TAKE_PTR(known->worker_url);
    row->candidates = TAKE_PTR(known->candidates);
}

/* A file that was read where it lies in the store did not come from there. */
static void keep_origin(struct trace_record *row, struct trace_record *known)
{
    row->recorded_at = known->recorded_at;
    if (row->stored) {
        row->owner_uid = known->owner_uid;
        row->device = known->device;
        row->inode = known->inode;
    }
    replace_str(&row->origin, known->origin);
    replace_str(&row->name, known->name);
}

/* The row that this one takes the place of: of the same file when it was not whole yet, or of the same path.
 */
static bool find_known(const struct bringing *b, struct trace_record *known)
{
    struct catalog *catalog = b->collector->catalog;

    if (b->known_id != 0 && catalog_get_trace(catalog, b->known_id, known) == 0) {
        bool of_another = b->row.session_id != RECORD_NONE && known->session_id != RECORD_NONE &&
                          b->row.session_id != known->session_id;
        if (!of_another)
            return true;
        trace_record_done(known);
    }
    return b->row.path && catalog_find_trace_by_path(catalog, b->row.path, known) == 0;
}

/* What the row had and has no more. Until its commit it still has. */
static void note_outdated(struct bringing *b, const struct trace_record *known)
{
    struct store *store = b->collector->store;

    if (known->stored && !streq(known->path, b->row.path) && store_holds(store, known->path))
        replace_str(&b->outdated_path, known->path);
    if (known->columns && !b->row.columns)
        replace_str(&b->outdated_columns, known->columns);
}

static void forget_outdated(struct bringing *b)
{
    replace_str(&b->outdated_path, NULL);
    replace_str(&b->outdated_columns, NULL);
}

static void unlink_outdated(struct bringing *b)
{
    if (b->outdated_path)
        store_unlink(b->outdated_path);
    if (b->outdated_columns)
        store_unlink(b->outdated_columns);
    forget_outdated(b);
}

static int save_row(struct bringing *b)
{
    struct collector *c = b->collector;
    struct trace_record known;
    int r;

    trace_record_init(&known);
    columns_settle(c, &b->columns, b->facts, b->columns_reason, b->columns_used_up, b->displaces_until,
                   &b->row);
    bool is_known = find_known(b, &known);
    if (is_known) {
        if (b->stays)
            keep_origin(&b->row, &known);
        keep_claims(&b->row, &known);
        r = catalog_save_trace(c->catalog, &b->row);
    } else {
        r = catalog_add_trace(c->catalog, &b->row);
    }
    if (r >= 0)
        r = columns_keep(c, &b->columns, b->facts, &b->row);
    if (r >= 0)
        catalog_add_event(c->catalog, "trace-added", b->actor, b->row.session_id, b->row.target_id,
                          b->row.trace_id, "%s: %s%s%s", b->row.name, trace_state_name(b->row.state),
                          b->row.reason ? ": " : "", b->row.reason ? b->row.reason : "");
    if (r >= 0 && is_known)
        note_outdated(b, &known);
    trace_record_done(&known);
    return r;
}

struct removal {
    struct original *original;
    char *refusal;
    int err;
};

static void remove_original(void *arg)
{
    struct removal *m = arg;
    m->err = original_remove(m->original, &m->refusal);
}

/* The worker may have written another file meanwhile: that is no news. */
static void on_original_removed(void *arg)
{
    struct removal *m = arg;
    const struct original *o = m->original;

    if (m->refusal)
        log_warning("%s; %s, which was copied, stays there", m->refusal, o->name);
    else if (m->err < 0 && m->err != -ESTALE)
        log_warning("cannot remove %s/%s, which was copied: %s", o->dir_path, o->name, strerror(-m->err));
    if (o->left_as)
        log_warning("%s/%s was replaced by two files while it was removed: one of them is now called %s",
                    o->dir_path, o->name, o->left_as);
    original_free(m->original);
    free(m->refusal);
    free(m);
}

static void forget_original(struct bringing *b)
{
    struct removal *m = xcalloc(1, sizeof(*m));
    struct original *o = xcalloc(1, sizeof(*o));

    *o = (struct original){.dir_path = xstrdup(b->dir_path),
                           .name = xstrdup(b->name),
                           .size = b->size,
                           .mtime_ns = b->mtime_ns,
                           .device = b->device,
                           .inode = b->inode,
                           .uid = b->uid,
                           .gid = b->gid};
    place_copy(&b->place, &o->place);
    m->original = o;
    offload_run_in(b->collector->offload, offload_lane_of_device(o->device), remove_original,
                   on_original_removed, m);
}

static struct log_fields fields_of(const struct trace_record *t)
{
    return (struct log_fields){.session_id = t->session_id, .trace_id = t->trace_id, .worker = t->worker_url};
}

static void log_unreadable(const struct trace_record *t)
{
    struct log_fields fields = fields_of(t);

    fields.message_id = MESSAGE_TRACE_UNREADABLE;
    log_struct(LOG_WARNING, &fields, "trace t%" PRId64 ": %s cannot be read: %s", t->trace_id,
               t->origin ? t->origin : t->path, t->reason ? t->reason : "no reason");
}

/* A copy that has its row makes the original superfluous. */
static void consider_original(struct bringing *b)
{
    bool is_whole = b->row.state == TRACE_COMPLETE || b->row.state == TRACE_DUPLICATE;

    if (b->err >= 0 && b->remove_original && b->row.stored && is_whole)
        forget_original(b);
}

/* As if its row had not been tried. */
static void save_again_later(struct bringing *b)
{
    struct collector *c = b->collector;
    struct timeval interval = timeval_of(RESAVE_INTERVAL_NS);

    columns_take_back(c, &b->columns, &b->row);
    forget_outdated(b);
    b->row.trace_id = 0;
    if (b->row.state == TRACE_DUPLICATE) {
        b->row.state = TRACE_COMPLETE;
        replace_str(&b->row.reason, NULL);
    }
    if (TAILQ_EMPTY(&c->unsaved))
        log_error("the catalog cannot take what came of %s; tried again until it can", b->origin);
    TAILQ_INSERT_TAIL(&c->unsaved, b, next_unsaved);
    event_add(c->resave, &interval);
}

/* A write that was taken can still be lost with its turn's commit. */
static void on_decided(int err, void *arg)
{
    struct bringing *b = arg;

    if (err < 0 && !b->collector->closing) {
        save_again_later(b);
        return;
    }
    if (b->err >= 0)
        b->err = err;
    if (b->err < 0)
        log_error("cannot catalog %s: %s", b->row.path, strerror(-b->err));
    else if (b->row.state == TRACE_UNREADABLE)
        log_unreadable(&b->row);
    if (b->err >= 0)
        unlink_outdated(b);
    consider_original(b);
    b->kind->saved(b, b->err);
    bringing_free(b);
}

static void finish(struct bringing *b)
{
    if (b->kind->overtaken && b->kind->overtaken(b)) {
        if (b->row.stored && !b->stays)
            store_unlink(b->row.path);
        bringing_drop(b);
        return;
    }
    mark_duplicate(b->collector, &b->row);
    b->err = save_row(b);
    catalog_then(b->collector->catalog, false, on_decided, b);
}

void collector_resave(evutil_socket_t fd, short what, void *arg)
{
    struct collector *c = arg;
    struct bringing_list again = TAILQ_HEAD_INITIALIZER(again);
    struct bringing *b;

    TAILQ_CONCAT(&again, &c->unsaved, next_unsaved);
    while ((b = TAILQ_FIRST(&again))) {
        TAILQ_REMOVE(&again, b, next_unsaved);
        finish(b);
    }
}

/* Their files are adopted at the next start, or found where they lie. */
void collector_drop_unsaved(struct collector *c)
{
    struct bringing *b;

    while ((b = TAILQ_FIRST(&c->unsaved))) {
        TAILQ_REMOVE(&c->unsaved, b, next_unsaved);
        bringing_drop(b);
    }
}

/* -- Into the store ----------------------------------------------------------------------------------- */

static void place(void *arg)
{
    struct bringing *b = arg;

    b->err = store_place(b->collector->store, b->incoming, b->store_dir, b->name, &b->row.path);
    if (!b->row.path)
        return;
    if (b->err < 0)
        unlink(b->row.path);
    free(b->incoming);
    b->incoming = NULL;
}

static void leave_in_place(struct bringing *b, const char *why)
{
    b->row.stored = false;
    b->row.disk_size = 0;
    replace_str(&b->row.path, b->origin);
    if (!why)
        return;
    struct log_fields fields = fields_of(&b->row);
    fields.message_id = MESSAGE_STORE_FULL;
    log_struct(LOG_WARNING, &fields, "%s is left where it is: %s", b->origin, why);
    char *reason = xasprintf("%s%sleft in place: %s", b->row.reason ? b->row.reason : "",
                             b->row.reason ? "; " : "", why);
    free(b->row.reason);
    b->row.reason = reason;
}

static void on_placed(void *arg)
{
    struct bringing *b = arg;

    if (b->err < 0)
        leave_in_place(b, strerror(-b->err));
    finish(b);
}

/* File systems may say less of a file than it then takes here. */
static bool still_fits(struct bringing *b)
{
    struct collector *c = b->collector;
    int64_t more = b->row.disk_size - b->expected;
    int r = more > 0 ? store_make_room(c->store, b->holder, more, b->displaces_until) : 0;

    if (r < 0)
        b->store_note = store_refusal(c->store, b->holder, r);
    return r >= 0;
}

static void into_store(struct bringing *b)
{
    if (b->stays) {
        b->row.path = xstrdup(b->origin);
        b->row.stored = store_holds(b->collector->store, b->origin);
        finish(b);
        return;
    }
    /* What could not be read to its end was not copied to its end either. */
    if (!b->incoming || !b->row.sha256 || !still_fits(b)) {
        leave_in_place(b, b->store_note);
        finish(b);
        return;
    }
    if (!is_plain_name(b->name)) {
        leave_in_place(b, "there are control characters in its name");
        finish(b);
        return;
    }
    b->row.stored = true;
    b->store_dir = b->row.session_id == RECORD_NONE ? xstrdup(STORE_UNCLAIMED_DIR)
                                                    : xasprintf("s%" PRId64, b->row.session_id);
    offload_run(b->collector->offload, place, on_placed, b);
}

/* Engines name JSON traces, and srtctl databases of nsys; what else is under such a name is none. */
static bool is_what_its_name_says(const struct bringing *b)
{
    struct trace_name parsed;
    int format = b->row.format ? format_from_name(b->row.format) : -1;

    trace_name_parse(b->name, &parsed);
    return (parsed.kind != TRACE_NAME_RANK && parsed.kind != TRACE_NAME_FRONTEND) || format < 0 ||
           format == FORMAT_NSYS_SQLITE || format_is_trace_json((enum trace_format)format);
}

/* The child is trusted with what it says of a trace's content, its hash included: it has nothing of others. A
 * size it made up would be the store's budget. Nobody else writes to files of the store. */
static void check_size(struct bringing *b)
{
    bool in_store = b->incoming || store_holds(b->collector->store, b->origin);
    struct stat st;

    if (!b->row.sha256 && b->row.size == b->size)
        return;
    if (in_store ? lstat(b->incoming ? b->incoming : b->origin, &st) == 0 && st.st_size == b->row.size
                 : b->row.size >= 0)
        return;
    b->row.state = TRACE_UNREADABLE;
    b->row.size = b->size;
    replace_str(&b->row.sha256, NULL);
    replace_str(&b->row.reason, "profd-ingest says of the file another size than it has");
}

/* Whoever completed a file while it was read has given it another size and time: it is known by those from
 * now on, where it has just the bytes that were read. The file's server is not asked, for it may not answer.
 */
static void take_later_facts(struct bringing *b, int source_fd)
{
    struct statx now;

    if (!b->row.sha256 ||
        statx(source_fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_SIZE | STATX_MTIME, &now) < 0)
        return;
    int64_t size = (int64_t)now.stx_size;
    int64_t mtime_ns = now.stx_mtime.tv_sec * NS_PER_S + now.stx_mtime.tv_nsec;
    bool was_completed = size == b->row.size && size > b->size;
    b->changed = !was_completed && (size != b->size || mtime_ns != b->mtime_ns);
    if (was_completed) {
        b->size = size;
        b->mtime_ns = mtime_ns;
    }
}

/* What the budget counts of it, whatever its length. */
static void measure_copy(struct bringing *b)
{
    const char *path = b->incoming ? b->incoming : b->origin;
    bool in_store = b->incoming || store_holds(b->collector->store, path);
    struct stat st;

    b->row.disk_size = in_store && lstat(path, &st) == 0 ? st.st_blocks * STAT_BLOCK_BYTES : 0;
}

static void fill_row(struct bringing *b, const struct ingest_result *r)
{
    struct trace_name parsed;

    trace_name_parse(b->name, &parsed);
    b->row.state = r->state;
    b->row.reason = xstrdup(r->reason);
    b->row.size = b->size;
    facts_to_row(r->facts, &b->row);
    take_later_facts(b, r->source_fd);
    check_size(b);
    measure_copy(b);
    name_to_row(&parsed, &b->row);
    b->facts = json_incref(r->facts);
    b->row.name = xstrdup(b->name);
    b->row.origin = xstrdup(b->origin);
    b->row.owner_uid = b->uid;
    b->row.device = (int64_t)b->device;
    b->row.inode = (int64_t)b->inode;
    b->row.process_started = b->process_started;
    b->row.recorded_at = b->mtime_ns;
    b->row.collected_at = wall_ns();
    if (b->row.state == TRACE_COMPLETE && !is_what_its_name_says(b)) {
        b->row.state = TRACE_CORRUPT;
        free(b->row.reason);
        b->row.reason = xasprintf("not a JSON trace (%s)", b->row.format);
    }
}

/* Where reading into columns took profd-ingest with it: once more, and without. */
static bool try_without_columns(struct bringing *b, const struct ingest_result *r)
{
    if (!b->columns || r->err < 0 || json_object_size(r->facts) > 0)
        return false;
    /* The file that was opened, whatever has its name by now. */
    _cleanup_(closep) int source_fd = fcntl(r->source_fd, F_DUPFD_CLOEXEC, 0);
    _cleanup_(closep) int dest_fd = r->dest_fd >= 0 ? fcntl(r->dest_fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (source_fd < 0 || (r->dest_fd >= 0 && (dest_fd < 0 || ftruncate(dest_fd, 0) < 0)))
        return false;
    const struct log_fields fields = fields_of(&b->row);
    log_struct(LOG_WARNING, &fields, "%s is read without columns: %s", b->origin,
               r->reason ? r->reason : "no reason");
    columns_drop(&b->columns);
    b->no_columns = true;
    b->columns_reason = xstrdup(r->reason);
    b->columns_used_up = r->used_up;
    bringing_start(b, TAKE_FD(source_fd), TAKE_FD(dest_fd));
    return true;
}

static void on_ingested(const struct ingest_result *r, void *arg)
{
    struct bringing *b = arg;

    if (!b->collector->closing && try_without_columns(b, r))
        return;
    fill_row(b, r);
    if (b->collector->closing || !b->kind->judge(b, r))
        bringing_drop(b);
    else
        into_store(b);
}

/* -- The beginning ------------------------------------------------------------------------------------ */

int bringing_into_store(struct bringing *b, int *ret_dest_fd)
{
    struct collector *c = b->collector;

    if (b->holes > PLACE_HOLES_MAX)
        return 0;
    int64_t data = b->size - b->holes;
    int64_t expected = (data + COPY_BLOCK_BYTES - 1) / COPY_BLOCK_BYTES * COPY_BLOCK_BYTES;
    int r = store_make_room(c->store, b->holder, expected, b->displaces_until);
    if (r >= 0)
        r = store_incoming(c->store, b->holder, expected, ret_dest_fd, &b->incoming);
    /* Of this moment: descriptors, and the catalog's lock, which the removal of others needs. */
    if (r == -EMFILE || r == -ENFILE || r == -EBUSY)
        return r;
    if (r >= 0)
        b->expected = expected;
    else
        b->store_note = store_refusal(c->store, b->holder, r);
    return 0;
}

static void open_columns(struct ingest_columns *ret, void *arg)
{
    struct bringing *b = arg;
    columns_open_draft(b->collector, ret, &b->columns);
    b->columns_room = ret->room;
}

static void drop_columns(void *arg)
{
    struct bringing *b = arg;
    columns_drop(&b->columns);
    store_columns_done(b->collector->store, b->columns_room);
    b->columns_room = 0;
}

/* As profd-ingest would answer, had it spent the time. */
static void refuse_hollow(struct bringing *b, int source_fd)
{
    _cleanup_(freep) char *reason =
        xasprintf("more than %d MiB of it were never written (holes)", (int)(PLACE_HOLES_MAX >> 20));
    _cleanup_json_ facts = json_object();

    json_put_str(facts, "remedy",
                 "Copy the file again once its writer has finished; du shows what it takes on the disk.");
    const struct ingest_result result = {
        .state = TRACE_CORRUPT, .reason = reason, .facts = facts, .source_fd = source_fd, .dest_fd = -1};

    on_ingested(&result, b);
    close(source_fd);
}

void bringing_start(struct bringing *b, int source_fd, int dest_fd)
{
    struct collector *c = b->collector;

    if (b->holes > PLACE_HOLES_MAX) {
        refuse_hollow(b, source_fd);
        return;
    }
    const struct ingest_order order = {.source_fd = source_fd,
                                       .source_size = b->size,
                                       .dest_fd = dest_fd,
                                       .open_columns = b->no_columns ? NULL : open_columns,
                                       .drop_columns = b->no_columns ? NULL : drop_columns,
                                       .user = b->user,
                                       .source = b->dir_path,
                                       .size_max = c->settings->file_max,
                                       .memory_max = c->settings->columns_memory};
    ingest_run(c->ingest, &order, on_ingested, b);
}

char *bringing_user(uid_t owner)
{
    return xasprintf("uid %u", owner);
}

struct bringing *bringing_new(struct collector *c, const struct bringing_kind *kind, const char *dir_path,
                              const char *name, const struct stat *st)
{
    struct bringing *b = xcalloc(1, sizeof(*b));

    *b = (struct bringing){.collector = c,
                           .kind = kind,
                           .dir_path = xstrdup(dir_path),
                           .name = xstrdup(name),
                           .origin = xasprintf("%s/%s", dir_path, name),
                           .user = bringing_user(st->st_uid),
                           .size = st->st_size,
                           .holder = store_holder(c->store, st->st_uid, NULL),
                           .mtime_ns = st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec,
                           .device = st->st_dev,
                           .inode = st->st_ino,
                           .uid = st->st_uid,
                           .gid = st->st_gid,
                           .process_started = RECORD_NONE,
                           .actor = xstrdup("profd"),
                           .no_columns = !c->settings->columns};
    b->displaces_until = b->mtime_ns;
    trace_record_init(&b->row);
    c->n_bringing++;
    return b;
}
