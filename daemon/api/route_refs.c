/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids by UUID: numbers begin again on each host, so what people and programs pass on between hosts is the UUID of a session,
 * trace or run, or enough of its beginning. A text of digits alone, or "s7", is never taken for one.
 */
#include "base/alloc.h"
#include "daemon/api/handler.h"
#include "daemon/catalog/records.h"
#include "proto/names.h"
#include <errno.h>
#include <inttypes.h>

/* Candidates that an error names. */
#define REFS_NAMED 8
/* What GET /v1/refs finds. Leases are the business of profds. */
#define REFS_PUBLIC "str"

static char *refs_describe(const struct catalog_ref *refs, int n)
{
    char *text = NULL;

    for (int i = 0; i < MIN(n, REFS_NAMED); i++)
        append_str(&text, "%s%c%" PRId64 " (%s)", i > 0 ? ", " : "", refs[i].kind, refs[i].id, refs[i].uuid);
    if (n > REFS_NAMED)
        append_str(&text, ", ...");
    return text;
}

/* The only row that a UUID or its beginning stands for; all that were found into refs, for who lists them. */
static int refs_find_only(struct catalog *c, const char *word, const char *kinds,
                          struct catalog_ref refs[static REFS_NAMED + 1], int *ret_n, struct problem *p)
{
    int n = *ret_n = catalog_find_refs(c, word, kinds, refs, REFS_NAMED + 1);

    if (n < 0)
        return catalog_problem(c, n, p, "cannot look up %s", word);
    if (n == 0) {
        problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "there is no %s whose UUID %s %s",
                    kinds[1] ? "session, trace or run" : record_noun(*kinds),
                    uuid_is(word) ? "is" : "begins with", word);
        problem_remedy(
            p, "profctl list-sessions --columns session,uuid lists them; so do list-traces and list-runs.");
        return -ENOENT;
    }
    if (n == 1)
        return 0;
    _cleanup_(freep) char *candidates = refs_describe(refs, n);
    problem_set(p, -ENOTUNIQ, PROBLEM_CONFLICT, "%s is the beginning of several UUIDs: %s", word, candidates);
    problem_remedy(p, "Give more characters of the UUID, or the id.");
    return -ENOTUNIQ;
}

int ref_find(struct catalog *c, const char *word, char kind, int64_t *ret, struct problem *p)
{
    const char kinds[] = {kind, '\0'};
    struct catalog_ref refs[REFS_NAMED + 1];
    int64_t id;
    int n;

    if (parse_ref(word, kind, &id) == kind) {
        *ret = id;
        return 0;
    }
    if (!uuid_is_prefix(word))
        return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "\"%s\" is neither the id of a %s nor a UUID",
                           word, record_noun(kind));
    int r = refs_find_only(c, word, kinds, refs, &n, p);
    if (r == 0)
        *ret = refs[0].id;
    return r;
}

int route_resolve(struct catalog *c, struct route_match *match, struct problem *p)
{
    return *match->uuid ? ref_find(c, match->uuid, match->id_kind, &match->id, p) : 0;
}

static json_t *refs_to_json(const struct catalog_ref *refs, int n)
{
    json_t *list = json_array();

    for (int i = 0; i < MIN(n, REFS_NAMED); i++) {
        json_t *ref = json_object();
        json_object_set_new(ref, "ref", json_sprintf("%c%lld", refs[i].kind, (long long)refs[i].id));
        json_put_str(ref, "uuid", refs[i].uuid);
        json_array_append_new(list, ref);
    }
    return list;
}

void get_ref(struct api *api, struct http_request *r, const struct route_match *match)
{
    _cleanup_(problem_done) struct problem p = {0};
    const char *word = http_query_get(r, "ref");
    struct catalog_ref refs[REFS_NAMED + 1];
    int n = 0, err;

    if (!word || !uuid_is_prefix(word))
        err = problem_set(&p, -EINVAL, PROBLEM_BAD_REQUEST,
                          "ref=%s must be a UUID, or at least the first %d characters of one",
                          word ? word : "", UUID_PREFIX_LENGTH);
    else
        err = refs_find_only(api->modules.catalog, word, REFS_PUBLIC, refs, &n, &p);
    if (err == -ENOENT && elsewhere_ask_ref(api, r, match, word))
        return;
    if (err == -ENOENT)
        elsewhere_explain(api, word, &p);
    _cleanup_json_ candidates = n > 0 ? refs_to_json(refs, n) : NULL;
    if (err < 0)
        reply_problem(r, 0, &p, "candidates", candidates);
    else
        http_reply_json(r, 200, json_incref(json_array_get(candidates, 0)));
}
