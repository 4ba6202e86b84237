/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/api/http.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

DEFINE_CLEANUP(SSL_CTX *, SSL_CTX_free)

/* OpenSSL's first reason is its last error but the wrapping ones; it is the one that names the cause. */
static int tls_refuse(const char *what, const char *path, struct problem *p)
{
    unsigned long code = ERR_get_error();
    const char *reason =
        ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);

    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "cannot use %s as the %s: %s", path, what,
                reason ? reason : "OpenSSL gives no reason");
    ERR_clear_error();
    return -EINVAL;
}

/* A key that wants a passphrase must not ask for it on the terminal that profd happens to have. */
static int tls_no_passphrase(char *buffer, int size, int writing, void *arg)
{
    return -1;
}

static int tls_check_key_mode(const char *path, struct problem *p)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return problem_set(p, -errno, PROBLEM_BAD_REQUEST, "cannot use %s as the private key: %s", path,
                           strerror(errno));
    if (!(st.st_mode & S_IRWXO))
        return 0;
    problem_set(p, -EPERM, PROBLEM_DENIED,
                "the private key %s is open to every user of this host (mode %04o)", path,
                st.st_mode & 07777);
    problem_remedy(p, "chmod o= %s", path);
    return -EPERM;
}

static int tls_load_certificate(SSL_CTX *context, const struct http_tls_files *files, struct problem *p)
{
    if (SSL_CTX_use_certificate_chain_file(context, files->cert) != 1)
        return tls_refuse("certificate", files->cert, p);
    int r = tls_check_key_mode(files->key, p);
    if (r < 0)
        return r;
    /* This one checks that the two belong together. */
    if (SSL_CTX_use_PrivateKey_file(context, files->key, SSL_FILETYPE_PEM) != 1)
        return tls_refuse("private key", files->key, p);
    return 0;
}

static int tls_load_client_ca(SSL_CTX *context, const char *path, struct problem *p)
{
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(path);

    if (!names || SSL_CTX_load_verify_file(context, path) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return tls_refuse("authority of client certificates", path, p);
    }
    SSL_CTX_set_client_CA_list(context, names);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    return 0;
}

int http_tls_new(const struct http_tls_files *files, SSL_CTX **ret, struct problem *p)
{
    ERR_clear_error();
    _cleanup_(SSL_CTX_freep) SSL_CTX *context = SSL_CTX_new(TLS_server_method());

    if (!context)
        return problem_set(p, -ENOMEM, PROBLEM_INTERNAL, "OpenSSL cannot create a TLS context");
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_num_tickets(context, 0);
    /* Bytes that a client does not take are not kept twice. */
    SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_default_passwd_cb(context, tls_no_passphrase);
    int r = tls_load_certificate(context, files, p);
    if (r == 0 && files->client_ca)
        r = tls_load_client_ca(context, files->client_ca, p);
    if (r == 0)
        *ret = TAKE_PTR(context);
    return r;
}
