/* SPDX-License-Identifier: Apache-2.0 */
#include "archive/s3_credentials.h"

#include "base/alloc.h"
#include "base/fs.h"
#include <errno.h>
#include <fcntl.h>

/* -- The text ----------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    size_t offset;
    bool is_required;
} members[] = {
    {"aws_access_key_id", offsetof(struct s3_keys, id), true},
    {"aws_secret_access_key", offsetof(struct s3_keys, secret), true},
    {"aws_session_token", offsetof(struct s3_keys, token), false},
};

static char **s3_keys_member(struct s3_keys *k, size_t i)
{
    return (char **)((char *)k + members[i].offset);
}

static void s3_keys_wipe(char **text)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

void s3_keys_done(struct s3_keys *k)
{
    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        s3_keys_wipe(s3_keys_member(k, i));
}

/* Without the blanks at both ends. */
static void s3_keys_trim(const char **text, size_t *size)
{
    while (*size > 0 && strchr(" \t\r", (*text)[*size - 1]))
        (*size)--;
    while (*size > 0 && strchr(" \t", **text)) {
        (*text)++;
        (*size)--;
    }
}

/* NULL, or what is wrong with it. */
static const char *s3_keys_set(struct s3_keys *k, const char *name, size_t n, const char *value, size_t size)
{
    for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
        char **member = s3_keys_member(k, i);
        if (strlen(members[i].name) != n || strncmp(members[i].name, name, n) != 0)
            continue;
        if (*member)
            return "this key is there twice";
        if (size == 0 && !members[i].is_required)
            return NULL;
        if (size == 0 || size > S3_CREDENTIAL_MAX)
            return size == 0 ? "the value is empty" : "the value is too long";
        for (size_t c = 0; c < size; c++)
            if (value[c] <= ' ' || value[c] > '~')
                return "a value is one word of visible ASCII";
        *member = xstrndup(value, size);
        return NULL;
    }
    return NULL;
}

/* *in_section: whether the line belongs to [default], or to no section. */
static const char *s3_keys_take_line(struct s3_keys *k, const char *line, size_t size, bool *in_section)
{
    const char *equals;

    s3_keys_trim(&line, &size);
    if (size == 0 || line[0] == '#' || line[0] == ';')
        return NULL;
    if (line[0] == '[') {
        if (line[size - 1] != ']')
            return "a section ends with ]";
        *in_section = size == strlen("[default]") && strncmp(line, "[default]", size) == 0;
        return NULL;
    }
    equals = memchr(line, '=', size);
    if (!equals)
        return "a line is NAME = VALUE";
    if (!*in_section)
        return NULL;
    const char *value = equals + 1;
    size_t n = (size_t)(equals - line), value_size = size - n - 1;
    s3_keys_trim(&line, &n);
    s3_keys_trim(&value, &value_size);
    return s3_keys_set(k, line, n, value, value_size);
}

int s3_keys_parse(const char *text, size_t size, struct s3_keys *ret, char **ret_reason)
{
    struct s3_keys k = {0};
    bool in_section = true;
    const char *why = NULL;
    unsigned number = 0;

    *ret_reason = NULL;
    for (const char *p = text, *end = text + size; p < end && !why;) {
        const char *newline = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((newline ? newline : end) - p);
        number++;
        why = memchr(p, '\0', n) ? "it is no text" : s3_keys_take_line(&k, p, n, &in_section);
        p = newline ? newline + 1 : end;
    }
    if (why)
        *ret_reason = xasprintf("line %u: %s", number, why);
    for (size_t i = 0; i < ARRAY_SIZE(members) && !*ret_reason; i++)
        if (members[i].is_required && !*s3_keys_member(&k, i))
            *ret_reason = xasprintf("%s is missing", members[i].name);
    if (*ret_reason) {
        s3_keys_done(&k);
        return -EINVAL;
    }
    *ret = k;
    return 0;
}

/* -- The file ----------------------------------------------------------------------------------------- */

static bool s3_credentials_is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

bool s3_credentials_changed(const struct s3_credentials *c)
{
    struct stat st;

    return c->is_read && stat(c->path, &st) == 0 && !s3_credentials_is_same(&st, &c->st);
}

static int s3_credentials_fail(const struct s3_credentials *c, int err, const char *why, struct problem *p)
{
    problem_set(p, err, PROBLEM_DENIED, "cannot use credentials_file %s: %s", c->path, why);
    problem_remedy(
        p,
        "Write aws_access_key_id = ... and aws_secret_access_key = ... into it, one a line, and let the user "
        "that runs this program read it.");
    return err;
}

int s3_credentials_update(struct s3_credentials *c, struct problem *p)
{
    _cleanup_(freep) char *reason = NULL;
    struct s3_keys keys = {0};
    char *text = NULL;
    size_t size = 0;
    struct stat st;

    if (c->is_read && !s3_credentials_changed(c))
        return 0;
    /* Without blocking: a FIFO is no file of credentials. */
    _cleanup_(closep) int fd = open(c->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &st) < 0)
        return s3_credentials_fail(c, -EACCES, strerror(errno), p);
    if (!S_ISREG(st.st_mode))
        return s3_credentials_fail(c, -EACCES, "it is no regular file", p);
    int r = read_fd(fd, S3_CREDENTIALS_FILE_MAX, &text, &size);
    if (r < 0)
        return s3_credentials_fail(c, -EACCES, strerror(-r), p);
    r = s3_keys_parse(text, size, &keys, &reason);
    explicit_bzero(text, size);
    free(text);
    if (r < 0)
        return s3_credentials_fail(c, -EACCES, reason, p);
    s3_keys_done(&c->keys);
    c->keys = keys;
    c->st = st;
    c->is_read = true;
    return 0;
}

void s3_credentials_done(struct s3_credentials *c)
{
    s3_keys_done(&c->keys);
    free(c->path);
    *c = (struct s3_credentials){0};
}
