/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/workers_json.h"

#include "base/alloc.h"
#include "daemon/fleet/excerpt.h"
#include "daemon/fleet/url.h"
#include <ctype.h>
#include <errno.h>
#include <strings.h>

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

/* The last is NeMo Gym's, whose servers have no model but a name. */
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

static void take_role(struct worker *w, const json_t *entry)
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

static void take_health(struct worker *w, const json_t *entry)
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

static void take_model_name(struct worker *w, const json_t *entry)
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

static void take_fields(struct worker *w, const json_t *entry)
{
    char word[WORD_MAX];
    const char *connection = json_get_str(entry, "connection_mode");

    take_role(w, entry);
    take_health(w, entry);
    take_model_name(w, entry);
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

static void ignore(struct fleet *f, struct ignored *ignored, const char *url, const char *reason)
{
    char text[URL_EXCERPT_MAX];

    if (ignored->n++ >= IGNORED_NOTES_MAX)
        return;
    if (url)
        fleet_add_note(f, "the listed worker \"%s\" is ignored: %s",
                       excerpt(url, strlen(url), text, sizeof(text)), reason);
    else
        fleet_add_note(f, "a listed worker is ignored: %s", reason);
}

static void add_entry(struct fleet *f, struct ignored *ignored, const char *key, const json_t *entry)
{
    const char *url = key                     ? key
                      : json_is_string(entry) ? json_string_value(entry)
                                              : json_get_str(entry, "url");
    const char *reason;
    struct worker *w;

    if (!url) {
        ignore(f, ignored, NULL, "it has no \"url\"");
        return;
    }
    if (fleet_add_url(f, url, &w, &reason) < 0) {
        ignore(f, ignored, url, reason);
        return;
    }
    if (json_is_object(entry))
        take_fields(w, entry);
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
        add_entry(f, &ignored, NULL, entry);
    json_object_foreach((json_t *)entries, key, entry)
        add_entry(f, &ignored, key, entry);
    if (ignored.n > IGNORED_NOTES_MAX)
        fleet_add_note(f, "%zu more listed workers are ignored", ignored.n - IGNORED_NOTES_MAX);
    return 0;
}
