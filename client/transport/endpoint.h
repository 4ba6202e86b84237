/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where profd is, and the credentials that profctl presents there.
 *
 * The endpoint is what the options name, else $PROFD_SOCKET, else the system's profd, else (where no system
 * profd answers) the per-user instance, whose socket is the system's for root outside of a Slurm job.
 *
 * Credentials are for a URL only: a token from a file, since every user of a host can read command lines, a
 * client certificate, and the authorities that profctl trusts.
 */
#pragma once

#include "base/problem.h"
#include <curl/curl.h>

struct endpoint {
    char *socket;  /* path; NULL for TCP */
    char *url;     /* without a trailing slash; "http://localhost" with a socket */
    bool is_named; /* the socket is another than those on which profd listens by default */
};

int endpoint_find(const char *socket, const char *host, struct endpoint *ret, struct problem *p);
void endpoint_done(struct endpoint *e);
/* The errno value of connecting to a socket, 0 when it answers. */
int endpoint_socket_error(const char *path);
/* Whether the environment names a directory for files of this user. */
bool endpoint_has_home(void);

/* As given by options; NULL: not given. */
struct credential_options {
    const char *token_file, *cacert, *cert, *key;
    bool plain_http;
};

struct credentials {
    char *token; /* NULL: none, as for the others */
    char *cacert, *cert, *key;
};

/* The token is that of the option, else of $PROFD_TOKEN_FILE, else of ~/.config/profd/token if that exists.
 * -EPERM where it would cross a network in clear text. */
int credentials_find(const struct credential_options *o, const char *url, struct credentials *ret,
                     struct problem *p);
void credentials_done(struct credentials *c);
void credentials_prepare(const struct credentials *c, CURL *curl);

/* A file of profctl's configuration: $XDG_CONFIG_HOME/profd/NAME, else ~/.config/profd/NAME. NULL where neither
 * variable is set. The caller frees it. */
char *config_file_path(const char *name);
/* -EPERM with the problem where others than its owner may read or write the file. subject begins the error:
 * "the token in FILE". */
int config_file_check_mode(const char *path, const char *subject, struct problem *p);
