/* SPDX-License-Identifier: Apache-2.0 */
#include "client/runs/sweep.h"

#include "base/alloc.h"
#include "base/words.h"
#include <errno.h>
#include <math.h>

#define VALUE_MAX 1e7

static const struct {
    const char *name;
    bool is_whole, is_load;
} members[] = {
    {"concurrency", true, true}, {"rate", false, true}, {"isl", true, false}, {"osl", true, false}};

static int refuse(const char *text, const char *why, struct problem *p)
{
    problem_set(p, -EINVAL, PROBLEM_BAD_REQUEST, "--sweep: '%s' %s", text, why);
    problem_remedy(p, "--sweep concurrency=1,2,4,8; also of rate, isl and osl");
    return -EINVAL;
}

static int add_value(struct sweep *s, const char *word, struct problem *p)
{
    char *end;
    double value = strtod(word, &end);

    if (strspn(word, "0123456789.") != strlen(word) || *end || value <= 0 || value > VALUE_MAX)
        return refuse(word, "is not a number above 0", p);
    if (s->is_whole && value != floor(value))
        return refuse(word, "is not a whole number", p);
    if (s->n == SWEEP_MAX)
        return refuse(word, "is one value too many", p);
    for (size_t i = 0; i < s->n; i++)
        if (s->values[i] == value)
            return refuse(word, "stands twice", p);
    s->values[s->n++] = value;
    return 0;
}

int sweep_parse(const char *text, struct sweep *ret, struct problem *p)
{
    struct sweep s = {0};
    size_t n = strcspn(text, "=");
    const char *rest = text + n + (text[n] == '='), *start;

    for (size_t i = 0; i < ARRAY_SIZE(members); i++)
        if (strlen(members[i].name) == n && strncmp(members[i].name, text, n) == 0)
            s = (struct sweep){
                .member = members[i].name, .is_whole = members[i].is_whole, .is_load = members[i].is_load};
    if (!s.member)
        return refuse(text, "begins with none of concurrency=, rate=, isl= and osl=", p);
    for (size_t size; (size = words_next(&rest, &start)) > 0;) {
        _cleanup_(freep) char *word = xstrndup(start, size);
        int r = add_value(&s, word, p);
        if (r < 0)
            return r;
    }
    if (s.n == 0)
        return refuse(text, "has no values", p);
    *ret = s;
    return 0;
}

size_t sweep_knee(const struct sweep_point *points, size_t n)
{
    size_t best = SWEEP_NO_KNEE, highest = SWEEP_NO_KNEE, n_measured = 0;
    double most = 0;

    for (size_t i = 0; i < n; i++) {
        if (points[i].throughput <= 0 || points[i].latency <= 0)
            continue;
        double power = points[i].throughput / points[i].latency;
        n_measured++;
        if (highest == SWEEP_NO_KNEE || points[i].load > points[highest].load)
            highest = i;
        if (power > most) {
            most = power;
            best = i;
        }
    }
    return n_measured < 3 || best == highest ? SWEEP_NO_KNEE : best;
}
