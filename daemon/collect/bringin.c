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
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

struct bringing {
    struct collector *collector;
    char *dir_path, *name, *origin;
    int64_t size, mtime_ns;
    uid_t uid;
    bool patient; /* quiet for so long that it is taken as it is */
    char *incoming;
    bool adopted;     /* a file that is in the store already */
    char *store_note; /* why it was left in place */
    struct trace_record row;
    char *store_dir;
    int err; /* of placing it */
    bool remove_original;
};

static void bringing_free(struct bringing *b)
{
    if (b->incoming)
        unlink(b->incoming);
    b->collector->n_bringing--;
    trace_record_done(&b->row);
    free(b->incoming);
    free(b->dir_path);
    free(b->name);
    free(b->origin);
    free(b->store_note);
    free(b->store_dir);
    free(b);
}

/* The file's entry, which may have been forgotten meanwhile. */
static struct file *its_file(const struct bringing *b)
{
    struct dir *d;
    struct file *f;

    TAILQ_FOREACH(d, &b->collector->dirs, next)
    {
        if (!streq(d->path, b->dir_path))
            continue;
        TAILQ_FOREACH(f, &d->files, next)
        if (streq(f->name, b->name))
            return f;
    }
    return NULL;
}

/* Says to all who might wait for this file why they will not get it. */
static void report_trouble(struct file *f, const char *remedy, const char *format, ...) _printf_(3, 4);
static void report_trouble(struct file *f, const char *remedy, const char *format, ...)
{
    struct collector *c = f->dir->collector;
    struct collection *claimants[SCAN_TREES_MAX];
    size_t n = file_claimants(f, claimants, SCAN_TREES_MAX);
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep)
    char *text = xvasprintf(format, ap);
    va_end(ap);
    log_warning("%s", text);
    catalog_add_event(c->catalog, "trace-refused", "profd",
                      n > 0 ? claimants[0]->target->session->record.session_id : RECORD_NONE, RECORD_NONE,
                      RECORD_NONE, "%s", text);
    for (size_t i = 0; i < n; i++) {
        if (claimants[i]->trouble)
            continue;
        claimants[i]->trouble = xstrdup(text);
        replace_str(&claimants[i]->trouble_remedy, remedy);
    }
    f->state = FILE_DONE;
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

static struct claimant claimant_of(const struct collection *c, const struct file *f)
{
    const struct worker *w = &c->target->worker;
    struct claimant claimant = {.profile_id =
                                    c->target->record.output_dir ? c->target->record.profile_id : NULL,
                                .pids = c->pids,
                                .inner_pids = c->inner_pids,
                                .n_pids = c->n_pids,
                                .uid_known = w->pid > 0,
                                .uid = w->uid};
    for (size_t i = 0; i < f->n_openers; i++)
        claimant.had_it_open = claimant.had_it_open || f->openers[i] == c->target->record.target_id;
    return claimant;
}

static void claim_for(struct trace_record *row, struct file *f, const struct target *t)
{
    row->session_id = t->record.session_id;
    row->target_id = t->record.target_id;
    row->worker_url = xstrdup(t->worker.url);
    f->claimed_by = t->record.target_id;
}

static void claim_ambiguously(struct trace_record *row, struct collection **claimants, size_t n,
                              uint64_t candidates)
{
    _cleanup_json_ urls = json_array();
    bool one_session = true;
    const struct target *first = NULL;

    for (size_t i = 0; i < n; i++) {
        if (!(candidates & UINT64_C(1) << i))
            continue;
        const struct target *t = claimants[i]->target;
        json_array_append_new(urls, json_text(t->worker.url));
        first = first ? first : t;
        one_session = one_session && t->session == first->session;
    }
    if (one_session)
        row->session_id = first->record.session_id;
    row->candidates = json_dumps(urls, JSON_COMPACT);
}

static void claim(struct bringing *b, struct file *f)
{
    struct collection *claimants[SCAN_TREES_MAX];
    struct claimant facts[SCAN_TREES_MAX];
    struct claim_evidence evidence = {.profile_id = f->parsed.profile_id[0] ? f->parsed.profile_id : NULL,
                                      .pid = b->row.pid == RECORD_NONE ? -1 : b->row.pid,
                                      .owner = f->uid};
    uint64_t candidates;
    const char *how;

    size_t n = file_claimants(f, claimants, SCAN_TREES_MAX);
    for (size_t i = 0; i < n; i++)
        facts[i] = claimant_of(claimants[i], f);
    int which = claim_decide(facts, n, &evidence, &candidates, &how);
    if (which >= 0) {
        claim_for(&b->row, f, claimants[which]->target);
        log_debug("%s is of %s, by %s", b->origin, claimants[which]->target->worker.url, how);
    } else if (which == CLAIM_AMBIGUOUS) {
        claim_ambiguously(&b->row, claimants, n, candidates);
    }
}

/* The same bytes twice in a session: two names, or a file that was written again. */
static int find_twin(const struct trace_record *other, void *arg)
{
    struct trace_record *row = arg;

    if (other->kind != TRACE_KIND_TRACE || other->size != row->size || !streq(other->sha256, row->sha256))
        return 0;
    row->state = TRACE_DUPLICATE;
    free(row->reason);
    row->reason = xasprintf("same bytes as t%" PRId64, other->trace_id);
    return 1;
}

static void mark_duplicate(struct collector *c, struct trace_record *row)
{
    struct trace_filter filter = {.session_id = row->session_id,
                                  .worker_url = row->worker_url,
                                  .since = RECORD_NONE,
                                  .until = RECORD_NONE,
                                  .before_id = RECORD_NONE,
                                  .limit = INT64_MAX};
    if (row->session_id != RECORD_NONE && row->sha256 && row->kind == TRACE_KIND_TRACE &&
        row->state == TRACE_COMPLETE)
        catalog_each_trace(c->catalog, &filter, find_twin, row);
}

static void count_for_collections(struct collector *c, const struct trace_record *row, const struct file *f)
{
    struct collection *k;

    TAILQ_FOREACH(k, &c->collections, next)
    {
        bool its_own = k->target->record.target_id == row->target_id;
        bool perhaps = row->candidates && k->dir && f && k->dir == f->dir;
        if (!its_own && !perhaps)
            continue;
        k->last_news_ns = mono_ns();
        if (row->kind != TRACE_KIND_TRACE)
            continue;
        k->n_traces++;
        k->ambiguous = k->ambiguous || perhaps;
        if (!its_own || row->state != TRACE_COMPLETE)
            continue;
        k->n_whole++;
        if (row->rank >= 0 && row->rank < 64)
            k->ranks |= UINT64_C(1) << row->rank;
    }
}

static int save_row(struct bringing *b)
{
    struct collector *c = b->collector;
    struct trace_record known;

    trace_record_init(&known);
    int r = catalog_find_trace_by_path(c->catalog, b->row.path, &known);
    if (r == 0) {
        b->row.trace_id = known.trace_id;
        r = catalog_save_trace(c->catalog, &b->row);
    } else if (r == -ENOENT) {
        r = catalog_add_trace(c->catalog, &b->row);
    }
    trace_record_done(&known);
    if (r >= 0)
        catalog_add_event(c->catalog, "trace-added", "profd", b->row.session_id, b->row.target_id,
                          b->row.trace_id, "%s: %s%s%s", b->row.name, trace_state_name(b->row.state),
                          b->row.reason ? ": " : "", b->row.reason ? b->row.reason : "");
    return r;
}

static void finish(struct bringing *b)
{
    struct file *f = its_file(b);

    if (b->err == 0 || !b->row.stored) {
        mark_duplicate(b->collector, &b->row);
        int r = save_row(b);
        if (r < 0)
            log_error("cannot catalog %s: %s", b->row.path, strerror(-r));
    }
    if (f) {
        count_for_collections(b->collector, &b->row, f);
        if (f->state == FILE_CHECKING)
            f->state = f->size == b->size && f->mtime_ns == b->mtime_ns ? FILE_DONE : FILE_GROWING;
    }
    struct collector *c = b->collector;
    bringing_free(b);
    collections_check(c);
    collector_look(c);
}

/* -- Into the store
 * ------------------------------------------------------------------------------------------------ */

static void place(void *arg)
{
    struct bringing *b = arg;

    b->err = store_place(b->collector->store, b->incoming, b->store_dir, b->name, &b->row.path);
    if (b->row.path) {
        free(b->incoming);
        b->incoming = NULL;
    }
    if (b->err == 0 && b->remove_original)
        unlink(b->origin);
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
        b->row.stored = true;
        finish(b);
        return;
    }
    if (!b->incoming) {
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

static void on_ingested(const struct ingest_result *r, void *arg)
{
    struct bringing *b = arg;
    struct file *f = its_file(b);

    if (b->collector->closing) {
        bringing_free(b);
        return;
    }
    bool store_failed = r->err < 0 && r->err != -EAGAIN && b->incoming;
    if (r->err == -EAGAIN || store_failed) {
        if (f) {
            f->state = FILE_GROWING;
            f->in_place = store_failed;
        }
        bringing_free(b);
        return;
    }
    if (f && r->state != TRACE_COMPLETE && !b->patient) {
        /* Not whole yet: its writer may still be at it. Looked at again when it changed, or when patience
         * ends. */
        f->checked_size = b->size;
        f->state = FILE_GROWING;
        bringing_free(b);
        return;
    }
    fill_row(b, r);
    if (f)
        claim(b, f);
    else if (b->adopted)
        claim_adopted(b);
    into_store(b);
}

/* -- The beginning
 * ------------------------------------------------------------------------------------------------- */

static void open_incoming(struct bringing *b, int *ret_fd)
{
    struct collector *c = b->collector;

    if (c->settings->collect_mode == COLLECT_REFERENCE)
        return;
    int r = store_make_room(c->store, b->size);
    if (r >= 0)
        r = store_incoming(c->store, ret_fd, &b->incoming);
    if (r < 0)
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
                           .uid = st->st_uid};
    trace_record_init(&b->row);
    c->n_bringing++;
    return b;
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
    _cleanup_(freep)
    char *path = xasprintf("%s/%s", f->dir->path, f->name);
    int source_fd = open_regular(AT_FDCWD, path, &st);
    if (source_fd == -ENOENT)
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
    struct bringing *b = bringing_new(c, f->dir->path, f->name, &st);
    b->patient = mono_ns() - f->changed_ns >= c->settings->settle_ns ||
                 wall_ns() - b->mtime_ns >= c->settings->settle_ns;
    f->state = FILE_CHECKING;
    if (f->in_place)
        b->store_note = xstrdup("the store could not take it");
    else
        open_incoming(b, &dest_fd);
    ingest_run(c->ingest, source_fd, dest_fd, c->settings->file_max, on_ingested, b);
}

void adopt_file(struct collector *c, const char *path, const char *name)
{
    struct stat st;
    const char *slash = strrchr(path, '/');
    _cleanup_(freep)
    char *dir = xstrndup(path, (size_t)(slash - path));

    int fd = open_regular(AT_FDCWD, path, &st);
    if (fd < 0)
        return;
    struct bringing *b = bringing_new(c, dir, name, &st);
    b->adopted = true;
    b->patient = true;
    log_notice("%s is in the store and not in the catalog: adopted", path);
    ingest_run(c->ingest, fd, -1, c->settings->file_max, on_ingested, b);
}
