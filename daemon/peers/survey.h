/* SPDX-License-Identifier: Apache-2.0 */
/* A look at all peers: a hello of each that is not older than a moment, and the clocks of those that answer. */
#pragma once

#include "daemon/peers/peers.h"

struct peers_survey;

/* done() comes later, once; the peers then have what was found. */
struct peers_survey *peers_survey_start(struct peers *p, void (*done)(void *arg), void *arg);
/* Without done(). NULL is nothing. */
void peers_survey_cancel(struct peers_survey *s);
