/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/credentials.h"

#include "base/alloc.h"
#include "base/fs.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>

#define TOKEN_MAX (16 << 10)

bool credentials_any(const struct credentials *c)
{
    return c->token_file || c->admin_token_file || c->ca_file || c->cert_file || c->key_file;
}

void credentials_copy(const struct credentials *c, struct credentials *ret)
{
    *ret = (struct credentials){.token_file = xstrdup(c->token_file),
                                .admin_token_file = xstrdup(c->admin_token_file),
                                .ca_file = xstrdup(c->ca_file),
                                .cert_file = xstrdup(c->cert_file),
                                .key_file = xstrdup(c->key_file)};
}

void credentials_done(struct credentials *c)
{
    free(c->token_file);
    free(c->admin_token_file);
    free(c->ca_file);
    free(c->cert_file);
    free(c->key_file);
    *c = (struct credentials){0};
}

void secret_free(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

static int fail(char **ret_error, const char *key, const char *path, const char *why)
{
    free(*ret_error);
    *ret_error = xasprintf("cannot use %s %s: %s", key, path, why);
    return -EACCES;
}

static int read_token(const char *key, const char *path, char **ret_token, char **ret_error)
{
    size_t size;
    char *token = NULL;
    int r = read_file(AT_FDCWD, path, TOKEN_MAX, &token, &size);

    if (r < 0)
        return fail(ret_error, key, path, strerror(-r));
    while (size > 0 && isspace((unsigned char)token[size - 1]))
        token[--size] = '\0';
    r = size == 0 ? fail(ret_error, key, path, "it is empty") : 0;
    for (size_t i = 0; i < size && r == 0; i++)
        if ((unsigned char)token[i] <= ' ' || (unsigned char)token[i] == 0x7f)
            r = fail(ret_error, key, path, "a token is one word");
    if (r == 0)
        *ret_token = token;
    else
        secret_free(token);
    return r;
}

static int use_file(CURL *easy, CURLoption option, const char *key, const char *path, char **ret_error)
{
    if (!path)
        return 0;
    if (access(path, R_OK) < 0)
        return fail(ret_error, key, path, strerror(errno));
    curl_easy_setopt(easy, option, path);
    return 0;
}

int credentials_use(const struct credentials *c, bool admin, CURL *easy, char **ret_token, char **ret_error)
{
    int r = 0;

    if (!c)
        return 0;
    if (admin && c->admin_token_file)
        r = read_token("admin_token_file", c->admin_token_file, ret_token, ret_error);
    else if (c->token_file)
        r = read_token("token_file", c->token_file, ret_token, ret_error);
    const struct {
        CURLoption option;
        const char *key, *path;
    } files[] = {{CURLOPT_CAINFO, "ca_file", c->ca_file},
                 {CURLOPT_SSLCERT, "cert_file", c->cert_file},
                 {CURLOPT_SSLKEY, "key_file", c->key_file}};
    for (size_t i = 0; i < ARRAY_SIZE(files) && r == 0; i++)
        r = use_file(easy, files[i].option, files[i].key, files[i].path, ret_error);
    return r;
}
