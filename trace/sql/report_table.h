/* SPDX-License-Identifier: Apache-2.0 */
/* Each report as a table: report_kernels has the rows of the report kernels, computed when it is asked. */
#pragma once

#include "trace/sql/traces.h"

/* An SQLite result code. */
int report_tables_register(sqlite3 *db, struct traces *traces);
