/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What became of a reading: its state and why, in words for people, and the facts about the whole trace that
 * stand at its ends. What is wrong with all of it is counted as a defect here.
 */
#pragma once

#include "trace/read/reading.h"

/* Once the text has been read: fills in state, format, reason, remedy. */
void verdict_find(struct reading *r);
/* Whether there are columns to write. */
bool verdict_has_columns(enum read_state state);
