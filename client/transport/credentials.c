/* SPDX-License-Identifier: Apache-2.0 */
#include "client/transport/credentials.h"

#include "base/address.h"
#include "base/alloc.h"
#include "base/fs.h"
#include <errno.h>
#include <fcntl.h>

#define TOKEN_FILE_MAX 4096
#define BLANKS         " \t\r\n"

void credentials_done(struct credentials *c)
{
    free(c->token);
    free(c->cacert);
    free(c->cert);
    free(c->key);
    *c = (struct credentials){0};
}

/* "http://localhost:9460", "http://127.0.0.1", "http://[::1]:80". */
static bool stays_here(const char *url)
{
    CURLU *u = curl_url();
    char *host = NULL;
    struct in6_addr ip;

    if (u && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK)
        curl_url_get(u, CURLUPART_HOST, &host, 0);
    bool here =
        host && (streq(host, "localhost") || (address_of_host(host, &ip) && address_is_loopback(&ip)));
    curl_free(host);
    curl_url_cleanup(u);
    return here;
}

static char *default_file(void)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");

    if (config && *config == '/')
        return xasprintf("%s/profd/token", config);
    return home && *home == '/' ? xasprintf("%s/.config/profd/token", home) : NULL;
}

static int check_mode(const char *path, struct problem *p)
{
    struct stat st;

    if (stat(path, &st) < 0 || !(st.st_mode & (S_IRWXG | S_IRWXO)))
        return 0;
    problem_set(p, -EPERM, PROBLEM_DENIED, "the token of %s is open to other users (mode %04o)", path,
                st.st_mode & 07777);
    problem_remedy(p, "chmod 600 %s", path);
    return -EPERM;
}

/* What stands in the file is never repeated. */
static int read_token(const char *path, bool named, char **ret, struct problem *p)
{
    _cleanup_(freep) char *data = NULL;
    size_t size;

    int r = read_file(AT_FDCWD, path, TOKEN_FILE_MAX, &data, &size);
    if (r == -ENOENT && !named)
        return 0;
    if (r < 0) {
        problem_set(p, r, PROBLEM_BAD_REQUEST, "cannot read the token of %s: %s", path, strerror(-r));
        problem_remedy(p, "An admin of that profd makes one: profctl token new NAME.");
        return r;
    }
    r = check_mode(path, p);
    if (r < 0)
        return r;
    const char *start = data + strspn(data, BLANKS);
    size_t n = strcspn(start, BLANKS);
    bool is_token = n > 0 && start[n + strspn(start + n, BLANKS)] == '\0';
    for (size_t i = 0; i < n; i++)
        is_token = is_token && start[i] > ' ' && start[i] < 0x7f;
    if (!is_token) {
        problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "%s does not hold a token, and nothing else", path);
        problem_remedy(p, "It is one word, as profctl token new prints it.");
        return -EINVAL;
    }
    *ret = xstrndup(start, n);
    return 0;
}

static int find_token(const char *option, char **ret, struct problem *p)
{
    const char *environment = getenv("PROFD_TOKEN_FILE");
    _cleanup_(freep) char *fallback = default_file();

    if (!option && environment && *environment)
        option = environment;
    if (option)
        return read_token(option, true, ret, p);
    return fallback ? read_token(fallback, false, ret, p) : 0;
}

int credentials_find(const struct credential_options *o, const char *url, struct credentials *ret,
                     struct problem *p)
{
    _cleanup_(credentials_done) struct credentials c = {
        .cacert = xstrdup(o->cacert), .cert = xstrdup(o->cert), .key = xstrdup(o->key)};

    int r = find_token(o->token_file, &c.token, p);
    if (r < 0)
        return r;
    if (c.token && starts_with(url, "http://") && !o->plain_http && !stays_here(url)) {
        problem_set(p, -EPERM, PROBLEM_DENIED, "a token is not sent to %s, where others could read it", url);
        problem_remedy(p, "Use https://, or --plain-http where the network is protected otherwise.");
        return -EPERM;
    }
    *ret = c;
    c = (struct credentials){0}; // NOLINT(clang-analyzer-deadcode.DeadStores): its cleanup reads it
    return 0;
}

void credentials_prepare(const struct credentials *c, CURL *curl)
{
    if (c->token) {
        curl_easy_setopt(curl, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
        curl_easy_setopt(curl, CURLOPT_XOAUTH2_BEARER, c->token);
    }
    if (c->cacert)
        curl_easy_setopt(curl, CURLOPT_CAINFO, c->cacert);
    if (c->cert)
        curl_easy_setopt(curl, CURLOPT_SSLCERT, c->cert);
    if (c->key)
        curl_easy_setopt(curl, CURLOPT_SSLKEY, c->key);
    curl_easy_setopt(curl, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
}
