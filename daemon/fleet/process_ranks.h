/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks without an HTTP server of their own: an engine over several nodes has one server, on its first node; the launches on
 * the others (SGLang's --node-rank 1, vLLM's --headless) are started and stopped by it, and write their traces on their own
 * host. Such a launch is a worker that nobody calls: its URL is ranks://MEET/NODE, where the group meets and which of its
 * nodes it is, and its ranks_of is the server's URL.
 *
 * rank_launch_read() and the functions over URLs are pure; anybody may have written the command lines that they read.
 */
#pragma once

#include "base/process_info.h"
#include "daemon/fleet/fleet.h"

#define RANKS_SCHEME "ranks://"
/* Bytes of the address where a group meets. */
#define RANKS_GROUP_MAX 256

/* One node's launch, of the server or without one. */
struct rank_launch {
    enum engine engine;
    char *group; /* "10.0.0.1:5000"; a loopback address is none */
    int nodes;   /* 0: not named */
    int node;    /* 0: the one with the server */
    int tp, pp;  /* of the entire group; 0: not named */
    int ranks;   /* on this node; 0: not known */
    int first_rank;
};

/* False: no launch of an engine over several nodes. rank_launch_done() if true. */
bool rank_launch_read(const struct string_list *args, struct rank_launch *ret);
void rank_launch_done(struct rank_launch *l);

/* "ranks://10.0.0.1:5000/1"; the caller frees it. */
char *ranks_url(const char *group, int node);
/* Of "ranks://10.0.0.1:5000/1", or of "ranks://10.0.0.1:5000", all nodes (-1). The caller frees the group. */
bool ranks_url_parse(const char *url, char **ret_group, int *ret_node);
bool ranks_url_is(const char *url);
/* Whether it is such a launch: it gets no calls, and is recorded while its server is. */
bool worker_is_watched(const struct worker *w);
/* Whether its group may have such launches. */
bool worker_may_have_ranks(const struct worker *w);

/* Adds those of this host that the URLs name (others are skipped), each once: local, with process and location. Blocks. */
void processes_find_ranks(struct fleet *fleet, const struct fleet_settings *settings, char *const *urls,
                          size_t n);
/* Fills group and sizes of a server that did not answer them from its launch. */
void worker_take_rank_launch(struct worker *w, const struct string_list *args);
/* What a worker of the list that was found elsewhere is to the server whose group it is of. */
void worker_join_server(struct worker *w, const struct worker *server);
