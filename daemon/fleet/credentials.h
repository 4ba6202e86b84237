/* SPDX-License-Identifier: Apache-2.0 */
/* What a call shows to prove who it is from: files that are read anew for each. */
#pragma once

#include "daemon/fleet/call.h"
#include <curl/curl.h>

/* NULL credentials are none; a NULL handle takes only the token, and the files of TLS are checked. *ret_token, for the
 * header, is the caller's to end by secret_free(). An error has its text in *ret_error, which replaces the one before. */
int call_credentials_use(const struct call_credentials *c, bool admin, CURL *easy, char **ret_token,
                         char **ret_error);
/*
 * Reads all files now, for a process that may open none later; with `tls` also whom the system trusts.
 * -EACCES with words in *ret_error.
 */
int call_credentials_keep(struct call_credentials *c, bool tls, char **ret_error);
void secret_free(char *secret);
/* Adds the token as a header of that name (NULL: Authorization, as bearer token); only the list keeps a copy. */
void curl_list_add_token(struct curl_slist **list, const char *header, const char *token);
