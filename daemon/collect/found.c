/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that appeared in a directory: when one is brought in, whose it is, and what those who wait for it are
 * told.
 *
 * Where the store cannot take it (full, read-only), the trace is cataloged where it lies: nothing is lost.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/collect/bringing.h"
#include "daemon/collect/place.h"
#include "daemon/fleet/process.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

/* At a time, in all and of one directory: their descriptors wait for profd-ingest, and a directory that does
 * not answer must not keep the others out. */
#define OPENING_MAX        256
#define OPENING_OF_DIR_MAX 32
/* Files of one directory that are named, with the reason why they are not collected. */
#define REPORTS_MAX         16
#define REPORTS_INTERVAL_NS (60 * NS_PER_S)

/* The file's entry, which may have been forgotten meanwhile. */
static struct file *find_file(struct collector *c, const char *dir_path, const char *name)
{
    struct dir *d;

    TAILQ_FOREACH(d, &c->dirs, next)
        if (streq(d->path, dir_path))
            return dir_find_file(d, name);
    return NULL;
}

static struct file *its_file(const struct bringing *b)
{
    return find_file(b->collector, b->dir_path, b->name);
}

/* Anybody can make a hundred thousand files that are not collected: some of them are named, then it is
 * reported that there are more. */
static bool may_name(struct dir *d)
{
    int64_t now = mono_ns();

    if (d->n_reports == 0 || now - d->reports_since_ns >= REPORTS_INTERVAL_NS) {
        d->reports_since_ns = now;
        d->n_reports = 0;
    }
    if (d->n_reports++ == REPORTS_MAX)
        log_warning("more files in %s are not collected; they are not named for a minute", d->path);
    return d->n_reports <= REPORTS_MAX;
}

/* Of a file, or (NULL) of its directory. */
static void tell(struct dir *d, const struct file *f, const char *remedy, const char *text)
{
    const struct collection *first = NULL;
    struct collection *k;

    TAILQ_FOREACH(k, &d->collections, next_in_dir) {
        if (f && !file_may_be_of(f, k))
            continue;
        first = first ? first : k;
        if (k->trouble)
            continue;
        k->trouble = xstrdup(text);
        replace_str(&k->trouble_remedy, remedy);
    }
    if (!may_name(d))
        return;
    log_warning("%s", text);
    catalog_add_event(d->collector->catalog, "trace-refused", "profd",
                      first ? first->target->record.session_id : RECORD_NONE, RECORD_NONE, RECORD_NONE, "%s",
                      text);
}

void dir_refused(struct dir *d, const char *why)
{
    tell(d, NULL,
         "Name the directory itself, without links, by trace_dir= in profd.conf or --trace-dir; if nobody "
         "moved it on purpose, ask who its owner is.",
         why);
}

/* Says to all who might wait for this file why they will not get it. */
static void report_trouble(struct file *f, const char *remedy, const char *format, ...) _printf_(3, 4);
static void report_trouble(struct file *f, const char *remedy, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap);
    va_end(ap);
    tell(f->dir, f, remedy, text);
    file_set_state(f, FILE_DONE);
}

/* -- What became of it ------------------------------------------------------------------------------- */

static void count_whole(struct collection *k, const struct trace_record *row, enum trace_stage stage)
{
    k->n_whole_of[stage]++;
    k->n_whole = MAX(k->n_whole, k->n_whole_of[stage]);
    if (row->rank >= 0 && row->rank < 64)
        k->ranks |= UINT64_C(1) << row->rank;
}

static void note_damage(struct collection *k, const struct trace_record *row)
{
    const char *state = trace_state_name(row->state);

    free(k->damage);
    k->damage = row->reason && starts_with(row->reason, state)
                    ? xasprintf("t%" PRId64 " is %s", row->trace_id, row->reason)
                    : xasprintf("t%" PRId64 " is %s%s%s", row->trace_id, state, row->reason ? ": " : "",
                                row->reason ? row->reason : "");
}

static void count_for_collections(struct file *f, const struct trace_record *row, bool again)
{
    struct collection *k;

    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir) {
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

static void take_again_later(struct bringing *b)
{
    struct file *f = its_file(b);

    if (f)
        file_set_state(f, FILE_GROWING);
}

static bool judge(struct bringing *b, const struct ingest_result *r)
{
    struct file *f = its_file(b);

    bool store_failed = json_get_int(r->facts, "error", 0) > 0;
    bool later = r->err == -EAGAIN || store_failed;
    if (f && later)
        f->in_place = store_failed;
    if (!f || later)
        return !later;
    if (b->changed)
        return false;
    if (b->row.state != TRACE_COMPLETE && !b->patient && f->parsed.kind != TRACE_NAME_ATTACHMENT) {
        /* Not whole yet: its writer may still be at it. Looked at again when it changed, or when patience
         * ends. */
        f->checked_size = b->size;
        return false;
    }
    if (b->check_first && b->row.state == TRACE_COMPLETE) {
        f->worth_room = true;
        return false;
    }
    b->known_id = f->trace_id;
    file_attribute(f, &b->row);
    return true;
}

static void saved(struct bringing *b, int err)
{
    struct file *f = its_file(b);
    struct collector *c = b->collector;

    if (f) {
        /* A trace that was cut off may still be completed. An attachment under the same name is the next one.
         */
        bool may_go_on = err >= 0 && b->row.kind != TRACE_KIND_ATTACHMENT && b->row.state != TRACE_COMPLETE &&
                         b->row.state != TRACE_DUPLICATE;
        f->trace_id = may_go_on ? b->row.trace_id : 0;
        count_for_collections(f, &b->row, b->known_id != 0);
        if (f->state == FILE_CHECKING)
            file_set_state(f, f->size == b->size && f->mtime_ns == b->mtime_ns ? FILE_DONE : FILE_GROWING);
    }
    if (c->closing)
        return;
    if (f)
        dir_check_collections(f->dir);
    collector_arm_tick(c);
}

static const struct bringing_kind found_kind = {.judge = judge, .saved = saved, .dropped = take_again_later};

/* -- The beginning ------------------------------------------------------------------------------------ */

/* Of this moment, not of the file. */
static bool is_passing(int err)
{
    return err == -ENOENT || err == -EMFILE || err == -ENFILE || err == -ENOMEM || err == -EINTR;
}

/* A file that a thread opens: its directory may lie on a server that does not answer. */
struct opening {
    struct dir *dir;
    char *path, *name, *refusal;
    struct place place;
    const char *what; /* it is, where it is no file */
    int fd;           /* or a negative errno value */
    struct stat st;
    int64_t holes;
};

static void open_source(void *arg)
{
    struct opening *o = arg;
    _cleanup_(closep) int dir_fd = place_open(o->path, &o->place, &o->refusal);

    o->fd = dir_fd < 0 ? dir_fd : place_open_file(dir_fd, o->name, &o->st, &o->what);
    if (o->fd >= 0)
        o->holes = place_holes(o->fd, &o->st);
}

static void opening_free(struct opening *o)
{
    closep(&o->fd);
    free(o->path);
    free(o->name);
    place_done(&o->place);
    free(o->refusal);
    free(o);
}

static void refuse_what_is_no_file(struct file *f, const char *what)
{
    report_trouble(f, "profd reads regular files only: have the worker write its trace there itself.",
                   "%s/%s is %s: not collected", f->dir->path, f->name, what);
}

static void explain_unopened(struct file *f, const struct opening *o)
{
    if (o->refusal)
        report_trouble(f, "Find out who changed the directory while it was recorded.", "%s", o->refusal);
    else if (o->what || o->fd == -ELOOP || o->fd == -EINVAL)
        refuse_what_is_no_file(f, o->what ? o->what : "not a regular file");
    else
        report_trouble(f,
                       "Let profd's user read the directory (setfacl -d -m u:profd:rX DIRECTORY), or "
                       "add " FOREIGN_DROP_IN ".",
                       "cannot read %s/%s (its owner is uid %u): %s", f->dir->path, f->name, f->uid,
                       strerror(-o->fd));
}

static bool is_waited_for(const struct file *f)
{
    const struct collection *k;

    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir)
        if (file_may_be_of(f, k))
            return true;
    return false;
}

/* In whose share of the store it will count: what it holds may say more precisely which worker wrote it. */
static int64_t holder_of(const struct file *f, const struct stat *st)
{
    const struct store *store = f->dir->collector->store;
    const struct collection *k;
    const char *url = NULL;

    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir) {
        if (!file_may_be_of(f, k))
            continue;
        if (url && !streq(url, k->target->worker.url))
            return store_holder(store, st->st_uid, NULL);
        url = k->target->worker.url;
    }
    return store_holder(store, st->st_uid, url);
}

static void begin(struct file *f, struct opening *o)
{
    int source_fd = TAKE_FD(o->fd);
    struct collector *c = f->dir->collector;
    struct bringing *b = bringing_new(c, &found_kind, f->dir->path, f->name, &o->st);
    int dest_fd = -1;

    place_copy(&o->place, &b->place);
    b->holder = holder_of(f, &o->st);
    b->process_started = o->place.process_started;
    b->holes = o->holes;
    if (is_waited_for(f))
        b->displaces_until = INT64_MAX;
    b->patient = file_quiet_for(f) >= c->settings->settle_ns;
    file_set_state(f, FILE_CHECKING);
    if (f->in_place) {
        b->store_note = xstrdup("the store could not take it");
    } else if (c->settings->collect_mode == COLLECT_COPY && !f->worth_room &&
               !store_has_room(c->store, b->size - b->holes)) {
        b->check_first = b->no_columns = true;
        b->store_note = xstrdup("no room in the store (see profctl du)");
    } else if (c->settings->collect_mode == COLLECT_COPY) {
        b->remove_original = c->settings->remove_original;
        if (bringing_into_store(b, &dest_fd) < 0) {
            close(source_fd);
            bringing_drop(b);
            return;
        }
    }
    bringing_start(b, source_fd, dest_fd);
}

/* Takes the descriptor, or says why it is not collected. */
static void judge_opened(struct file *f, struct opening *o)
{
    struct collector *c = f->dir->collector;

    if (o->fd < 0) {
        explain_unopened(f, o);
        return;
    }
    if (o->st.st_size > c->settings->file_max) {
        report_trouble(f, "[collect] file_max= in profd.conf sets the limit.",
                       "%s/%s is larger than profd collects", f->dir->path, f->name);
        return;
    }
    const char *distrust = file_distrust(f, o->fd, &o->st);
    if (distrust)
        report_trouble(f, NULL, "%s/%s %s: not collected", f->dir->path, f->name, distrust);
    else
        begin(f, o);
}

/* To be read, which holds descriptors: files of others need some as well. */
static bool may_wait(const struct file *f)
{
    _cleanup_(freep) char *user = bringing_user(f->uid);
    return ingest_has_room(f->dir->collector->ingest, user, f->dir->path);
}

static void on_opened(void *arg)
{
    struct opening *o = arg;
    struct dir *d = o->dir;
    struct collector *c = d->collector;
    struct file *f = c->closing ? NULL : dir_find_file(d, o->name);

    c->n_opening--;
    d->n_opening--;
    if (f) {
        file_set_state(f, FILE_GROWING);
        /* Its turn comes with the next look. */
        if (!is_passing(o->fd) && may_wait(f))
            judge_opened(f, o);
        dir_check_collections(d);
        collector_arm_tick(c);
    }
    opening_free(o);
}

void file_bring_in(struct file *f)
{
    struct collector *c = f->dir->collector;
    struct opening *o;
    struct dir *d = f->dir;

    if (f->what) {
        refuse_what_is_no_file(f, f->what);
        return;
    }
    if (!may_wait(f) || c->n_opening >= OPENING_MAX || d->n_opening >= OPENING_OF_DIR_MAX)
        return;
    o = xcalloc(1, sizeof(*o));
    *o = (struct opening){.dir = d, .path = xstrdup(d->path), .name = xstrdup(f->name), .fd = -1};
    place_copy(&d->place, &o->place);
    c->n_opening++;
    d->n_opening++;
    file_set_state(f, FILE_CHECKING);
    offload_run_in(c->offload, d->lane, open_source, on_opened, o);
}
