/* SPDX-License-Identifier: Apache-2.0 */
/* What lists of EndpointSlices and of pods have in common: pages, ports, and how an entry becomes a worker. */
#include "base/address.h"
#include "base/alloc.h"
#include "base/text.h"
#include "daemon/fleet/kubernetes.h"
#include "daemon/fleet/url.h"
#include <ctype.h>
#include <errno.h>

#define LEFT_OUT       "pods left out because %s: %zu"
#define NOTES_MAX      3   /* of pods without a port; the rest is counted */
#define UID_BYTES_MAX  128 /* a UUID has 36; static pods have a hash */
#define NAME_BYTES_MAX 253
#define PORTS_TEXT_MAX 120
#define PORTS_SHOWN    6
/* Of the token for the next page, which becomes part of a URL. That of etcd has a key in it, about 200 bytes. */
#define CONTINUE_MAX 4096

/* -- Pages -------------------------------------------------------------------------------------------- */

const json_t *kubernetes_list_items(const char *data, size_t size, const char *kind, json_t **ret_root,
                                    char **ret_next, char why[static SOURCE_WHY_MAX])
{
    char error[200];
    json_t *root = json_parse(data, size, error);
    const char *is = json_get_str(root, "kind");
    const json_t *items = json_object_get(root, "items");
    const char *next = json_get_str(json_object_get(root, "metadata"), "continue");

    *ret_root = root;
    if (!root)
        snprintf(why, SOURCE_WHY_MAX, "the answer is not JSON: is that a Kubernetes API?");
    else if (!streq(is, kind))
        snprintf(why, SOURCE_WHY_MAX, "the answer is no %s: is that a Kubernetes API?", kind);
    else if (items && !json_is_null(items) && !json_is_array(items))
        snprintf(why, SOURCE_WHY_MAX, "\"items\" of the %s is no list", kind);
    else if (next && strlen(next) > CONTINUE_MAX)
        snprintf(why, SOURCE_WHY_MAX, "\"continue\" of the %s has more than %d bytes", kind, CONTINUE_MAX);
    else {
        if (next && next[0])
            *ret_next = xstrdup(next);
        return json_is_array(items) ? items : NULL;
    }
    json_decref(root);
    *ret_root = NULL;
    return NULL;
}

void kubernetes_page_notes(const struct kubernetes_page *page)
{
    const struct {
        const char *why;
        size_t n;
    } left_out[] = {
        {"their port is not known, as of those above",
         page->n_without_port - MIN(page->n_without_port, (size_t)NOTES_MAX)},
        {"they have no address", page->n_without_address},
        {"they have ended", page->n_ended},
        {"their labels name a component without an engine", page->n_not_workers},
    };

    for (size_t i = 0; i < ARRAY_SIZE(left_out); i++)
        if (left_out[i].n > 0)
            fleet_add_note(page->fleet, LEFT_OUT, left_out[i].why, left_out[i].n);
}

/* -- Ports -------------------------------------------------------------------------------------------- */

/* The only port with that name; NULL where there is none, or several with different numbers. */
static const struct kubernetes_port *port_named(const struct kubernetes_port *ports, size_t n,
                                                const char *name)
{
    const struct kubernetes_port *found = NULL;

    for (size_t i = 0; i < n; i++) {
        if (!streq(ports[i].name, name))
            continue;
        if (found && found->number != ports[i].number)
            return NULL;
        found = &ports[i];
    }
    return found;
}

/* The only port of the servers, whatever its name. */
static const struct kubernetes_port *port_only(const struct kubernetes_port *ports, size_t n)
{
    const struct kubernetes_port *found = NULL;

    for (size_t i = 0; i < n; i++) {
        if (ports[i].sidecar)
            continue;
        if (found && found->number != ports[i].number)
            return NULL;
        found = &ports[i];
    }
    return found;
}

/* The number as it is; what is declared for it says whether it is TLS. */
static struct kubernetes_port port_with_number(const struct kubernetes_port *ports, size_t n, int number)
{
    for (size_t i = 0; i < n; i++)
        if (ports[i].number == number)
            return ports[i];
    return (struct kubernetes_port){.name = "", .number = number};
}

static bool port_take(struct kubernetes_port *ret, const struct kubernetes_port *found)
{
    if (found)
        *ret = *found;
    return found != NULL;
}

/* By what the user says; else by what the project's labels say, by being the only one, or by being called http. Never
 * the first of several. */
static bool port_choose(const struct kubernetes_scope *s, const struct kubernetes_project *p,
                        const struct kubernetes_entry *e, const struct kubernetes_port *ports, size_t n,
                        struct kubernetes_port *ret)
{
    static const char *const usual[] = {"http", "https"};
    int number = port_parse(s->port);

    if (s->port && number == 0)
        return port_take(ret, port_named(ports, n, s->port));
    if (number == 0 && p && p->port) {
        number = port_parse(json_get_str(e->labels, p->port));
        if (number == 0)
            number = port_parse(json_get_str(e->annotations, p->port));
    }
    if (number > 0) {
        *ret = port_with_number(ports, n, number);
        return true;
    }
    for (size_t i = 0; p && i < ARRAY_SIZE(p->port_names) && p->port_names[i]; i++)
        if (port_take(ret, port_named(ports, n, p->port_names[i])))
            return true;
    if (port_take(ret, port_only(ports, n)))
        return true;
    for (size_t i = 0; i < ARRAY_SIZE(usual); i++)
        if (port_take(ret, port_named(ports, n, usual[i])))
            return true;
    return false;
}

/* "http 8000, metrics 9400" */
static char *ports_text(const struct kubernetes_port *ports, size_t n)
{
    char *text = xstrdup("");

    for (size_t i = 0; i < n && i < PORTS_SHOWN; i++) {
        _cleanup_(freep) char *name = text_clean(ports[i].name, false);
        append_str(&text, "%s%.*s%s%d", i > 0 ? ", " : "", 63, name, name[0] ? " " : "", ports[i].number);
    }
    if (n > PORTS_SHOWN)
        append_str(&text, " and %zu more", n - PORTS_SHOWN);
    return text;
}

static void port_note_missing(struct kubernetes_page *page, const struct kubernetes_entry *e,
                              const struct kubernetes_port *ports, size_t n)
{
    const char *wanted = page->scope->port;
    _cleanup_(freep) char *all = ports_text(ports, n);
    _cleanup_(freep) char *name = text_clean(e->name ? e->name : e->address, false);

    if (page->n_without_port++ >= NOTES_MAX)
        return;
    if (n == 0)
        fleet_add_note(page->fleet, "%s is left out: it declares no port%s%s; name its number by port=", name,
                       wanted ? " " : "", wanted ? wanted : "");
    else if (wanted)
        fleet_add_note(page->fleet, "%s is left out: it has no port %s, only %s", name, wanted, all);
    else
        fleet_add_note(page->fleet, "%s is left out: it has several ports (%s); name one by port=", name,
                       all);
}

/* -- Entries ------------------------------------------------------------------------------------------ */

/* A text of the API that becomes part of a worker: short, and nothing that a terminal obeys. */
static char *plain_copy(const char *text, size_t max)
{
    if (!text || !text[0] || strlen(text) > max)
        return NULL;
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f)
            return NULL;
    return xstrdup(text);
}

static void entry_take_role(const struct kubernetes_scope *s, const struct kubernetes_project *p,
                            const struct kubernetes_entry *e, struct worker *w)
{
    const char *const own[] = {s->role_label};
    const char *const *roles = s->role_label ? own : p ? p->roles : NULL;
    size_t n = s->role_label ? ARRAY_SIZE(own) : p ? ARRAY_SIZE(p->roles) : 0;

    for (size_t i = 0; i < n && w->role == ROLE_UNKNOWN; i++) {
        const char *value = roles[i] ? json_get_str(e->labels, roles[i]) : NULL;
        if (value && p && streq(value, p->regular))
            w->role = ROLE_REGULAR;
        else if (value)
            source_take_role(w, value);
    }
}

static void entry_take_hint(const struct kubernetes_project *p, const struct kubernetes_entry *e,
                            struct worker *w)
{
    _cleanup_(freep) char *engine =
        p && p->engine ? plain_copy(json_get_str(e->labels, p->engine), NAME_BYTES_MAX) : NULL;

    if (engine)
        w->hint = xasprintf("%s=%s", p->engine, engine);
}

/* "10.42.1.7:8000", "[fd00::7]:8000"; NULL where it is neither an address nor a name of a host. */
static char *host_and_port(const char *address, int port)
{
    char text[ADDRESS_TEXT_SIZE];
    struct in6_addr ip;

    if (address_parse(address, &ip) == 0) {
        address_format(&ip, text);
        return xasprintf("%s:%d", text, port);
    }
    for (const char *c = address; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-' && *c != '.')
            return NULL;
    return address[0] ? xasprintf("%s:%d", address, port) : NULL;
}

int kubernetes_add_entry(struct kubernetes_page *page, const struct kubernetes_entry *e,
                         const struct kubernetes_port *ports, size_t n_ports)
{
    const struct kubernetes_scope *s = page->scope;
    const struct kubernetes_project *p = kubernetes_project_of(e->labels);
    struct kubernetes_port port;
    struct worker *w;

    if (kubernetes_is_no_worker(p, e->labels)) {
        page->n_not_workers++;
        return 0;
    }
    if (!e->address) {
        page->n_without_address += !e->terminating;
        return 0;
    }
    if (!port_choose(s, p, e, ports, n_ports, &port)) {
        if (!e->terminating)
            port_note_missing(page, e, ports, n_ports);
        return 0;
    }
    _cleanup_(freep) char *address = host_and_port(e->address, port.number);
    int r = address ? source_add_worker(page->fleet, page->max, port.tls ? "https" : "http", address, &w) : 0;
    if (!address)
        page->n_without_address++;
    if (r < 0 || !address || !w)
        return r;
    w->health = e->health;
    w->terminating = e->terminating;
    w->identity = plain_copy(e->uid, UID_BYTES_MAX);
    w->name = plain_copy(e->name, NAME_BYTES_MAX);
    w->node = plain_copy(e->node, NAME_BYTES_MAX);
    w->model = p && p->model ? plain_copy(json_get_str(e->labels, p->model), NAME_BYTES_MAX) : NULL;
    entry_take_role(s, p, e, w);
    entry_take_hint(p, e, w);
    return 0;
}

/* -- The complete list -------------------------------------------------------------------------------- */

struct identified {
    struct fleet *fleet;
    size_t index;
};

static int compare_identity(const void *a, const void *b)
{
    const struct identified *x = a, *y = b;
    const struct worker *v = &x->fleet->workers[x->index], *w = &y->fleet->workers[y->index];
    int r = strcmp(v->identity, w->identity);
    return r != 0 ? r : (x->index > y->index) - (x->index < y->index);
}

/* Entries of one pod. The ports are equal, since the same rule chose them, unless slices of two Services differ in
 * them: then the pod has two servers. */
static bool is_same_server(const struct worker *a, const struct worker *b)
{
    return streq(a->identity, b->identity) && streq(strrchr(a->url, ':'), strrchr(b->url, ':'));
}

static bool is_ipv6(const struct worker *w)
{
    return strchr(w->url, '[') != NULL;
}

/* One entry of a pod that is terminating is true of all: an older slice does not know it yet. IPv4 is called where a
 * pod has both. */
static bool merge_pod(struct worker *first, struct worker *other)
{
    bool both = is_ipv6(first) != is_ipv6(other);

    first->terminating |= other->terminating;
    if (other->health == HEALTH_HEALTHY || first->health == HEALTH_UNKNOWN)
        first->health = other->health;
    if (first->role == ROLE_UNKNOWN)
        first->role = other->role;
    if (both && is_ipv6(first)) {
        char *url = first->url;
        first->url = other->url;
        other->url = url;
    }
    return both;
}

static void merge_pods(struct fleet *f, bool *drop)
{
    _cleanup_(freep) struct identified *all = xcalloc(MAX(f->n_workers, 1u), sizeof(*all));
    size_t n = 0, n_both = 0;

    for (size_t i = 0; i < f->n_workers; i++)
        if (f->workers[i].identity)
            all[n++] = (struct identified){f, i};
    qsort(all, n, sizeof(*all), compare_identity);
    for (size_t i = 0, first = 0; i < n; i++) {
        struct worker *w = &f->workers[all[i].index], *before = &f->workers[all[first].index];
        if (i == first)
            continue;
        if (!streq(w->identity, before->identity)) {
            first = i;
            continue;
        }
        /* A pod has few ports: the entries before this one are looked through. */
        for (size_t k = first; k < i; k++) {
            struct worker *other = &f->workers[all[k].index];
            if (drop[all[k].index] || !is_same_server(other, w))
                continue;
            n_both += merge_pod(other, w);
            drop[all[i].index] = true;
            break;
        }
    }
    if (n_both > 0)
        fleet_add_note(f, "pods with an IPv4 and an IPv6 address, of which profd calls the IPv4 address: %zu",
                       n_both);
}

void kubernetes_settle(struct fleet *f)
{
    _cleanup_(freep) bool *drop = xcalloc(MAX(f->n_workers, 1u), sizeof(*drop));
    size_t kept = 0, n_terminating = 0;

    merge_pods(f, drop);
    for (size_t i = 0; i < f->n_workers; i++) {
        struct worker *w = &f->workers[i];
        n_terminating += !drop[i] && w->terminating;
        if (drop[i] || w->terminating)
            worker_done(w);
        else
            f->workers[kept++] = *w;
    }
    f->n_workers = kept;
    if (n_terminating > 0)
        fleet_add_note(f, LEFT_OUT, "they are terminating", n_terminating);
}
