/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/access_rules.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/fs.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <strings.h>

#define FIELDS          3
#define PORT_DIGITS_MAX 5
#define BLANKS          " \t\r"
#define NAME_BYTES      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-"

/* -- Tokens ------------------------------------------------------------------------------------------- */

void tokens_done(struct tokens *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->items[i].name);
    free(t->items);
    *t = (struct tokens){0};
}

static bool token_parse_hash(const char *text, unsigned char ret[static TOKEN_HASH_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    if (strlen(text) != (size_t)2 * TOKEN_HASH_BYTES)
        return false;
    for (size_t i = 0; i < TOKEN_HASH_BYTES; i++) {
        const char *high = strchr(digits, tolower((unsigned char)text[2 * i]));
        const char *low = strchr(digits, tolower((unsigned char)text[2 * i + 1]));
        if (!high || !low)
            return false;
        ret[i] = (unsigned char)((high - digits) << 4 | (low - digits));
    }
    return true;
}

static const char name_taken[] = "another line has this name";

/* NULL, or the reason why the line is wrong. */
static const char *token_parse_fields(char *const fields[static FIELDS], struct token *ret)
{
    const char *name = fields[0];

    if (strlen(name) > TOKEN_NAME_MAX || strspn(name, NAME_BYTES) != strlen(name))
        return "the name must be letters, digits, '.', '_', '@' and '-', at most 64 of them";
    int right = right_from_name(fields[1]);
    if (right <= RIGHT_NONE)
        return "the role must be read, operate, admin or peer";
    if (starts_with(fields[2], TOKEN_PREFIX))
        return "this is the token itself, which only its user may have; the file needs its SHA-256, "
               "which profctl token new prints";
    if (!token_parse_hash(fields[2], ret->hash))
        return "the hash must be 64 hexadecimal digits, the SHA-256 of a token";
    ret->right = (enum right)right;
    return NULL;
}

static const char *tokens_check_duplicate(const struct tokens *t, const struct token *one)
{
    for (size_t i = 0; i < t->n; i++) {
        if (streq(t->items[i].name, one->name))
            return name_taken;
        if (memcmp(t->items[i].hash, one->hash, TOKEN_HASH_BYTES) == 0)
            return "another line has this hash";
    }
    return t->n == TOKENS_MAX ? "there are more than 1000 tokens" : NULL;
}

/* NULL, or the reason why the line is wrong. */
static const char *tokens_parse_line(struct tokens *t, char *line)
{
    char *fields[FIELDS + 1] = {NULL}, *rest = NULL;
    struct token one = {0};
    size_t n = 0;

    line[strcspn(line, "#")] = '\0';
    for (char *word = strtok_r(line, BLANKS, &rest); word && n <= FIELDS;
         word = strtok_r(NULL, BLANKS, &rest))
        fields[n++] = word;
    if (n == 0)
        return NULL;
    if (n != FIELDS)
        return "must be NAME ROLE HASH";
    const char *wrong = token_parse_fields(fields, &one);
    if (wrong)
        return wrong;
    one.name = fields[0];
    wrong = tokens_check_duplicate(t, &one);
    if (wrong)
        return wrong;
    one.name = xstrdup(one.name);
    VEC_GROW(t->items, t->n, t->cap);
    t->items[t->n++] = one;
    return NULL;
}

int tokens_parse(const char *file_name, const char *data, size_t size, struct tokens *ret, struct problem *p)
{
    _cleanup_(tokens_done) struct tokens t = {0};
    const char *end = data + size;
    int number = 1;

    for (const char *next = data; next < end; number++) {
        const char *newline = memchr(next, '\n', (size_t)(end - next));
        size_t length = (size_t)((newline ? newline : end) - next);
        _cleanup_(freep) char *line = xstrndup(next, length);
        const char *wrong = strlen(line) < length ? "there is a NUL byte" : tokens_parse_line(&t, line);
        /* The name ends at a NUL: the fields of the line were separated in place. */
        if (wrong == name_taken)
            problem_remedy(p, "Remove one of the two lines named %s.", line + strspn(line, BLANKS));
        if (wrong)
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s:%d: %s", file_name, number, wrong);
        next += length + 1;
    }
    *ret = t;
    t = (struct tokens){0};
    return 0;
}

/* A group may read the file where profd or root chose the group, as a unit does that passes files to profd. */
static int tokens_check_mode(const char *path, struct problem *p)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return problem_set(p, -errno, PROBLEM_BAD_REQUEST, "cannot read the tokens file %s: %s", path,
                           strerror(errno));
    if (st.st_uid != 0 && st.st_uid != geteuid()) {
        problem_set(p, -EPERM, PROBLEM_DENIED, "%s belongs to uid %u, who could add any token", path,
                    st.st_uid);
        problem_remedy(p, "Make root, or the user that profd runs as, its owner.");
        return -EPERM;
    }
    if (!(st.st_mode & (S_IRWXO | S_IWGRP)))
        return 0;
    problem_set(p, -EPERM, PROBLEM_DENIED, "%s may be %s (mode %04o)", path,
                st.st_mode & S_IRWXO ? "read by every user of this host" : "written by its group",
                st.st_mode & 07777);
    problem_remedy(p, "chmod g-w,o= %s", path);
    return -EPERM;
}

int tokens_load(const char *path, struct tokens *ret, struct problem *p)
{
    _cleanup_(freep) char *data = NULL;
    size_t size;

    int r = tokens_check_mode(path, p);
    if (r < 0)
        return r;
    r = read_file(AT_FDCWD, path, TOKENS_FILE_MAX, &data, &size);
    if (r < 0)
        return problem_set(p, r, PROBLEM_BAD_REQUEST, "cannot read the tokens file %s: %s", path,
                           strerror(-r));
    return tokens_parse(path, data, size, ret, p);
}

const struct token *tokens_find(const struct tokens *t, const char *text)
{
    unsigned char hash[EVP_MAX_MD_SIZE];
    const struct token *found = NULL;
    size_t size = strlen(text);

    if (size > TOKEN_TEXT_MAX || EVP_Digest(text, size, hash, NULL, EVP_sha256(), NULL) != 1)
        return NULL;
    for (size_t i = 0; i < t->n; i++)
        if (CRYPTO_memcmp(t->items[i].hash, hash, TOKEN_HASH_BYTES) == 0)
            found = &t->items[i];
    return found;
}

const char *tokens_of_header(const char *authorization)
{
    static const char scheme[] = "Bearer ";

    if (!authorization || strncasecmp(authorization, scheme, strlen(scheme)) != 0)
        return NULL;
    const char *token = authorization + strlen(scheme);
    token += strspn(token, " ");
    return *token ? token : NULL;
}

/* -- Wrong tokens ------------------------------------------------------------------------------------- */

static const struct token_guard_slot *guard_find(const struct token_guard *g, const struct in6_addr *network)
{
    for (size_t i = 0; i < GUARD_SLOTS; i++)
        if (IN6_ARE_ADDR_EQUAL(&g->slots[i].network, network))
            return &g->slots[i];
    return NULL;
}

int64_t guard_wait_ns(const struct token_guard *g, const struct in6_addr *address, int64_t now_ns)
{
    const struct in6_addr network = address_network(address);
    const struct token_guard_slot *slot = guard_find(g, &network);
    return slot ? MAX(slot->clear_at - now_ns - (GUARD_BURST - 1) * GUARD_INTERVAL_NS, 0) : 0;
}

void guard_failed(struct token_guard *g, const struct in6_addr *address, int64_t now_ns)
{
    const struct in6_addr network = address_network(address);
    struct token_guard_slot *slot = (struct token_guard_slot *)guard_find(g, &network);

    if (!slot) {
        slot = &g->slots[0];
        for (size_t i = 1; i < GUARD_SLOTS; i++)
            if (g->slots[i].clear_at < slot->clear_at)
                slot = &g->slots[i];
        *slot = (struct token_guard_slot){.network = network};
    }
    slot->clear_at = MAX(slot->clear_at, now_ns) + GUARD_INTERVAL_NS;
}

/* -- Names of profd ----------------------------------------------------------------------------------- */

static bool host_is_port_or_empty(const char *text)
{
    if (!*text)
        return true;
    size_t n = strspn(text + 1, "0123456789");
    return *text == ':' && n > 0 && n <= PORT_DIGITS_MAX && !text[1 + n];
}

static bool host_is_listened_on(const struct in6_addr *ip, const struct host_rules *rules)
{
    for (size_t i = 0; i < rules->n_addresses; i++) {
        const struct in6_addr *own = &rules->addresses[i].ip;
        bool same_family = address_is_v4(own) == address_is_v4(ip);
        if (IN6_ARE_ADDR_EQUAL(own, ip) || (same_family && address_is_wildcard(own)))
            return true;
    }
    return false;
}

static bool host_is_configured(const char *name, const struct host_rules *rules)
{
    for (size_t i = 0; i < rules->n_names; i++)
        if (strcasecmp(name, rules->names[i]) == 0)
            return true;
    return false;
}

bool host_is_ours(const char *header, const struct host_rules *rules)
{
    bool in_brackets = *header == '[';
    const char *start = header + in_brackets;
    size_t n = strcspn(start, in_brackets ? "]" : ":");
    const char *end = start + n;
    char name[HOST_NAME_MAX_BYTES + 1];
    struct in6_addr ip;

    if (n == 0 || n >= sizeof(name) || (in_brackets && *end != ']') ||
        !host_is_port_or_empty(end + in_brackets))
        return false;
    memcpy(name, start, n);
    name[n] = '\0';
    if (address_parse(name, &ip) == 0)
        return in_brackets == (strchr(name, ':') != NULL) &&
               (address_is_loopback(&ip) || host_is_listened_on(&ip, rules));
    return !in_brackets && host_is_name(name) &&
           (strcasecmp(name, "localhost") == 0 || host_is_configured(name, rules));
}
