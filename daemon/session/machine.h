/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state machine of sessions and targets as a table: which edges exist, and what a session's targets make
 * of it. Pure.
 *
 *   requested -> starting -> recording -> stopping -> collecting -> complete | partial | failed | cancelled
 */
#pragma once

#include "proto/names.h"
#include <stddef.h>

bool edge_exists(enum state from, enum state to);
/* What a session whose targets all ended is: complete, partial, failed or cancelled. */
enum state outcome_of(const enum state *targets, size_t n);
