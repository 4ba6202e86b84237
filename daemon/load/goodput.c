/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/goodput.h"

#include "base/clock.h"
#include "daemon/load/sample.h"

struct goal {
    enum figure figure;
    int64_t ns; /* 0: none */
    uint64_t met;
};

static bool meets(const struct goal *g, const struct request_record *r)
{
    int64_t value;

    if (r->outcome != OUTCOME_SUCCESS)
        return false;
    if (g->figure == FIGURE_TPOT && r->output_tokens >= 0 && r->output_tokens < 2)
        return true;
    return figure_of(g->figure, r, &value) && value <= g->ns;
}

static double share_of(uint64_t part, size_t n)
{
    return n > 0 ? (double)part / (double)n : 0;
}

json_t *goodput_json(const struct request_record *records, size_t n, const struct workload_goal *goal,
                     double duration_s)
{
    struct goal goals[] = {
        {FIGURE_TTFT, goal->ttft_ns, 0}, {FIGURE_TPOT, goal->tpot_ns, 0}, {FIGURE_E2E, goal->e2e_ns, 0}};
    uint64_t good = 0;

    if (goal->ttft_ns == 0 && goal->tpot_ns == 0 && goal->e2e_ns == 0)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        bool all = records[i].outcome == OUTCOME_SUCCESS;
        for (size_t g = 0; g < ARRAY_SIZE(goals); g++) {
            bool met = goals[g].ns == 0 || meets(&goals[g], &records[i]);
            goals[g].met += met;
            all = all && met;
        }
        good += all;
    }
    json_t *by_goal = json_object();
    for (size_t g = 0; g < ARRAY_SIZE(goals); g++)
        if (goals[g].ns != 0)
            json_object_set_new(by_goal, figure_name(goals[g].figure),
                                json_pack("{s: f, s: f}", "goal", (double)goals[g].ns / NS_PER_MS, "share",
                                          share_of(goals[g].met, n)));
    return json_pack("{s: f, s: f, s: I, s: o}", "requests_per_s",
                     duration_s > 0 ? (double)good / duration_s : 0.0, "share", share_of(good, n), "good",
                     (json_int_t)good, "goals", by_goal);
}
