/* SPDX-License-Identifier: Apache-2.0 */
#include "client/local/peer_certs.h"

#include "base/address.h"
#include "base/alloc.h"
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/random.h>

#define AUTHORITY_NAME "profd peers"
#define AUTHORITY_DAYS 3650
#define HOST_DAYS      825
/* Clocks of hosts differ. */
#define EARLIER_S (-3600)

struct peer_authority {
    char *directory;
    EVP_PKEY *key;
    X509 *certificate;
};

struct peer_authority *peer_authority_free(struct peer_authority *a)
{
    if (!a)
        return NULL;
    EVP_PKEY_free(a->key);
    X509_free(a->certificate);
    free(a->directory);
    free(a);
    return NULL;
}

/* -- Files -- */

static FILE *file_create(const char *directory, const char *name, struct problem *p)
{
    _cleanup_(freep) char *path = xasprintf("%s/%s", directory, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (f)
        return f;
    problem_set(p, -errno, PROBLEM_BAD_REQUEST, "cannot create %s: %s", path, strerror(errno));
    problem_remedy(p, "Choose a new directory with --directory DIR.");
    if (fd >= 0)
        close(fd);
    return NULL;
}

static int file_close(FILE *f, const char *name, bool complete, struct problem *p)
{
    bool failed = !complete || ferror(f) || fsync(fileno(f)) < 0;

    if (fclose(f) != 0 || failed)
        return problem_set(p, -EIO, PROBLEM_STORAGE, "cannot write %s", name);
    return 0;
}

int peer_file_write(const char *directory, const char *name, const char *text, struct problem *p)
{
    FILE *f = file_create(directory, name, p);

    return f ? file_close(f, name, fputs(text, f) >= 0, p) : -EIO;
}

static int key_write(const char *directory, const char *host, EVP_PKEY *key, struct problem *p)
{
    _cleanup_(freep) char *name = xasprintf("%s.key", host);
    FILE *f = file_create(directory, name, p);

    return f ? file_close(f, name, PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1, p) : -EIO;
}

static int certificate_write(const char *directory, const char *host, X509 *certificate, struct problem *p)
{
    _cleanup_(freep) char *name = xasprintf("%s.pem", host);
    FILE *f = file_create(directory, name, p);

    return f ? file_close(f, name, PEM_write_X509(f, certificate) == 1, p) : -EIO;
}

/* -- Certificates -- */

static bool certificate_extend(X509 *certificate, X509 *issuer, int kind, const char *value)
{
    X509V3_CTX context;

    X509V3_set_ctx(&context, issuer, certificate, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &context, kind, value);
    bool ok = e && X509_add_ext(certificate, e, -1) == 1;
    X509_EXTENSION_free(e);
    return ok;
}

static bool certificate_name(X509 *certificate, const char *name)
{
    X509_NAME *subject = X509_get_subject_name(certificate);
    /* Longer names, which are alternative names all the same, do not fit into a common name. */
    _cleanup_(freep) char *common = xstrndup(name, 64);

    return X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)common, -1, -1,
                                      0) == 1;
}

/* Without extensions and signature. NULL where libcrypto fails. */
static X509 *certificate_new(const char *name, EVP_PKEY *key, int days)
{
    X509 *c = X509_new();
    uint64_t serial;

    if (!c || getrandom(&serial, sizeof(serial), 0) != sizeof(serial) ||
        X509_set_version(c, X509_VERSION_3) != 1 ||
        ASN1_INTEGER_set_uint64(X509_get_serialNumber(c), serial >> 1) != 1 ||
        !X509_gmtime_adj(X509_getm_notBefore(c), EARLIER_S) ||
        !X509_time_adj_ex(X509_getm_notAfter(c), days, 0, NULL) || X509_set_pubkey(c, key) != 1 ||
        !certificate_name(c, name)) {
        X509_free(c);
        return NULL;
    }
    return c;
}

static int crypto_failed(struct problem *p, const char *what)
{
    return problem_set(p, -EIO, PROBLEM_INTERNAL, "OpenSSL cannot make %s", what);
}

int peer_authority_new(const char *directory, struct peer_authority **ret, struct problem *p)
{
    _cleanup_(peer_authority_freep) struct peer_authority *a = xcalloc(1, sizeof(*a));

    a->directory = xstrdup(directory);
    a->key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    a->certificate = a->key ? certificate_new(AUTHORITY_NAME, a->key, AUTHORITY_DAYS) : NULL;
    X509 *c = a->certificate;
    if (!c || X509_set_issuer_name(c, X509_get_subject_name(c)) != 1 ||
        !certificate_extend(c, c, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
        !certificate_extend(c, c, NID_key_usage, "critical,keyCertSign") ||
        !certificate_extend(c, c, NID_subject_key_identifier, "hash") ||
        X509_sign(c, a->key, EVP_sha256()) == 0)
        return crypto_failed(p, "an authority");
    int r = certificate_write(directory, "ca", c, p);
    if (r == 0)
        r = key_write(directory, "ca", a->key, p);
    if (r == 0)
        *ret = TAKE_PTR(a);
    return r;
}

int peer_authority_issue(struct peer_authority *a, const char *host, struct problem *p)
{
    struct in6_addr address;
    _cleanup_(freep) char *alternative =
        xasprintf("%s:%s", address_parse(host, &address) == 0 ? "IP" : "DNS", host);
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    X509 *c = key ? certificate_new(host, key, HOST_DAYS) : NULL;
    int r = 0;

    if (!c || X509_set_issuer_name(c, X509_get_subject_name(a->certificate)) != 1 ||
        !certificate_extend(c, a->certificate, NID_basic_constraints, "critical,CA:FALSE") ||
        !certificate_extend(c, a->certificate, NID_key_usage, "critical,digitalSignature") ||
        !certificate_extend(c, a->certificate, NID_ext_key_usage, "serverAuth,clientAuth") ||
        !certificate_extend(c, a->certificate, NID_authority_key_identifier, "keyid") ||
        !certificate_extend(c, a->certificate, NID_subject_alt_name, alternative) ||
        X509_sign(c, a->key, EVP_sha256()) == 0)
        r = crypto_failed(p, "a certificate");
    if (r == 0)
        r = certificate_write(a->directory, host, c, p);
    if (r == 0)
        r = key_write(a->directory, host, key, p);
    X509_free(c);
    EVP_PKEY_free(key);
    return r;
}
