/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker answers while it is being identified. The bits of the first byte say which questions get the
 * rest; the ninth shares the first's. */
#include "base/alloc.h"
#include "daemon/fleet/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const struct worker *w)
{
    _cleanup_json_ j = worker_to_json(w);
    struct worker back;

    if (worker_from_json(j, &back) < 0)
        abort();
    _cleanup_json_ again = worker_to_json(&back);
    if (!json_equal(j, again))
        abort();
    worker_done(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct worker w;
    struct answers answers = {0};
    struct review review = {0};

    if (size < 1)
        return 0;
    worker_init(&w);
    w.url = xstrdup("http://w:1");
    for (int q = 0; q < _QUESTION_MAX; q++)
        if (data[0] & 1 << q % 8)
            answers_set(&answers, (enum question)q, 0, 200, "200 OK", (const char *)data + 1, size - 1);
        else
            answers_set(&answers, (enum question)q, 0, 404, "404 Not Found", "", 0);
    worker_identify(&w, &answers);
    if (!w.profilable && (!w.reason || !w.remedy))
        abort();
    const struct engine_ops *ops = engine_ops(w.engine);
    if (ops)
        ops->review(&(struct recording){.steps = 1, .by_stage = true, .with_stack = true}, &w, &review);
    if (worker_ranks_expected(&w) < 1)
        abort();
    round_trip(&w);
    review_done(&review);
    answers_done(&answers);
    worker_done(&w);
    return 0;
}
