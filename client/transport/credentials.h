/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What profctl shows to a profd that is reached by URL: a token out of a file, a certificate; and by which
 * authority it knows that profd. A token is in a file because every user of a host can read command lines.
 */
#pragma once

#include "base/problem.h"
#include <curl/curl.h>

/* As options give them; NULL: not. */
struct credential_options {
    const char *token_file, *cacert, *cert, *key;
    bool plain_http;
};

struct credentials {
    char *token; /* these are NULL where there is none */
    char *cacert, *cert, *key;
};

/*
 * The token is that of the option, else of $PROFD_TOKEN_FILE, else of ~/.config/profd/token if that is there.
 * -EPERM where it would go to another host for all to read.
 */
int credentials_find(const struct credential_options *o, const char *url, struct credentials *ret,
                     struct problem *p);
void credentials_done(struct credentials *c);
void credentials_prepare(const struct credentials *c, CURL *curl);
