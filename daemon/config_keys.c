/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config_keys.h"

#include "archive/archive_url.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "base/units.h"
#include "base/uuid.h"
#include "daemon/fleet/dns_records.h"
#include "daemon/fleet/router.h"
#include "daemon/fleet/url.h"
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <syslog.h>

#define NAME_MAX_BYTES 64
#define DAY_NS         (86400 * NS_PER_S)

/* -- Values ------------------------------------------------------------------------------------------- */

static void *key_field(const struct config_key *key, void *object)
{
    return (char *)object + key->offset;
}

static int key_put_number(const struct config_key *key, void *object, int64_t value)
{
    if (value < key->min || value > key->max)
        return -EINVAL;
    if (key->width == sizeof(int64_t))
        *(int64_t *)key_field(key, object) = value;
    else
        *(int *)key_field(key, object) = (int)value;
    return 0;
}

static int key_take_duration(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    int64_t ns;
    return parse_duration(value, &ns) < 0 ? -EINVAL : key_put_number(key, object, ns);
}

/* What Kineto takes in seconds. */
static int key_take_seconds(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    int64_t ns;
    return parse_duration(value, &ns) < 0 || ns % NS_PER_S != 0 ? -EINVAL : key_put_number(key, object, ns);
}

static int key_take_count(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    char *end;
    errno = 0;
    long long n = strtoll(value, &end, 10);
    if (!isdigit((unsigned char)*value) || *end || errno)
        return -EINVAL;
    return key_put_number(key, object, n);
}

static int key_take_bytes(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    int64_t bytes;
    return parse_size(value, &bytes) < 0 ? -EINVAL : key_put_number(key, object, bytes);
}

/* 0 is what the store calls its own choice. */
static int key_take_bytes_or_auto(const struct config_key *key, const char *value, void *object,
                                  char **ret_reason)
{
    if (!streq(value, "auto"))
        return key_take_bytes(key, value, object, ret_reason);
    *(int64_t *)key_field(key, object) = 0;
    return 0;
}

/* Percent are negative. */
static int key_take_share(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    size_t digits = strspn(value, "0123456789");
    int64_t percent = strtoll(value, NULL, 10);

    if (digits == 0 || digits > 3 || !streq(value + digits, "%"))
        return key_take_bytes_or_auto(key, value, object, ret_reason);
    if (percent < 1 || percent > 100)
        return -EINVAL;
    *(int64_t *)key_field(key, object) = -percent;
    return 0;
}

static int key_take_yes_no(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    return parse_bool(value, key_field(key, object));
}

static int key_take_word(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    for (int64_t i = key->min; i <= key->max; i++)
        if (streq(key->words[i], value))
            return key_put_number(key, object, i);
    return -EINVAL;
}

static bool key_is_name(const char *s)
{
    size_t n = strlen(s);
    return n > 0 && n <= NAME_MAX_BYTES && s[0] != '-' && s[0] != '.' &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static int key_take_name(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    if (!key_is_name(value))
        return -EINVAL;
    replace_str(key_field(key, object), value);
    return 0;
}

static bool key_is_absolute(const char *path)
{
    return path[0] == '/';
}

static int key_take_host(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    if (!host_is_name(value))
        return -EINVAL;
    replace_str(key_field(key, object), value);
    return 0;
}

static int key_take_path(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    if (!key_is_absolute(value))
        return -EINVAL;
    replace_str(key_field(key, object), value);
    return 0;
}

/* A directory as a worker names it, which may be no directory of this host at all. */
static int key_take_place(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    return strstr(value, "://") ? -EINVAL : key_take_path(key, value, object, ret_reason);
}

static int key_take_listen(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    struct listen_address addresses[LISTEN_MAX];
    const char *reason = NULL;
    size_t n;

    if (listen_addresses_parse(value, addresses, LISTEN_MAX, &n, &reason) < 0) {
        *ret_reason = xstrdup(reason);
        return -EINVAL;
    }
    replace_str(key_field(key, object), value);
    return 0;
}

static int key_read_url(const char *value, char **ret, char **ret_reason)
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

static int key_take_url(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    char **field = key_field(key, object), *url;

    if (key_read_url(value, &url, ret_reason) < 0)
        return -EINVAL;
    free(*field);
    *field = url;
    return 0;
}

/* The page hands traces to a window at this URL: nobody on the way may exchange what runs there. */
static int key_take_perfetto(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    bool is_plain = starts_with(value, "http://");
    const char *reason;
    struct url url;
    size_t n = strlen(value);

    if ((!is_plain && !starts_with(value, "https://")) || !url_path_is_plain(value + strcspn(value, "/")) ||
        strpbrk(value, "?#\"'<>\\") || url_parse(value, &url, &reason) < 0 ||
        (is_plain && !host_is_loopback(url.host)))
        return -EINVAL;
    while (value[n - 1] == '/')
        n--;
    _cleanup_(freep) char *text = xstrndup(value, n);
    replace_str(key_field(key, object), text);
    return 0;
}

/* The form of its value depends on other keys: source_config_check(), when all are read. */
static int key_take_source(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    return source_config_set(&((struct fleet_config *)object)->by, source_find(key->name), value, ret_reason);
}

static int key_take_address(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    const char *reason;

    if (dns_resolver_check(value, &reason) < 0)
        return -EINVAL;
    replace_str(key_field(key, object), value);
    return 0;
}

static int key_take_text(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    replace_str(key_field(key, object), value);
    return 0;
}

static int key_take_dialect(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    if (!streq(value, "auto") && !router_dialect_find(value)) {
        _cleanup_(freep) char *names = router_dialect_names();
        *ret_reason = xasprintf("must be one of %s", names);
        return -EINVAL;
    }
    replace_str(key_field(key, object), value);
    return 0;
}

static int key_take_role(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    int role = role_from_name(value);
    return role < 0 ? -EINVAL : key_put_number(key, object, role);
}

static int key_add_worker(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    struct fleet_config *fleet = object;
    char *url;

    if (key_read_url(value, &url, ret_reason) < 0)
        return -EINVAL;
    VEC_GROW(fleet->workers, fleet->n_workers, fleet->cap_workers);
    fleet->workers[fleet->n_workers++] = url;
    return 0;
}

static int key_add_map(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    struct fleet_config *fleet = object;
    const char *colon = strchr(value, ':');

    if (!colon || !key_is_absolute(value) || !key_is_absolute(colon + 1))
        return -EINVAL;
    VEC_GROW(fleet->maps, fleet->n_maps, fleet->cap_maps);
    fleet->maps[fleet->n_maps++] =
        (struct path_map){.from = xstrndup(value, (size_t)(colon - value)), .to = xstrdup(colon + 1)};
    return 0;
}

static int key_add_watch(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    struct collect_settings *s = &((struct config *)object)->collect;

    if (!key_is_absolute(value))
        return -EINVAL;
    VEC_GROW(s->watch, s->n_watch, s->cap_watch);
    s->watch[s->n_watch++] = xstrdup(value);
    return 0;
}

static int key_add_host(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    struct api_settings *s = &((struct config *)object)->api;

    if (!host_is_name(value))
        return -EINVAL;
    VEC_GROW(s->hosts, s->n_hosts, s->cap_hosts);
    s->hosts[s->n_hosts++] = xstrdup(value);
    return 0;
}

static int key_add_range(const struct config_key *key, const char *value, void *object, char **ret_reason)
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

static int key_add_peer_source(const struct config_key *key, const char *value, void *object,
                               char **ret_reason)
{
    struct hosts_settings *s = &((struct config *)object)->hosts;
    const char *reason;

    if (peer_source_check(value, &reason) < 0) {
        *ret_reason = xasprintf("must be %s", reason);
        return -EINVAL;
    }
    VEC_GROW(s->sources, s->n_sources, s->cap_sources);
    s->sources[s->n_sources++] = xstrdup(value);
    return 0;
}

static int key_add_peer_address(const struct config_key *key, const char *value, void *object,
                                char **ret_reason)
{
    struct peer_config *peer = object;
    struct in6_addr address;

    if (address_parse(value, &address) < 0)
        return -EINVAL;
    VEC_GROW(peer->addresses, peer->n_addresses, peer->cap_addresses);
    peer->addresses[peer->n_addresses++] = address;
    return 0;
}

static int key_take_peer_uuid(const struct config_key *key, const char *value, void *object,
                              char **ret_reason)
{
    if (!uuid_is(value) && !streq(value, PEER_UUID_ANY))
        return -EINVAL;
    replace_str(&((struct peer_config *)object)->host_uuid, value);
    return 0;
}

static int key_add_network(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    return network_add(&((struct config *)object)->network, value, ret_reason);
}

static int key_take_kineto(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    int r = kineto_listen_parse(value, NULL, ret_reason);

    if (r == 0)
        replace_str(key_field(key, object), value);
    return r;
}

static int key_take_archive(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    struct archive_url url;
    const char *reason;

    if (archive_url_parse(value, &url, &reason) < 0) {
        *ret_reason = xasprintf("must be %s: %s", key->allowed, reason);
        return -EINVAL;
    }
    archive_url_done(&url);
    replace_str(key_field(key, object), value);
    return 0;
}

static int key_take_endpoint(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    struct archive_endpoint endpoint;
    const char *reason;

    if (archive_endpoint_parse(value, &endpoint, &reason) < 0) {
        *ret_reason = xasprintf("must be %s: %s", key->allowed, reason);
        return -EINVAL;
    }
    archive_endpoint_done(&endpoint);
    replace_str(key_field(key, object), value);
    return 0;
}

static int key_take_region(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    if (!archive_region_is_valid(value))
        return -EINVAL;
    replace_str(key_field(key, object), value);
    return 0;
}

static int key_take_kms_key(const struct config_key *key, const char *value, void *object, char **ret_reason)
{
    if (!archive_kms_key_is_valid(value))
        return -EINVAL;
    replace_str(key_field(key, object), value);
    return 0;
}

/* -- The tables --------------------------------------------------------------------------------------- */

static const char *const log_levels[] = {
    [LOG_ERR] = "error", [LOG_WARNING] = "warning", [LOG_NOTICE] = "notice",
    [LOG_INFO] = "info", [LOG_DEBUG] = "debug",
};
static const char *const archive_slices[] = {
    [ARCHIVE_SLICES_NONE] = "none", [ARCHIVE_SLICES_PARQUET] = "parquet"};
static const char *const archive_sse[] = {
    [ARCHIVE_SSE_NONE] = "none", [ARCHIVE_SSE_AES256] = "AES256", [ARCHIVE_SSE_KMS] = "aws:kms"};
static const char *const buses[] = {
    [BUS_KIND_NONE] = "none", [BUS_KIND_SYSTEM] = "system", [BUS_KIND_SESSION] = "session"};
static const char *const collect_modes[] = {[COLLECT_COPY] = "copy", [COLLECT_REFERENCE] = "reference"};

#define OF(type, member)                     .offset = offsetof(type, member), .width = sizeof(((type *)NULL)->member)
#define CONFIG(member)                       OF(struct config, member)
#define FLEET(member)                        OF(struct fleet_config, member)
#define WORKER(member)                       OF(struct worker_config, member)
#define PEER(member)                         OF(struct peer_config, member)
#define FROM_TO(from, to)                    .min = (from), .max = (to)

#define KEY_OF_SOURCE(key, value, help, arg) {SECTION_FLEET, #key, key_take_source, 0, .allowed = value},
#define KEY_OF_MEMBER(member, option, value, help, of, arg)                                                  \
    {SECTION_FLEET, #member, key_take_text, FLEET(by.member), .allowed = value},

#define KEY_OF_CREDENTIAL(member, kind, of, arg)                                                             \
    {SECTION_FLEET, #member, key_take_##kind, FLEET(by.member), .allowed = ALLOWED_##kind},
#define ALLOWED_path    ABSOLUTE
#define ALLOWED_address "the address of a name server, such as 127.0.0.1:8600"
#define ALLOWED_url     "a URL"

#define ABSOLUTE        "an absolute path"
#define PLACE           "an absolute path on the worker's host; what is written to s3:// or gs:// cannot be collected"
#define LONGER          "a duration such as 30min, from 100ms to 7d"
#define TIMEOUT         LONGER, FROM_TO(100 * NS_PER_MS, 7 * DAY_NS)
#define CREDENTIALS(section, object)                                                                         \
    {section, "token_file", key_take_path, object(credentials.token_file), .allowed = ABSOLUTE},             \
        {section, "admin_token_file", key_take_path, object(credentials.admin_token_file),                   \
         .allowed = ABSOLUTE},                                                                               \
        {section, "ca_file", key_take_path, object(credentials.ca_file), .allowed = ABSOLUTE},               \
        {section, "cert_file", key_take_path, object(credentials.cert_file), .allowed = ABSOLUTE},           \
    {                                                                                                        \
        section, "key_file", key_take_path, object(credentials.key_file), .allowed = ABSOLUTE                \
    }

#define HOSTS(member) CONFIG(hosts.member)
#define PEER_CREDENTIALS(section, object)                                                                    \
    {section, "token_file", key_take_path, object(credentials.token_file), .allowed = ABSOLUTE},             \
        {section, "ca_file", key_take_path, object(credentials.ca_file), .allowed = ABSOLUTE},               \
        {section, "cert_file", key_take_path, object(credentials.cert_file), .allowed = ABSOLUTE},           \
    {                                                                                                        \
        section, "key_file", key_take_path, object(credentials.key_file), .allowed = ABSOLUTE                \
    }

/* clang-format off */
const struct config_key config_keys[] = {
    {SECTION_PROFD, "state_dir", key_take_path, CONFIG(state_dir), .fixed = true, .allowed = ABSOLUTE},
    {SECTION_PROFD, "socket", key_take_path, CONFIG(api.socket), .fixed = true, .allowed = ABSOLUTE},
    {SECTION_PROFD, "group", key_take_name, CONFIG(api.group), .fixed = true, .initial = "profd", .allowed = "the name of a group"},
    {SECTION_PROFD, "listen", key_take_listen, CONFIG(api.listen), .fixed = true, .allowed = "addresses and ports such as 127.0.0.1:9460"},
    {SECTION_PROFD, "bus", key_take_word, CONFIG(api.bus), .fixed = true, .words = buses, FROM_TO(BUS_KIND_NONE, BUS_KIND_SESSION), .initial = "none", .allowed = "system, session or none"},
    {SECTION_PROFD, "log_level", key_take_word, CONFIG(log_level), .words = log_levels, FROM_TO(LOG_ERR, LOG_DEBUG), .initial = "info", .allowed = "error, warning, notice, info or debug"},

    {SECTION_TIMEOUTS, "connect", key_take_duration, CONFIG(session.connect_timeout_ns), .initial = "3s", .allowed = TIMEOUT},
    {SECTION_TIMEOUTS, "identify", key_take_duration, CONFIG(fleet.identify_timeout_ns), .initial = "5s", .allowed = TIMEOUT},
    {SECTION_TIMEOUTS, "start", key_take_duration, CONFIG(session.start_timeout_ns), .initial = "30s", .allowed = TIMEOUT},
    {SECTION_TIMEOUTS, "clean", key_take_duration, CONFIG(session.clean_timeout_ns), .initial = "60s", .allowed = TIMEOUT},
    {SECTION_TIMEOUTS, "stop", key_take_duration, CONFIG(session.stop_timeout_ns), .initial = "30min", .allowed = TIMEOUT},
    {SECTION_TIMEOUTS, "session", key_take_duration, CONFIG(session.session_limit_ns), .initial = "10min", .allowed = TIMEOUT},
    {SECTION_TIMEOUTS, "run", key_take_duration, CONFIG(load.run_limit_ns), .initial = "6h", .allowed = TIMEOUT},

    {SECTION_LIMITS, "workers", key_take_count, CONFIG(fleet.workers_max), FROM_TO(1, 100000), .initial = "10000", .allowed = "a number from 1 to 100000"},
    {SECTION_LIMITS, "sessions", key_take_count, CONFIG(session.sessions_max), FROM_TO(1, 1000), .initial = "32", .allowed = "a number from 1 to 1000"},
    {SECTION_LIMITS, "connections", key_take_count, CONFIG(api.connections_max), FROM_TO(1, 100000), .initial = "256", .allowed = "a number from 1 to 100000"},
    {SECTION_LIMITS, "response_memory", key_take_bytes, CONFIG(fleet.response_memory_max), FROM_TO(1 << 20, INT64_C(1) << 40), .initial = "64M", .allowed = "a size such as 64M, from 1M to 1T"},
    {SECTION_LIMITS, "reports", key_take_count, CONFIG(reports.children_max), FROM_TO(1, 256), .initial = "2", .allowed = "a number from 1 to 256"},
    {SECTION_LIMITS, "report_memory", key_take_bytes, CONFIG(reports.memory_max), FROM_TO(64 << 20, INT64_C(1) << 40), .initial = "1536M", .allowed = "a size such as 1536M, from 64M to 1T"},

    {SECTION_COLLECT, "mode", key_take_word, CONFIG(collect.collect_mode), .words = collect_modes, FROM_TO(COLLECT_COPY, COLLECT_REFERENCE), .initial = "copy", .allowed = "copy or reference"},
    {SECTION_COLLECT, "remove_original", key_take_yes_no, CONFIG(collect.remove_original), .initial = "no", .allowed = "yes or no"},
    {SECTION_COLLECT, "settle", key_take_duration, CONFIG(collect.settle_ns), .initial = "10s", .allowed = TIMEOUT},
    {SECTION_COLLECT, "watch", key_add_watch, .allowed = ABSOLUTE},
    {SECTION_COLLECT, "file_max", key_take_bytes, CONFIG(collect.file_max), FROM_TO(1 << 20, INT64_C(1) << 50), .initial = "64G", .allowed = "a size such as 64G, from 1M to 1P"},
    {SECTION_COLLECT, "columns", key_take_yes_no, CONFIG(collect.columns), .initial = "yes", .allowed = "yes or no"},
    {SECTION_COLLECT, "columns_memory", key_take_bytes, CONFIG(collect.columns_memory), FROM_TO(64 << 20, INT64_C(1) << 40), .initial = "1536M", .allowed = "a size such as 1536M, from 64M to 1T"},
    {SECTION_COLLECT, "unclaimed_per_minute", key_take_count, CONFIG(collect.unclaimed_per_minute), FROM_TO(0, 100000), .initial = "10", .allowed = "a number from 0 to 100000"},
    {SECTION_COLLECT, "children", key_take_count, CONFIG(children_max), FROM_TO(1, 64), .initial = "2", .allowed = "a number from 1 to 64"},

    {SECTION_STORE, "max_use", key_take_bytes_or_auto, CONFIG(store.max_use), FROM_TO(1 << 20, INT64_C(1) << 60), .initial = "auto", .allowed = "a size such as 200G, at least 1M, or auto"},
    {SECTION_STORE, "keep_free", key_take_bytes_or_auto, CONFIG(store.keep_free), FROM_TO(1 << 20, INT64_C(1) << 60), .initial = "auto", .allowed = "a size such as 4G, at least 1M, or auto"},
    {SECTION_STORE, "per_user", key_take_share, CONFIG(store.per_user), FROM_TO(1 << 20, INT64_C(1) << 60), .initial = "auto", .allowed = "a size such as 50G, at least 1M, a part of max_use= such as 20%, or auto"},

    {SECTION_LOAD, "runs", key_take_count, CONFIG(load.runs_max), FROM_TO(1, 64), .initial = "4", .allowed = "a number from 1 to 64"},
    {SECTION_LOAD, "requests_max", key_take_count, CONFIG(load.requests_max), FROM_TO(1, 10000000), .initial = "1000000", .allowed = "a number from 1 to 10000000"},
    {SECTION_LOAD, "memory", key_take_bytes, CONFIG(load.memory_max), FROM_TO(64 << 20, INT64_C(1) << 40), .initial = "4G", .allowed = "a size such as 4G, from 64M to 1T"},

    {SECTION_HTTP, "tokens_file", key_take_path, CONFIG(api.tokens_file), .allowed = ABSOLUTE},
    {SECTION_HTTP, "cert_file", key_take_path, CONFIG(api.cert_file), .allowed = ABSOLUTE},
    {SECTION_HTTP, "key_file", key_take_path, CONFIG(api.key_file), .allowed = ABSOLUTE},
    {SECTION_HTTP, "client_ca_file", key_take_path, CONFIG(api.client_ca_file), .allowed = ABSOLUTE},
    {SECTION_HTTP, "plain_http", key_take_yes_no, CONFIG(api.plain_http), .initial = "no", .allowed = "yes or no"},
    {SECTION_HTTP, "host", key_add_host, .allowed = "the name of a host, without a port"},
    {SECTION_HTTP, "open_to", key_add_range, .allowed = "an address, or a range of them such as 10.0.0.0/8"},

    {SECTION_WEB, "perfetto", key_take_perfetto, CONFIG(api.perfetto), .initial = "https://ui.perfetto.dev", .allowed = "an https:// URL such as https://perfetto.example.com, or an http:// URL of loopback"},

    {SECTION_NETWORK, "allow", key_add_network, .initial = NETWORK_DEFAULT, .allowed = "networks such as 10.0.0.0/8, addresses, \"loopback\" or \"private\""},

    {SECTION_KINETO, "listen", key_take_kineto, CONFIG(kineto.listen), .fixed = true, .allowed = "\"abstract\", absolute directories, or both"},
    {SECTION_KINETO, "poll", key_take_duration, CONFIG(kineto.poll_ns), FROM_TO(100 * NS_PER_MS, 60 * NS_PER_S), .initial = "5s", .allowed = "a duration such as 5s, from 100ms to 60s"},
    {SECTION_KINETO, "warmup", key_take_seconds, CONFIG(kineto.warmup_ns), FROM_TO(0, 3600 * NS_PER_S), .initial = "5s", .allowed = "a duration in whole seconds such as 5s, from 0s to 1h"},

    {SECTION_HOSTS, "name", key_take_host, CONFIG(hosts.name), .allowed = "the name of a host, without a port"},
    {SECTION_HOSTS, "peers", key_add_peer_source, .allowed = "dns:NAME:PORT, slurm, slurm:PORT or workers:PORT"},
    PEER_CREDENTIALS(SECTION_HOSTS, HOSTS),
    {SECTION_HOSTS, "call", key_take_duration, CONFIG(hosts.call_ns), .initial = "5s", .allowed = TIMEOUT},
    {SECTION_HOSTS, "lease", key_take_duration, CONFIG(hosts.lease_ns), FROM_TO(10 * NS_PER_S, 300 * NS_PER_S), .initial = "30s", .allowed = "a duration such as 30s, from 10s to 5min"},
    {SECTION_HOSTS, "unreachable", key_take_duration, CONFIG(hosts.unreachable_ns), .initial = "10min", .allowed = TIMEOUT},
    {SECTION_HOSTS, "delivery", key_take_duration, CONFIG(hosts.delivery_ns), FROM_TO(60 * NS_PER_S, 365 * DAY_NS), .initial = "30d", .allowed = "a duration such as 30d, from 1min to 365d"},
    {SECTION_PEER, "url", key_take_url, PEER(url), .allowed = "a URL"},
    PEER_CREDENTIALS(SECTION_PEER, PEER),
    {SECTION_PEER, "host_uuid", key_take_peer_uuid, .allowed = "the UUID of its catalog as profctl list-hosts --format wide shows it, or any"},
    {SECTION_PEER, "addresses", key_add_peer_address, .allowed = "an address such as 10.0.0.7"},

    {SECTION_ARCHIVE, "url", key_take_archive, CONFIG(archive.url), .allowed = "s3://BUCKET, s3://BUCKET/PREFIX or file:///DIRECTORY"},
    {SECTION_ARCHIVE, "endpoint", key_take_endpoint, CONFIG(archive.endpoint), .allowed = "a URL of an S3 service such as https://s3.example.com:9000"},
    {SECTION_ARCHIVE, "region", key_take_region, CONFIG(archive.region), .initial = "us-east-1", .allowed = "the name of a region such as eu-central-1"},
    {SECTION_ARCHIVE, "credentials_file", key_take_path, CONFIG(archive.credentials_file), .allowed = ABSOLUTE},
    {SECTION_ARCHIVE, "reader_credentials_file", key_take_path, CONFIG(archive.reader_credentials_file), .allowed = ABSOLUTE},
    {SECTION_ARCHIVE, "delete_credentials_file", key_take_path, CONFIG(archive.delete_credentials_file), .allowed = ABSOLUTE},
    {SECTION_ARCHIVE, "ca_file", key_take_path, CONFIG(archive.ca_file), .allowed = ABSOLUTE},
    {SECTION_ARCHIVE, "sse", key_take_word, CONFIG(archive.sse), .words = archive_sse, FROM_TO(ARCHIVE_SSE_NONE, ARCHIVE_SSE_KMS), .initial = "none", .allowed = "none, AES256 or aws:kms"},
    {SECTION_ARCHIVE, "sse_kms_key_id", key_take_kms_key, CONFIG(archive.sse_kms_key_id), .allowed = "the id, alias or ARN of a key"},
    {SECTION_ARCHIVE, "rate", key_take_bytes, CONFIG(archive.rate), FROM_TO(64 << 10, INT64_C(1) << 40), .allowed = "bytes per second such as 50M, from 64K to 1T"},
    {SECTION_ARCHIVE, "transfers", key_take_count, CONFIG(archive.transfers), FROM_TO(1, 16), .initial = "2", .allowed = "a number from 1 to 16"},
    {SECTION_ARCHIVE, "slices", key_take_word, CONFIG(archive.slices), .words = archive_slices, FROM_TO(ARCHIVE_SLICES_NONE, ARCHIVE_SLICES_PARQUET), .initial = "none", .allowed = "none or parquet"},

    {SECTION_MIRROR, "url", key_take_text, CONFIG(mirror.url), .allowed = "postgresql://USER@HOST:PORT/DATABASE"},
    {SECTION_MIRROR, "reader", key_take_text, CONFIG(mirror.reader), .allowed = "postgresql://USER@HOST:PORT/DATABASE, without a password"},
    {SECTION_MIRROR, "passfile", key_take_path, CONFIG(mirror.passfile), .allowed = ABSOLUTE},
    {SECTION_MIRROR, "timeout", key_take_duration, CONFIG(mirror.timeout_ns), .initial = "60s", .allowed = TIMEOUT},
    {SECTION_MIRROR, "batch", key_take_count, CONFIG(mirror.batch_max), FROM_TO(1, 10000), .initial = "500", .allowed = "a number from 1 to 10000"},

    {SECTION_FLEET, "router", key_take_url, FLEET(router), .allowed = "a URL"},
    {SECTION_FLEET, "router_log", key_take_path, FLEET(router_log), .allowed = ABSOLUTE},
    {SECTION_FLEET, "worker", key_add_worker, .allowed = "a URL"},
    FLEET_SOURCES(KEY_OF_SOURCE, )
    SOURCE_MEMBERS(KEY_OF_MEMBER, )
    SOURCE_KEYS(KEY_OF_CREDENTIAL, )
    {SECTION_FLEET, "dialect", key_take_dialect, FLEET(dialect), .initial = "auto", .allowed = "a dialect"},
    {SECTION_FLEET, "system_port", key_take_count, FLEET(system_port), FROM_TO(1, UINT16_MAX), .allowed = "a port, 1 to 65535"},
    {SECTION_FLEET, "trace_dir", key_take_place, FLEET(trace_dir), .allowed = PLACE},
    {SECTION_FLEET, "output_dir", key_take_place, FLEET(output_dir), .allowed = PLACE},
    {SECTION_FLEET, "map_path", key_add_map, .allowed = "two absolute paths, /in/the/container:/on/this/host"},
    CREDENTIALS(SECTION_FLEET, FLEET),

    {SECTION_WORKER, "role", key_take_role, WORKER(role), FROM_TO(0, _ROLE_MAX - 1), .initial = "unknown", .allowed = "regular, prefill, decode, encode or unknown"},
    {SECTION_WORKER, "trace_dir", key_take_place, WORKER(trace_dir), .allowed = PLACE},
    {SECTION_WORKER, "output_dir", key_take_place, WORKER(output_dir), .allowed = PLACE},
    CREDENTIALS(SECTION_WORKER, WORKER),
};
/* clang-format on */

const size_t n_config_keys = ARRAY_SIZE(config_keys);

const struct config_section_word config_sections[_SECTION_MAX] = {
    [SECTION_PROFD] = {"profd", "[profd]"},
    [SECTION_TIMEOUTS] = {"timeouts", "[timeouts]"},
    [SECTION_LIMITS] = {"limits", "[limits]"},
    [SECTION_COLLECT] = {"collect", "[collect]"},
    [SECTION_STORE] = {"store", "[store]"},
    [SECTION_LOAD] = {"load", "[load]"},
    [SECTION_HTTP] = {"http", "[http]"},
    [SECTION_WEB] = {"web", "[web]"},
    [SECTION_NETWORK] = {"network", "[network]"},
    [SECTION_KINETO] = {"kineto", "[kineto]"},
    [SECTION_HOSTS] = {"hosts", "[hosts]"},
    [SECTION_PEER] = {"peer", "[peer NAME]", true},
    [SECTION_ARCHIVE] = {"archive", "[archive]"},
    [SECTION_MIRROR] = {"mirror", "[mirror]"},
    [SECTION_FLEET] = {"fleet", "[fleet NAME]", true},
    [SECTION_WORKER] = {"worker", "[worker URL]", true},
};

const struct config_key *config_key_find(enum config_section s, const char *name)
{
    for (size_t i = 0; i < n_config_keys; i++)
        if (config_keys[i].section == s && streq(config_keys[i].name, name))
            return &config_keys[i];
    return NULL;
}

/* -- Sections with a name ----------------------------------------------------------------------------- */

static void section_set_defaults(enum config_section s, void *object)
{
    char *reason = NULL;
    for (size_t i = 0; i < n_config_keys; i++)
        if (config_keys[i].section == s && config_keys[i].initial)
            config_keys[i].parse(&config_keys[i], config_keys[i].initial, object, &reason);
    free(reason);
}

static void *section_fleet(struct config *c, const char *name, char **ret_reason)
{
    struct fleet_settings *s = &c->fleet;

    if (!key_is_name(name)) {
        *ret_reason = xstrdup("the name must be letters, digits, '.', '_' and '-', at most 64 of them");
        return NULL;
    }
    for (size_t i = 0; i < s->n_fleets; i++)
        if (streq(s->fleets[i].name, name))
            return &s->fleets[i];
    VEC_GROW(s->fleets, s->n_fleets, s->cap_fleets);
    struct fleet_config *fleet = &s->fleets[s->n_fleets++];
    *fleet = (struct fleet_config){.name = xstrdup(name)};
    section_set_defaults(SECTION_FLEET, fleet);
    return fleet;
}

static void *section_peer(struct config *c, const char *name, char **ret_reason)
{
    struct hosts_settings *s = &c->hosts;

    if (!key_is_name(name)) {
        *ret_reason = xstrdup("the name must be letters, digits, '.', '_' and '-', at most 64 of them");
        return NULL;
    }
    for (size_t i = 0; i < s->n_peers; i++)
        if (streq(s->peers[i].name, name))
            return &s->peers[i];
    VEC_GROW(s->peers, s->n_peers, s->cap_peers);
    struct peer_config *peer = &s->peers[s->n_peers++];
    *peer = (struct peer_config){.name = xstrdup(name)};
    section_set_defaults(SECTION_PEER, peer);
    return peer;
}

static void *section_worker(struct config *c, const char *name, char **ret_reason)
{
    struct fleet_settings *s = &c->fleet;
    _cleanup_(freep) char *url = NULL;

    if (key_read_url(name, &url, ret_reason) < 0)
        return NULL;
    for (size_t i = 0; i < s->n_workers; i++)
        if (streq(s->workers[i].url, url))
            return &s->workers[i];
    VEC_GROW(s->workers, s->n_workers, s->cap_workers);
    struct worker_config *worker = &s->workers[s->n_workers++];
    *worker = (struct worker_config){.url = TAKE_PTR(url)};
    section_set_defaults(SECTION_WORKER, worker);
    return worker;
}

void *config_section_object(struct config *c, enum config_section s, const char *name, char **ret_reason)
{
    switch (s) {
    case SECTION_FLEET:
        return section_fleet(c, name, ret_reason);
    case SECTION_WORKER:
        return section_worker(c, name, ret_reason);
    case SECTION_PEER:
        return section_peer(c, name, ret_reason);
    default:
        return c;
    }
}
