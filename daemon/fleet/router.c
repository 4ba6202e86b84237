/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/router.h"

#include "base/alloc.h"
#include "daemon/fleet/answer_text.h"
#include "daemon/fleet/url.h"
#include <ctype.h>
#include <errno.h>
#include <strings.h>

#define ROUTER_LINE(name) &router_##name,

static const struct router_dialect *const dialects[] = {CORE_ROUTERS(ROUTER_LINE)};

const struct router_dialect *router_dialect_at(size_t i)
{
    return i < ARRAY_SIZE(dialects) ? dialects[i] : extra_routers[i - ARRAY_SIZE(dialects)];
}

const struct router_dialect *router_dialect_find(const char *name)
{
    const struct router_dialect *d;

    for (size_t i = 0; (d = router_dialect_at(i)) && !streq(d->name, name); i++)
        ;
    return d;
}

char *router_dialect_names(void)
{
    const struct router_dialect *d;
    char *names = xstrdup("auto");

    for (size_t i = 0; (d = router_dialect_at(i)); i++) {
        char *longer = xasprintf("%s, %s", names, d->name);
        free(names);
        names = longer;
    }
    return names;
}

const json_t *router_list_of(const json_t *root, const char *key)
{
    const json_t *list = json_object_get(root, key);
    return json_is_array(list) ? list : NULL;
}

static const json_t *dialect_entries(const struct router_dialect *d, const json_t *root)
{
    return d->entries ? d->entries(root) : router_list_of(root, d->list_key);
}

static const struct router_dialect *dialect_recognise(const json_t *root, const char *path)
{
    const struct router_dialect *d;

    for (size_t i = 0; (d = router_dialect_at(i)); i++)
        if (streq(d->path, path) && (d->recognise ? d->recognise(root) : dialect_entries(d, root) != NULL))
            return d;
    return NULL;
}

int router_parse(const struct router_dialect *d, const char *path, const char *data, size_t size,
                 const struct router_bounds *b, struct fleet *f, char why[static ROUTER_WHY_MAX])
{
    char error[200];
    _cleanup_json_ root = json_parse(data, size, error);

    if (!root) {
        snprintf(why, ROUTER_WHY_MAX,
                 looks_like_html(data, size) ? "HTML instead of JSON"
                 : size == 0                 ? "nothing"
                                             : "something that is not JSON");
        return -EPROTO;
    }
    if (!d)
        d = dialect_recognise(root, path);
    bool reads = d && d->read && d->recognise(root);
    const json_t *entries = d && !d->read ? dialect_entries(d, root) : NULL;
    if (!reads && !entries) {
        snprintf(why, ROUTER_WHY_MAX, "JSON that is not a list of workers");
        return -EPROTO;
    }
    int r = reads ? d->read(root, b, f, why) : workers_from_json(f, entries, b->workers_max);
    if (r < 0)
        return r;
    replace_str(&f->dialect, d->name);
    return 0;
}

/* -- Entries of a list -- */

#define URL_EXCERPT_MAX   120
#define WORD_MAX          32
#define IGNORED_NOTES_MAX 3
#define LOAD_MAX          (INT64_C(1) << 32) /* those of ten thousand entries still add up */

/* Words of routers that are not ours. */
static const struct {
    const char *word;
    enum role role;
} role_words[] = {
    {"hybrid", ROLE_REGULAR}, /* LMDeploy */
    {"mixed", ROLE_REGULAR},
    {"encoder", ROLE_ENCODE},
};

static const struct {
    const char *status;
    enum health health;
} status_words[] = {
    {"ready", HEALTH_HEALTHY},       {"healthy", HEALTH_HEALTHY},     {"not_ready", HEALTH_UNHEALTHY},
    {"pending", HEALTH_UNHEALTHY},   {"failed", HEALTH_UNHEALTHY},    {"draining", HEALTH_UNHEALTHY},
    {"unhealthy", HEALTH_UNHEALTHY}, {"suspended", HEALTH_UNHEALTHY},
};

/* The last names a server that has no model. */
static const char *const model_keys[] = {"model_id", "model", "model_name", "process_name"};
static const char *const role_keys[] = {"worker_type", "role"};
static const char *const load_keys[] = {"load", "active_requests"};
static const char *const health_keys[] = {"is_healthy", "healthy"};

/* The leading word in lower case: "Grpc { port: None }" gives "grpc". */
static void lower_word(const char *text, char word[static WORD_MAX])
{
    size_t n = 0;
    while (n + 1 < WORD_MAX && (isalnum((unsigned char)text[n]) || text[n] == '_')) {
        word[n] = (char)tolower((unsigned char)text[n]);
        n++;
    }
    word[n] = '\0';
}

static void entry_take_role(struct worker *w, const json_t *entry)
{
    char word[WORD_MAX];

    for (size_t k = 0; k < ARRAY_SIZE(role_keys); k++) {
        const char *text = json_get_str(entry, role_keys[k]);
        if (!text)
            continue;
        lower_word(text, word);
        int role = role_from_name(word);
        if (role >= 0)
            w->role = (enum role)role;
        for (size_t i = 0; i < ARRAY_SIZE(role_words); i++)
            if (streq(word, role_words[i].word))
                w->role = role_words[i].role;
        return;
    }
}

static void entry_take_health(struct worker *w, const json_t *entry)
{
    char word[WORD_MAX];
    const char *status = json_get_str(entry, "status");

    for (size_t k = 0; k < ARRAY_SIZE(health_keys); k++) {
        const json_t *healthy = json_object_get(entry, health_keys[k]);
        if (!json_is_boolean(healthy))
            continue;
        w->health = json_is_true(healthy) ? HEALTH_HEALTHY : HEALTH_UNHEALTHY;
        return;
    }
    if (!status)
        return;
    lower_word(status, word);
    for (size_t i = 0; i < ARRAY_SIZE(status_words); i++)
        if (streq(word, status_words[i].status))
            w->health = status_words[i].health;
}

static void entry_take_model_name(struct worker *w, const json_t *entry)
{
    const json_t *first = json_array_get(json_object_get(entry, "models"), 0);
    const char *model = NULL;

    for (size_t k = 0; k < ARRAY_SIZE(model_keys) && !model; k++)
        model = json_get_str(entry, model_keys[k]);
    if (!model || streq(model, "unknown"))
        model = json_is_string(first) ? json_string_value(first) : json_get_str(first, "id");
    if (model && model[0])
        replace_str(&w->model, model);
}

static void entry_take_fields(struct worker *w, const json_t *entry)
{
    char word[WORD_MAX];
    const char *connection = json_get_str(entry, "connection_mode");

    entry_take_role(w, entry);
    entry_take_health(w, entry);
    entry_take_model_name(w, entry);
    for (size_t k = 0; k < ARRAY_SIZE(load_keys) && w->load < 0; k++)
        w->load = MIN(MAX(json_get_int(entry, load_keys[k], -1), INT64_C(-1)), LOAD_MAX);
    if (connection) {
        lower_word(connection, word);
        replace_str(&w->connection, word);
    }
}

int fleet_add_url(struct fleet *f, const char *text, struct worker **ret, const char **reason)
{
    struct url u;
    int r = url_parse(text, &u, reason);
    if (r < 0)
        return r;
    struct worker *w = fleet_add_worker(f);
    w->url = url_format(&u);
    if (!streq(w->url, text))
        w->listed_url = xstrdup(text);
    if (!url_is_http(&u))
        w->connection = xstrdup("grpc");
    *ret = w;
    return 0;
}

struct ignored {
    size_t n;
};

static void ignore_entry(struct fleet *f, struct ignored *ignored, const char *url, const char *reason)
{
    char text[URL_EXCERPT_MAX];

    if (ignored->n++ >= IGNORED_NOTES_MAX)
        return;
    if (url)
        fleet_add_note_of(f, NOTE_WARNING, "the listed worker \"%s\" is ignored: %s",
                          excerpt(url, strlen(url), text, sizeof(text)), reason);
    else
        fleet_add_note_of(f, NOTE_WARNING, "a listed worker is ignored: %s", reason);
}

static void workers_add_entry(struct fleet *f, struct ignored *ignored, const char *key, const json_t *entry)
{
    const char *url = key                     ? key
                      : json_is_string(entry) ? json_string_value(entry)
                                              : json_get_str(entry, "url");
    const char *reason;
    struct worker *w;

    if (!url) {
        ignore_entry(f, ignored, NULL, "it has no \"url\"");
        return;
    }
    if (fleet_add_url(f, url, &w, &reason) < 0) {
        ignore_entry(f, ignored, url, reason);
        return;
    }
    if (json_is_object(entry))
        entry_take_fields(w, entry);
}

int workers_from_json(struct fleet *f, const json_t *entries, size_t max)
{
    struct ignored ignored = {0};
    const char *key;
    json_t *entry;
    size_t i;

    if (!json_is_array(entries) && !json_is_object(entries))
        return -EPROTO;
    if (MAX(json_array_size(entries), json_object_size(entries)) > max)
        return -E2BIG;
    json_array_foreach(entries, i, entry)
        workers_add_entry(f, &ignored, NULL, entry);
    json_object_foreach((json_t *)entries, key, entry)
        workers_add_entry(f, &ignored, key, entry);
    if (ignored.n > IGNORED_NOTES_MAX)
        fleet_add_note_of(f, NOTE_WARNING, "%zu more listed workers are ignored",
                          ignored.n - IGNORED_NOTES_MAX);
    return 0;
}

/* -- The complete list -- */

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

/* Merges two entries of one server: the loads of its ranks add up, one healthy rank is enough. */
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
    if (!first->identity)
        first->identity = xstrdup(other->identity);
}

struct listed_url {
    const char *url;
    size_t index;
};

static int compare_listed_urls(const void *a, const void *b)
{
    const struct listed_url *x = a, *y = b;
    int r = strcmp(x->url, y->url);
    return r != 0 ? r : (x->index > y->index) - (x->index < y->index);
}

/* Marks all but the first of equal URLs in drop[], and counts. */
static size_t find_duplicates(struct fleet *f, bool *drop)
{
    struct listed_url *urls = xcalloc(MAX(f->n_workers, 1u), sizeof(*urls));
    size_t n = 0, first = 0;

    for (size_t i = 0; i < f->n_workers; i++)
        urls[i] = (struct listed_url){f->workers[i].url, i};
    qsort(urls, f->n_workers, sizeof(*urls), compare_listed_urls);
    for (size_t i = 1; i < f->n_workers; i++) {
        if (!streq(urls[i].url, urls[first].url)) {
            first = i;
            continue;
        }
        merge_into(&f->workers[urls[first].index], &f->workers[urls[i].index]);
        drop[urls[i].index] = true;
        n++;
    }
    free(urls);
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
