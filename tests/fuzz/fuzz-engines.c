/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker answers while it is being identified. The bits of the first byte say which questions get the
 * rest; the ninth shares the first's. Also what it answers to a start. */
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
    /* The metrics are what follows a NUL, where there is one. */
    _cleanup_(freep) char *text = xstrndup((const char *)data + 1, size - 1);
    size_t n = strlen(text);
    for (int q = 0; q < _QUESTION_MAX; q++)
        if (q == QUESTION_METRICS && n + 2 < size && data[0] & 1 << q % 8)
            answers_set(&answers, QUESTION_METRICS, 0, 200, "200 OK", (const char *)data + n + 2,
                        size - n - 2);
        else if (data[0] & 1 << q % 8)
            answers_set(&answers, (enum question)q, 0, q == QUESTION_SYSTEM ? 404 : 200, "", text, n);
        else
            answers_set(&answers, (enum question)q, 0, 404, "404 Not Found", "", 0);
    worker_identify(&w, &answers);
    if (!w.profilable && (!w.reason || !w.remedy))
        abort();
    const struct engine_ops *ops = engine_ops(w.engine);
    if (ops)
        ops->review(&(struct recording){.steps = 1, .by_stage = true, .with_stack = true}, &w, &review);
    ops = worker_ops(&w);
    if (ops && ops->refusal)
        free(ops->refusal(text));
    if (engine_is_recorded_elsewhere(&(struct recording){.by_stage = true}, &w, 500, text, NULL) &&
        !ops->is_recorded_elsewhere)
        abort();
    if (ops && engine_refuses_newer_keys(ops, 500, text) && !ops->newer_keys)
        abort();
    if (worker_ranks_expected(&w) < 1)
        abort();
    round_trip(&w);
    review_done(&review);
    answers_done(&answers);
    worker_done(&w);
    return 0;
}
