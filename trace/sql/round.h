/* SPDX-License-Identifier: Apache-2.0 */
/*
 * round(X, N) as SQLite has it since 3.43, and with it trace_processor: by the number that is there, so that
 * 0.045, which lies a little below, becomes 0.04. Before, it became 0.05.
 */
#pragma once

#include "trace/sql/api.h"

/* Takes the place of SQLite's own on this connection. An SQLite result code. */
int round_register(sqlite3 *db);
