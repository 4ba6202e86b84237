/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/config.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/fs.h"
#include "base/runtime_paths.h"
#include "base/text.h"
#include "daemon/config_keys.h"
#include "daemon/fleet/url.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>

#define SYSTEM_FILE    "/etc/profd/profd.conf"
#define LINE_BYTES_MAX 1000
/* By LoadCredential=profd.tokens:FILE, and by the unit's LoadCredential=profd:DIRECTORY of the file "tokens"
 * there. */
static const char *const token_credentials[] = {"profd.tokens", "profd_tokens"};

/* -- Errors ------------------------------------------------------------------------------------------- */

void config_errors_done(struct config_errors *e)
{
    for (size_t i = 0; i < e->n; i++)
        free(e->items[i]);
    free(e->items);
    *e = (struct config_errors){0};
}

_printf_(2, 3) static void config_add_error(struct config_errors *e, const char *format, ...)
{
    va_list ap;

    if (e->n > CONFIG_ERRORS_MAX)
        return;
    VEC_GROW(e->items, e->n, e->cap);
    va_start(ap, format);
    e->items[e->n] = e->n == CONFIG_ERRORS_MAX ? xstrdup("... and more") : xvasprintf(format, ap);
    va_end(ap);
    e->n++;
}

/* -- Life --------------------------------------------------------------------------------------------- */

void config_init(struct config *c)
{
    *c = (struct config){0};
    for (size_t i = 0; i < n_config_keys; i++) {
        const struct config_key *key = &config_keys[i];
        char *reason = NULL;
        if (key->initial && !config_sections[key->section].named)
            key->parse(key, key->initial, c, &reason);
        free(reason);
    }
    c->network.replaceable = true;
}

void config_done(struct config *c)
{
    free(c->state_dir);
    free(c->store.path);
    free(c->store.columns_path);
    for (size_t i = 0; i < c->collect.n_watch; i++)
        free(c->collect.watch[i]);
    free(c->collect.watch);
    fleet_settings_done(&c->fleet);
    api_settings_done(&c->api);
    network_done(&c->network);
    hosts_settings_done(&c->hosts);
    free(c->kineto.listen);
    char *const archive[] = {c->archive.url,
                             c->archive.endpoint,
                             c->archive.region,
                             c->archive.credentials_file,
                             c->archive.reader_credentials_file,
                             c->archive.delete_credentials_file,
                             c->archive.ca_file};
    for (size_t i = 0; i < ARRAY_SIZE(archive); i++)
        free(archive[i]);
    free(c->mirror.url);
    free(c->mirror.reader);
    free(c->mirror.passfile);
    *c = (struct config){0};
}

/* -- What was meant ----------------------------------------------------------------------------------- */

static const char *config_nearest_key(int s, const char *name)
{
    _cleanup_(freep) const char **names = xcalloc(n_config_keys, sizeof(*names));
    size_t n = 0;

    for (size_t i = 0; i < n_config_keys; i++)
        if ((int)config_keys[i].section == s)
            names[n++] = config_keys[i].name;
    return nearest_name(name, names, n);
}

static const char *config_nearest_section(const char *heading)
{
    _cleanup_(freep) char *word = xstrndup(heading, strcspn(heading, " \t"));
    const char *names[_SECTION_MAX];

    for (int s = 0; s < _SECTION_MAX; s++)
        names[s] = config_sections[s].name;
    const char *nearest = nearest_name(word, names, _SECTION_MAX);
    for (int s = 0; s < _SECTION_MAX; s++)
        if (nearest == names[s])
            return config_sections[s].shown;
    return NULL;
}

/* What keys of an earlier version are called today. */
static const struct {
    int section;
    const char *old_name, *name;
} renamed_keys[] = {
    {SECTION_LIMITS, "answers", "response_memory"},
};

static const char *config_renamed_key(int s, const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(renamed_keys); i++)
        if (renamed_keys[i].section == s && streq(renamed_keys[i].old_name, name))
            return renamed_keys[i].name;
    return NULL;
}

/* The section of "timeouts" or "fleet east", whose name is stored in *ret_name (borrowed, NULL where it has none). -1 for an
 * unknown one. */
static int config_find_section(const char *heading, const char **ret_name)
{
    for (int s = 0; s < _SECTION_MAX; s++) {
        size_t n = strlen(config_sections[s].name);
        if (strncmp(heading, config_sections[s].name, n) != 0)
            continue;
        if (!config_sections[s].named && heading[n] == '\0') {
            *ret_name = NULL;
            return s;
        }
        if (config_sections[s].named && isspace((unsigned char)heading[n])) {
            const char *name = heading + n + strspn(heading + n, " \t");
            *ret_name = name;
            return s;
        }
    }
    return -1;
}

/* -- The file ----------------------------------------------------------------------------------------- */

/*
 * inih gives its handler neither the line's number nor headings beyond 49 bytes or with a ']' within, as IPv6
 * addresses have. So the reader, which hands inih its lines, keeps both, and notices lines of
 * which inih made nothing.
 */
struct config_reader {
    struct config *config;
    struct config_errors *errors;
    const char *file_name;
    const char *next, *end;
    int line;
    bool awaits_handler; /* the line is to be "key = value" */
    char *heading;       /* within the brackets; NULL before the first */
    int section;         /* enum config_section, -1: to be skipped */
    char *name;          /* of the section, NULL where it has none */
    int *fleet_lines;    /* of the headings, by fleet; 0 where a line of it was refused */
    size_t n_fleet_lines;
};

#define ERROR_HERE(parse, format, ...)                                                                       \
    config_add_error((parse)->errors, "%s:%d: " format, (parse)->file_name, (parse)->line, __VA_ARGS__)

static void reader_refuse_section(struct config_reader *p, const char *heading)
{
    _cleanup_(freep) char *list = xstrdup("");

    for (size_t i = 0; i < _SECTION_MAX; i++)
        append_str(&list, "%s%s",
                   i == 0                 ? ""
                   : i + 1 < _SECTION_MAX ? ", "
                                          : " and ",
                   config_sections[i].shown);
    ERROR_HERE(p, "[%s]: no such section; there are %s", heading, list);
}

static void reader_enter_section(struct config_reader *p, const char *heading)
{
    const char *name = NULL;
    _cleanup_(freep) char *reason = NULL;

    replace_str(&p->heading, heading);
    p->section = config_find_section(p->heading, &name);
    if (p->section < 0) {
        const char *nearest = config_nearest_section(heading);
        if (nearest)
            ERROR_HERE(p, "[%s]: no such section; did you mean %s?", heading, nearest);
        else
            reader_refuse_section(p, heading);
        return;
    }
    replace_str(&p->name, name);
    if (!config_section_object(p->config, p->section, p->name, &reason)) {
        ERROR_HERE(p, "[%s]: %s", heading, reason);
        p->section = -1;
        return;
    }
    if (p->config->fleet.n_fleets > p->n_fleet_lines) {
        p->fleet_lines = xrealloc(p->fleet_lines, p->config->fleet.n_fleets, sizeof(int));
        p->fleet_lines[p->n_fleet_lines++] = p->line;
    }
}

static void reader_take_heading(struct config_reader *p, const char *line)
{
    const char *close = strrchr(line, ']');

    p->section = -1;
    if (!close) {
        replace_str(&p->heading, line);
        ERROR_HERE(p, "%s: must be a heading such as [profd]", line);
        return;
    }
    _cleanup_(freep) char *heading = xstrndup(line + 1, (size_t)(close - line - 1));
    reader_enter_section(p, heading);
}

static void reader_check_value(struct config_reader *p)
{
    if (p->awaits_handler)
        ERROR_HERE(p, "%s", "must be KEY = VALUE, a [heading] or a # comment");
    p->awaits_handler = false;
}

/* What inih is to see of a line; anything that is wrong with it becomes an empty one. */
static bool reader_take_line(struct config_reader *p, char *line, size_t size)
{
    if (size > LINE_BYTES_MAX) {
        ERROR_HERE(p, "the line is longer than %d bytes", LINE_BYTES_MAX);
        return false;
    }
    for (size_t i = 0; i < size; i++)
        if (((unsigned char)line[i] < ' ' && line[i] != '\t' && line[i] != '\r') || line[i] == 0x7f) {
            ERROR_HERE(p, "there is a control character (byte 0x%02x)", (unsigned char)line[i]);
            return false;
        }
    const char *text = line + strspn(line, " \t\r");
    if (*text == '[') {
        reader_take_heading(p, text);
        return false;
    }
    p->awaits_handler = *text && *text != '#' && *text != ';';
    return true;
}

/* As fgets() would. */
static char *reader_next_line(char *buffer, int size_max, void *arg)
{
    struct config_reader *p = arg;

    reader_check_value(p);
    if (p->next == p->end)
        return NULL;
    const char *newline = memchr(p->next, '\n', (size_t)(p->end - p->next));
    size_t size = (size_t)((newline ? newline : p->end) - p->next);
    p->line++;
    size_t kept = MIN(size, (size_t)size_max - 2);
    memcpy(buffer, p->next, kept);
    buffer[kept] = '\0';
    p->next = newline ? newline + 1 : p->end;
    strcpy(reader_take_line(p, buffer, size) ? buffer + kept : buffer, "\n");
    return buffer;
}

static void reader_refuse_key(struct config_reader *p, const char *name)
{
    const char *nearest = config_nearest_key(p->section, name),
               *renamed = config_renamed_key(p->section, name);

    if (renamed) {
        ERROR_HERE(p, "[%s] %s: this key was renamed to %s", p->heading, name, renamed);
        return;
    }
    if (nearest) {
        ERROR_HERE(p, "[%s] %s: no such key; did you mean %s?", p->heading, name, nearest);
        return;
    }
    _cleanup_(freep) char *known = NULL;
    for (size_t i = 0; i < n_config_keys; i++) {
        if ((int)config_keys[i].section != p->section)
            continue;
        char *longer = xasprintf("%s%s%s", known ? known : "", known ? ", " : "", config_keys[i].name);
        free(known);
        known = longer;
    }
    ERROR_HERE(p, "[%s] %s: no such key; there are %s", p->heading, name, known);
}

static void config_take_value(const struct config_key *key, const char *value, void *object,
                              const char *where, struct config_errors *errors)
{
    _cleanup_(freep) char *reason = NULL;

    if (!*value)
        config_add_error(errors, "%s: must be %s", where, key->allowed);
    else if (key->parse(key, value, object, &reason) < 0)
        config_add_error(errors, "%s: %s%s", where, reason ? "" : "must be ", reason ? reason : key->allowed);
}

static int reader_on_value(void *arg, const char *section, const char *name, const char *value)
{
    struct config_reader *p = arg;
    _cleanup_(freep) char *reason = NULL;

    p->awaits_handler = false;
    if (!p->heading) {
        ERROR_HERE(p, "%s: stands before the first [heading]", name);
        return 1;
    }
    if (p->section < 0)
        return 1;
    const struct config_key *key = config_key_find(p->section, name);
    if (!key) {
        reader_refuse_key(p, name);
        return 1;
    }
    void *object = config_section_object(p->config, p->section, p->name, &reason);
    _cleanup_(freep) char *where =
        xasprintf("%s:%d: [%s] %s=%s", p->file_name, p->line, p->heading, name, value);
    size_t before = p->errors->n;
    config_take_value(key, value, object, where, p->errors);
    if (p->section == SECTION_FLEET && p->errors->n > before)
        p->fleet_lines[(struct fleet_config *)object - p->config->fleet.fleets] = 0;
    return 1;
}

/* "router=, router_log=, worker=, targets=, ... or consul=" */
static char *reader_list_sources(void)
{
    char *list = xstrdup("router=, router_log=, worker=");

    for (size_t i = 0; source_at(i); i++)
        append_str(&list, "%s%s=", source_at(i + 1) ? ", " : " or ", source_at(i)->key);
    return list;
}

/* How its workers are found, by exactly one key. NULL, or what is wrong; the caller frees it. */
static char *reader_check_fleet(const struct fleet_config *f)
{
    const struct {
        const char *key;
        bool is_set;
    } ways[] = {{"router", f->router},
                {"router_log", f->router_log},
                {"worker", f->n_workers > 0},
                {f->by.source ? f->by.source->key : NULL, f->by.source}};
    const char *first = NULL;
    char *reason = NULL;

    for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
        if (ways[i].is_set && first)
            return xasprintf("%s= and %s= exclude each other", first, ways[i].key);
        first = ways[i].is_set ? ways[i].key : first;
    }
    if (first) {
        source_config_check(&f->by, &reason);
        return reason;
    }
    _cleanup_(freep) char *list = reader_list_sources();
    return xasprintf("must have one of %s", list);
}

static void reader_check_fleets(struct config_reader *p)
{
    for (size_t i = 0; i < p->config->fleet.n_fleets; i++) {
        const struct fleet_config *f = &p->config->fleet.fleets[i];
        _cleanup_(freep) char *reason = p->fleet_lines[i] ? reader_check_fleet(f) : NULL;
        if (reason)
            config_add_error(p->errors, "%s:%d: [fleet %s]: %s", p->file_name, p->fleet_lines[i], f->name,
                             reason);
    }
}

static void reader_check_address(struct config_reader *p, size_t fleet, const char *key, const char *text)
{
    const struct network_refusal *refusal;
    struct in6_addr address;
    const char *reason;
    struct url url;

    if (url_parse(text, &url, &reason) < 0 || !address_of_host(url.host, &address))
        return;
    refusal = network_refuses(&p->config->network, &address);
    if (refusal)
        config_add_error(p->errors, "%s:%d: [fleet %s] %s=%s: %s %s", p->file_name, p->fleet_lines[fleet],
                         p->config->fleet.fleets[fleet].name, key, text, url.host, refusal->why);
}

/* Of names it is only known when they are called. */
static void reader_check_addresses(struct config_reader *p)
{
    for (size_t i = 0; i < p->config->fleet.n_fleets; i++) {
        const struct fleet_config *f = &p->config->fleet.fleets[i];
        if (f->router)
            reader_check_address(p, i, "router", f->router);
        if (f->by.source && source_is_url(f->by.value))
            reader_check_address(p, i, f->by.source->key, f->by.value);
        for (size_t k = 0; k < f->n_workers; k++)
            reader_check_address(p, i, "worker", f->workers[k]);
    }
}

/* Tokens go to peers: over TLS, unless the operator says that the network is protected otherwise. */
static void reader_check_peers(struct config_reader *p)
{
    const struct hosts_settings *s = &p->config->hosts;

    for (size_t i = 0; i < s->n_sources && !s->credentials.ca_file; i++)
        if (!p->config->api.plain_http || starts_with(s->sources[i], "workers:"))
            config_add_error(p->errors,
                             "%s: [hosts] peers=%s: needs ca_file=, so that the token is sent to no host of "
                             "another authority",
                             p->file_name, s->sources[i]);
    for (size_t i = 0; i < s->n_peers; i++) {
        const struct peer_config *peer = &s->peers[i];
        if (!peer->url)
            config_add_error(p->errors, "%s: [peer %s]: must have url=", p->file_name, peer->name);
        else if (starts_with(peer->url, "http://") && !url_is_loopback(peer->url) &&
                 !p->config->api.plain_http)
            config_add_error(p->errors,
                             "%s: [peer %s] url=%s: must begin with https://, so that the token is sent "
                             "encrypted; or set [http] plain_http=yes if the network is protected otherwise",
                             p->file_name, peer->name, peer->url);
    }
}

int config_parse(struct config *c, const char *file_name, const char *data, size_t size,
                 struct config_errors *errors)
{
    struct config_reader p = {.config = c,
                              .errors = errors,
                              .file_name = file_name,
                              .next = data,
                              .end = data + size,
                              .section = -1};
    size_t before = errors->n;

    if (size >= 3 && memcmp(data, "\xef\xbb\xbf", 3) == 0)
        p.next += 3; /* the mark that some editors put before UTF-8 */
    /* These are inih's: longer lines than its 200 bytes, no continuation lines, and comments by '#' too. */
    ini_max_line = LINE_BYTES_MAX + 3;
    ini_allow_multiline = false;
    ini_inline_comment_prefixes = ";#";
    ini_parse_stream(reader_next_line, &p, reader_on_value, &p);
    reader_check_fleets(&p);
    reader_check_addresses(&p);
    reader_check_peers(&p);
    free(p.heading);
    free(p.name);
    free(p.fleet_lines);
    return errors->n > before ? -EINVAL : 0;
}

/* -- All of it ---------------------------------------------------------------------------------------- */

static char *config_absolute_path(const char *path)
{
    if (path[0] == '/')
        return xstrdup(path);
    _cleanup_(freep) char *cwd = getcwd(NULL, 0);
    return xasprintf("%s/%s", cwd ? cwd : "", path);
}

/* The default path of the configuration; NULL for a user with neither XDG_CONFIG_HOME nor HOME as absolute path. */
static char *config_default_file(void)
{
    const char *base = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

    if (geteuid() == 0)
        return xstrdup(SYSTEM_FILE);
    if (base && base[0] == '/')
        return xasprintf("%s/profd/profd.conf", base);
    return home && home[0] == '/' ? xasprintf("%s/.config/profd/profd.conf", home) : NULL;
}

/* The file's absence is only an error where someone named it. */
static void config_read_file(struct config *c, const char *path, bool named, char **ret_file,
                             struct config_errors *errors)
{
    _cleanup_(freep) char *data = NULL;
    size_t size;

    int r = read_file(AT_FDCWD, path, CONFIG_FILE_MAX, &data, &size);
    if (r == -ENOENT && !named)
        return;
    if (r < 0)
        config_add_error(errors, "cannot read %s: %s", path, strerror(-r));
    else if (config_parse(c, path, data, size, errors) == 0)
        *ret_file = xstrdup(path);
}

static void config_apply_overrides(struct config *c, const struct config_overrides *o,
                                   struct config_errors *errors)
{
    const char *socket = getenv("PROFD_SOCKET");
    const struct {
        const char *option, *key, *value;
        bool is_path;
        enum config_section section;
    } options[] = {
        {"--state-dir", "state_dir", o->state_dir, true},
        {"$PROFD_SOCKET", "socket", socket && *socket ? socket : NULL, true},
        {"--socket", "socket", o->socket, true},
        {"--listen", "listen", o->listen, false},
        {"--log-level", "log_level", o->log_level, false},
        {"--bus", "bus", o->bus, false},
        {"--kineto-listen", "listen", o->kineto_listen, false, SECTION_KINETO},
    };

    for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
        if (!options[i].value)
            continue;
        const struct config_key *key = config_key_find(options[i].section, options[i].key);
        _cleanup_(freep) char *where = xasprintf("%s %s", options[i].option, options[i].value);
        bool made_absolute = options[i].is_path && *options[i].value;
        _cleanup_(freep) char *value =
            made_absolute ? config_absolute_path(options[i].value) : xstrdup(options[i].value);
        config_take_value(key, value, c, where, errors);
    }
}

/* What the service manager hands over. */
static void config_settle_tokens(struct config *c)
{
    const char *directory = getenv("CREDENTIALS_DIRECTORY");

    for (size_t i = 0; directory && !c->api.tokens_file && i < ARRAY_SIZE(token_credentials); i++) {
        _cleanup_(freep) char *path = xasprintf("%s/%s", directory, token_credentials[i]);
        if (access(path, F_OK) == 0)
            c->api.tokens_file = TAKE_PTR(path);
    }
}

static void config_settle_paths(struct config *c, struct config_errors *errors)
{
    if (!c->state_dir)
        c->state_dir = user_state_dir();
    if (!c->state_dir) {
        config_add_error(errors, "neither $XDG_STATE_HOME nor $HOME is set: choose a state directory with "
                                 "--state-dir DIR");
        return;
    }
    if (!c->api.socket)
        c->api.socket = user_socket(c->state_dir);
    c->store.path = xasprintf("%s/traces", c->state_dir);
    c->store.columns_path = xasprintf("%s/columns", c->state_dir);
    c->fleet.connect_timeout_ns = c->session.connect_timeout_ns;
    c->hosts.plain_http = c->api.plain_http;
    config_settle_tokens(c);
}

int config_load(const struct config_overrides *overrides, struct config *ret, char **ret_file,
                struct config_errors *errors)
{
    _cleanup_(freep) char *path = overrides->file ? xstrdup(overrides->file) : config_default_file();
    struct config c;
    char *file = NULL;

    config_init(&c);
    if (path)
        config_read_file(&c, path, overrides->file, &file, errors);
    config_apply_overrides(&c, overrides, errors);
    config_settle_paths(&c, errors);
    if (errors->n > 0) {
        config_done(&c);
        free(file);
        return -EINVAL;
    }
    *ret = c;
    *ret_file = file;
    return 0;
}

const struct config_key *config_fixed_change(const struct config *a, const struct config *b)
{
    for (size_t i = 0; i < n_config_keys; i++) {
        const struct config_key *key = &config_keys[i];
        const char *was = (const char *)a + key->offset, *is = (const char *)b + key->offset;
        if (!key->fixed)
            continue;
        if (key->words ? memcmp(was, is, key->width) != 0
                       : !streq(*(char *const *)(const void *)was, *(char *const *)(const void *)is))
            return key;
    }
    return NULL;
}

#define EXCHANGE(a, b)                                                                                       \
    do {                                                                                                     \
        __typeof__(a) _a = (a);                                                                              \
        (a) = (b);                                                                                           \
        (b) = _a;                                                                                            \
    } while (0)

/* The paths of the store stay, because a thread may be reading them. Fixed keys are equal in both. */
void config_exchange(struct config *live, struct config *next)
{
    EXCHANGE(live->log_level, next->log_level);
    EXCHANGE(live->api, next->api);
    EXCHANGE(live->children_max, next->children_max);
    EXCHANGE(live->session, next->session);
    EXCHANGE(live->fleet, next->fleet);
    EXCHANGE(live->collect, next->collect);
    EXCHANGE(live->load, next->load);
    EXCHANGE(live->network, next->network);
    EXCHANGE(live->kineto, next->kineto);
    EXCHANGE(live->hosts, next->hosts);
    EXCHANGE(live->archive, next->archive);
    EXCHANGE(live->mirror, next->mirror);
    EXCHANGE(live->store.max_use, next->store.max_use);
    EXCHANGE(live->store.keep_free, next->store.keep_free);
    EXCHANGE(live->store.per_user, next->store.per_user);
}

void config_print_keys(FILE *out)
{
    for (size_t i = 0; i < n_config_keys; i++) {
        const struct config_key *key = &config_keys[i];
        fprintf(out, "[%s] %s = %s\t%s\n", config_sections[key->section].name, key->name,
                key->initial ? key->initial : "", key->allowed);
    }
}
