/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers about sessions for profd's operator; since profd's start where they only grow. */
#pragma once

#include "base/metric.h"
#include "proto/names.h"

enum session_call { SESSION_CALL_START, SESSION_CALL_STOP, _SESSION_CALL_MAX };
enum call_outcome { CALL_OK, CALL_REFUSED, CALL_UNANSWERED, _CALL_OUTCOME_MAX };

struct session_metrics {
    uint64_t calls[_SESSION_CALL_MAX][_ENGINE_MAX][_CALL_OUTCOME_MAX]; /* each try of a stop */
    struct histogram call_durations[_SESSION_CALL_MAX];
    uint64_t ended[_STATE_MAX];
    struct histogram durations;   /* of a session, from its request to its end */
    struct histogram start_skews; /* between the first and the last start that left */
};

/* As it is. */
struct session_gauges {
    uint64_t sessions[_STATE_MAX]; /* that are not over */
    uint64_t targets[_STATE_MAX];  /* of those */
    uint64_t stops_owed;           /* recordings that are over, whose stop was not answered yet */
    int64_t oldest_stop_sent_ns;   /* monotonic; INT64_MAX: none */
};

struct sessions;
const struct session_metrics *sessions_metrics(const struct sessions *all);
void sessions_gauges(const struct sessions *all, struct session_gauges *ret);
