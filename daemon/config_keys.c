/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config_keys.h"

#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "daemon/fleet/router.h"
#include "daemon/fleet/url.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <syslog.h>

#define NAME_MAX_BYTES 64
#define DAY_NS         (86400 * NS_PER_S)

/* -- Values ------------------------------------------------------------------------------------------- */

static void *field_of(const struct config_key *key, void *object)
{
    return (char *)object + key->offset;
}

static int put_number(const struct config_key *key, void *object, int64_t value)
{
    if (value < key->min || value > key->max)
        return -EINVAL;
    if (key->width == sizeof(int64_t))
        *(int64_t *)field_of(key, object) = value;
    else
        *(int *)field_of(key, object) = (int)value;
    return 0;
}

static int take_duration(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    int64_t ns;
    return parse_duration(value, &ns) < 0 ? -EINVAL : put_number(key, object, ns);
}

static int take_count(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    char *end;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    if (!isdigit((unsigned char)*value) || *end || errno)
        return -EINVAL;
    return put_number(key, object, n);
}

static int take_bytes(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    int64_t bytes;
    return parse_size(value, &bytes) < 0 ? -EINVAL : put_number(key, object, bytes);
}

/* 0 is what the store calls its own choice. */
static int take_bytes_or_auto(const struct config_key *key, const char *value, void *object,
                              char **ret_reason)
{
    if (!streq(value, "auto"))
        return take_bytes(key, value, object, ret_reason);
    *(int64_t *)field_of(key, object) = 0;
    return 0;
}

/* Percent are negative. */
static int take_share(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    size_t digits = strspn(value, "0123456789");
    int64_t percent = strtoll(value, NULL, 10);

    if (digits == 0 || digits > 3 || !streq(value + digits, "%"))
        return take_bytes_or_auto(key, value, object, ret_reason);
    if (percent < 1 || percent > 100)
        return -EINVAL;
    *(int64_t *)field_of(key, object) = -percent;
    return 0;
}

static int take_yes_no(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    return parse_bool(value, field_of(key, object));
}

static int take_word(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    for (int64_t i = key->min; i <= key->max; i++)
        if (streq(key->words[i], value))
            return put_number(key, object, i);
    return -EINVAL;
}

static bool is_name(const char *s)
{
    size_t n = strlen(s);
    return n > 0 && n <= NAME_MAX_BYTES && s[0] != '-' && s[0] != '.' &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static int take_name(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    if (!is_name(value))
        return -EINVAL;
    replace_str(field_of(key, object), value);
    return 0;
}

static bool is_absolute(const char *path)
{
    return path[0] == '/';
}

static int take_path(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    if (!is_absolute(value))
        return -EINVAL;
    replace_str(field_of(key, object), value);
    return 0;
}

/* A directory as a worker names it, which may be no directory of this host at all. */
static int take_place(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    return strstr(value, "://") ? -EINVAL : take_path(key, value, object, ret_reason);
}

static int take_listen(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    struct listen_address addresses[LISTEN_MAX];
    const char *reason = NULL;
    size_t n;

    if (listen_addresses_parse(value, addresses, LISTEN_MAX, &n, &reason) < 0) {
        *ret_reason = xstrdup(reason);
        return -EINVAL;
    }
    replace_str(field_of(key, object), value);
    return 0;
}

static int normal_url(const char *value, char **ret, char **ret_reason)
{
    const char *reason = "it is neither http:// nor https://";
    struct url url;

    if (url_parse(value, &url, &reason) < 0 || !url_is_http(&url)) {
        *ret_reason = xasprintf("must be a URL such as http://10.0.0.1:3521: %s", reason);
        return -EINVAL;
    }
    *ret = url_format(&url);
    return 0;
}

static int take_url(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    char **field = field_of(key, object), *url;

    if (normal_url(value, &url, ret_reason) < 0)
        return -EINVAL;
    free(*field);
    *field = url;
    return 0;
}

static int take_dialect(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    if (!streq(value, "auto") && !router_dialect_find(value)) {
        _cleanup_(freep) char *names = router_dialect_names();
        *ret_reason = xasprintf("must be one of %s", names);
        return -EINVAL;
    }
    replace_str(field_of(key, object), value);
    return 0;
}

static int take_role(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    int role = role_from_name(value);
    return role < 0 ? -EINVAL : put_number(key, object, role);
}

static int add_worker(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    struct fleet_config *fleet = object;
    char *url;

    if (normal_url(value, &url, ret_reason) < 0)
        return -EINVAL;
    VEC_GROW(fleet->workers, fleet->n_workers, fleet->cap_workers);
    fleet->workers[fleet->n_workers++] = url;
    return 0;
}

static int add_map(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    struct fleet_config *fleet = object;
    const char *colon = strchr(value, ':');

    if (!colon || !is_absolute(value) || !is_absolute(colon + 1))
        return -EINVAL;
    VEC_GROW(fleet->maps, fleet->n_maps, fleet->cap_maps);
    fleet->maps[fleet->n_maps++] =
        (struct path_map){.from = xstrndup(value, (size_t)(colon - value)), .to = xstrdup(colon + 1)};
    return 0;
}

static int add_watch(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    struct collect_settings *s = &((struct config *)object)->collect;

    if (!is_absolute(value))
        return -EINVAL;
    VEC_GROW(s->watch, s->n_watch, s->cap_watch);
    s->watch[s->n_watch++] = xstrdup(value);
    return 0;
}

static int add_host(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    struct api_settings *s = &((struct config *)object)->api;

    if (!host_is_name(value))
        return -EINVAL;
    VEC_GROW(s->hosts, s->n_hosts, s->cap_hosts);
    s->hosts[s->n_hosts++] = xstrdup(value);
    return 0;
}

static int add_range(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    struct api_settings *s = &((struct config *)object)->api;
    struct address_range range;
    const char *reason = NULL;

    if (address_range_parse(value, &range, &reason) < 0) {
        *ret_reason = reason ? xstrdup(reason) : NULL;
        return -EINVAL;
    }
    VEC_GROW(s->open_to, s->n_open_to, s->cap_open_to);
    s->open_to[s->n_open_to++] = range;
    return 0;
}

static int add_network(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    return network_add(&((struct config *)object)->network, value, ret_reason);
}

/* -- The tables --------------------------------------------------------------------------------------- */

static const char *const log_levels[] = {
    [LOG_ERR] = "error", [LOG_WARNING] = "warning", [LOG_NOTICE] = "notice",
    [LOG_INFO] = "info", [LOG_DEBUG] = "debug",
};
static const char *const buses[] = {
    [BUS_KIND_NONE] = "none", [BUS_KIND_SYSTEM] = "system", [BUS_KIND_SESSION] = "session"};
static const char *const collect_modes[] = {[COLLECT_COPY] = "copy", [COLLECT_REFERENCE] = "reference"};

#define OF(type, member)  .offset = offsetof(type, member), .width = sizeof(((type *)NULL)->member)
#define CONFIG(member)    OF(struct config, member)
#define FLEET(member)     OF(struct fleet_config, member)
#define WORKER(member)    OF(struct worker_config, member)
#define FROM_TO(from, to) .min = (from), .max = (to)

#define ABSOLUTE          "an absolute path"
#define PLACE             "an absolute path on the worker's host; what is written to s3:// or gs:// cannot be collected"
#define LONGER            "a duration such as 30min, from 100ms to 7d"
#define TIMEOUT           LONGER, FROM_TO(100 * NS_PER_MS, 7 * DAY_NS)
#define CREDENTIALS(section, object)                                                                         \
    {section, "token_file", take_path, object(credentials.token_file), .allowed = ABSOLUTE},                 \
        {section, "admin_token_file", take_path, object(credentials.admin_token_file), .allowed = ABSOLUTE}, \
        {section, "ca_file", take_path, object(credentials.ca_file), .allowed = ABSOLUTE},                   \
        {section, "cert_file", take_path, object(credentials.cert_file), .allowed = ABSOLUTE},               \
    {                                                                                                        \
        section, "key_file", take_path, object(credentials.key_file), .allowed = ABSOLUTE                    \
    }

/* clang-format off */
static const struct config_key keys[] = {
    {SECTION_PROFD, "state_dir", take_path, CONFIG(state_dir), .fixed = true, .allowed = ABSOLUTE},
    {SECTION_PROFD, "socket", take_path, CONFIG(api.socket), .fixed = true, .allowed = ABSOLUTE},
    {SECTION_PROFD, "group", take_name, CONFIG(api.group), .fixed = true, .initial = "profd", .allowed = "the name of a group"},
    {SECTION_PROFD, "listen", take_listen, CONFIG(api.listen), .fixed = true, .allowed = "addresses and ports such as 127.0.0.1:9460"},
    {SECTION_PROFD, "bus", take_word, CONFIG(api.bus), .fixed = true, .words = buses, FROM_TO(BUS_KIND_NONE, BUS_KIND_SESSION), .initial = "none", .allowed = "system, session or none"},
    {SECTION_PROFD, "log_level", take_word, CONFIG(log_level), .words = log_levels, FROM_TO(LOG_ERR, LOG_DEBUG), .initial = "info", .allowed = "error, warning, notice, info or debug"},

    {SECTION_TIMEOUTS, "connect", take_duration, CONFIG(session.connect_timeout_ns), .initial = "3s", .allowed = TIMEOUT},
    {SECTION_TIMEOUTS, "identify", take_duration, CONFIG(fleet.identify_timeout_ns), .initial = "5s", .allowed = TIMEOUT},
    {SECTION_TIMEOUTS, "start", take_duration, CONFIG(session.start_timeout_ns), .initial = "30s", .allowed = TIMEOUT},
    {SECTION_TIMEOUTS, "clean", take_duration, CONFIG(session.clean_timeout_ns), .initial = "60s", .allowed = TIMEOUT},
    {SECTION_TIMEOUTS, "stop", take_duration, CONFIG(session.stop_timeout_ns), .initial = "30min", .allowed = TIMEOUT},
    {SECTION_TIMEOUTS, "session", take_duration, CONFIG(session.session_limit_ns), .initial = "10min", .allowed = TIMEOUT},
    {SECTION_TIMEOUTS, "run", take_duration, CONFIG(load.run_limit_ns), .initial = "6h", .allowed = TIMEOUT},

    {SECTION_LIMITS, "workers", take_count, CONFIG(fleet.workers_max), FROM_TO(1, 100000), .initial = "10000", .allowed = "a number from 1 to 100000"},
    {SECTION_LIMITS, "sessions", take_count, CONFIG(session.sessions_max), FROM_TO(1, 1000), .initial = "32", .allowed = "a number from 1 to 1000"},
    {SECTION_LIMITS, "connections", take_count, CONFIG(api.connections_max), FROM_TO(1, 100000), .initial = "256", .allowed = "a number from 1 to 100000"},
    {SECTION_LIMITS, "response_memory", take_bytes, CONFIG(fleet.response_memory_max), FROM_TO(1 << 20, INT64_C(1) << 40), .initial = "64M", .allowed = "a size such as 64M, from 1M to 1T"},

    {SECTION_COLLECT, "mode", take_word, CONFIG(collect.collect_mode), .words = collect_modes, FROM_TO(COLLECT_COPY, COLLECT_REFERENCE), .initial = "copy", .allowed = "copy or reference"},
    {SECTION_COLLECT, "remove_original", take_yes_no, CONFIG(collect.remove_original), .initial = "no", .allowed = "yes or no"},
    {SECTION_COLLECT, "settle", take_duration, CONFIG(collect.settle_ns), .initial = "10s", .allowed = TIMEOUT},
    {SECTION_COLLECT, "watch", add_watch, .allowed = ABSOLUTE},
    {SECTION_COLLECT, "file_max", take_bytes, CONFIG(collect.file_max), FROM_TO(1 << 20, INT64_C(1) << 50), .initial = "64G", .allowed = "a size such as 64G, from 1M to 1P"},
    {SECTION_COLLECT, "columns", take_yes_no, CONFIG(collect.columns), .initial = "yes", .allowed = "yes or no"},
    {SECTION_COLLECT, "columns_memory", take_bytes, CONFIG(collect.columns_memory), FROM_TO(64 << 20, INT64_C(1) << 40), .initial = "1536M", .allowed = "a size such as 1536M, from 64M to 1T"},
    {SECTION_COLLECT, "unclaimed_per_minute", take_count, CONFIG(collect.unclaimed_per_minute), FROM_TO(0, 100000), .initial = "10", .allowed = "a number from 0 to 100000"},
    {SECTION_COLLECT, "children", take_count, CONFIG(children_max), FROM_TO(1, 64), .initial = "2", .allowed = "a number from 1 to 64"},

    {SECTION_STORE, "max_use", take_bytes_or_auto, CONFIG(store.max_use), FROM_TO(1 << 20, INT64_C(1) << 60), .initial = "auto", .allowed = "a size such as 200G, at least 1M, or auto"},
    {SECTION_STORE, "keep_free", take_bytes_or_auto, CONFIG(store.keep_free), FROM_TO(1 << 20, INT64_C(1) << 60), .initial = "auto", .allowed = "a size such as 4G, at least 1M, or auto"},
    {SECTION_STORE, "per_user", take_share, CONFIG(store.per_user), FROM_TO(1 << 20, INT64_C(1) << 60), .initial = "auto", .allowed = "a size such as 50G, at least 1M, a part of max_use= such as 20%, or auto"},

    {SECTION_LOAD, "runs", take_count, CONFIG(load.runs_max), FROM_TO(1, 64), .initial = "4", .allowed = "a number from 1 to 64"},
    {SECTION_LOAD, "requests_max", take_count, CONFIG(load.requests_max), FROM_TO(1, 10000000), .initial = "1000000", .allowed = "a number from 1 to 10000000"},
    {SECTION_LOAD, "memory", take_bytes, CONFIG(load.memory_max), FROM_TO(64 << 20, INT64_C(1) << 40), .initial = "4G", .allowed = "a size such as 4G, from 64M to 1T"},

    {SECTION_HTTP, "tokens_file", take_path, CONFIG(api.tokens_file), .allowed = ABSOLUTE},
    {SECTION_HTTP, "cert_file", take_path, CONFIG(api.cert_file), .allowed = ABSOLUTE},
    {SECTION_HTTP, "key_file", take_path, CONFIG(api.key_file), .allowed = ABSOLUTE},
    {SECTION_HTTP, "client_ca_file", take_path, CONFIG(api.client_ca_file), .allowed = ABSOLUTE},
    {SECTION_HTTP, "plain_http", take_yes_no, CONFIG(api.plain_http), .initial = "no", .allowed = "yes or no"},
    {SECTION_HTTP, "host", add_host, .allowed = "the name of a host, without a port"},
    {SECTION_HTTP, "open_to", add_range, .allowed = "an address, or a range of them such as 10.0.0.0/8"},

    {SECTION_NETWORK, "allow", add_network, .initial = NETWORK_DEFAULT, .allowed = "networks such as 10.0.0.0/8, addresses, \"loopback\" or \"private\""},

    {SECTION_FLEET, "router", take_url, FLEET(router), .allowed = "a URL"},
    {SECTION_FLEET, "router_log", take_path, FLEET(router_log), .allowed = ABSOLUTE},
    {SECTION_FLEET, "worker", add_worker, .allowed = "a URL"},
    {SECTION_FLEET, "dialect", take_dialect, FLEET(dialect), .initial = "auto", .allowed = "a dialect"},
    {SECTION_FLEET, "trace_dir", take_place, FLEET(trace_dir), .allowed = PLACE},
    {SECTION_FLEET, "output_dir", take_place, FLEET(output_dir), .allowed = PLACE},
    {SECTION_FLEET, "map_path", add_map, .allowed = "two absolute paths, /in/the/container:/on/this/host"},
    CREDENTIALS(SECTION_FLEET, FLEET),

    {SECTION_WORKER, "role", take_role, WORKER(role), FROM_TO(0, _ROLE_MAX - 1), .initial = "unknown", .allowed = "regular, prefill, decode, encode or unknown"},
    {SECTION_WORKER, "trace_dir", take_place, WORKER(trace_dir), .allowed = PLACE},
    {SECTION_WORKER, "output_dir", take_place, WORKER(output_dir), .allowed = PLACE},
    CREDENTIALS(SECTION_WORKER, WORKER),
};
/* clang-format on */

static const struct {
    const char *name;
    const char *shown; /* as people write its heading */
    bool named;
} sections[_SECTION_MAX] = {
    [SECTION_PROFD] = {"profd", "[profd]"},
    [SECTION_TIMEOUTS] = {"timeouts", "[timeouts]"},
    [SECTION_LIMITS] = {"limits", "[limits]"},
    [SECTION_COLLECT] = {"collect", "[collect]"},
    [SECTION_STORE] = {"store", "[store]"},
    [SECTION_LOAD] = {"load", "[load]"},
    [SECTION_HTTP] = {"http", "[http]"},
    [SECTION_NETWORK] = {"network", "[network]"},
    [SECTION_FLEET] = {"fleet", "[fleet NAME]", true},
    [SECTION_WORKER] = {"worker", "[worker URL]", true},
};

const char *config_section_name(enum config_section s)
{
    return sections[s].name;
}

int config_section_find(const char *heading, const char **ret_name)
{
    for (int s = 0; s < _SECTION_MAX; s++) {
        size_t n = strlen(sections[s].name);
        if (strncmp(heading, sections[s].name, n) != 0)
            continue;
        if (!sections[s].named && heading[n] == '\0') {
            *ret_name = NULL;
            return s;
        }
        if (sections[s].named && isspace((unsigned char)heading[n])) {
            const char *name = heading + n + strspn(heading + n, " \t");
            *ret_name = name;
            return s;
        }
    }
    return -1;
}

const struct config_key *config_key_at(size_t i)
{
    return i < ARRAY_SIZE(keys) ? &keys[i] : NULL;
}

const struct config_key *config_key_find(enum config_section s, const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (keys[i].section == s && streq(keys[i].name, name))
            return &keys[i];
    return NULL;
}

static const struct {
    enum config_section section;
    const char *old_name, *name;
} renamed_keys[] = {
    {SECTION_LIMITS, "answers", "response_memory"},
};

const char *config_renamed_key(enum config_section s, const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(renamed_keys); i++)
        if (renamed_keys[i].section == s && streq(renamed_keys[i].old_name, name))
            return renamed_keys[i].name;
    return NULL;
}

/* -- Sections with a name ----------------------------------------------------------------------------- */

static void set_initials(enum config_section s, void *object)
{
    char *reason = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (keys[i].section == s && keys[i].initial)
            keys[i].parse(&keys[i], keys[i].initial, object, &reason);
    free(reason);
}

static void *fleet_object(struct config *c, const char *name, char **ret_reason)
{
    struct fleet_settings *s = &c->fleet;

    if (!is_name(name)) {
        *ret_reason = xstrdup("the name must be letters, digits, '.', '_' and '-', at most 64 of them");
        return NULL;
    }
    for (size_t i = 0; i < s->n_fleets; i++)
        if (streq(s->fleets[i].name, name))
            return &s->fleets[i];
    VEC_GROW(s->fleets, s->n_fleets, s->cap_fleets);
    struct fleet_config *fleet = &s->fleets[s->n_fleets++];
    *fleet = (struct fleet_config){.name = xstrdup(name)};
    set_initials(SECTION_FLEET, fleet);
    return fleet;
}

static void *worker_object(struct config *c, const char *name, char **ret_reason)
{
    struct fleet_settings *s = &c->fleet;
    _cleanup_(freep) char *url = NULL;

    if (normal_url(name, &url, ret_reason) < 0)
        return NULL;
    for (size_t i = 0; i < s->n_workers; i++)
        if (streq(s->workers[i].url, url))
            return &s->workers[i];
    VEC_GROW(s->workers, s->n_workers, s->cap_workers);
    struct worker_config *worker = &s->workers[s->n_workers++];
    *worker = (struct worker_config){.url = TAKE_PTR(url)};
    set_initials(SECTION_WORKER, worker);
    return worker;
}

void *config_section_object(struct config *c, enum config_section s, const char *name, char **ret_reason)
{
    switch (s) {
    case SECTION_FLEET:
        return fleet_object(c, name, ret_reason);
    case SECTION_WORKER:
        return worker_object(c, name, ret_reason);
    default:
        return c;
    }
}

/* -- What was meant ----------------------------------------------------------------------------------- */

/* Edits that lead from a to b, by the usual table, of which one row is kept. */
static size_t distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_BYTES + 1], n = strlen(b);

    if (n > NAME_MAX_BYTES || strlen(a) > NAME_MAX_BYTES)
        return SIZE_MAX;
    for (size_t k = 0; k <= n; k++)
        row[k] = k;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t k = 0; k < n; k++) {
            size_t change = diagonal + (a[i] != b[k]);
            diagonal = row[k + 1];
            row[k + 1] = MIN(change, MIN(row[k], diagonal) + 1);
        }
    }
    return row[n];
}

struct guess {
    const char *word;
    size_t edits;
};

static void consider(struct guess *g, const char *written, const char *known, const char *shown)
{
    size_t edits = distance(written, known);
    if (edits <= strlen(known) / 2 && (!g->word || edits < g->edits))
        *g = (struct guess){shown, edits};
}

const char *config_nearest_key(enum config_section s, const char *name)
{
    struct guess g = {0};
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (keys[i].section == s)
            consider(&g, name, keys[i].name, keys[i].name);
    return g.word;
}

const char *config_nearest_section(const char *heading)
{
    struct guess g = {0};
    _cleanup_(freep) char *word = xstrndup(heading, strcspn(heading, " \t"));
    for (int s = 0; s < _SECTION_MAX; s++)
        consider(&g, word, sections[s].name, sections[s].shown);
    return g.word;
}
