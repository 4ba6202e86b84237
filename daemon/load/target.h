/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The targets of requests: URL, API, addresses and headers. Host names are resolved and credentials read once,
 * before the process gives up the rights that this needs; later no file is opened and no name server asked.
 */
#pragma once

#include "daemon/fleet/names.h"
#include "daemon/load/api.h"
#include "daemon/load/workload.h"
#include <curl/curl.h>

/* -- Host names and ports of a run -------------------------------------------------------------------- */

struct resolved_hosts;

/* Waits for the name servers, for a minute in all: names that are not resolved by then have no addresses. */
struct resolved_hosts *hosts_resolve(const struct load_spec *spec);
struct resolved_hosts *hosts_free(struct resolved_hosts *h);
void hosts_fix_names(const struct resolved_hosts *h, struct caller *c);
/* The ports that the run connects to. */
const uint16_t *hosts_ports(const struct resolved_hosts *h, size_t *ret_n);
bool hosts_have_tls(const struct resolved_hosts *h);

/* -- Targets ------------------------------------------------------------------------------------------ */

struct load_target {
    char *url; /* of the worker */
    const struct server_api *api;
    pid_t pid;

    /* Of its requests: */
    char *request_url;
    struct curl_slist *headers;
    struct curl_slist *addresses; /* of its name, as for CURLOPT_RESOLVE; NULL: the host is an address */
    bool is_unresolved;           /* a name without addresses */
    const struct call_credentials *credentials; /* the run's, the same for all targets */

    /* The same without libcurl, where the request can go over HTTP/1.1 without TLS; request_head is NULL where not. */
    char *host_port;              /* "10.0.0.7:8000" */
    char *request_head;           /* up to the value of Content-Length */
    struct sockaddr_in6 *sockets; /* n of them, of either family */
    size_t n_sockets;
    int64_t origin; /* of the connections, in http1_client.c; -1: not known yet */

    /* State: */
    bool is_known;         /* has been sent a request of the run */
    bool counts_tokens;    /* one of its responses had a usage: texts need not be kept */
    int64_t rest_until_ns; /* it asked for a pause (429) */
};

/* One for each worker, which they do not borrow; they borrow the run's credentials. -EACCES with a text in
 * *ret_error where these cannot be used. */
int load_targets_new(const struct load_spec *spec, const struct resolved_hosts *hosts,
                     const struct load_workers *workers, struct load_target **ret, char **ret_error);
/* NULL is fine. */
void load_targets_free(struct load_target *targets, size_t n);
