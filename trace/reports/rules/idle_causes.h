/* SPDX-License-Identifier: Apache-2.0 */
/* Why a GPU was idle: every idle gap divided into parts with one cause each, derived from calls and names. */
#pragma once

#include "trace/reports/rules/context.h"

/* Fills the rank's gaps, parts and edge, and takes the edge out of its scope; all else of the rank is there.
 * -ENOMEM. */
int idle_read(struct analysis *a, struct rule_rank *rank);
