/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/listing.h"

#include "base/alloc.h"
#include "daemon/fleet/url.h"

static void mark_unreachable(struct worker *w)
{
    if (!w->connection || !starts_with(w->connection, "grpc"))
        return;
    w->profilable = false;
    replace_str(&w->reason, "cannot be profiled over HTTP: its router reaches it by gRPC");
    replace_str(&w->remedy, "If the server has an HTTP port too, name that: --worker http://HOST:PORT");
}

static void rewrite_loopback(struct fleet *f, bool router_is_here)
{
    size_t n = 0, example = 0;

    for (size_t i = 0; i < f->n_workers; i++) {
        struct worker *w = &f->workers[i];
        struct url u;
        const char *reason;
        if (url_parse(w->url, &u, &reason) < 0 || !host_is_loopback(u.host) ||
            (router_is_here && !host_is_wildcard(u.host)))
            continue;
        char *url = url_with_host_of(w->url, f->router);
        if (!w->listed_url)
            w->listed_url = xstrdup(w->url);
        worker_add_note(w, "listed as %s", w->listed_url);
        free(w->url);
        w->url = url;
        example = i;
        n++;
    }
    if (n > 0)
        fleet_add_note(f,
                       "the router lists %zu of its workers by loopback addresses, which mean its own host: "
                       "%s is called as %s",
                       n, f->workers[example].listed_url, f->workers[example].url);
}

/* What two entries of one server say together: its ranks' loads add up, one healthy rank is enough. */
static void merge_into(struct worker *first, const struct worker *other)
{
    if (other->load >= 0)
        first->load = MAX(first->load, INT64_C(0)) + other->load;
    if (other->health == HEALTH_HEALTHY || first->health == HEALTH_UNKNOWN)
        first->health = other->health;
    if (first->role == ROLE_UNKNOWN)
        first->role = other->role;
    if (!first->model)
        first->model = xstrdup(other->model);
}

struct place {
    const char *url;
    size_t index;
};

static int compare_places(const void *a, const void *b)
{
    const struct place *x = a, *y = b;
    int r = strcmp(x->url, y->url);
    return r != 0 ? r : (x->index > y->index) - (x->index < y->index);
}

/* Marks all but the first of equal URLs in drop[], and counts. */
static size_t find_duplicates(struct fleet *f, bool *drop)
{
    struct place *places = xcalloc(MAX(f->n_workers, 1u), sizeof(*places));
    size_t n = 0, first = 0;

    for (size_t i = 0; i < f->n_workers; i++)
        places[i] = (struct place){f->workers[i].url, i};
    qsort(places, f->n_workers, sizeof(*places), compare_places);
    for (size_t i = 1; i < f->n_workers; i++) {
        if (!streq(places[i].url, places[first].url)) {
            first = i;
            continue;
        }
        merge_into(&f->workers[places[first].index], &f->workers[places[i].index]);
        drop[places[i].index] = true;
        n++;
    }
    free(places);
    return n;
}

static void merge_duplicates(struct fleet *f)
{
    _cleanup_(freep) bool *drop = xcalloc(MAX(f->n_workers, 1u), sizeof(*drop));
    size_t kept = 0, n = find_duplicates(f, drop);

    if (n == 0)
        return;
    for (size_t i = 0; i < f->n_workers; i++) {
        if (drop[i])
            worker_done(&f->workers[i]);
        else
            f->workers[kept++] = f->workers[i];
    }
    f->n_workers = kept;
    fleet_add_note(f, "%zu listed entries are merged into %zu servers (data-parallel ranks, or listed twice)",
                   kept + n, kept);
}

void listing_settle(struct fleet *f, bool router_is_here)
{
    if (f->router)
        rewrite_loopback(f, router_is_here);
    merge_duplicates(f);
    for (size_t i = 0; i < f->n_workers; i++)
        mark_unreachable(&f->workers[i]);
}
