/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SQLite's interface for everything in this room: through the table of functions that a loadable extension is
 * given, or, where SQLITE_CORE is defined, by linking.
 */
#pragma once

#include <sqlite3ext.h>

#ifndef SQLITE_CORE
extern const sqlite3_api_routines *sqlite3_api;
#endif
