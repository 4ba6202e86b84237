/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a finished file to its row:
 *
 *   open -> room in the store -> profd-ingest (check, hash, copy) -> whose is it? -> rename and sync -> row
 *
 * Where the store cannot take it (full, read-only), the trace is cataloged where it lies: nothing is lost.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/collect/internal.h"
#include "trace/read/format.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

struct bringing {
    struct collector *collector;
    char *dir_path, *name, *origin;
    int64_t size, mtime_ns;
    dev_t device;
    ino_t inode;
    uid_t uid;
    bool patient; /* quiet for so long that it is taken as it is */
    char *incoming;
    int64_t expected; /* bytes that the store keeps for it */
    bool check_first; /* there is no room: none is made for what may not be whole */
    bool adopted;     /* a file that stays where it is */
    char *store_note; /* why it was left in place */
    struct trace_record row;
    char *store_dir;
    int err; /* of placing it */
    bool remove_original;
};

static void bringing_free(struct bringing *b)
{
    struct collector *c = b->collector;

    if (b->incoming)
        unlink(b->incoming);
    store_incoming_done(c->store, b->expected);
    c->n_bringing--;
    c->n_adopting -= b->adopted;
    trace_record_done(&b->row);
    free(b->incoming);
    free(b->dir_path);
    free(b->name);
    free(b->origin);
    free(b->store_note);
    free(b->store_dir);
    free(b);
    reconcile_go_on(c);
}

/* The file's entry, which may have been forgotten meanwhile. */
static struct file *its_file(const struct bringing *b)
{
    struct dir *d;

    TAILQ_FOREACH(d, &b->collector->dirs, next)
    if (!b->adopted && streq(d->path, b->dir_path))
        return dir_find_file(d, b->name);
    return NULL;
}

/* Says to all who might wait for this file why they will not get it. */
static void report_trouble(struct file *f, const char *remedy, const char *format, ...) _printf_(3, 4);
static void report_trouble(struct file *f, const char *remedy, const char *format, ...)
{
    const struct collection *first = NULL;
    struct collection *k;
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap);
    va_end(ap);
    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir)
    {
        if (!file_may_be_of(f, k))
            continue;
        first = first ? first : k;
        if (k->trouble)
            continue;
        k->trouble = xstrdup(text);
        replace_str(&k->trouble_remedy, remedy);
    }
    log_warning("%s", text);
    catalog_add_event(f->dir->collector->catalog, "trace-refused", "profd",
                      first ? first->target->record.session_id : RECORD_NONE, RECORD_NONE, RECORD_NONE, "%s",
                      text);
    file_set_state(f, FILE_DONE);
}

/* -- The row
 * ------------------------------------------------------------------------------------------------------- */

static void take_facts(struct trace_record *row, const json_t *facts)
{
    const struct {
        const char *key;
        int64_t *value;
    } numbers[] = {{"uncompressed", &row->uncompressed},
                   {"rank", &row->rank},
                   {"world_size", &row->world_size},
                   {"pid", &row->pid},
                   {"devices", &row->devices},
                   {"events", &row->events},
                   {"first_ts_ns", &row->first_event_at},
                   {"span_ns", &row->span_ns},
                   {"size", &row->size}};

    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        *numbers[i].value = json_get_int(facts, numbers[i].key, *numbers[i].value);
    row->sha256 = xstrdup(json_get_str(facts, "sha256"));
    row->format = xstrdup(json_get_str(facts, "format"));
    row->device_name = xstrdup(json_get_str(facts, "device_name"));
}

static void take_name(struct trace_record *row, const struct trace_name *n)
{
    const struct {
        int64_t from, *to;
    } numbers[] = {{n->dp, &row->dp}, {n->pp, &row->pp},     {n->tp, &row->tp},
                   {n->ep, &row->ep}, {n->rank, &row->rank}, {n->pid, &row->pid}};

    /* What the file says of itself goes before what its name says. */
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        if (numbers[i].from >= 0 && *numbers[i].to == RECORD_NONE)
            *numbers[i].to = numbers[i].from;
    if (n->stage != TRACE_STAGE_NONE)
        row->stage = xstrdup(trace_stage_name(n->stage));
    row->kind = n->kind == TRACE_NAME_FRONTEND ? TRACE_KIND_FRONTEND
                : n->kind == TRACE_NAME_RANK   ? TRACE_KIND_TRACE
                                               : TRACE_KIND_ATTACHMENT;
}

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

static void count_whole(struct collection *k, const struct trace_record *row, enum trace_stage stage)
{
    k->n_whole_of[stage]++;
    k->n_whole = MAX(k->n_whole, k->n_whole_of[stage]);
    if (row->rank >= 0 && row->rank < 64)
        k->ranks |= UINT64_C(1) << row->rank;
}

static void note_damage(struct collection *k, const struct trace_record *row)
{
    free(k->damage);
    k->damage = xasprintf("t%" PRId64 " is %s%s%s", row->trace_id, trace_state_name(row->state),
                          row->reason ? ": " : "", row->reason ? row->reason : "");
}

static void count_for_collections(struct file *f, const struct trace_record *row, bool again)
{
    struct collection *k;

    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir)
    {
        bool its_own = k->target->record.target_id == row->target_id;
        bool perhaps = row->candidates && k->may_have_more;
        if (!its_own && !perhaps)
            continue;
        k->last_news_ns = MAX(k->last_news_ns, f->changed_ns);
        if (row->kind != TRACE_KIND_TRACE)
            continue;
        k->n_traces += !again;
        k->ambiguous = k->ambiguous || perhaps;
        if (its_own && row->state == TRACE_COMPLETE)
            count_whole(k, row, f->parsed.stage);
        else if (its_own && row->state != TRACE_DUPLICATE)
            note_damage(k, row);
    }
}

/* What was known of a trace before stays with the file that was read again: whose it is, and that it is
 * pinned. */
static void keep_claims(struct trace_record *row, struct trace_record *known)
{
    row->trace_id = known->trace_id;
    row->pinned = known->pinned;
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
    replace_str(&row->origin, known->origin);
    replace_str(&row->name, known->name);
}

/* The row that this one takes the place of: of the same path, or of the same file when it was not whole yet.
 */
static bool find_known(const struct bringing *b, const struct file *f, struct trace_record *known)
{
    struct catalog *catalog = b->collector->catalog;

    if (f && f->trace_id != 0 && catalog_get_trace(catalog, f->trace_id, known) == 0) {
        bool of_another = b->row.session_id != RECORD_NONE && known->session_id != RECORD_NONE &&
                          b->row.session_id != known->session_id;
        if (!of_another)
            return true;
        trace_record_done(known);
        trace_record_init(known);
    }
    return b->row.path && catalog_find_trace_by_path(catalog, b->row.path, known) == 0;
}

static int save_row(struct bringing *b, struct file *f)
{
    struct collector *c = b->collector;
    struct trace_record known;
    _cleanup_(freep) char *outdated = NULL;

    trace_record_init(&known);
    int r = 0;
    if (find_known(b, f, &known)) {
        if (b->adopted)
            keep_origin(&b->row, &known);
        keep_claims(&b->row, &known);
        if (known.stored && !streq(known.path, b->row.path) && store_holds(c->store, known.path))
            outdated = xstrdup(known.path);
        r = catalog_save_trace(c->catalog, &b->row);
    } else {
        r = catalog_add_trace(c->catalog, &b->row);
    }
    trace_record_done(&known);
    if (r >= 0)
        catalog_add_event(c->catalog, "trace-added", "profd", b->row.session_id, b->row.target_id,
                          b->row.trace_id, "%s: %s%s%s", b->row.name, trace_state_name(b->row.state),
                          b->row.reason ? ": " : "", b->row.reason ? b->row.reason : "");
    if (r >= 0 && outdated && catalog_commit(c->catalog, false) >= 0)
        unlink(outdated);
    return r;
}

struct original {
    char *path;
    int64_t size, mtime_ns;
    dev_t device;
    ino_t inode;
};

/* Only the very file that was copied: the worker may have written another one meanwhile. */
static void remove_original(void *arg)
{
    const struct original *o = arg;
    struct stat st;

    if (lstat(o->path, &st) == 0 && st.st_dev == o->device && st.st_ino == o->inode &&
        st.st_size == o->size && st.st_mtim.tv_sec * NS_PER_S + st.st_mtim.tv_nsec == o->mtime_ns &&
        unlink(o->path) < 0)
        log_warning("cannot remove %s, which was copied: %s", o->path, strerror(errno));
}

static void original_free(void *arg)
{
    struct original *o = arg;

    free(o->path);
    free(o);
}

static void finish(struct bringing *b)
{
    struct collector *c = b->collector;
    struct file *f = its_file(b);
    bool again = f && f->trace_id != 0;

    mark_duplicate(c, &b->row);
    int r = save_row(b, f);
    if (r < 0)
        log_error("cannot catalog %s: %s", b->row.path, strerror(-r));
    if (r >= 0 && b->remove_original && catalog_commit(c->catalog, false) >= 0) {
        struct original *o = xcalloc(1, sizeof(*o));
        *o = (struct original){.path = xstrdup(b->origin),
                               .size = b->size,
                               .mtime_ns = b->mtime_ns,
                               .device = b->device,
                               .inode = b->inode};
        offload_run(c->offload, remove_original, original_free, o);
    }
    if (f) {
        /* A trace that was cut off may still be completed. An attachment under the same name is the next one.
         */
        bool may_go_on = r >= 0 && b->row.kind != TRACE_KIND_ATTACHMENT && b->row.state != TRACE_COMPLETE &&
                         b->row.state != TRACE_DUPLICATE;
        f->trace_id = may_go_on ? b->row.trace_id : 0;
        count_for_collections(f, &b->row, again);
        if (f->state == FILE_CHECKING)
            file_set_state(f, f->size == b->size && f->mtime_ns == b->mtime_ns ? FILE_DONE : FILE_GROWING);
    }
    struct dir *d = f ? f->dir : NULL;
    bringing_free(b);
    if (c->closing)
        return;
    if (d)
        dir_check_collections(d);
    collector_arm_tick(c);
}

/* -- Into the store
 * ------------------------------------------------------------------------------------------------ */

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
    replace_str(&b->row.path, b->origin);
    if (!why)
        return;
    log_warning("%s is left where it is: %s", b->origin, why);
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

static void into_store(struct bringing *b)
{
    if (b->adopted) {
        b->row.path = xstrdup(b->origin);
        b->row.stored = store_holds(b->collector->store, b->origin);
        finish(b);
        return;
    }
    /* What could not be read to its end was not copied to its end either. */
    if (!b->incoming || !b->row.sha256) {
        leave_in_place(b, b->store_note);
        finish(b);
        return;
    }
    b->row.stored = true;
    b->store_dir = b->row.session_id == RECORD_NONE ? xstrdup(STORE_UNCLAIMED_DIR)
                                                    : xasprintf("s%" PRId64, b->row.session_id);
    b->remove_original = b->collector->settings->remove_original && b->row.state == TRACE_COMPLETE;
    offload_run(b->collector->offload, place, on_placed, b);
}

/* Engines name JSON traces; what else is under such a name is none. */
static bool is_what_its_name_says(const struct bringing *b)
{
    struct trace_name parsed;
    int format = b->row.format ? format_from_name(b->row.format) : -1;

    trace_name_parse(b->name, &parsed);
    return (parsed.kind != TRACE_NAME_RANK && parsed.kind != TRACE_NAME_FRONTEND) || format < 0 ||
           format_is_trace_json((enum trace_format)format);
}

static void fill_row(struct bringing *b, const struct ingest_result *r)
{
    struct trace_name parsed;

    trace_name_parse(b->name, &parsed);
    b->row.state = r->state;
    b->row.reason = xstrdup(r->reason);
    b->row.size = b->size;
    take_facts(&b->row, r->facts);
    take_name(&b->row, &parsed);
    b->row.name = xstrdup(b->name);
    b->row.origin = xstrdup(b->origin);
    b->row.owner_uid = b->uid;
    b->row.recorded_at = b->mtime_ns;
    b->row.collected_at = wall_ns();
    if (b->row.state == TRACE_COMPLETE && !is_what_its_name_says(b)) {
        b->row.state = TRACE_CORRUPT;
        free(b->row.reason);
        b->row.reason = xasprintf("not a JSON trace (%s)", b->row.format);
    }
}

/* A file in the store whose row is missing belongs to the session whose directory it is in. */
static void claim_adopted(struct bringing *b)
{
    const char *dir = strrchr(b->dir_path, '/');
    struct session_record session;
    int64_t id;

    session_record_init(&session);
    if (dir && dir[1] == 's' && parse_ref(dir + 1, 's', &id) == 's' &&
        catalog_get_session(b->collector->catalog, id, &session) == 0)
        b->row.session_id = id;
    session_record_done(&session);
}

static void take_again_later(struct bringing *b, struct file *f)
{
    if (f)
        file_set_state(f, FILE_GROWING);
    bringing_free(b);
}

static void on_ingested(const struct ingest_result *r, void *arg)
{
    struct bringing *b = arg;
    struct file *f = its_file(b);

    if (b->collector->closing) {
        bringing_free(b);
        return;
    }
    bool store_failed = json_get_int(r->facts, "error", 0) > 0;
    if (r->err == -EAGAIN || store_failed) {
        if (f)
            f->in_place = store_failed;
        take_again_later(b, f);
        return;
    }
    fill_row(b, r);
    if (f && b->row.state != TRACE_COMPLETE && !b->patient && f->parsed.kind != TRACE_NAME_ATTACHMENT) {
        /* Not whole yet: its writer may still be at it. Looked at again when it changed, or when patience
         * ends. */
        f->checked_size = b->size;
        take_again_later(b, f);
        return;
    }
    if (f && b->check_first && b->row.state == TRACE_COMPLETE) {
        f->worth_room = true;
        take_again_later(b, f);
        return;
    }
    if (f)
        file_attribute(f, &b->row);
    else if (b->adopted && store_holds(b->collector->store, b->origin))
        claim_adopted(b);
    into_store(b);
}

/* -- The beginning
 * ------------------------------------------------------------------------------------------------- */

static void open_incoming(struct bringing *b, bool worth_room, int *ret_fd)
{
    struct collector *c = b->collector;

    if (c->settings->collect_mode == COLLECT_REFERENCE)
        return;
    if (!worth_room && !store_has_room(c->store, b->size)) {
        b->check_first = true;
        b->store_note = xstrdup("no room in the store (see profctl du)");
        return;
    }
    int r = store_make_room(c->store, b->size, b->mtime_ns);
    if (r >= 0)
        r = store_incoming(c->store, b->size, ret_fd, &b->incoming);
    if (r >= 0)
        b->expected = b->size;
    else
        b->store_note =
            r == -ENOSPC ? xstrdup("no room in the store (see profctl du)") : xstrdup(strerror(-r));
}

static struct bringing *bringing_new(struct collector *c, const char *dir_path, const char *name,
                                     const struct stat *st)
{
    struct bringing *b = xcalloc(1, sizeof(*b));

    *b = (struct bringing){.collector = c,
                           .dir_path = xstrdup(dir_path),
                           .name = xstrdup(name),
                           .origin = xasprintf("%s/%s", dir_path, name),
                           .size = st->st_size,
                           .mtime_ns = st->st_mtim.tv_sec * NS_PER_S + st->st_mtim.tv_nsec,
                           .device = st->st_dev,
                           .inode = st->st_ino,
                           .uid = st->st_uid};
    trace_record_init(&b->row);
    c->n_bringing++;
    return b;
}

/* Of this moment, not of the file. */
static bool is_passing(int err)
{
    return err == -ENOENT || err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -EINTR;
}

static void explain_unopened(struct file *f, int err)
{
    if (err == -ELOOP || err == -EINVAL || err == -ENXIO)
        report_trouble(f, NULL, "%s/%s is not a regular file: not collected", f->dir->path, f->name);
    else
        report_trouble(
            f,
            "Run profd as the worker's user or as root, or let it read: setfacl -d -m u:profd:rX DIRECTORY.",
            "cannot read %s/%s (its owner is uid %u): %s", f->dir->path, f->name, f->uid, strerror(-err));
}

void file_bring_in(struct file *f)
{
    struct collector *c = f->dir->collector;
    struct stat st;
    int dest_fd = -1;

    if (ingest_is_full(c->ingest))
        return; /* its turn comes with the next look */
    _cleanup_(freep) char *path = xasprintf("%s/%s", f->dir->path, f->name);
    int source_fd = open_regular(AT_FDCWD, path, &st);
    if (is_passing(source_fd))
        return;
    if (source_fd < 0) {
        explain_unopened(f, source_fd);
        return;
    }
    if (st.st_size > c->settings->file_max) {
        close(source_fd);
        report_trouble(f, "[collect] file_max= in profd.conf sets the limit.",
                       "%s is larger than profd collects", path);
        return;
    }
    const char *distrust = file_distrust(f, source_fd, &st);
    if (distrust) {
        close(source_fd);
        report_trouble(f, NULL, "%s %s: not collected", path, distrust);
        return;
    }
    struct bringing *b = bringing_new(c, f->dir->path, f->name, &st);
    b->patient = file_quiet_for(f) >= c->settings->settle_ns;
    file_set_state(f, FILE_CHECKING);
    if (f->in_place)
        b->store_note = xstrdup("the store could not take it");
    else
        open_incoming(b, f->worth_room, &dest_fd);
    ingest_run(c->ingest, source_fd, dest_fd, c->settings->file_max, on_ingested, b);
}

void adopt_file(struct collector *c, const char *path)
{
    struct stat st;
    const char *slash = strrchr(path, '/');
    _cleanup_(freep) char *dir = xstrndup(path, (size_t)(slash - path));

    int fd = open_regular(AT_FDCWD, path, &st);
    if (fd < 0)
        return;
    struct bringing *b = bringing_new(c, dir, slash + 1, &st);
    b->adopted = true;
    c->n_adopting++;
    b->patient = true;
    ingest_run(c->ingest, fd, -1, c->settings->file_max, on_ingested, b);
}
