/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/collector.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/collect/internal.h"
#include "daemon/collect/job.h"
#include <assert.h>
#include <errno.h>
#include <sys/inotify.h>

#define TICK_ACTIVE_NS  (200 * NS_PER_MS) /* while something is expected */
#define TICK_REMOTE_NS  (30 * NS_PER_S)   /* configured directories that inotify cannot watch */
#define TICK_REFUSED_NS (2 * NS_PER_S)    /* those that were swapped, and may be back */
#define IDLE_DIRS_MAX   256 /* directories of past sessions in which unclaimed traces are still seen */
/* What a look found has the loop for one turn, then others have it. A directory that needs more turns is
 * looked at again after a multiple of the time that they took. */
#define MERGE_TURN_NS (5 * NS_PER_MS)
#define REST_FACTOR   4

/* -- Directories -------------------------------------------------------------------------------------- */

static struct dir *dir_find(struct collector *c, const char *path)
{
    struct dir *d;
    TAILQ_FOREACH(d, &c->dirs, next)
        if (streq(d->path, path))
            return d;
    return NULL;
}

static void dir_free(struct dir *d)
{
    if (d->watch >= 0)
        inotify_rm_watch(d->collector->inotify_fd, d->watch);
    while (TAILQ_FIRST(&d->files))
        file_free(TAILQ_FIRST(&d->files));
    assert(TAILQ_EMPTY(&d->collections));
    TAILQ_REMOVE(&d->collector->dirs, d, next);
    free(d->path);
    place_done(&d->place);
    free(d->refusal);
    free(d);
}

/* Keeps what past sessions left under watch bounded: the oldest is forgotten. */
static void limit_idle_dirs(struct collector *c)
{
    struct dir *d, *next;
    size_t n = 0;

    TAILQ_FOREACH(d, &c->dirs, next)
        n += d->n_targets == 0 && !d->configured;
    for (d = TAILQ_FIRST(&c->dirs); d && n > IDLE_DIRS_MAX; d = next) {
        next = TAILQ_NEXT(d, next);
        if (d->n_targets == 0 && !d->configured && !d->looking && d->n_opening == 0) {
            dir_free(d);
            n--;
        }
    }
}

static struct dir *dir_get(struct collector *c, const char *path)
{
    struct dir *d = dir_find(c, path);

    if (d)
        return d;
    limit_idle_dirs(c);
    d = xcalloc(1, sizeof(*d));
    *d = (struct dir){.collector = c,
                      .path = xstrdup(path),
                      .watch = -1,
                      .writer_uid = -1,
                      .lane = offload_lane_of_dir(path),
                      .dirty = true};
    TAILQ_INIT(&d->files);
    TAILQ_INIT(&d->collections);
    TAILQ_INSERT_TAIL(&c->dirs, d, next);
    return d;
}

/* -- Looking ------------------------------------------------------------------------------------------ */

static bool is_expectant(const struct collection *k)
{
    const struct target *t = k->target;
    return k->collecting || (k->dir && (t->record.state == STATE_STOPPING ||
                                        (t->record.state == STATE_RECORDING && target_ends_by_itself(t))));
}

static bool dir_is_active(const struct dir *d)
{
    const struct collection *k;

    if (d->dirty || !d->looked_at || dir_has_pending(d, NULL))
        return true;
    TAILQ_FOREACH(k, &d->collections, next_in_dir)
        if (is_expectant(k))
            return true;
    return d->configured && d->watch < 0;
}

static bool has_tree(const struct scan_dir *scan, pid_t root)
{
    for (size_t i = 0; i < scan->n_trees; i++)
        if (scan->trees[i].root == root)
            return true;
    return false;
}

/* The process trees of the workers that share a directory, to see who has which file open. */
static void add_trees(struct scan_dir *scan, const struct dir *d)
{
    const struct collection *k;

    if (d->n_targets < 2)
        return;
    scan->trees = xcalloc(SCAN_TREES_MAX, sizeof(*scan->trees));
    TAILQ_FOREACH(k, &d->collections, next_in_dir)
        if (k->target->worker.pid > 0 && scan->n_trees < SCAN_TREES_MAX &&
            !has_tree(scan, k->target->worker.pid))
            scan->trees[scan->n_trees++] = (struct scan_tree){.root = k->target->worker.pid};
}

static void look_work(void *arg)
{
    scan_directory(&((struct look *)arg)->scan);
}

static void keep_tree(struct collection *k, const struct scan_tree *tree)
{
    free(k->pids);
    free(k->inner_pids);
    k->n_pids = tree->n_pids;
    k->pids = xcalloc(tree->n_pids, sizeof(*k->pids));
    k->inner_pids = xcalloc(tree->n_pids, sizeof(*k->inner_pids));
    memcpy(k->pids, tree->pids, tree->n_pids * sizeof(*k->pids));
    memcpy(k->inner_pids, tree->inner_pids, tree->n_pids * sizeof(*k->inner_pids));
}

/* Of a worker that has died the last known tree is kept. */
static void keep_trees(struct dir *d, const struct scan_dir *scan)
{
    struct collection *k;

    TAILQ_FOREACH(k, &d->collections, next_in_dir)
        for (size_t i = 0; i < scan->n_trees; i++)
            if (scan->trees[i].root == k->target->worker.pid && scan->trees[i].n_pids > 0)
                keep_tree(k, &scan->trees[i]);
}

static bool is_after(const struct timeval *a, const struct timeval *b)
{
    return a->tv_sec > b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_usec > b->tv_usec);
}

/* A tick that comes sooner is left as it is: whoever arms it again and again does not put it off. */
static void tick_within(struct collector *c, int64_t interval_ns)
{
    struct timeval tv = timeval_of(interval_ns), planned, now, latest;

    event_base_gettimeofday_cached(c->base, &now);
    evutil_timeradd(&now, &tv, &latest);
    if (!evtimer_pending(c->tick, &planned) || is_after(&planned, &latest))
        event_add(c->tick, &tv);
}

/* Once for all who ask in a turn: of a thousand workers each does. */
void collector_arm_tick(struct collector *c)
{
    event_active(c->arm, EV_TIMEOUT, 0);
}

static void on_arm(evutil_socket_t fd, short what, void *arg)
{
    struct collector *c = arg;
    const struct dir *d;
    const struct collection *k;
    int64_t interval = INT64_MAX;

    if (c->closing)
        return;
    TAILQ_FOREACH(d, &c->dirs, next) {
        if (d->dirty || dir_has_pending(d, NULL))
            interval = TICK_ACTIVE_NS;
        else if (d->configured && d->watch < 0)
            interval = MIN(interval, d->refusal ? TICK_REFUSED_NS : TICK_REMOTE_NS);
    }
    TAILQ_FOREACH(k, &c->collections, next)
        if (is_expectant(k))
            interval = TICK_ACTIVE_NS;
    if (c->n_preparing > 0)
        interval = TICK_ACTIVE_NS;
    if (interval == INT64_MAX) {
        event_del(c->tick);
        return;
    }
    tick_within(c, interval);
}

static void keep_watch(struct dir *d, const struct scan_dir *scan)
{
    struct collector *c = d->collector;

    if (d->watch >= 0)
        return;
    d->remote = scan->remote;
    d->watch = scan->watch;
    /* What the watch told before it was known to be this directory's was not heard. */
    d->dirty = d->dirty || d->watch >= 0;
    d->look_again = d->look_again || d->dirty;
    if (scan->watch_err == -ENOSPC && !c->said_unwatched) {
        c->said_unwatched = true;
        log_warning("cannot watch %s: the user's inotify watches are used up; directories are polled "
                    "(sysctl fs.inotify.max_user_watches raises the limit)",
                    d->path);
    }
}

/* Of the directory itself; its files are next. */
static void keep_scan(struct look *look)
{
    struct scan_dir *scan = &look->scan;
    struct dir *d = look->dir;

    if (!d->place.real) {
        d->place = scan->place;
        scan->place = (struct place){0};
    }
    if (scan->err == 0)
        d->lane = offload_lane_of_device(scan->device);
    keep_watch(d, scan);
    keep_trees(d, scan);
}

static bool is_prepared(const struct session *s, int64_t asked_ns)
{
    for (size_t i = 0; i < s->n_targets; i++) {
        const struct collection *k = s->targets[i].collecting;
        if (k && k->dir && k->dir->looked_ns < asked_ns)
            return false;
    }
    return true;
}

static void check_preparing(struct collector *c)
{
    size_t n = c->n_preparing;

    c->n_preparing = 0;
    for (size_t i = 0; i < n; i++) {
        const struct preparing waiting = c->preparing[i];
        struct session *s = sessions_find(c->sessions, waiting.session_id);
        if (s && is_prepared(s, waiting.asked_ns))
            session_prepared(s);
        else if (s)
            c->preparing[c->n_preparing++] = waiting;
    }
}

static void look_at(struct dir *d);

static void look_free(struct look *look)
{
    look->dir->looking = false;
    scan_dir_done(&look->scan);
    free(look);
}

static void look_end(struct look *look)
{
    struct dir *d = look->dir;
    struct collector *c = d->collector;
    struct collection *k;

    d->looked_ns = look->began_ns;
    d->rests_until_ns = look->merged_ns > MERGE_TURN_NS ? mono_ns() + REST_FACTOR * look->merged_ns : 0;
    TAILQ_FOREACH(k, &d->collections, next_in_dir)
        if (k->collecting && look->began_ns >= k->began_ns)
            k->looked_since_stop = true;
    look_free(look);
    check_preparing(c);
    dir_check_collections(d);
    if (d->look_again && dir_is_active(d))
        look_at(d);
    collector_arm_tick(c);
}

static void merge_again(struct collector *c)
{
    const struct timeval at_once = {0, 0};

    if (!TAILQ_EMPTY(&c->looks))
        event_add(c->merge, &at_once);
}

/* Directories take turns, and so does everybody else. */
static void on_merge(evutil_socket_t fd, short what, void *arg)
{
    struct collector *c = arg;
    struct look *look = TAILQ_FIRST(&c->looks);

    TAILQ_REMOVE(&c->looks, look, next);
    if (look_merge(look, mono_ns() + MERGE_TURN_NS))
        look_end(look);
    else
        TAILQ_INSERT_TAIL(&c->looks, look, next);
    merge_again(c);
}

static void on_looked(void *arg)
{
    struct look *look = arg;
    struct collector *c = look->dir->collector;

    if (c->closing) {
        look_free(look);
        return;
    }
    keep_scan(look);
    TAILQ_INSERT_TAIL(&c->looks, look, next);
    merge_again(c);
}

/* By a session that begins when the directories of its workers were looked at. */
static bool is_awaited(const struct dir *d)
{
    const struct collection *k;

    TAILQ_FOREACH(k, &d->collections, next_in_dir)
        if (k->target->record.state == STATE_STARTING && !k->target->session->prepared)
            return true;
    return false;
}

static void look_at(struct dir *d)
{
    struct collector *c = d->collector;
    struct look *look;
    bool rests = mono_ns() < d->rests_until_ns && !is_awaited(d);

    d->look_again = d->looking;
    d->dirty = d->dirty || (rests && !d->looking);
    if (d->looking || rests)
        return;
    look = xcalloc(1, sizeof(*look));
    *look = (struct look){.dir = d,
                          .scan = {.path = xstrdup(d->path),
                                   .inotify_fd = d->watch < 0 ? c->inotify_fd : -1,
                                   .newer_than_ns = wall_ns() - 60 * NS_PER_S},
                          .began_ns = mono_ns()};
    place_copy(&d->place, &look->scan.place);
    add_trees(&look->scan, d);
    d->dirty = false;
    d->looking = true;
    offload_run_in(c->offload, d->lane, look_work, on_looked, look);
}

static void collector_look(struct collector *c)
{
    struct dir *d;

    if (c->closing)
        return;
    TAILQ_FOREACH(d, &c->dirs, next)
        if (dir_is_active(d))
            look_at(d);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct collector *c = arg;

    check_preparing(c);
    collections_check(c);
    collector_look(c);
    /* Patience ends also where a look at a dead mount does not. */
    if (!c->closing)
        collector_arm_tick(c);
}

static void on_inotify(evutil_socket_t fd, short what, void *arg)
{
    char buffer[16384] __attribute__((aligned(__alignof__(struct inotify_event))));
    struct collector *c = arg;
    struct dir *d;
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
    /* Not at once: in a directory where much else happens there would be no end of it. */
    collector_arm_tick(c);
}

/* -- What the sessions ask for ------------------------------------------------------------------------ */

/* Whose worker writes there: of one user as long as all of them are. */
static void note_writer(struct dir *d, const struct worker *w)
{
    int64_t uid = w->pid > 0 ? (int64_t)w->uid : -1;
    bool first = d->n_targets == 0 && !d->looked_at;

    if (first || d->writer_uid != uid)
        d->writer_uid = first ? uid : -1;
}

static struct collection *collection_of(struct target *t, struct collector *c)
{
    struct collection *k = t->collecting;

    if (k)
        return k;
    k = xcalloc(1, sizeof(*k));
    *k = (struct collection){.target = t};
    if (t->record.trace_dir) {
        k->dir = dir_get(c, t->record.trace_dir);
        note_writer(k->dir, &t->worker);
        /* Between uses it may move: somebody gave the file system another place. */
        if (k->dir->n_targets == 0 && !k->dir->configured)
            place_done(&k->dir->place);
        k->dir->n_targets++;
        k->dir->dirty = true;
        TAILQ_INSERT_TAIL(&k->dir->collections, k, next_in_dir);
    }
    TAILQ_INSERT_TAIL(&c->collections, k, next);
    t->collecting = k;
    return k;
}

static void op_prepare(struct session *s, void *collector)
{
    struct collector *c = collector;

    for (size_t i = 0; i < s->n_targets; i++)
        if (!state_is_final(s->targets[i].record.state))
            collection_of(&s->targets[i], c);
    VEC_GROW(c->preparing, c->n_preparing, c->cap_preparing);
    c->preparing[c->n_preparing++] =
        (struct preparing){.session_id = s->record.session_id, .asked_ns = mono_ns()};
    collector_look(c);
    /* One whose directories are not seen from here has nothing to wait for. */
    tick_within(c, 0);
}

static void op_recording(struct target *t, void *collector)
{
    struct collector *c = collector;

    collection_of(t, c);
    collector_arm_tick(c);
}

static void op_collect(struct target *t, void *collector)
{
    struct collector *c = collector;
    struct collection *k = collection_of(t, c);

    k->collecting = true;
    k->began_ns = k->last_news_ns = mono_ns();
    if (k->dir)
        k->dir->dirty = true;
    /* Not at once: ending the target here would end its session in the middle of a turn that still walks it.
     */
    tick_within(c, 0);
}

static void collection_end(struct collector *c, struct target *t)
{
    struct collection *k = TAKE_PTR(t->collecting);

    if (k->dir) {
        k->dir->n_targets--;
        TAILQ_REMOVE(&k->dir->collections, k, next_in_dir);
    }
    TAILQ_REMOVE(&c->collections, k, next);
    free(k->damage);
    free(k->trouble);
    free(k->trouble_remedy);
    free(k->pids);
    free(k->inner_pids);
    free(k);
}

static void op_forget(struct target *t, void *collector)
{
    struct collector *c = collector;

    if (t->collecting)
        collection_end(c, t);
    c->forgotten = true;
    reconcile_left(c);
}

static bool only_one_may_be(const struct file *f, const struct collection *k)
{
    const struct collection *other;

    TAILQ_FOREACH(other, &f->dir->collections, next_in_dir)
        if (other != k && file_may_be_of(f, other))
            return false;
    return file_may_be_of(f, k);
}

static bool may_be_its_own(const struct file *f, const struct collection *k)
{
    if (f->claimed_by != 0)
        return f->claimed_by == k->target->record.target_id;
    for (size_t i = 0; i < f->n_openers; i++)
        if (f->openers[i] == k->target->worker.pid)
            return true;
    return f->n_openers == 0 && only_one_may_be(f, k);
}

static int64_t op_bytes_seen(const struct target *t, void *collector)
{
    const struct collection *k = t->collecting;
    const struct file *f;
    int64_t bytes = 0;

    if (!k || !k->dir)
        return 0;
    TAILQ_FOREACH(f, &k->dir->files, next)
        if (f->state != FILE_OLD && may_be_its_own(f, k))
            bytes += f->size;
    return bytes;
}

static void op_ended(const struct session *s, void *collector)
{
    struct collector *c = collector;
    job_lay_out(s, c->catalog, c->store, c->offload);
}

static const struct collector_ops ops = {
    .prepare = op_prepare,
    .recording = op_recording,
    .collect = op_collect,
    .forget = op_forget,
    .ended = op_ended,
    .bytes_seen = op_bytes_seen,
};

/* -- The object --------------------------------------------------------------------------------------- */

int collector_new(struct event_base *base, struct offload *offload, struct catalog *catalog,
                  struct sessions *sessions, struct store *store, struct ingest *ingest,
                  const struct collect_settings *settings, struct collector **ret)
{
    struct collector *c = xcalloc(1, sizeof(*c));

    *c = (struct collector){.base = base,
                            .offload = offload,
                            .catalog = catalog,
                            .sessions = sessions,
                            .store = store,
                            .ingest = ingest,
                            .settings = settings};
    TAILQ_INIT(&c->dirs);
    TAILQ_INIT(&c->looks);
    TAILQ_INIT(&c->collections);
    TAILQ_INIT(&c->unsaved);
    unclaimed_init(c);
    c->resave = event_new(base, -1, 0, collector_resave, c);
    c->tick = event_new(base, -1, 0, on_tick, c);
    c->merge = event_new(base, -1, 0, on_merge, c);
    c->arm = event_new(base, -1, 0, on_arm, c);
    c->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (c->inotify_fd >= 0) {
        c->inotify_event = event_new(base, c->inotify_fd, EV_READ | EV_PERSIST, on_inotify, c);
        event_add(c->inotify_event, NULL);
    } else {
        log_warning("no inotify (%s): directories are polled", strerror(errno));
    }
    sessions_set_collector(sessions, &ops, c);
    *ret = c;
    return 0;
}

static void configure_dirs(struct collector *c)
{
    struct dir *d;

    TAILQ_FOREACH(d, &c->dirs, next)
        d->configured = false;
    for (size_t i = 0; i < c->settings->n_watch; i++)
        dir_get(c, c->settings->watch[i])->configured = true;
}

void collector_renew_watches(struct collector *c)
{
    configure_dirs(c);
    collector_look(c);
}

static void on_removals_over(void *collector)
{
    reconcile_go_on(collector);
}

void collector_begin(struct collector *c)
{
    configure_dirs(c);
    store_on_idle(c->store, on_removals_over, c);
    int r = store_go_on_removing(c->store);
    if (r < 0)
        log_error("cannot read which sessions were being removed: %s", strerror(-r));
    reconcile_begin(c);
    collector_look(c);
}

void collector_close(struct collector *c)
{
    struct look *look;

    c->closing = true;
    event_del(c->tick);
    event_del(c->merge);
    while ((look = TAILQ_FIRST(&c->looks))) {
        TAILQ_REMOVE(&c->looks, look, next);
        look_free(look);
    }
    event_del(c->resave);
    unclaimed_done(c);
    collector_drop_unsaved(c);
}

struct collector *collector_free(struct collector *c)
{
    if (!c)
        return NULL;
    while (TAILQ_FIRST(&c->collections))
        collection_end(c, TAILQ_FIRST(&c->collections)->target);
    while (TAILQ_FIRST(&c->dirs))
        dir_free(TAILQ_FIRST(&c->dirs));
    if (c->inotify_event)
        event_free(c->inotify_event);
    if (c->inotify_fd >= 0)
        close(c->inotify_fd);
    event_free(c->tick);
    event_free(c->merge);
    event_free(c->arm);
    event_free(c->resave);
    reconcile_free(c->reconcile);
    reread_free(c->reread);
    free(c->preparing);
    free(c);
    return NULL;
}
