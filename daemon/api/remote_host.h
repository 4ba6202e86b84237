/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the host of a trace answers, before something is asked of it that may take minutes: one that was heard of in the
 * last seconds is asked at once, one that was silent in the last seconds is not asked, another is greeted first. So a
 * client waits for a dead host as long as one short call takes, however many of its traces it names.
 */
#pragma once

#include "daemon/api/handler.h"
#include "daemon/catalog/records.h"
#include "daemon/peers/peers.h"

struct remote_host;

/* done() runs later, once: with the peer, valid until the next iteration, or with PROBLEM_UNREACHABLE. host: its name, for
 * texts. */
struct remote_host *remote_host_reach(struct api *api, const char *host_uuid, const char *host,
                                      void (*done)(const struct peer *peer, const struct problem *p,
                                                   void *arg),
                                      void *arg);
/*
 * While an answer is awaited that may take long: lost() is called, once, when the host stops to answer short calls. A
 * connection over a link that was cut reports nothing by itself.
 */
struct remote_host *remote_host_watch(struct api *api, const char *host_uuid, const char *host,
                                      void (*lost)(const struct peer *none, const struct problem *p,
                                                   void *arg),
                                      void *arg);
/* Without done() or lost(). NULL is nothing. */
void remote_host_cancel(struct remote_host *h);

/* True where the client is the profd of another host, which gets traces of this host only: the reply was given. What a third
 * host keeps is asked of that one, by whom its administrators gave a token. */
bool remote_host_refuse_peer(struct http_request *r, const struct remote_trace_record *t);

/* The reply about a host that does not answer, with "remote": {"host", "archived"}. archived: whether the archive has the
 * trace, RECORD_NONE where that is not known. */
void remote_host_reply(struct http_request *r, const struct problem *p, const char *host, int64_t archived);
