/* SPDX-License-Identifier: Apache-2.0 */
/* Python's stacks as a tree. */
#include "trace/reports/call_tree_rows.h"
#include "trace/reports/reports.h"
#include <errno.h>

static int make(struct analysis *a, struct report_rows *ret)
{
    _cleanup_(call_tree_done) struct call_tree tree = {0};
    int r = call_tree_read(a, analysis_frames, &tree);

    call_tree_put(&tree, ret);
    return r < 0 ? r : tree.n == 0 ? -ENODATA : 0;
}

const struct report report_stacks = {
    .name = "stacks",
    .title = "Python frames, with the GPU work launched from each",
    .how =
        "Calls of one frame from one place are one node; nodes come before what is within them, what costs "
        "most first. GPU work belongs to the innermost frame around the call that launched it "
        "(with_stack=True).",
    .is_detail = true,
    .columns = call_tree_columns,
    .n_columns = CALL_TREE_COLUMNS,
    .make = make,
};
