/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What makes the HTTP server speak TLS: a context made of files. Knows no connection; the context is whoever's
 * holds a reference to it, and never changed once it is made.
 *
 * TLS 1.2 at least, with OpenSSL's own choice of ciphers. No renegotiation and no resumed sessions: a client
 * that is refused by the certificates of today must not get in with what it agreed on yesterday.
 */
#pragma once

#include "base/problem.h"
#include <openssl/ssl.h>

struct http_tls_files {
    const char *cert, *key;
    const char *client_ca; /* NULL: clients need no certificate; else one that is signed by one of these */
};

/* Says in the problem which file is wrong, and in what. */
int http_tls_new(const struct http_tls_files *files, SSL_CTX **ret, struct problem *p);
