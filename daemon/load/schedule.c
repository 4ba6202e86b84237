/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/load/schedule.h"

#include "base/array.h"
#include "base/clock.h"
#include "daemon/load/random.h"
#include <errno.h>
#include <math.h>

#define STREAM_OF_ARRIVALS 1

struct request_rate {
    double rate, slope; /* requests a second, and its change a second */
};

static struct request_rate request_rate_of(const struct workload *w)
{
    double end_s = (double)w->duration_ns / (double)NS_PER_S;

    if (w->rate_to == 0)
        return (struct request_rate){w->rate, 0};
    if (w->duration_ns == 0)
        end_s = 2 * (double)w->requests / (w->rate + w->rate_to);
    return (struct request_rate){w->rate, (w->rate_to - w->rate) / end_s};
}

/* When the expected number of requests is reached. A falling rate reaches at most rate^2 / -2 slope of them: later
 * ones never happen. */
static double schedule_moment_s(const struct request_rate *p, double expected)
{
    if (p->slope == 0)
        return expected / p->rate;
    double root = p->rate * p->rate + 2 * p->slope * expected;
    return root < 0 ? INFINITY : 2 * expected / (p->rate + sqrt(root));
}

static double schedule_next_gap(const struct workload *w, struct random *r)
{
    switch (w->arrival) {
    case ARRIVAL_POISSON:
        return random_exponential(r);
    case ARRIVAL_GAMMA:
        return random_gamma(r, w->burstiness) / w->burstiness;
    default:
        return 1;
    }
}

/* By the timestamps of prompts; the first is sent at once. */
static int schedule_replay(const struct workload *w, struct schedule *ret)
{
    size_t n = w->requests > 0 ? MIN((size_t)w->requests, w->n_prompts) : w->n_prompts;
    struct schedule s = {.at_ns = calloc(n + 1, sizeof(*s.at_ns))};

    if (!s.at_ns)
        return -ENOMEM;
    while (s.n < n) {
        int64_t at_ns = w->prompts[s.n].at_ns - w->prompts[0].at_ns;
        if (w->duration_ns > 0 && at_ns >= w->duration_ns)
            break;
        s.at_ns[s.n++] = at_ns;
    }
    *ret = s;
    return 0;
}

int schedule_make(const struct workload *w, struct schedule *ret)
{
    size_t max = w->requests > 0 ? (size_t)w->requests : WORKLOAD_REQUESTS_MAX, cap = 0;
    double end_s = w->duration_ns > 0 ? (double)w->duration_ns / (double)NS_PER_S : INFINITY;
    struct request_rate request_rate = request_rate_of(w);
    struct schedule s = {0};
    struct random r;
    double sum = 0;

    if (w->arrival == ARRIVAL_TIMESTAMPS)
        return schedule_replay(w, ret);

    random_init(&r, (uint64_t)w->seed, STREAM_OF_ARRIVALS);
    while (s.n < max) {
        double at_s = schedule_moment_s(&request_rate, sum);
        if (!(at_s < MIN(end_s, (double)(INT64_MAX / NS_PER_S))))
            break;
        if (!ARRAY_RESERVE(s.at_ns, cap, s.n + 1)) {
            schedule_done(&s);
            return -ENOMEM;
        }
        s.at_ns[s.n++] = (int64_t)(at_s * (double)NS_PER_S);
        sum += schedule_next_gap(w, &r);
    }
    *ret = s;
    return 0;
}

void schedule_done(struct schedule *s)
{
    free(s->at_ns);
    *s = (struct schedule){0};
}
