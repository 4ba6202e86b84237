/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/credentials.h"

#include "base/alloc.h"
#include "base/curl_handle.h"
#include "base/fs.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>

#define TOKEN_MAX (16 << 10)
/* A certificate with its chain, or a key. */
#define PEM_MAX (1 << 20)
#define KEY_MAX 64 /* bytes of a key's name */

struct pem {
    char *data;
    size_t size;
};

struct credentials_kept {
    char *token, *admin_token;
    struct pem certificate, key;
    X509_STORE *trusted; /* NULL: without TLS */
};

bool call_credentials_any(const struct call_credentials *c)
{
    return c->token_file || c->admin_token_file || c->ca_file || c->cert_file || c->key_file;
}

void call_credentials_copy(const struct call_credentials *c, struct call_credentials *ret)
{
    *ret = (struct call_credentials){.token_file = xstrdup(c->token_file),
                                     .admin_token_file = xstrdup(c->admin_token_file),
                                     .ca_file = xstrdup(c->ca_file),
                                     .cert_file = xstrdup(c->cert_file),
                                     .key_file = xstrdup(c->key_file),
                                     .ca_alone = c->ca_alone,
                                     .prefix = c->prefix,
                                     .token_header = c->token_header};
}

void secret_free(char *secret)
{
    if (secret)
        explicit_bzero(secret, strlen(secret));
    free(secret);
}

void curl_list_add_token(struct curl_slist **list, const char *header, const char *token)
{
    char *line = xasprintf("%s: %s%s", header ? header : "Authorization", header ? "" : "Bearer ", token);
    curl_list_add(list, line);
    secret_free(line);
}

static void kept_free(struct credentials_kept *k)
{
    if (!k)
        return;
    secret_free(k->token);
    secret_free(k->admin_token);
    secret_free(k->key.data);
    free(k->certificate.data);
    X509_STORE_free(k->trusted);
    free(k);
}

void call_credentials_done(struct call_credentials *c)
{
    kept_free(c->kept);
    free(c->token_file);
    free(c->admin_token_file);
    free(c->ca_file);
    free(c->cert_file);
    free(c->key_file);
    *c = (struct call_credentials){0};
}

static int call_credentials_fail(char **ret_error, const char *key, const char *path, const char *why)
{
    free(*ret_error);
    *ret_error = xasprintf("cannot use %s %s: %s", key, path, why);
    return -EACCES;
}

static int call_credentials_read_token(const char *key, const char *path, char **ret_token, char **ret_error)
{
    size_t size;
    char *token = NULL;
    int r = read_file(AT_FDCWD, path, TOKEN_MAX, &token, &size);

    if (r < 0)
        return call_credentials_fail(ret_error, key, path, strerror(-r));
    while (size > 0 && isspace((unsigned char)token[size - 1]))
        token[--size] = '\0';
    r = size == 0 ? call_credentials_fail(ret_error, key, path, "it is empty") : 0;
    for (size_t i = 0; i < size && r == 0; i++)
        if ((unsigned char)token[i] <= ' ' || (unsigned char)token[i] == 0x7f)
            r = call_credentials_fail(ret_error, key, path, "a token is one word");
    if (r == 0)
        *ret_token = token;
    else
        secret_free(token);
    return r;
}

static int call_credentials_read_pem(const char *key, const char *path, struct pem *ret, char **ret_error)
{
    int r = path ? read_file(AT_FDCWD, path, PEM_MAX, &ret->data, &ret->size) : 0;

    return r < 0 ? call_credentials_fail(ret_error, key, path, strerror(-r)) : 0;
}

/* As libcurl has it: a ca_file is trusted in addition to what the system trusts. Without either, no
 * certificate is trusted, and each call reports that. */
static int call_credentials_read_trusted(const char *path, X509_STORE **ret, char **ret_error)
{
    CURL *easy = curl_easy_init();
    char *of_system = NULL;

    *ret = X509_STORE_new();
    if (!*ret || !easy)
        abort(); /* as base/alloc.h */
    X509_STORE_set_flags(*ret, X509_V_FLAG_TRUSTED_FIRST | X509_V_FLAG_PARTIAL_CHAIN);
    curl_easy_getinfo(easy, CURLINFO_CAINFO, &of_system);
    if (of_system)
        X509_STORE_load_file(*ret, of_system);
    curl_easy_cleanup(easy);
    if (!path || X509_STORE_load_file(*ret, path) == 1)
        return 0;
    return call_credentials_fail(ret_error, "ca_file", path,
                                 access(path, R_OK) < 0 ? strerror(errno) : "it has no certificate");
}

int call_credentials_keep(struct call_credentials *c, bool tls, char **ret_error)
{
    struct credentials_kept *k = xcalloc(1, sizeof(*k));
    int r = 0;

    c->kept = k;
    if (c->token_file)
        r = call_credentials_read_token("token_file", c->token_file, &k->token, ret_error);
    if (r == 0 && c->admin_token_file)
        r = call_credentials_read_token("admin_token_file", c->admin_token_file, &k->admin_token, ret_error);
    if (r == 0)
        r = call_credentials_read_pem("cert_file", c->cert_file, &k->certificate, ret_error);
    if (r == 0)
        r = call_credentials_read_pem("key_file", c->key_file, &k->key, ret_error);
    if (r == 0 && tls)
        r = call_credentials_read_trusted(c->ca_file, &k->trusted, ret_error);
    return r;
}

static void call_credentials_use_pem(CURL *easy, CURLoption option, const struct pem *pem)
{
    struct curl_blob blob = {pem->data, pem->size, CURL_BLOB_NOCOPY};

    if (pem->data)
        curl_easy_setopt(easy, option, &blob);
}

static CURLcode trust_kept(CURL *easy, void *context, void *trusted)
{
    SSL_CTX_set1_cert_store(context, trusted);
    return CURLE_OK;
}

static void call_credentials_use_kept(const struct credentials_kept *k, bool admin, CURL *easy,
                                      char **ret_token)
{
    const char *token = admin && k->admin_token ? k->admin_token : k->token;

    if (token)
        *ret_token = xstrdup(token);
    if (!easy)
        return;
    call_credentials_use_pem(easy, CURLOPT_SSLCERT_BLOB, &k->certificate);
    call_credentials_use_pem(easy, CURLOPT_SSLKEY_BLOB, &k->key);
    if (!k->trusted)
        return;
    curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
    curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_FUNCTION, trust_kept);
    curl_easy_setopt(easy, CURLOPT_SSL_CTX_DATA, k->trusted);
}

static int call_credentials_use_file(CURL *easy, CURLoption option, const char *key, const char *path,
                                     char **ret_error)
{
    if (!path)
        return 0;
    if (access(path, R_OK) < 0)
        return call_credentials_fail(ret_error, key, path, strerror(errno));
    if (easy)
        curl_easy_setopt(easy, option, path);
    return 0;
}

int call_credentials_use(const struct call_credentials *c, bool admin, CURL *easy, char **ret_token,
                         char **ret_error)
{
    char token_key[KEY_MAX], ca_key[KEY_MAX];
    int r = 0;

    if (!c)
        return 0;
    if (c->kept) {
        call_credentials_use_kept(c->kept, admin, easy, ret_token);
        return 0;
    }
    snprintf(token_key, sizeof(token_key), "%stoken_file", c->prefix ? c->prefix : "");
    snprintf(ca_key, sizeof(ca_key), "%sca_file", c->prefix ? c->prefix : "");
    if (admin && c->admin_token_file)
        r = call_credentials_read_token("admin_token_file", c->admin_token_file, ret_token, ret_error);
    else if (c->token_file)
        r = call_credentials_read_token(token_key, c->token_file, ret_token, ret_error);
    const struct {
        CURLoption option;
        const char *key, *path;
    } files[] = {{CURLOPT_CAINFO, ca_key, c->ca_file},
                 {CURLOPT_SSLCERT, "cert_file", c->cert_file},
                 {CURLOPT_SSLKEY, "key_file", c->key_file}};
    for (size_t i = 0; i < ARRAY_SIZE(files) && r == 0; i++)
        r = call_credentials_use_file(easy, files[i].option, files[i].key, files[i].path, ret_error);
    /* CURLOPT_CAINFO takes the place of the system's file, and the system's directory would still be trusted. */
    if (easy && c->ca_alone && c->ca_file)
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    return r;
}
