/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ctrl-C while SQLite works: a thread that looks for SIGINT and SIGTERM, which the caller has blocked, and
 * interrupts the connection, so that a statement ends and not profctl. A second one ends profctl.
 */
#pragma once

#include "base/util.h"

#include <sqlite3.h>

struct interruption;

/* NULL where there can be none; then nothing interrupts. */
struct interruption *interruption_watch(sqlite3 *db);
/* The signal that came so far, or 0. */
int interruption_signal(const struct interruption *i);
/* Ends the watching. The signal that came meanwhile, or 0. */
int interruption_end(struct interruption *i);
