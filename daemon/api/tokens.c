/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/tokens.h"

#include "base/alloc.h"
#include "base/fs.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <strings.h>

#define FIELDS     3
#define BLANKS     " \t\r"
#define NAME_BYTES "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._@-"

void tokens_done(struct tokens *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->items[i].name);
    free(t->items);
    *t = (struct tokens){0};
}

static bool parse_hash(const char *text, unsigned char ret[static TOKEN_HASH_BYTES])
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

/* NULL, or what is wrong with the line. */
static const char *parse_fields(char *const fields[static FIELDS], struct token *ret)
{
    const char *name = fields[0];

    if (strlen(name) > TOKEN_NAME_MAX || strspn(name, NAME_BYTES) != strlen(name))
        return "the name must be letters, digits, '.', '_', '@' and '-', at most 64 of them";
    int right = right_from_name(fields[1]);
    if (right <= RIGHT_NONE)
        return "the role must be read, operate or admin";
    if (starts_with(fields[2], TOKEN_PREFIX))
        return "this is the token itself, which belongs to its user only; here stands its SHA-256, as "
               "profctl token new "
               "prints it";
    if (!parse_hash(fields[2], ret->hash))
        return "the hash must be 64 hexadecimal digits, the SHA-256 of a token";
    ret->right = (enum right)right;
    return NULL;
}

static const char *check_twin(const struct tokens *t, const struct token *one)
{
    for (size_t i = 0; i < t->n; i++) {
        if (streq(t->items[i].name, one->name))
            return "there is a line of that name already";
        if (memcmp(t->items[i].hash, one->hash, TOKEN_HASH_BYTES) == 0)
            return "there is a line with that hash already";
    }
    return t->n == TOKENS_MAX ? "there are more than 1000 tokens" : NULL;
}

/* NULL, or what is wrong with the line. */
static const char *take_line(struct tokens *t, char *line)
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
    const char *wrong = parse_fields(fields, &one);
    if (wrong)
        return wrong;
    one.name = fields[0];
    wrong = check_twin(t, &one);
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
        const char *wrong = strlen(line) < length ? "there is a NUL byte" : take_line(&t, line);
        if (wrong)
            return problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s:%d: %s", file_name, number, wrong);
        next += length + 1;
    }
    *ret = t;
    t = (struct tokens){0};
    return 0;
}

/* A group may read it where profd or root chose the group: a unit that hands files to profd does it so. */
static int check_mode(const char *path, struct problem *p)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return problem_set(p, -errno, PROBLEM_BAD_REQUEST, "cannot read the tokens of %s: %s", path,
                           strerror(errno));
    if (st.st_uid != 0 && st.st_uid != geteuid()) {
        problem_set(p, -EPERM, PROBLEM_DENIED, "the tokens of %s are uid %u's, who could write any", path,
                    st.st_uid);
        problem_remedy(p, "chown it to root, or to the user that profd runs as.");
        return -EPERM;
    }
    if (!(st.st_mode & (S_IRWXO | S_IWGRP)))
        return 0;
    problem_set(p, -EPERM, PROBLEM_DENIED, "the tokens of %s are open to %s (mode %04o)", path,
                st.st_mode & S_IRWXO ? "every user of this host" : "writing by its group",
                st.st_mode & 07777);
    problem_remedy(p, "chmod g-w,o= %s", path);
    return -EPERM;
}

int tokens_load(const char *path, struct tokens *ret, struct problem *p)
{
    _cleanup_(freep) char *data = NULL;
    size_t size;

    int r = check_mode(path, p);
    if (r < 0)
        return r;
    r = read_file(AT_FDCWD, path, TOKENS_FILE_MAX, &data, &size);
    if (r < 0)
        return problem_set(p, r, PROBLEM_BAD_REQUEST, "cannot read the tokens of %s: %s", path, strerror(-r));
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
