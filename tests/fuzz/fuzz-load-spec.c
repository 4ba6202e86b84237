/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/prompts.h"
#include "daemon/load/schedule.h"
#include "daemon/load/workload.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SCHEDULED_MAX 10000
#define ISL_MAX       1000

/* An accepted specification has a schedule, prompts and the promised members. */
static void check_spec(const struct load_spec *o)
{
    const struct workload *w = &o->workload;
    double seconds = (double)w->duration_ns / 1e9;
    struct schedule s = {0};
    struct prompts p;
    enum token_source source;
    int64_t tokens;

    if ((!w->prompts && w->isl < 1) || w->concurrency < 0 || o->targets.n == 0 || o->warm.n == 0)
        abort();
    if (w->arrival == ARRIVAL_CLOSED && w->concurrency == 0)
        abort();
    if (w->arrival != ARRIVAL_CLOSED &&
        (w->requests > 0 ? (double)w->requests : (w->rate + w->rate_to) * seconds) < SCHEDULED_MAX &&
        schedule_make(w, &s) < 0)
        abort();
    schedule_done(&s);
    prompts_init(&p, w, 1);
    if (w->isl < ISL_MAX)
        free(prompts_text(&p, prompts_of_request(&p, 3), &tokens, &source));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct problem p = {0};
    struct load_spec o;

    if (load_spec_parse((const char *)data, size, &o, &p) == 0) {
        check_spec(&o);
        load_spec_done(&o);
    } else if (!p.what) {
        abort();
    }
    problem_done(&p);
    return 0;
}
