/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coordinator's side of sessions over several hosts: leases of other hosts' workers, one start time for all, and
 * what the hosts report until every trace is known here (part_machine.h has the life of a part).
 *
 * The parts implement remote_ops (daemon/session/remote.h). They own every part, from the request for its lease until
 * its host has delivered everything, which may be long after the session's end: a host that was cut off finishes alone,
 * and is asked again until [hosts] delivery= is over. The traces stay at their hosts; here they get rows.
 *
 * Nothing a host answers is trusted (delivery.h), and no part of this module opens a file.
 */
#pragma once

#include "daemon/peers/peers.h"
#include "daemon/session/sessions.h"

struct parts;

/* Installs remote_ops in the sessions. All arguments are borrowed. */
int parts_new(struct event_base *base, struct peers *peers, struct sessions *sessions,
              struct catalog *catalog, const struct hosts_settings *settings,
              const struct session_settings *session_settings, struct parts **ret);
/* After sessions_recover(): parts whose sessions are over, and whose hosts have not delivered everything. */
int parts_recover(struct parts *all);
/* Nothing is sent any more: hosts end what they record by themselves, at the deadline of their leases. */
struct parts *parts_free(struct parts *all);

/* For profd's operator. */
struct parts_metrics {
    uint64_t open;      /* parts of which a host has something left to deliver */
    uint64_t late;      /* of these, parts whose session is over */
    uint64_t delivered; /* rows of traces that hosts delivered, since profd's start */
    uint64_t lost;      /* parts whose host has no such lease any more, since profd's start */
};
void parts_metrics(const struct parts *all, struct parts_metrics *ret);
