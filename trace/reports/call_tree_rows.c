/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reports/call_tree_rows.h"

const struct report_column call_tree_columns[CALL_TREE_COLUMNS] = {
    {"depth", UNIT_ID, "in how many it lies"},
    {"name", UNIT_TEXT, "what was called"},
    {"kind", UNIT_TEXT, "operator, annotation, python", IMPORTANCE_EXTRA},
    {"calls", UNIT_COUNT, "how often it was called in this place"},
    {"host_ns", UNIT_NS, "time of the calls"},
    {"self_host_ns", UNIT_NS, "of it, in nothing within"},
    {"device_ns", UNIT_NS, "time of the GPU work that it and what is within launched"},
    {"self_device_ns", UNIT_NS, "time of the GPU work that it launched itself"},
    {"kernels", UNIT_COUNT, "how much GPU work it and what is within launched"},
    {"id", UNIT_ID, "its number in this tree", IMPORTANCE_EXTRA},
    {"parent", UNIT_ID, "in what it lies", IMPORTANCE_EXTRA},
};

void call_tree_put(const struct call_tree *tree, struct report_rows *ret)
{
    for (size_t i = 0; i < tree->n; i++) {
        const struct call_node *node = &tree->nodes[i];
        put_int(ret, node->depth);
        put_text(ret, node->name);
        put_str(ret, host_kind_name(node->kind));
        put_int(ret, (int64_t)node->calls);
        put_int(ret, node->host);
        put_int(ret, node->self);
        put_int(ret, node->device);
        put_int(ret, node->self_device);
        put_int(ret, (int64_t)node->work);
        put_int(ret, (int64_t)i);
        put_int(ret, node->parent == CALL_NODE_NONE ? COLUMN_NULL : (int64_t)node->parent);
    }
}
