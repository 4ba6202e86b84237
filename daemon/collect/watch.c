/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the directories to scan, and the time: after inotify's events, by polling while files are expected or where
 * inotify sees nothing, and with pauses for directories whose scans are expensive. Scans run on the offload,
 * one of each directory at a time; their results are merged in portions, between everything else on the loop.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/collect/pipeline.h"
#include "daemon/fleet/engine.h"
#include <assert.h>
#include <errno.h>
#include <search.h>
#include <sys/inotify.h>

#define TICK_ACTIVE_NS  (200 * NS_PER_MS) /* while files are expected */
#define TICK_REMOTE_NS  (30 * NS_PER_S)   /* configured directories that inotify cannot watch */
#define TICK_REFUSED_NS (2 * NS_PER_S)    /* swapped ones, which may be back */
#define IDLE_DIRS_MAX   256 /* directories of past sessions in which traces are still discovered */
/* Time on the loop for merging before others have it. A directory that needs more is scanned again after a
 * multiple of the time that it took. */
#define MERGE_PORTION_NS (5 * NS_PER_MS)
#define REST_FACTOR      4
#define OPENERS_AGE_NS   (60 * NS_PER_S) /* a file that was modified before is no longer being written */

/* -- Directories -- */

static int watch_compare_paths(const void *a, const void *b)
{
    return strcmp(((const struct watched_dir *)a)->path, ((const struct watched_dir *)b)->path);
}

void watch_dir_free(struct watched_dir *d)
{
    if (d->watch >= 0)
        inotify_rm_watch(d->collector->inotify_fd, d->watch);
    while (TAILQ_FIRST(&d->files))
        file_free(TAILQ_FIRST(&d->files));
    assert(TAILQ_EMPTY(&d->collections));
    tdelete(d, &d->collector->dirs_by_path, watch_compare_paths);
    TAILQ_REMOVE(&d->collector->dirs, d, next);
    free(d->path);
    location_done(&d->location);
    free(d->refusal);
    free(d);
}

/* Bounds the directories of past sessions: the oldest are forgotten. */
static void watch_limit_idle(struct collector *c)
{
    struct watched_dir *d, *next;
    size_t n = 0;

    TAILQ_FOREACH(d, &c->dirs, next)
        n += d->n_targets == 0 && !d->configured;
    for (d = TAILQ_FIRST(&c->dirs); d && n > IDLE_DIRS_MAX; d = next) {
        next = TAILQ_NEXT(d, next);
        if (d->n_targets == 0 && !d->configured && !d->scanning && d->n_jobs == 0) {
            watch_dir_free(d);
            n--;
        }
    }
}

struct watched_dir *watch_dir(struct collector *c, const char *path)
{
    const struct watched_dir key = {.path = (char *)path};
    struct watched_dir **found = tfind(&key, &c->dirs_by_path, watch_compare_paths);

    if (found)
        return *found;
    struct watched_dir *d = xcalloc(1, sizeof(*d));
    *d = (struct watched_dir){.collector = c,
                              .path = xstrdup(path),
                              .watch = -1,
                              .writer_uid = -1,
                              .queue = offload_queue_of_dir(path),
                              .dirty = true};
    TAILQ_INIT(&d->files);
    TAILQ_INIT(&d->collections);
    if (!tsearch(d, &c->dirs_by_path, watch_compare_paths))
        abort(); /* as base/alloc.h */
    TAILQ_INSERT_TAIL(&c->dirs, d, next);
    return d;
}

static bool watch_expects_files(const struct collection *k)
{
    const struct target *t = k->target;
    return k->collecting || (k->dir && (t->record.state == STATE_STOPPING ||
                                        (t->record.state == STATE_RECORDING && target_ends_by_itself(t))));
}

static bool watch_dir_is_active(const struct watched_dir *d)
{
    const struct collection *k;

    if (d->dirty || !d->was_scanned || dir_has_pending(d, NULL))
        return true;
    TAILQ_FOREACH(k, &d->collections, next_in_dir)
        if (watch_expects_files(k))
            return true;
    return d->configured && d->watch < 0;
}

/* -- The tick -- */

void watch_tick_within(struct collector *c, int64_t interval_ns)
{
    struct timeval tv = timeval_of(interval_ns), planned, now, latest;

    event_base_gettimeofday_cached(c->base, &now);
    evutil_timeradd(&now, &tv, &latest);
    /* An earlier tick stays: arming it again and again must not delay it. */
    if (!evtimer_pending(c->tick, &planned) || evutil_timercmp(&planned, &latest, >))
        event_add(c->tick, &tv);
}

static void watch_on_arm(evutil_socket_t fd, short what, void *arg)
{
    struct collector *c = arg;
    const struct watched_dir *d;
    const struct collection *k;
    int64_t interval = c->n_preparing > 0 ? TICK_ACTIVE_NS : INT64_MAX;

    if (c->closing)
        return;
    /* There is none shorter: in a session of thousands, most often the first one decides. */
    for (k = TAILQ_FIRST(&c->collections); k && interval > TICK_ACTIVE_NS; k = TAILQ_NEXT(k, next))
        if (watch_expects_files(k))
            interval = TICK_ACTIVE_NS;
    for (d = TAILQ_FIRST(&c->dirs); d && interval > TICK_ACTIVE_NS; d = TAILQ_NEXT(d, next)) {
        if (d->dirty || dir_has_pending(d, NULL))
            interval = TICK_ACTIVE_NS;
        else if (d->configured && d->watch < 0)
            interval = MIN(interval, d->refusal ? TICK_REFUSED_NS : TICK_REMOTE_NS);
    }
    if (interval == INT64_MAX)
        event_del(c->tick);
    else
        watch_tick_within(c, interval);
}

/* -- Sessions that wait for a scan -- */

/* Asked after each of thousands of scans: goes on where it stopped. */
static bool watch_session_is_scanned(const struct session *s, struct preparing_session *waiting)
{
    for (; waiting->n_scanned < s->n_targets; waiting->n_scanned++) {
        const struct collection *k = s->targets[waiting->n_scanned].collecting;
        if (k && k->dir && k->dir->scanned_ns < waiting->asked_ns)
            return false;
    }
    return true;
}

static void watch_check_preparing(struct collector *c)
{
    size_t n = c->n_preparing;

    c->n_preparing = 0;
    for (size_t i = 0; i < n; i++) {
        struct preparing_session waiting = c->preparing[i];
        struct session *s = sessions_find(c->sessions, waiting.session_id);
        if (s && watch_session_is_scanned(s, &waiting))
            session_prepared(s);
        else if (s)
            c->preparing[c->n_preparing++] = waiting;
    }
}

void watch_prepare(struct collector *c, const struct session *s)
{
    VEC_GROW(c->preparing, c->n_preparing, c->cap_preparing);
    c->preparing[c->n_preparing++] =
        (struct preparing_session){.session_id = s->record.session_id, .asked_ns = mono_ns()};
    watch_limit_idle(c);
    watch_scan(c);
    /* A session whose directories are not visible here has nothing to wait for. */
    watch_tick_within(c, 0);
}

/* -- A scan -- */

/* Also with workers of other hosts. */
static bool watch_is_shared(const struct watched_dir *d)
{
    const struct collection *k;

    TAILQ_FOREACH(k, &d->collections, next_in_dir)
        if (k->target->worker.shares_dir > 0)
            return true;
    return d->n_targets >= 2;
}

/* The process trees of workers that share a directory, to see which of them has which file open. */
static void watch_add_trees(struct dir_scan *scan, const struct watched_dir *d)
{
    const struct collection *k;

    if (!watch_is_shared(d))
        return;
    scan->trees = xcalloc(SCAN_TREES_MAX, sizeof(*scan->trees));
    TAILQ_FOREACH(k, &d->collections, next_in_dir) {
        bool has_tree = k->target->worker.pid <= 0;
        for (size_t i = 0; i < scan->n_trees; i++)
            has_tree = has_tree || scan->trees[i].root == k->target->worker.pid;
        if (!has_tree && scan->n_trees < SCAN_TREES_MAX)
            scan->trees[scan->n_trees++] = (struct scan_tree){.root = k->target->worker.pid};
    }
}

/* The last known tree of a worker that has died is kept. */
static void watch_take_trees(struct watched_dir *d, const struct dir_scan *scan)
{
    struct collection *k;

    TAILQ_FOREACH(k, &d->collections, next_in_dir)
        for (size_t i = 0; i < scan->n_trees; i++) {
            const struct scan_tree *tree = &scan->trees[i];
            if (tree->root != k->target->worker.pid || tree->n_pids == 0)
                continue;
            k->n_pids = tree->n_pids;
            k->pids = xrealloc(k->pids, tree->n_pids, sizeof(*k->pids));
            k->inner_pids = xrealloc(k->inner_pids, tree->n_pids, sizeof(*k->inner_pids));
            memcpy(k->pids, tree->pids, tree->n_pids * sizeof(*k->pids));
            memcpy(k->inner_pids, tree->inner_pids, tree->n_pids * sizeof(*k->inner_pids));
        }
}

static void watch_take_inotify(struct watched_dir *d, const struct dir_scan *scan)
{
    struct collector *c = d->collector;

    if (d->watch >= 0)
        return;
    d->remote = scan->remote;
    d->watch = scan->watch;
    /* Events that came before the watch was known to be this directory's were ignored. */
    d->dirty = d->dirty || d->watch >= 0;
    d->scan_again = d->scan_again || d->dirty;
    if (scan->watch_err == -ENOSPC && !c->warned_unwatched) {
        c->warned_unwatched = true;
        log_warning("cannot watch %s: the user's inotify watches are used up; directories are polled "
                    "(sysctl fs.inotify.max_user_watches raises the limit)",
                    d->path);
    }
}

static void watch_start_scan(struct watched_dir *d);

static void watch_end_scan(struct dir_scan *scan)
{
    struct watched_dir *d = scan->dir;
    struct collector *c = d->collector;
    struct collection *k;

    d->scanned_ns = scan->began_ns;
    d->rests_until_ns = scan->merged_ns > MERGE_PORTION_NS ? mono_ns() + REST_FACTOR * scan->merged_ns : 0;
    d->scanning = false;
    TAILQ_FOREACH(k, &d->collections, next_in_dir)
        if (k->collecting && scan->began_ns >= k->began_ns)
            k->scanned_since_stop = true;
    dir_scan_free(scan);
    watch_check_preparing(c);
    outcome_check_dir(d);
    if (d->scan_again && watch_dir_is_active(d))
        watch_start_scan(d);
    watch_arm_tick(c);
}

static void watch_merge_soon(struct collector *c)
{
    if (!TAILQ_EMPTY(&c->scans))
        event_add(c->merge, &(const struct timeval){0, 0});
}

/* One portion, of one large or of many small directories, so that all other work of the loop comes in between. */
static void watch_on_merge(evutil_socket_t fd, short what, void *arg)
{
    struct collector *c = arg;
    int64_t until_ns = mono_ns() + MERGE_PORTION_NS;
    struct dir_scan *scan;

    while ((scan = TAILQ_FIRST(&c->scans))) {
        TAILQ_REMOVE(&c->scans, scan, next);
        if (discover_merge(scan, until_ns))
            watch_end_scan(scan);
        else
            TAILQ_INSERT_TAIL(&c->scans, scan, next);
        if (mono_ns() >= until_ns)
            break;
    }
    watch_merge_soon(c);
}

static void watch_on_scanned(void *arg)
{
    struct dir_scan *scan = arg;
    struct watched_dir *d = scan->dir;
    struct collector *c = d->collector;

    if (c->closing) {
        d->scanning = false;
        dir_scan_free(scan);
        return;
    }
    if (!d->location.real) {
        /* That may be required since it began. */
        scan->location.on_network = d->location.on_network;
        d->location = scan->location;
        scan->location = (struct dir_location){0};
    }
    if (scan->err == 0)
        d->queue = offload_queue_of_device(scan->device);
    watch_take_inotify(d, scan);
    watch_take_trees(d, scan);
    TAILQ_INSERT_TAIL(&c->scans, scan, next);
    watch_merge_soon(c);
}

static void watch_start_scan(struct watched_dir *d)
{
    struct collector *c = d->collector;
    const struct collection *k;
    bool rests = mono_ns() < d->rests_until_ns;

    /* A session that is about to start does not wait for the end of a pause. */
    TAILQ_FOREACH(k, &d->collections, next_in_dir)
        if (k->target->record.state == STATE_STARTING && !k->target->session->prepared)
            rests = false;
    d->scan_again = d->scanning;
    d->dirty = d->dirty || (rests && !d->scanning);
    if (d->scanning || rests)
        return;
    struct dir_scan *scan = xcalloc(1, sizeof(*scan));
    *scan = (struct dir_scan){.dir = d,
                              .began_ns = mono_ns(),
                              .path = xstrdup(d->path),
                              .inotify_fd = d->watch < 0 ? c->inotify_fd : -1,
                              .newer_than_ns = wall_ns() - OPENERS_AGE_NS};
    TAILQ_FOREACH(k, &d->collections, next_in_dir)
        scan->with_rank_dirs = scan->with_rank_dirs || worker_ops(&k->target->worker)->has_rank_dirs;
    location_copy(&d->location, &scan->location);
    watch_add_trees(scan, d);
    d->dirty = false;
    d->scanning = true;
    offload_run_in(c->offload, d->queue, discover_scan, watch_on_scanned, scan);
}

void watch_scan(struct collector *c)
{
    struct watched_dir *d;

    if (c->closing)
        return;
    TAILQ_FOREACH(d, &c->dirs, next)
        if (watch_dir_is_active(d))
            watch_start_scan(d);
}

/* -- Events -- */

static void watch_on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct collector *c = arg;

    watch_check_preparing(c);
    outcome_check_all(c);
    watch_scan(c);
    /* Collections also end where the scan of a dead mount does not. */
    if (!c->closing)
        watch_arm_tick(c);
}

static void watch_on_inotify(evutil_socket_t fd, short what, void *arg)
{
    char buffer[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
    struct collector *c = arg;
    struct watched_dir *d;
    ssize_t n;

    while ((n = read(fd, buffer, sizeof(buffer))) > 0) {
        for (char *p = buffer; p < buffer + n;) {
            const struct inotify_event *e = (const struct inotify_event *)p;
            TAILQ_FOREACH(d, &c->dirs, next) {
                if (d->watch != e->wd && !(e->mask & IN_Q_OVERFLOW))
                    continue;
                d->dirty = true;
                if (e->mask & IN_MOVE_SELF)
                    inotify_rm_watch(fd, d->watch);
                if (e->mask & (IN_IGNORED | IN_MOVE_SELF))
                    d->watch = -1;
            }
            p += sizeof(*e) + e->len;
        }
    }
    /* At the next tick: a scan after each event would never end in a busy directory. */
    watch_arm_tick(c);
}

void watch_init(struct collector *c)
{
    TAILQ_INIT(&c->dirs);
    TAILQ_INIT(&c->scans);
    c->tick = event_new(c->base, -1, 0, watch_on_tick, c);
    c->merge = event_new(c->base, -1, 0, watch_on_merge, c);
    c->arm = event_new(c->base, -1, 0, watch_on_arm, c);
    c->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (c->inotify_fd < 0) {
        log_warning("no inotify (%s): directories are polled", strerror(errno));
        return;
    }
    c->inotify_event = event_new(c->base, c->inotify_fd, EV_READ | EV_PERSIST, watch_on_inotify, c);
    event_add(c->inotify_event, NULL);
}

void watch_close(struct collector *c)
{
    struct dir_scan *scan;

    event_del(c->tick);
    event_del(c->merge);
    while ((scan = TAILQ_FIRST(&c->scans))) {
        TAILQ_REMOVE(&c->scans, scan, next);
        scan->dir->scanning = false;
        dir_scan_free(scan);
    }
}

void watch_free(struct collector *c)
{
    while (TAILQ_FIRST(&c->dirs))
        watch_dir_free(TAILQ_FIRST(&c->dirs));
    if (c->inotify_event)
        event_free(c->inotify_event);
    closep(&c->inotify_fd);
    event_free(c->tick);
    event_free(c->merge);
    event_free(c->arm);
    free(c->preparing);
}
