/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hello of a peer: which profd answers at a URL (GET /v1/host). It decides the peer's state and identity; the
 * parsers of this file are pure.
 */
#include "base/address.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "daemon/catalog/records.h"
#include "daemon/fleet/names.h"
#include "daemon/peers/identity.h"
#include "daemon/peers/internal.h"
#include <errno.h>

/* Bounds of what a peer may report. */
#define HELLO_TEXT_MAX      256
#define HELLO_ADDRESSES_MAX 256
#define HELLO_OBJECT_MAX    16 /* members of upload and mirror */
/* A row of the catalog is renewed this often where only its times changed. */
#define SAVE_INTERVAL_NS (600 * NS_PER_S)

/* -- Parsers ------------------------------------------------------------------------------------------- */

/* A text for people and tables: short, without hidden characters. NULL for anything else. */
static char *hello_text(const json_t *j, const char *key)
{
    const char *text = json_get_str(j, key);
    size_t n = text ? strlen(text) : 0;
    _cleanup_(freep) char *clean = n > 0 && n <= HELLO_TEXT_MAX ? text_clean(text, false) : NULL;

    return streq(clean, text) ? TAKE_PTR(clean) : NULL;
}

static bool hello_boot_id(const json_t *j, char ret[static UUID_SIZE])
{
    const char *text = json_get_str(j, "boot_id");

    if (!uuid_is(text))
        return false;
    memcpy(ret, text, UUID_SIZE);
    return true;
}

static void hello_read_addresses(const json_t *list, struct peer_hello *h)
{
    size_t n = MIN(json_array_size(list), (size_t)HELLO_ADDRESSES_MAX);
    struct in6_addr address;

    h->addresses = xcalloc(MAX(n, (size_t)1), sizeof(*h->addresses));
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (text && address_parse(text, &address) == 0 && !address_is_loopback(&address))
            h->addresses[h->n_addresses++] = address;
    }
}

/* An object of numbers and short texts, for tables. NULL for anything else. */
static json_t *hello_object(const json_t *j, const char *key)
{
    json_t *value = json_object_get(j, key), *copy;
    const char *name;

    if (!json_is_object(value) || json_object_size(value) > HELLO_OBJECT_MAX)
        return NULL;
    copy = json_object();
    json_t *member;
    json_object_foreach(value, name, member) {
        _cleanup_(freep) char *text = hello_text(value, name);
        if (json_is_number(member) || json_is_boolean(member))
            json_object_set(copy, name, member);
        else
            json_put_str(copy, name, text);
    }
    return copy;
}

void peer_hello_done(struct peer_hello *h)
{
    free(h->host);
    free(h->version);
    free(h->node);
    free(h->addresses);
    json_decref(h->upload);
    json_decref(h->mirror);
    *h = (struct peer_hello){0};
}

int peer_hello_parse(const json_t *j, struct peer_hello *ret, char **ret_reason)
{
    const json_t *store = json_object_get(j, "store");
    const char *uuid = json_get_str(j, "catalog");
    struct peer_hello h = {.workers = json_get_int(j, "workers", -1),
                           .sessions = json_get_int(j, "sessions", -1),
                           .store_bytes = json_get_int(store, "bytes", -1),
                           .store_max_use = json_get_int(store, "max_use", -1),
                           .store_free = json_get_int(store, "free", -1),
                           .is_system = json_get_bool(j, "system", false)};
    int64_t protocol = json_get_int(j, "protocol", -1);

    if (protocol < 1) {
        *ret_reason = xstrdup("the answer is not that of a profd");
        return -EPROTO;
    }
    if (protocol != PEER_PROTOCOL) {
        *ret_reason =
            xasprintf("it speaks protocol %lld between hosts, this profd %d: update the older of both",
                      (long long)protocol, PEER_PROTOCOL);
        return -EPROTO;
    }
    if (!uuid_is(uuid) || !hello_boot_id(j, h.boot_id)) {
        *ret_reason = xstrdup("the answer has no UUID of a catalog, or no boot id");
        return -EPROTO;
    }
    memcpy(h.catalog, uuid, UUID_SIZE);
    h.host = hello_text(j, "host");
    h.version = hello_text(j, "version");
    h.node = hello_text(j, "node");
    hello_read_addresses(json_object_get(j, "addresses"), &h);
    h.upload = hello_object(j, "upload");
    h.mirror = hello_object(j, "mirror");
    *ret = h;
    return 0;
}

int peer_clock_parse(const json_t *j, struct clock_sample *ret, struct clock_estimate *ret_facts)
{
    const char *keys[] = {"received_mono_ns", "sent_mono_ns", "wall_ns"};
    int64_t wall = json_get_int(j, "wall_ns", -1);

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (json_get_int(j, keys[i], -1) < 0)
            return -EPROTO;
    if (!hello_boot_id(j, ret_facts->boot_id))
        return -EPROTO;
    ret->t1 = json_get_int(j, "received_mono_ns", -1);
    ret->t2 = json_get_int(j, "sent_mono_ns", -1);
    ret->host_wall_ns = wall - ret->t2; /* both are not negative */
    ret_facts->quality = (struct clock_quality){.maxerror_ns = MAX(json_get_int(j, "maxerror_ns", -1), -1),
                                                .unsync = json_get_bool(j, "unsync", false)};
    return 0;
}

void peer_save(struct peer *peer)
{
    const struct clock_estimate *e = &peer->clock;
    _cleanup_(host_record_done) struct host_record r = {0};

    if (peer->saved_mono_ns > 0 && mono_ns() - peer->saved_mono_ns < SAVE_INTERVAL_NS)
        return;
    host_record_init(&r);
    r.host_uuid = xstrdup(peer->host_uuid);
    r.name = xstrdup(peer->hello.host);
    r.url = xstrdup(peer->url);
    r.version = xstrdup(peer->hello.version);
    r.first_seen_at = r.last_seen_at = peer->seen_at;
    if (e->measured_mono_ns > 0) {
        r.clock_offset_ns = e->wall_offset_ns;
        r.clock_error_ns = e->error_ns;
    }
    /* Where the catalog cannot be written, which is reported elsewhere, the next hello tries again. */
    if (catalog_saw_host(peer->peers->catalog, &r) >= 0)
        peer->saved_mono_ns = mono_ns();
}

/* -- Asking -------------------------------------------------------------------------------------------- */

static void hello_fail(struct peer *peer, enum peer_state state, const struct problem *p)
{
    if (peer->state != state)
        log_notice("peer %s: %s", peer->name, p->what);
    peer->state = state;
    problem_done(&peer->problem);
    problem_copy(&peer->problem, -EREMOTEIO, p->kind, p);
}

/* Nobody is called by the UUID that the peer had: another profd answers now. */
static void hello_refuse(struct peer *peer, enum identity identity, const char *uuid,
                         const struct peer *other)
{
    _cleanup_(problem_done) struct problem p = {0};

    identity_explain(identity, peer, uuid, other, &p);
    hello_fail(peer, PEER_REFUSED, &p);
    replace_str(&peer->host_uuid, NULL);
}

static void hello_settle(struct peer *peer, struct peer_hello *take, enum peer_state state)
{
    const bool changed = !streq(peer->hello.host, take->host) || !streq(peer->hello.version, take->version) ||
                         !streq(peer->hello.catalog, take->catalog);

    if (*peer->hello.catalog && !streq(peer->hello.catalog, take->catalog))
        log_notice("the profd at %s has another catalog: %s, before %s", peer->url, take->catalog,
                   peer->hello.catalog);
    if (!streq(peer->hello.boot_id, take->boot_id))
        peer->clock = (struct clock_estimate){0};
    peer_hello_done(&peer->hello);
    peer->hello = *take;
    *take = (struct peer_hello){0};
    peer->state = state;
    replace_str(&peer->host_uuid, state == PEER_OK ? peer->hello.catalog : NULL);
    peer->hello_at = peer->seen_at = wall_ns();
    problem_done(&peer->problem);
    if (changed)
        peer->saved_mono_ns = 0;
}

static void hello_take(struct peers *p, struct peer *peer, struct peer_hello *take)
{
    struct peer *other;
    enum identity identity = identity_decide(&p->peers, peer, take->catalog, peers_self(p).uuid, &other);

    if (identity == IDENTITY_CHANGED || identity == IDENTITY_CLAIMED) {
        hello_refuse(peer, identity, take->catalog, other);
        peer_hello_done(take);
        return;
    }
    if (identity == IDENTITY_EXPECTED && other) {
        /* An address that a source lists, or listed, of the same host. */
        other->state = PEER_DUPLICATE;
        replace_str(&other->host_uuid, NULL);
    }
    hello_settle(peer, take,
                 identity == IDENTITY_SELF        ? PEER_SELF
                 : identity == IDENTITY_DUPLICATE ? PEER_DUPLICATE
                                                  : PEER_OK);
    if (peer->state != PEER_OK)
        return;
    if (peer->config)
        replace_str(&peer->bound_uuid, peer->host_uuid);
    peer_save(peer);
}

static void hello_on_answer(int status, const json_t *body, const struct problem *p, void *arg)
{
    struct peer *peer = arg;
    const struct peer_times times = peer_query_times(peer->hello_query);
    _cleanup_(problem_done) struct problem wrong = {0};
    _cleanup_(freep) char *reason = NULL;
    struct peer_hello h = {0};

    peer->hello_query = NULL;
    if (!p && peer_hello_parse(body, &h, &reason) == 0) {
        peer->address = times.address;
        hello_take(peer->peers, peer, &h);
    } else if (!p) {
        problem_set(&wrong, -EPROTO, PROBLEM_UPSTREAM, "%s (%s): %s", peer->name, peer->url, reason);
        problem_remedy(&wrong, "Check the URL, and the version of profd there.");
        hello_fail(peer, PEER_INVALID, &wrong);
    } else {
        hello_fail(peer, status == 0 ? PEER_UNREACHABLE : PEER_REFUSED, p);
    }
    peers_on_hello(peer->peers);
}

void peer_say_hello(struct peer *peer)
{
    peer->asked_mono_ns = mono_ns();
    peer->hello_query = peer_call(peer->peers, peer, "GET", "/v1/host", NULL, 0,
                                  names_origin("[hosts] peers"), hello_on_answer, peer);
}
