/* SPDX-License-Identifier: Apache-2.0 */
/* The table of sources, their values and settings, and what they share. Pure. */
#include "daemon/fleet/source.h"

#include "base/alloc.h"
#include "daemon/fleet/answer_text.h"
#include "daemon/fleet/router.h"
#include "daemon/fleet/url.h"
#include <errno.h>
#include <stddef.h>
#include <strings.h>

#define VALUE_EXCERPT_MAX  160
#define TARGET_EXCERPT_MAX 120
#define PORT_MAX_BYTES     63  /* of a name; Kubernetes has 15 */
#define LABEL_MAX_BYTES    317 /* of Kubernetes: 253 of the prefix, '/', 63 */
/* Of addresses that cannot be called; more are left out. */
#define IGNORED_NOTES_MAX                  3

#define SOURCE_LINE(key, value, help, arg) &source_##key,

static const struct fleet_source *const table[] = {FLEET_SOURCES(SOURCE_LINE, )};

const struct fleet_source *source_at(size_t i)
{
    return i < ARRAY_SIZE(table) ? table[i] : NULL;
}

const struct fleet_source *source_find(const char *key)
{
    for (size_t i = 0; key && i < ARRAY_SIZE(table); i++)
        if (streq(table[i]->key, key))
            return table[i];
    return NULL;
}

/* -- The configuration of a source ---------------------------------------------------------------------- */

#define SETTING_MEMBER(member, option, value, help, of, arg)                                                 \
    {#member, of, value, offsetof(struct source_config, member), true, false},
#define SETTING_IS_path    false
#define SETTING_IS_address false
#define SETTING_IS_url     true
#define SETTING_KEY(member, kind, of, arg)                                                                   \
    {#member, of, NULL, offsetof(struct source_config, member), false, SETTING_IS_##kind},

const struct source_setting source_settings[] = {
    SOURCE_MEMBERS(SETTING_MEMBER, ) SOURCE_KEYS(SETTING_KEY, ){0},
};

static char **setting_of(const struct source_config *c, const struct source_setting *s)
{
    return (char **)((char *)c + s->offset);
}

void source_config_done(struct source_config *c)
{
    for (const struct source_setting *s = source_settings; s->name; s++)
        free(*setting_of(c, s));
    free(c->value);
    *c = (struct source_config){0};
}

void source_config_copy(const struct source_config *c, struct source_config *ret)
{
    *ret = (struct source_config){.source = c->source, .value = xstrdup(c->value), .asked = c->asked};
    for (const struct source_setting *s = source_settings; s->name; s++)
        *setting_of(ret, s) = xstrdup(*setting_of(c, s));
}

char *source_config_text(const struct source_config *c)
{
    char text[VALUE_EXCERPT_MAX];

    /* The contents of a file that profctl has read are no name. */
    if (c->value[0] == '[')
        return xstrdup(c->source->key);
    return xasprintf("%s=%s", c->source->key, excerpt(c->value, strlen(c->value), text, sizeof(text)));
}

int source_config_set(struct source_config *c, const struct fleet_source *source, const char *value,
                      char **ret_reason)
{
    if (c->source && c->source != source) {
        *ret_reason = xasprintf("%s and %s exclude each other", c->source->key, source->key);
        return -EINVAL;
    }
    c->source = source;
    replace_str(&c->value, value);
    return 0;
}

/* Whether a list of keys with spaces between them has this one. */
static bool keys_have(const char *keys, const char *key)
{
    size_t size = strlen(key);

    for (const char *k = keys; *k; k += strcspn(k, " "), k += strspn(k, " "))
        if (strcspn(k, " ") == size && strncmp(k, key, size) == 0)
            return true;
    return false;
}

/* "kubernetes, pods and slurm" */
static char *keys_text(const char *keys)
{
    char *text = xstrdup("");

    for (const char *k = keys; *k;) {
        size_t size = strcspn(k, " ");
        const char *rest = k + size + strspn(k + size, " ");
        append_str(&text, "%s%.*s", k == keys ? "" : *rest ? ", " : " and ", (int)size, k);
        k = rest;
    }
    return text;
}

static bool word_is_plain(const char *word, const char *more, size_t max)
{
    size_t size = strlen(word);

    for (size_t i = 0; i < size; i++) {
        char c = word[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr(more, c)))
            return false;
    }
    return size > 0 && size <= max;
}

const struct source_setting *source_url_setting(const struct fleet_source *source)
{
    for (const struct source_setting *s = source_settings; s->name; s++)
        if (s->is_url && keys_have(s->of, source->key))
            return s;
    return NULL;
}

const char *source_config_get(const struct source_config *c, const struct source_setting *s)
{
    return *setting_of(c, s);
}

void source_config_lend(struct source_config *c, const struct source_config *from)
{
    for (const struct source_setting *s = source_settings; s->name; s++)
        if (!s->asked && keys_have(s->of, c->source->key))
            replace_str(setting_of(c, s), *setting_of(from, s));
}

static int source_check_setting(const struct source_config *c, const struct source_setting *s,
                                char **ret_reason)
{
    if (!*setting_of(c, s) || (c->source && keys_have(s->of, c->source->key)))
        return 0;
    _cleanup_(freep) char *keys = keys_text(s->of);
    *ret_reason = xasprintf("%s is for %s%s%s", s->name, keys, c->source ? ", not for " : " only",
                            c->source ? c->source->key : "");
    return -EINVAL;
}

static int source_check_port(const struct source_config *c, const char **reason)
{
    if (c->source->check_port)
        return c->source->check_port(c->port, reason);
    *reason = "the number or the name of a port";
    return word_is_plain(c->port, "-", PORT_MAX_BYTES) ? 0 : -EINVAL;
}

int source_config_check(const struct source_config *c, char **ret_reason)
{
    const char *reason = "well-formed", *what = NULL;

    for (const struct source_setting *s = source_settings; s->name; s++)
        if (source_check_setting(c, s, ret_reason) < 0)
            return -EINVAL;
    if (!c->source)
        return 0;
    if (c->port && source_check_port(c, &reason) < 0)
        what = "port";
    else if (c->role_label && !word_is_plain(c->role_label, "-_./", LABEL_MAX_BYTES))
        what = "role_label", reason = "the name of a label";
    else if (strlen(c->value) > SOURCE_VALUE_MAX)
        reason = "shorter than 1 MiB";
    else if (c->source->check(c, &reason) == 0)
        return 0;
    _cleanup_(freep) char *text = source_config_text(c);
    /* Those of a URL are sentences: "its port is malformed". */
    bool is_sentence = starts_with(reason, "it ") || starts_with(reason, "its ");
    *ret_reason = xasprintf("%s%s%s", what ? what : text,
                            reason[0] == ' ' ? ""
                            : is_sentence    ? ": "
                                             : " must be ",
                            reason);
    return -EINVAL;
}

bool source_config_equal(const struct source_config *a, const struct source_config *b)
{
    if (!a->source || a->source != b->source || !streq(a->value, b->value))
        return false;
    for (const struct source_setting *s = source_settings; s->name; s++) {
        const char *x = *setting_of(a, s), *y = *setting_of(b, s);
        if (s->asked && (x || y) && !streq(x, y))
            return false;
    }
    return true;
}

/* -- For the sources ---------------------------------------------------------------------------------- */

void source_request_done(struct source_request *r)
{
    free(r->url);
    *r = (struct source_request){0};
}

bool source_is_url(const char *value)
{
    return strncasecmp(value, "http://", strlen("http://")) == 0 ||
           strncasecmp(value, "https://", strlen("https://")) == 0;
}

int source_url_check(const char *url, const char **reason)
{
    _cleanup_(freep) char *base = xstrndup(url, strcspn(url, "?"));
    struct url u;

    if (!source_is_url(url)) {
        *reason = "it is neither http:// nor https://";
        return -EINVAL;
    }
    for (const char *c = url; *c; c++)
        if ((unsigned char)*c <= ' ' || (unsigned char)*c >= 0x7f || strchr("\\\"<>#", *c)) {
            *reason = "it has a character that belongs in no URL";
            return -EINVAL;
        }
    if (strlen(url) >= URL_SIZE_MAX) {
        *reason = "it is too long";
        return -EINVAL;
    }
    return url_parse(base, &u, reason);
}

int source_add_worker(struct fleet *f, size_t max, const char *scheme, const char *address,
                      struct worker **ret)
{
    bool has_scheme = strstr(address, "://") != NULL;
    _cleanup_(freep) char *url =
        has_scheme ? xstrdup(address) : xasprintf("%s://%s", scheme ? scheme : "http", address);
    char text[TARGET_EXCERPT_MAX];
    const char *reason;

    *ret = NULL;
    if (f->n_workers >= max)
        return -E2BIG;
    if (fleet_add_url(f, url, ret, &reason) == 0)
        return 0;
    excerpt(address, strlen(address), text, sizeof(text));
    if (f->n_notes < IGNORED_NOTES_MAX)
        fleet_add_note_of(f, NOTE_WARNING, "the target \"%s\" is ignored: %s", text, reason);
    else if (f->n_notes == IGNORED_NOTES_MAX)
        fleet_add_note(f, "more targets are ignored for such reasons");
    return 0;
}

/* Words of deployments that mean a role of profd. */
static const struct {
    const char *word;
    enum role role;
} role_words[] = {
    {"encode-prefill-decode", ROLE_REGULAR},
    {"prefill-decode", ROLE_REGULAR}, /* llm-d.ai/role */
    {"both", ROLE_REGULAR},           /* llm-d.ai/role of earlier releases */
    {"aggregated", ROLE_REGULAR},
    {"hybrid", ROLE_REGULAR},
    {"mixed", ROLE_REGULAR},
    {"encoder", ROLE_ENCODE},
};

void source_take_role(struct worker *w, const char *word)
{
    int role = role_from_name(word);

    if (role >= 0)
        w->role = (enum role)role;
    for (size_t i = 0; i < ARRAY_SIZE(role_words); i++)
        if (strcasecmp(role_words[i].word, word) == 0)
            w->role = role_words[i].role;
}
