/* SPDX-License-Identifier: Apache-2.0 */
/* The columns and rows of the reports that are trees of calls. */
#pragma once

#include "trace/reports/call_tree.h"
#include "trace/reports/report.h"

#define CALL_TREE_COLUMNS 11

extern const struct report_column call_tree_columns[CALL_TREE_COLUMNS];
void call_tree_put(const struct call_tree *tree, struct report_rows *ret);
