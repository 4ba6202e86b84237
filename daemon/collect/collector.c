/* SPDX-License-Identifier: Apache-2.0 */
/* The collector's life, and what sessions ask of it. */
#include "daemon/collect/collector.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/collect/pipeline.h"
#include "daemon/session/remote.h"
#include <errno.h>

/* -- The collection of a target -- */

/* The user whose workers write to a directory: known as long as all of them are of one. */
static void collection_note_writer(struct watched_dir *d, const struct worker *w)
{
    int64_t uid = w->pid > 0 ? (int64_t)w->uid : -1;
    bool is_first = d->n_targets == 0 && !d->was_scanned;

    if (is_first || d->writer_uid != uid)
        d->writer_uid = is_first ? uid : -1;
}

/* Its process is on another host, which named the directory (process_trace_dir_unseen()). */
static bool worker_is_read_over_network(const struct worker *w)
{
    return !w->local && w->shared.source;
}

static struct collection *collection_get(struct collector *c, struct target *t)
{
    struct collection *k = t->collecting;

    if (k)
        return k;
    k = xcalloc(1, sizeof(*k));
    *k = (struct collection){.target = t};
    if (t->record.trace_dir) {
        k->dir = watch_dir(c, t->record.trace_dir);
        collection_note_writer(k->dir, &t->worker);
        /* Between uses it may move: an administrator mounted its file system elsewhere. */
        if (k->dir->n_targets == 0 && !k->dir->configured)
            location_done(&k->dir->location);
        if (!k->dir->configured)
            k->dir->location.on_network |= worker_is_read_over_network(&t->worker);
        k->dir->n_targets++;
        k->dir->dirty = true;
        TAILQ_INSERT_TAIL(&k->dir->collections, k, next_in_dir);
    }
    TAILQ_INSERT_TAIL(&c->collections, k, next);
    t->collecting = k;
    return k;
}

static void collection_free(struct collector *c, struct target *t)
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
    free(k->left_file);
    free(k->pids);
    free(k->inner_pids);
    free(k);
}

/* -- Operations for sessions -- */

static void collector_prepare(struct session *s, void *collector)
{
    struct collector *c = collector;

    for (size_t i = 0; i < s->n_targets; i++)
        if (!state_is_final(s->targets[i].record.state) && !target_is_remote(&s->targets[i]) &&
            !target_awaits_dir(&s->targets[i]))
            collection_get(c, &s->targets[i]);
    watch_prepare(c, s);
}

static void collector_recording(struct target *t, void *collector)
{
    collection_get(collector, t);
    watch_arm_tick(collector);
}

static void collector_collect(struct target *t, void *collector)
{
    struct collector *c = collector;
    struct collection *k = collection_get(c, t);

    k->collecting = true;
    k->began_ns = k->last_news_ns = mono_ns();
    if (k->dir)
        k->dir->dirty = true;
    /* At the next tick: ending the target here would end its session while the caller still uses it. */
    watch_tick_within(c, 0);
}

static void collector_forget(struct target *t, void *collector)
{
    struct collector *c = collector;

    if (t->collecting)
        collection_free(c, t);
    c->session_ended = true;
    reconcile_skipped(c);
}

static void collector_session_ended(const struct session *s, void *collector)
{
    struct collector *c = collector;

    for (const struct store_layout *const *l = extra_store_layouts; *l; l++)
        (*l)->session_ended(s, c->catalog, c->store, c->offload);
}

/* Before it is attributed: by the worker that has it open, or where only one may have written it. */
static bool collection_has_file(const struct discovered_file *f, const struct collection *k)
{
    const struct collection *other;

    if (f->target_id != 0)
        return f->target_id == k->target->record.target_id;
    for (size_t i = 0; i < f->n_openers; i++)
        if (f->openers[i] == k->target->worker.pid)
            return true;
    if (f->n_openers > 0)
        return false;
    TAILQ_FOREACH(other, &f->dir->collections, next_in_dir)
        if (other != k && file_may_be_of(f, other))
            return false;
    return file_may_be_of(f, k);
}

static int64_t collector_bytes_seen(const struct target *t, void *collector)
{
    const struct collection *k = t->collecting;
    const struct discovered_file *f;
    int64_t bytes = 0;

    if (!k || !k->dir)
        return 0;
    TAILQ_FOREACH(f, &k->dir->files, next)
        if (f->state != FILE_IGNORED && collection_has_file(f, k))
            bytes += f->size;
    return bytes;
}

static int collector_admit(void *collector, struct problem *p)
{
    return store_admit(((struct collector *)collector)->store, p);
}

static const struct collector_ops collector_ops = {
    .admit = collector_admit,
    .prepare = collector_prepare,
    .recording = collector_recording,
    .collect = collector_collect,
    .forget = collector_forget,
    .ended = collector_session_ended,
    .bytes_seen = collector_bytes_seen,
};

/* -- Its life -- */

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
    TAILQ_INIT(&c->collections);
    watch_init(c);
    unrequested_init(c);
    import_init(c);
    reconcile_init(c);
    sessions_set_collector(sessions, &collector_ops, c);
    *ret = c;
    return 0;
}

static void collector_configure_dirs(struct collector *c)
{
    struct watched_dir *d;

    TAILQ_FOREACH(d, &c->dirs, next)
        d->configured = false;
    for (size_t i = 0; i < c->settings->n_watch; i++)
        watch_dir(c, c->settings->watch[i])->configured = true;
}

void collector_renew_watches(struct collector *c)
{
    collector_configure_dirs(c);
    watch_scan(c);
}

void collector_begin(struct collector *c)
{
    collector_configure_dirs(c);
    int r = store_resume_removals(c->store);
    if (r < 0)
        log_error("cannot read which sessions were being removed: %s", strerror(-r));
    reconcile_begin(c);
    watch_scan(c);
}

void collector_close(struct collector *c)
{
    c->closing = true;
    watch_close(c);
    unrequested_done(c);
    import_close(c);
}

struct collector *collector_free(struct collector *c)
{
    if (!c)
        return NULL;
    while (TAILQ_FIRST(&c->collections))
        collection_free(c, TAILQ_FIRST(&c->collections)->target);
    watch_free(c);
    event_free(c->resave);
    reconcile_free(c);
    free(c);
    return NULL;
}
