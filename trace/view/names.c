/* SPDX-License-Identifier: Apache-2.0 */
/* The strings of a trace by their numbers, in blocks: those of tiles. */
#include "trace/view/view.h"
#include <errno.h>
#include <inttypes.h>

int view_answer_names(struct trace_view *v, const json_t *request, FILE *out, struct problem *p)
{
    int64_t block = -1;

    int r = view_read_number(request, "block", 0, UINT32_MAX, &block, p);
    if (r < 0)
        return r;
    if (block < 0 || block * VIEW_NAMES_BLOCK >= v->n_texts) {
        problem_remedy(p, "names of GET /v1/traces/{trace}/timeline is the number of names.");
        return problem_set(p, -ENOENT, PROBLEM_NOT_FOUND, "the trace has no block %" PRId64 " of names",
                           block);
    }
    json_t *body = json_object(), *names = json_array();
    int64_t first = block * VIEW_NAMES_BLOCK, end = MIN(first + VIEW_NAMES_BLOCK, (int64_t)v->n_texts);

    json_put_int(body, "first", first);
    json_object_set_new(body, "names", names);
    for (int64_t i = first; i < end; i++) {
        json_t *pair = json_array();
        json_array_append_new(pair, view_text(v, i));
        json_array_append_new(pair, json_string(view_class(v, i)));
        json_array_append_new(names, pair);
    }
    return view_write_json(out, body, p);
}
