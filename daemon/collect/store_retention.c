/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retention: the size of the store, in whose share a trace counts, and which traces are removed for an incoming
 * one. Bytes are those that files take on the disk.
 */
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/units.h"
#include "daemon/collect/store_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <sys/statvfs.h>

/* The smallest free space for which a session is worth beginning. */
#define ADMITTED_BYTES_MIN (INT64_C(1) << 20)
/* Traces that are looked at to find out whether there could be room: each scrape of metrics asks. */
#define LOOKED_AT_MAX        1000
#define DEFAULT_USE_DIVISOR  10
#define DEFAULT_FREE_PERCENT 15
#define DEFAULT_FREE_MAX     (INT64_C(4) << 30)
/* A worker whose files have no known owner has a share of its own until no discovery has seen it for that
 * long: addresses of workers change, and the traces of workers that are gone share one share. */
#define WORKER_SEEN_NS (INT64_C(86400) * NS_PER_S)

/* -- The policy -- */

int64_t retention_share(int64_t capacity, size_t n, int64_t per_user)
{
    int64_t equal = MAX(capacity, INT64_C(0)) / (int64_t)MAX(n, (size_t)1);

    return per_user > 0 ? MIN(per_user, equal) : equal;
}

ssize_t retention_next(const struct retention_holder *holders, size_t n, int64_t share)
{
    ssize_t most = -1;

    for (size_t i = 0; i < n; i++)
        if (holders[i].removable && holders[i].used > share &&
            (most < 0 || holders[i].used > holders[most].used))
            most = (ssize_t)i;
    return most;
}

/* -- Holders -- */

int store_usage(const struct store *s, struct store_usage *ret)
{
    struct statvfs fs;
    struct store_usage u = {.path = s->settings->path};

    if (statvfs(s->settings->path, &fs) < 0)
        return -errno;
    int64_t size = (int64_t)fs.f_blocks * (int64_t)fs.f_frsize;
    u.free = (int64_t)fs.f_bavail * (int64_t)fs.f_frsize;
    u.max_use = s->settings->max_use > 0 ? s->settings->max_use : size / DEFAULT_USE_DIVISOR;
    u.keep_free = s->settings->keep_free > 0 ? s->settings->keep_free
                                             : MIN(size / 100 * DEFAULT_FREE_PERCENT, DEFAULT_FREE_MAX);
    int r = catalog_usage(s->catalog, &u.traces, &u.bytes);
    if (r < 0)
        return r;
    *ret = u;
    return 0;
}

int64_t store_trace_bytes(const struct trace_record *t)
{
    return (t->stored ? t->disk_size : 0) + MAX(t->columns_size, INT64_C(0));
}

static int64_t holder_seen_since(void)
{
    return wall_ns() - WORKER_SEEN_NS;
}

int64_t store_holder(const struct store *s, int64_t owner_uid, const char *worker_url)
{
    int64_t holder = HOLDER_OTHERS;

    catalog_find_holder(s->catalog, owner_uid, worker_url, holder_seen_since(), &holder);
    return holder;
}

/* [store] per_user= in bytes; 0: not set. */
static int64_t store_per_user(const struct store *s, int64_t max_use)
{
    int64_t setting = s->settings->per_user;
    return setting < 0 ? max_use / 100 * -setting + max_use % 100 * -setting / 100 : setting;
}

int store_list_users(const struct store *s, struct store_users *ret)
{
    struct store_usage u = {0};

    *ret = (struct store_users){0};
    int r = store_usage(s, &u);
    if (r >= 0)
        r = catalog_list_holders(s->catalog, holder_seen_since(), &ret->users, &ret->n);
    if (r >= 0)
        ret->share = retention_share(u.max_use, ret->n, store_per_user(s, u.max_use));
    return r;
}

void store_users_done(struct store_users *u)
{
    holder_usage_free(u->users, u->n);
}

char *store_user_name(int64_t holder, const char *worker_url)
{
    return holder > 0   ? xasprintf("uid %" PRId64, holder)
           : worker_url ? xstrdup(worker_url)
                        : xstrdup("others");
}

/* -- Choosing what is removed -- */

struct eviction {
    struct store *store;
    int64_t goal, freed, collected_until, share;
    struct retention_holder *holders;
    size_t n_holders, cap_holders;
    int64_t *ids; /* of the traces that go */
    size_t n, cap;
    size_t n_max; /* after which it is enough to know that others go, too; 0: none */
    int64_t used; /* by all holders, with what is to be stored */
};

static void eviction_done(struct eviction *e)
{
    free(e->holders);
    free(e->ids);
}

/* Bytes by which these additional ones, with the copies being written, exceed the budget. */
static int64_t store_excess(const struct store *s, const struct store_usage *u, int64_t bytes,
                            int64_t written)
{
    int64_t used, needed, over;

    if (__builtin_add_overflow(bytes, s->incoming_bytes, &bytes) ||
        __builtin_add_overflow(u->bytes, bytes, &used) ||
        __builtin_add_overflow(bytes - written, u->keep_free, &needed) ||
        __builtin_add_overflow(needed, s->lent_bytes, &needed) ||
        __builtin_sub_overflow(needed, u->free, &over))
        return INT64_MAX;
    return MAX(used - u->max_use, over);
}

bool store_has_room(const struct store *s, int64_t bytes)
{
    struct store_usage u = {0};
    return store_usage(s, &u) >= 0 && store_excess(s, &u, bytes, 0) <= 0;
}

static void eviction_count(struct eviction *e, int64_t holder, int64_t bytes)
{
    size_t i = 0;

    while (i < e->n_holders && e->holders[i].holder != holder)
        i++;
    if (i == e->n_holders) {
        VEC_GROW(e->holders, e->n_holders, e->cap_holders);
        e->holders[e->n_holders++] =
            (struct retention_holder){.holder = holder, .removable = true, .chosen = {RECORD_NONE, 0}};
    }
    e->holders[i].used += bytes;
}

static int eviction_gather(struct eviction *e, const struct store_usage *u, int64_t holder, int64_t bytes)
{
    const struct store *s = e->store;
    struct holder_usage *list;
    int64_t capacity;
    size_t n;

    int r = catalog_list_holders(s->catalog, holder_seen_since(), &list, &n);
    if (r < 0)
        return r;
    for (size_t i = 0; i < n; i++)
        eviction_count(e, list[i].holder, list[i].bytes);
    holder_usage_free(list, n);
    for (size_t i = 0; i < s->n_incoming_holders; i++)
        eviction_count(e, s->incoming[i].holder, s->incoming[i].bytes);
    eviction_count(e, holder, bytes);
    for (size_t i = 0; i < e->n_holders; i++)
        e->used += e->holders[i].used;
    /* The space to be left free on the disk may be what limits the store. */
    if (__builtin_sub_overflow(e->used, e->goal, &capacity))
        capacity = 0;
    e->share = retention_share(MIN(capacity, u->max_use), e->n_holders, store_per_user(s, u->max_use));
    return 0;
}

/* Finds the holder's next removable trace after those that were chosen, and chooses it where asked to. */
static int eviction_next(struct eviction *e, struct retention_holder *h, bool choose)
{
    struct trace_record t;

    int r = catalog_next_evictable_of(e->store->catalog, h->holder, holder_seen_since(), &h->chosen, &t);
    if (r == -ENOENT)
        h->removable = false;
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    h->removable = t.collected_at <= e->collected_until;
    if (choose && h->removable) {
        VEC_GROW(e->ids, e->n, e->cap);
        e->ids[e->n++] = t.trace_id;
        h->chosen = (struct trace_position){t.collected_at, t.trace_id};
        e->freed += store_trace_bytes(&t);
        h->used -= store_trace_bytes(&t);
    }
    trace_record_done(&t);
    return 0;
}

/* -EDQUOT where only the shares of others are in the way, else -ENOSPC. */
static int eviction_refusal(struct eviction *e)
{
    for (size_t i = 0; i < e->n_holders; i++) {
        struct retention_holder *h = &e->holders[i];
        int r = h->removable ? eviction_next(e, h, false) : 0;
        if (r < 0 || h->removable)
            return r < 0 ? r : -EDQUOT;
    }
    return -ENOSPC;
}

/* Chooses the traces to remove for additional bytes of a holder. */
static int eviction_choose(struct eviction *e, int64_t holder, int64_t bytes, int64_t written)
{
    const struct store *s = e->store;
    struct store_usage u = {0};

    int r = store_usage(s, &u);
    if (r < 0)
        return r;
    e->goal = store_excess(s, &u, bytes, written);
    if (e->goal <= 0)
        return 0;
    if (bytes > u.max_use - s->incoming_bytes)
        return -ENOSPC;
    r = eviction_gather(e, &u, holder, bytes);
    /* What else is on the disk is in the way: nothing needs to be looked at. */
    if (r >= 0 && e->goal > e->used)
        return -ENOSPC;
    while (r >= 0 && e->freed < e->goal && (e->n_max == 0 || e->n < e->n_max)) {
        ssize_t next = retention_next(e->holders, e->n_holders, e->share);
        if (next < 0)
            return eviction_refusal(e);
        r = eviction_next(e, &e->holders[next], true);
    }
    return r;
}

/* -- Removing it -- */

static int store_evict(struct store *s, int64_t id)
{
    struct trace_record t;

    trace_record_init(&t);
    int r = catalog_get_trace(s->catalog, id, &t);
    if (r >= 0) {
        bool is_archived = t.stored && t.archived_at != RECORD_NONE;
        log_struct(LOG_NOTICE,
                   LOG_FIELDS(.session_id = t.session_id, .trace_id = id, .worker = t.worker_url,
                              .message_id = MESSAGE_STORE_FULL),
                   "%st%" PRId64 " (%s) %s removed%s: the store is at its budget",
                   t.stored ? "" : "the columns of ", id, t.name, t.stored ? "is" : "are",
                   is_archived ? " from the store, and stays in the archive" : "");
        if (is_archived) {
            r = store_leave_to_archive(s, id, "profd, for the store's budget");
            if (r >= 0)
                r = catalog_commit(s->catalog, false);
            if (r >= 0)
                store_unlink_files(s, &t);
        } else if (t.stored) {
            r = store_remove_trace(s, &t, "profd, for the store's budget");
        } else {
            r = store_drop_columns(s, t.trace_id);
            if (r >= 0)
                r = catalog_commit(s->catalog, false);
            if (r >= 0)
                store_unlink(t.columns);
        }
    }
    trace_record_done(&t);
    return r;
}

int store_make_room(struct store *s, int64_t holder, int64_t bytes, int64_t written, int64_t collected_until)
{
    _cleanup_(eviction_done) struct eviction e = {.store = s, .collected_until = collected_until};

    int r = eviction_choose(&e, holder, bytes, written);
    for (size_t i = 0; i < e.n && r >= 0; i++) {
        r = store_evict(s, e.ids[i]);
        s->n_evictions += r >= 0;
    }
    return r;
}

int store_could_take(struct store *s, int64_t bytes)
{
    _cleanup_(eviction_done) struct eviction e = {
        .store = s, .collected_until = INT64_MAX, .n_max = LOOKED_AT_MAX};

    /* For a holder without traces. Where that is more than a share, others can still replace their own. */
    int r = eviction_choose(&e, INT64_MAX, bytes, 0);
    return r == -EDQUOT ? 0 : r;
}

int store_admit(struct store *s, struct problem *p)
{
    int r = s->archive ? store_could_take(s, ADMITTED_BYTES_MIN) : 0;
    _cleanup_(freep) char *lag = NULL;

    if (r != -ENOSPC)
        return 0;
    lag = s->archive->describe_lag(s->archive->arg);
    if (!lag)
        return 0;
    problem_set(p, -ENOSPC, PROBLEM_STORAGE, "the store is full: %s", lag);
    problem_remedy(
        p, "Wait until the archive has them, or raise [store] max_use=; profctl doctor checks the archive.");
    return -ENOSPC;
}

char *store_refusal(const struct store *s, int64_t holder, int err)
{
    _cleanup_(store_users_done) struct store_users users = {0};
    char share[UNIT_TEXT_MAX];

    if (err == -ENOSPC)
        return xstrdup("no room in the store (see profctl du)");
    if (err != -EDQUOT || store_list_users(s, &users) < 0)
        return xstrdup(strerror(-err));
    const char *url = holder < 0 ? "this worker" : NULL;
    for (size_t i = 0; i < users.n; i++)
        if (users.users[i].holder == holder)
            url = users.users[i].worker_url;
    _cleanup_(freep) char *name = store_user_name(holder, url);
    return xasprintf("no room in the store for %s beyond a share of %s ([store] per_user=; see profctl du)",
                     name, format_size(share, users.share));
}

uint64_t store_evictions(const struct store *s)
{
    return s->n_evictions;
}
