/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts that did not answer in this call of profctl. Each is asked once: what else it keeps is left out at once, and the
 * rest is done. Problems about one trace alone, such as one that was removed, lose no host.
 */
#pragma once

#include "client/cli/client.h"

/* Notes that the host of a trace (its JSON) did not answer, if that is the problem and another host keeps it. err and p
 * are those of connection_call(). Prints nothing. */
void lost_hosts_add(struct client *c, const json_t *trace, int err, const struct problem *p);
/* Notes that this trace (its id) is gone, which was printed. */
void lost_trace_add(struct client *c, const char *name);
/* Names the hosts that profd asked in vain for traces of a session, each once: "missing_hosts" of its answer. The exit status of
 * profctl is then 3 where it would be 0. */
void missing_hosts_note(struct client *c, const json_t *answer);
/* Whether the trace is one of these, or its host one of those, and no archive has it. */
bool trace_is_lost(const struct client *c, const json_t *trace);
/* Whether that was printed of this trace itself: lost_trace_add(). */
bool lost_trace_is_noted(const struct client *c, const json_t *trace);
/* Appends "t5 (gpu3)" to a list for people. */
void trace_list_add(char **list, const json_t *trace);
