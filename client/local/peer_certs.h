/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Certificates for profds that know each other: an authority of their own, and one certificate for each host, for both
 * sides of TLS. Keys are ECDSA P-256; files are new, of mode 0600, and never replace others.
 */
#pragma once

#include "base/problem.h"

struct peer_authority;

/* A new authority; DIR/ca.pem and DIR/ca.key. */
int peer_authority_new(const char *directory, struct peer_authority **ret, struct problem *p);
struct peer_authority *peer_authority_free(struct peer_authority *a);
DEFINE_CLEANUP(struct peer_authority *, peer_authority_free)
/* DIR/HOST.pem and DIR/HOST.key, for a name or an address. */
int peer_authority_issue(struct peer_authority *a, const char *host, struct problem *p);

/* A new file of mode 0600 with that text; -EEXIST, ... with the problem. */
int peer_file_write(const char *directory, const char *name, const char *text, struct problem *p);
