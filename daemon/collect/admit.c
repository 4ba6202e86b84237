/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admits files of a directory to import: finished ones that are trusted and within the limits.
 *
 * Existence is no sign: engines stream gzip straight into the final name. A file is read when nothing was
 * written to it for a while (how long depends on whether its worker has reported the end), and accepted when
 * its checksum is right, or when it has not changed for a time after which nothing more is expected.
 *
 * profd may read files that its workers may not. A worker that puts a link to another user's directory, or a
 * hard link to another user's file, in the place of its own must not reach that file through profd; and files
 * of the store are never collected again.
 *
 * Traces that an engine writes without a request, one for each request it serves (RTP-LLM with
 * --gen_timeline_sync), are limited: [collect] unclaimed_per_minute= of them are imported, without a session.
 * The others stay where they are; their number is reported once a minute.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/log.h"
#include "daemon/collect/pipeline.h"
#include "daemon/fleet/process.h"
#include <errno.h>

#define QUIET_AFTER_STOP_NS  (200 * NS_PER_MS) /* the worker reported the end */
#define QUIET_BY_ITSELF_NS   NS_PER_S          /* the engine stops by itself, and reports nothing */
#define QUIET_UNREQUESTED_NS (2 * NS_PER_S)
/* Files that threads open at a time, in all and of one directory: their descriptors wait for profd-ingest,
 * and a directory that does not respond must not delay the others. */
#define OPENING_MAX           256
#define OPENING_OF_DIR_MAX    32
#define UNREQUESTED_MINUTE_NS (60 * NS_PER_S)

/* -- Traces without a request -- */

static void unrequested_report(struct collector *c)
{
    struct unrequested_limit *l = &c->unrequested;
    _cleanup_(freep) char *text =
        xasprintf("%u trace%s that an engine wrote without a request %s not collected, the latest is %s: the "
                  "limit is %u "
                  "per minute ([collect] unclaimed_per_minute=)",
                  l->skipped, l->skipped == 1 ? "" : "s", l->skipped == 1 ? "was" : "were", l->latest,
                  c->settings->unclaimed_per_minute);

    log_warning("%s", text);
    catalog_add_event(c->catalog, "traces-skipped", "profd", RECORD_NONE, RECORD_NONE, RECORD_NONE, "%s",
                      text);
    l->skipped = 0;
}

static void unrequested_on_minute_over(evutil_socket_t fd, short what, void *arg)
{
    unrequested_report(arg);
}

void unrequested_init(struct collector *c)
{
    c->unrequested =
        (struct unrequested_limit){.minute_over = event_new(c->base, -1, 0, unrequested_on_minute_over, c)};
}

void unrequested_done(struct collector *c)
{
    if (c->unrequested.skipped > 0)
        unrequested_report(c);
    event_free(c->unrequested.minute_over);
    free(c->unrequested.latest);
    c->unrequested = (struct unrequested_limit){0};
}

uint64_t collector_skipped(const struct collector *c)
{
    return c->unrequested.skipped_total;
}

/* Counts the file: whether it is within the limit. */
static bool unrequested_admit(struct discovered_file *f)
{
    struct collector *c = f->dir->collector;
    struct unrequested_limit *l = &c->unrequested;

    if (f->counted)
        return true;
    if (l->began_ns == 0 || mono_ns() - l->began_ns >= UNREQUESTED_MINUTE_NS) {
        l->began_ns = mono_ns();
        l->n_admitted = 0;
    }
    if (l->n_admitted < c->settings->unclaimed_per_minute) {
        l->n_admitted++;
        f->counted = true;
        return true;
    }
    struct timeval rest = timeval_until(l->began_ns + UNREQUESTED_MINUTE_NS);
    l->skipped++;
    l->skipped_total++;
    free(l->latest);
    l->latest = xasprintf("%s/%s", f->dir->path, f->name);
    if (!evtimer_pending(l->minute_over, NULL))
        event_add(l->minute_over, &rest);
    return false;
}

/* -- Is it finished? -- */

static int64_t admit_quiet_ns(const struct discovered_file *f)
{
    return mono_ns() - f->written_ns;
}

static bool admit_is_finished(const struct discovered_file *f)
{
    const struct collection *k;
    int64_t quiet = admit_quiet_ns(f);
    bool has_target = false, all_stopped = true, by_itself = false;

    if (quiet >= f->dir->collector->settings->settle_ns)
        return true;
    bool is_empty_trace = f->size == 0 && f->parsed.kind != TRACE_NAME_ATTACHMENT;
    if (f->checked_size == f->size || is_empty_trace || f->parsed.unfinished)
        return false;
    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir) {
        if (!file_may_be_of(f, k))
            continue;
        has_target = true;
        all_stopped = all_stopped && k->collecting;
        by_itself = by_itself || target_ends_by_itself(k->target);
    }
    if (!has_target)
        return quiet >= QUIET_UNREQUESTED_NS;
    return all_stopped ? quiet >= QUIET_AFTER_STOP_NS : by_itself && quiet >= QUIET_BY_ITSELF_NS;
}

/* -- Is it trusted? -- */

static bool admit_owned_by_worker(const struct worker *w, const struct stat *st)
{
    return w->pid > 0 && w->uid == st->st_uid;
}

/* True where every worker that could have written it is known, is not root, and is not its owner. */
static bool admit_is_of_other_user(const struct discovered_file *f, const struct stat *st)
{
    const struct watched_dir *d = f->dir;
    const struct collection *k;
    bool has_worker = false;

    if (d->remote)
        return false; /* the server of a network file system decides what owners are */
    TAILQ_FOREACH(k, &d->collections, next_in_dir) {
        const struct worker *w = &k->target->worker;
        if (!file_may_be_of(f, k))
            continue;
        if (w->pid == 0 || w->uid == 0 || admit_owned_by_worker(w, st))
            return false;
        has_worker = true;
    }
    return has_worker || (!d->configured && d->writer_uid > 0 && (uid_t)d->writer_uid != st->st_uid);
}

static bool admit_is_hard_link_of_other_user(const struct discovered_file *f, const struct stat *st)
{
    const struct collection *k;

    if (st->st_nlink <= 1)
        return false;
    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir)
        if (admit_owned_by_worker(&k->target->worker, st))
            return false;
    return true;
}

static bool admit_is_in_store(const struct store *store, int fd)
{
    _cleanup_(freep) char *link = xasprintf("/proc/self/fd/%d", fd);
    char path[4096];
    ssize_t n = readlink(link, path, sizeof(path) - 1);

    if (n < 0)
        return false;
    path[n] = '\0';
    return store_holds(store, path);
}

/* The reason not to collect an open file; NULL: none. */
static const char *admit_distrust(const struct discovered_file *f, int fd, const struct stat *st)
{
    if (admit_is_in_store(f->dir->collector->store, fd))
        return "is in profd's own store";
    if (admit_is_of_other_user(f, st))
        return "does not belong to the user of the worker whose directory it is in";
    if (admit_is_hard_link_of_other_user(f, st))
        return "is a hard link to a file that has other names";
    return NULL;
}

static void admit_report_trouble(struct discovered_file *f, const char *remedy, const char *format, ...)
    _printf_(3, 4);
static void admit_report_trouble(struct discovered_file *f, const char *remedy, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    _cleanup_(freep) char *text = xvasprintf(format, ap);
    va_end(ap);
    outcome_report_trouble(f->dir, f, remedy, text);
    file_set_state(f, FILE_DONE);
}

static void admit_report_irregular(struct discovered_file *f, const char *kind)
{
    admit_report_trouble(
        f, "profd reads regular files only: have the worker write its trace to the directory itself.",
        "%s/%s is %s: not collected", f->dir->path, f->name, kind);
}

/* False with a report where the opened file is not collected. */
static bool admit_is_acceptable(struct discovered_file *f, const struct import_job *job)
{
    const char *distrust = job->fd >= 0 ? admit_distrust(f, job->fd, &job->st) : NULL;

    if (job->refusal)
        admit_report_trouble(f, "Find out who changed the directory during the recording.", "%s",
                             job->refusal);
    else if (job->kind || job->fd == -ELOOP || job->fd == -EINVAL)
        admit_report_irregular(f, job->kind ? job->kind : "not a regular file");
    else if (job->fd < 0)
        admit_report_trouble(f,
                             "Let profd's user read the directory (setfacl -d -m u:profd:rX DIRECTORY), or "
                             "add " FOREIGN_DROP_IN ".",
                             "cannot read %s/%s (its owner is uid %u): %s", f->dir->path, f->name, f->uid,
                             strerror(-job->fd));
    else if (job->st.st_size > f->dir->collector->settings->file_max)
        admit_report_trouble(f, "[collect] file_max= in profd.conf sets the limit.",
                             "%s/%s exceeds the size limit of a trace", f->dir->path, f->name);
    else if (distrust)
        admit_report_trouble(f, NULL, "%s/%s %s: not collected", f->dir->path, f->name, distrust);
    else
        return true;
    return false;
}

/* -- The job -- */

static void admit_on_imported(struct import_job *job)
{
    struct discovered_file *f = job->file;
    struct watched_dir *d = f->dir;
    const struct trace_record *row = &job->row;

    d->n_jobs--;
    if (job->outcome == IMPORT_SAVED || job->outcome == IMPORT_UNSAVED) {
        /* An incomplete trace may still be completed. An attachment under the same name is the next one. */
        bool may_change = job->outcome == IMPORT_SAVED && row->kind != TRACE_KIND_ATTACHMENT &&
                          row->state != TRACE_COMPLETE && row->state != TRACE_DUPLICATE;
        bool is_current = f->size == job->size && f->mtime_ns == job->mtime_ns;
        f->trace_id = may_change ? row->trace_id : 0;
        outcome_count(f, row, job->replaces_id != 0);
        file_set_state(f, is_current ? FILE_DONE : FILE_GROWING);
    } else if (job->outcome == IMPORT_ELSEWHERE) {
        file_set_state(f, FILE_IGNORED);
    } else {
        if (job->postponed == POSTPONED_STORE_FAILED)
            f->attempt = ATTEMPT_IN_PLACE;
        if (job->postponed == POSTPONED_WORTHWHILE)
            f->attempt = ATTEMPT_WITH_ROOM;
        /* Read again when it has changed, or when it was quiet for [collect] settle=. */
        if (job->postponed == POSTPONED_UNFINISHED)
            f->checked_size = job->size;
        file_set_state(f, FILE_GROWING);
    }
    if (d->collector->closing || job->outcome == IMPORT_POSTPONED)
        return;
    outcome_check_dir(d);
    watch_arm_tick(d->collector);
}

/* Fills the job with the file's possible targets, and decides whether the store copies the file. */
static void admit_fill_job(const struct discovered_file *f, struct import_job *job)
{
    struct collector *c = f->dir->collector;
    const struct collection *k;
    const char *url = NULL;
    bool several = false;

    job->process_started = job->location.process_started;
    job->replaces_id = f->trace_id;
    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir) {
        if (!file_may_be_of(f, k))
            continue;
        job->displaces_newer = true; /* its session waits for it */
        several = several || (url && !streq(url, k->target->worker.url));
        url = k->target->worker.url;
    }
    /* The content of the file may identify its worker later. */
    job->holder_url = several ? NULL : xstrdup(url);
    job->may_be_unfinished =
        admit_quiet_ns(f) < c->settings->settle_ns && f->parsed.kind != TRACE_NAME_ATTACHMENT;
    if (f->attempt == ATTEMPT_IN_PLACE) {
        job->store_note = xstrdup("the store could not take it");
    } else if (c->settings->collect_mode == COLLECT_COPY && f->attempt == ATTEMPT_FIRST &&
               !store_has_room(c->store, job->st.st_size - job->holes)) {
        job->check_first = job->no_columns = true;
        job->store_note = xstrdup("no room in the store (see profctl du)");
    } else if (c->settings->collect_mode == COLLECT_COPY) {
        job->copy = true;
        job->remove_original = c->settings->remove_original;
    }
}

static void admit_open(void *arg)
{
    struct import_job *job = arg;
    _cleanup_(closep) int dir_fd = safe_open_dir(job->dir_path, &job->location, &job->refusal);

    job->fd = dir_fd < 0 ? dir_fd : safe_open_file(dir_fd, job->name, &job->st, &job->kind);
    if (job->fd >= 0)
        job->holes = file_holes(job->fd, &job->st);
}

/* Files that wait to be read hold descriptors: those of other users need some as well. */
static bool admit_has_queue_room(const struct discovered_file *f)
{
    _cleanup_(freep) char *user = import_queue_user(f->uid);
    return ingest_has_room(f->dir->collector->ingest, user, f->dir->path);
}

static void admit_on_opened(void *arg)
{
    struct import_job *job = arg;
    struct discovered_file *f = job->file;
    struct watched_dir *d = f->dir;
    struct collector *c = d->collector;
    /* Errors that may be gone at the next scan. */
    bool is_temporary = job->fd == -ENOENT || job->fd == -EMFILE || job->fd == -ENFILE ||
                        job->fd == -ENOMEM || job->fd == -EINTR;

    c->n_opening--;
    d->n_opening--;
    bool is_next = !c->closing && !is_temporary && admit_has_queue_room(f);
    if (is_next && admit_is_acceptable(f, job)) {
        admit_fill_job(f, job);
        import_start(job);
    } else {
        d->n_jobs--;
        if (f->state == FILE_IMPORTING)
            file_set_state(f, FILE_GROWING);
        import_job_free(job);
    }
    if (c->closing)
        return;
    outcome_check_dir(d);
    watch_arm_tick(c);
}

static void admit_start(struct discovered_file *f)
{
    struct watched_dir *d = f->dir;
    struct collector *c = d->collector;

    if (f->kind) {
        admit_report_irregular(f, f->kind);
        return;
    }
    if (!admit_has_queue_room(f) || c->n_opening >= OPENING_MAX || d->n_opening >= OPENING_OF_DIR_MAX)
        return;
    _cleanup_(freep) char *path = xasprintf("%s/%s", d->path, f->name);
    struct import_job *job = import_job_new(c, IMPORT_DISCOVERED, path, admit_on_imported);
    job->file = f;
    const char *slash = strrchr(f->name, '/');
    if (slash) {
        _cleanup_(freep) char *below = xstrndup(f->name, (size_t)(slash - f->name));
        location_below(&d->location, below, &job->location);
        job->stored_name = xstrdup(f->name);
        for (char *at = strchr(job->stored_name, '/'); at; at = strchr(at, '/'))
            *at = '-';
    } else {
        location_copy(&d->location, &job->location);
    }
    c->n_opening++;
    d->n_opening++;
    d->n_jobs++;
    file_set_state(f, FILE_IMPORTING);
    offload_run_in(c->offload, d->queue, admit_open, admit_on_opened, job);
}

void admit_file(struct discovered_file *f)
{
    const struct collection *k;

    if (f->state != FILE_GROWING || !admit_is_finished(f))
        return;
    bool is_requested = f->parsed.writer != TRACE_WRITER_RTP_LLM;
    TAILQ_FOREACH(k, &f->dir->collections, next_in_dir)
        is_requested = is_requested || file_may_be_of(f, k);
    if (is_requested || unrequested_admit(f))
        admit_start(f);
    else
        file_set_state(f, FILE_IGNORED);
}
