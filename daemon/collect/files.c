/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of one directory: what changed since the last look, and which are finished.
 *
 * Existence says nothing: engines stream gzip straight into the final name. A file is read when it has been
 * quiet for a while (how long depends on whether its worker has said that it is done), and accepted when its
 * checksum is right, or when it has been quiet for so long that nothing more will come.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/collect/internal.h"
#include <errno.h>
#include <search.h>

#define QUIET_AFTER_STOP_NS (200 * NS_PER_MS) /* the worker said that it is done */
#define QUIET_BY_ITSELF_NS  NS_PER_S          /* the engine stops by itself and says nothing */
#define QUIET_UNCLAIMED_NS  (2 * NS_PER_S)
/* File times and the moment a start leaves are both this host's, but file systems round. */
#define CLAIM_SLACK_NS (2 * NS_PER_S)

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct file *)a)->name, ((const struct file *)b)->name);
}

struct file *dir_find_file(struct dir *d, const char *name)
{
    struct file key = {.name = (char *)name};
    struct file **found = tfind(&key, &d->by_name, compare_names);
    return found ? *found : NULL;
}

static bool is_pending(enum file_state state)
{
    return state == FILE_GROWING || state == FILE_CHECKING;
}

void file_set_state(struct file *f, enum file_state state)
{
    f->dir->n_pending += is_pending(state);
    f->dir->n_pending -= is_pending(f->state);
    f->state = state;
}

static struct file *add_file(struct dir *d, const struct scan_entry *e)
{
    struct file *f = xcalloc(1, sizeof(*f));

    *f = (struct file){.dir = d, .name = xstrdup(e->name), .checked_size = -1};
    trace_name_parse(e->name, &f->parsed);
    tsearch(f, &d->by_name, compare_names);
    TAILQ_INSERT_TAIL(&d->files, f, next);
    return f;
}

void file_free(struct file *f)
{
    file_set_state(f, FILE_OLD);
    tdelete(f, &f->dir->by_name, compare_names);
    TAILQ_REMOVE(&f->dir->files, f, next);
    free(f->name);
    free(f);
}

static const enum engine engine_of_writer[_TRACE_WRITER_MAX] = {
    [TRACE_WRITER_VLLM] = ENGINE_VLLM,
    [TRACE_WRITER_SGLANG] = ENGINE_SGLANG,
    [TRACE_WRITER_RTP_LLM] = ENGINE_RTP_LLM,
};

static bool writer_fits(const struct file *f, const struct target *t)
{
    enum engine wrote = engine_of_writer[f->parsed.writer], profiler = worker_profiler(&t->worker);

    if (worker_ops(&t->worker)->names_traces)
        return starts_with(f->name, t->record.profile_id);
    return wrote == ENGINE_UNKNOWN || profiler == ENGINE_UNKNOWN || wrote == profiler;
}

int64_t target_began_at(const struct target *t)
{
    const struct session_record *s = &t->session->record;

    if (s->begun_boot_ns == RECORD_NONE)
        return s->begun_at;
    return wall_earliest(s->begun_at, boot_ns() - s->begun_boot_ns);
}

/* A file that was not seen to differ since the starts left is of an earlier session, whatever its time says.
 */
static bool was_still_since_start(const struct file *f, const struct session_record *s)
{
    return s->begun_boot_ns != RECORD_NONE && mono_ns() - f->changed_ns > boot_ns() - s->begun_boot_ns;
}

bool file_may_be_of(const struct file *f, const struct collection *k)
{
    const struct target *t = k->target;
    const struct session_record *s = &t->session->record;

    if (k->dir != f->dir || s->begun_at == RECORD_NONE || was_still_since_start(f, s))
        return false;
    if (t->record.state < STATE_RECORDING || state_is_final(t->record.state))
        return false;
    /* Another host's clock may be behind, then what was seen here counts. */
    int64_t written_at = f->dir->remote ? MAX(f->mtime_ns, f->arrived_at) : f->mtime_ns;
    return written_at >= target_began_at(t) - CLAIM_SLACK_NS && writer_fits(f, t);
}

static bool may_be_of_any(const struct file *f)
{
    const struct collection *k;

    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir)
        if (file_may_be_of(f, k))
            return true;
    return false;
}

/* At the first look at a directory: files that a recording under way may have written are news, all others
 * were there. */
static bool is_news_at_first(const struct dir *d, const struct file *f)
{
    return d->configured || may_be_of_any(f);
}

/* Or was, and somebody removed it. */
static bool is_cataloged(const struct file *f)
{
    struct catalog *catalog = f->dir->collector->catalog;
    _cleanup_(freep) char *origin = xasprintf("%s/%s", f->dir->path, f->name);
    const struct removed_file file = {
        .origin = origin, .size = f->size, .recorded_at = f->mtime_ns, .inode = (int64_t)f->inode};
    struct trace_record known;

    trace_record_init(&known);
    bool same = catalog_find_trace_by_origin(catalog, origin, &known) == 0 && known.size == f->size &&
                known.recorded_at == f->mtime_ns;
    trace_record_done(&known);
    return same || catalog_was_removed(catalog, &file);
}

static void remember_openers(struct file *f, const struct scan_entry *e, const struct scan_dir *scan)
{
    for (size_t i = 0; i < scan->n_trees; i++) {
        pid_t worker = scan->trees[i].root;
        bool known = !(e->opened_by & UINT64_C(1) << i);
        for (size_t k = 0; k < f->n_openers; k++)
            known = known || f->openers[k] == worker;
        if (!known && f->n_openers < OPENERS_MAX)
            f->openers[f->n_openers++] = worker;
    }
}

/* By the file's own time, which may be by another host's clock or from before this one's was set: what an
 * earlier look did not see is no older than that look. */
static int64_t age_when_seen(const struct dir *d, const struct file *f)
{
    if (d->remote)
        return 0;
    int64_t age = MAX(wall_ns() - f->mtime_ns, INT64_C(0));
    return d->looked_at ? MIN(age, f->changed_ns - d->looked_ns) : age;
}

static void merge_entry(struct dir *d, const struct scan_entry *e, const struct scan_dir *scan)
{
    struct file *f = dir_find_file(d, e->name);
    bool is_new = !f;

    if (is_new)
        f = add_file(d, e);
    if (!is_new && f->inode != e->inode)
        f->n_openers = 0;
    f->seen_in = d->n_looks;
    remember_openers(f, e, scan);
    if (!is_new && f->inode == e->inode && f->size == e->size && f->mtime_ns == e->mtime_ns)
        return;
    if (!is_new && f->inode != e->inode) {
        f->trace_id = 0;
        f->in_place = false;
    }
    f->what = e->what;
    f->size = e->size;
    f->mtime_ns = e->mtime_ns;
    f->device = e->device;
    f->inode = e->inode;
    f->uid = e->uid;
    f->changed_ns = mono_ns();
    f->written_ns = f->changed_ns - age_when_seen(d, f);
    f->arrived_at = d->looked_at ? wall_ns() : 0;
    if (f->state == FILE_CHECKING)
        return;
    if (f->parsed.kind == TRACE_NAME_OTHER || (is_new && !d->looked_at && !is_news_at_first(d, f)))
        file_set_state(f, FILE_OLD);
    else
        file_set_state(f, !f->what && is_cataloged(f) ? FILE_DONE : FILE_GROWING);
}

static void say_full(struct dir *d, const struct scan_dir *scan)
{
    if (scan->n_entries < SCAN_ENTRIES_MAX || d->said_full)
        return;
    d->said_full = true;
    log_warning("%s holds more than %d files: traces in it may be overlooked; make room in it", d->path,
                SCAN_ENTRIES_MAX);
}

int64_t file_quiet_for(const struct file *f)
{
    return mono_ns() - f->written_ns;
}

static bool is_finished(const struct file *f)
{
    const struct collection *k;
    int64_t quiet = file_quiet_for(f), patience = f->dir->collector->settings->settle_ns;
    bool claimed = false, all_stopped = true, by_itself = false;

    if (quiet >= patience)
        return true;
    bool waits_for_more = f->size == 0 && f->parsed.kind != TRACE_NAME_ATTACHMENT;
    if (f->checked_size == f->size || waits_for_more || f->parsed.unfinished)
        return false;
    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir) {
        if (!file_may_be_of(f, k))
            continue;
        claimed = true;
        all_stopped = all_stopped && k->collecting;
        by_itself = by_itself || target_ends_by_itself(k->target);
    }
    if (!claimed)
        return quiet >= QUIET_UNCLAIMED_NS;
    return all_stopped ? quiet >= QUIET_AFTER_STOP_NS : by_itself && quiet >= QUIET_BY_ITSELF_NS;
}

/* An engine that records each request without end writes more than anybody looks at. */
static bool may_come_in(struct file *f)
{
    bool is_asked_for = f->parsed.writer != TRACE_WRITER_RTP_LLM || may_be_of_any(f);
    return is_asked_for || unclaimed_admit(f);
}

static void settle_file(struct file *f)
{
    if (f->state != FILE_GROWING || !is_finished(f))
        return;
    if (may_come_in(f))
        file_bring_in(f);
    else
        file_set_state(f, FILE_OLD);
}

/* -- A look, in portions ------------------------------------------------------------------------------ */

/* A file that is gone before it was collected leaves nothing to collect. */
static void forget_vanished(struct file *f)
{
    if (f->seen_in != f->dir->n_looks && f->state != FILE_CHECKING)
        file_free(f);
}

static bool has_all(const struct scan_dir *scan)
{
    return scan->n_entries < SCAN_ENTRIES_MAX;
}

/* The first phase. */
static enum look_phase begin_merging(struct look *look)
{
    struct dir *d = look->dir;
    const struct scan_dir *scan = &look->scan;

    d->err = scan->err;
    if (scan->refusal && !streq(scan->refusal, d->refusal))
        dir_refused(d, scan->refusal);
    replace_str(&d->refusal, scan->refusal);
    d->n_looks++;
    /* A directory that is gone is one without files; what cannot be read may still hold them. */
    if (scan->err < 0 && scan->err != -ENOENT && scan->err != -ENOTDIR)
        return LOOK_SETTLE;
    say_full(d, scan);
    return LOOK_ENTRIES;
}

static void next_phase(struct look *look)
{
    struct dir *d = look->dir;

    look->phase++;
    look->file = TAILQ_FIRST(&d->files);
    if (look->phase == LOOK_VANISHED && !has_all(&look->scan))
        look->phase++;
    if (look->phase == LOOK_SETTLE)
        d->looked_at = d->looked_at || look->scan.err == 0;
}

/* False where the phase has nothing left to do. Files are freed nowhere else while a look is merged. */
static bool do_step(struct look *look)
{
    struct file *f = look->file;

    if (look->phase == LOOK_ENTRIES) {
        if (look->entry == look->scan.n_entries)
            return false;
        merge_entry(look->dir, &look->scan.entries[look->entry++], &look->scan);
        return true;
    }
    if (!f)
        return false;
    look->file = TAILQ_NEXT(f, next);
    if (look->phase == LOOK_VANISHED)
        forget_vanished(f);
    else
        settle_file(f);
    return true;
}

bool look_merge(struct look *look, int64_t until_ns)
{
    int64_t began = mono_ns(), now = began;

    if (look->phase == LOOK_NEW) {
        look->phase = begin_merging(look);
        look->file = TAILQ_FIRST(&look->dir->files);
    }
    while (look->phase != LOOK_OVER && now < until_ns) {
        if (!do_step(look))
            next_phase(look);
        now = mono_ns();
    }
    look->merged_ns += now - began;
    return look->phase == LOOK_OVER;
}

bool dir_has_pending(const struct dir *d, const struct collection *for_whom)
{
    const struct file *f;

    if (d->n_pending == 0 || !for_whom)
        return d->n_pending > 0;
    TAILQ_FOREACH(f, &d->files, next)
        if (is_pending(f->state) && file_may_be_of(f, for_whom))
            return true;
    return false;
}
