/* SPDX-License-Identifier: Apache-2.0 */
/* Operators and annotations as a tree. */
#include "trace/reports/call_tree_rows.h"
#include "trace/reports/reports.h"
#include <errno.h>

static int make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(call_tree_done) struct call_tree tree = {0};
    int r = call_tree_read(a, analysis_ops, &tree);

    call_tree_put(&tree, ret);
    return r < 0 ? r : tree.n == 0 ? -ENODATA : 0;
}

const struct report report_op_tree = {
    .name = "op_tree",
    .title = "operators and annotations, with what lies in what",
    .how = "Calls of one name in one place are one node; nodes come before what is within them, what costs "
           "most first. Times as in ops.",
    .is_detail = true,
    .columns = call_tree_columns,
    .n_columns = CALL_TREE_COLUMNS,
    .make = make,
};
