/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/fleet/odd.h"

#include "base/alloc.h"
#include "base/text.h"
#include <math.h>

#define PERCENT  100
#define MS_PER_S 1000

const char *odd_kind_name(enum odd_kind kind)
{
    static const char *const names[_ODD_KIND_MAX] = {
        [ODD_DOWN] = "down",
        [ODD_UNPROFILABLE] = "unprofilable",
        [ODD_WAITING] = "waiting-grows",
        [ODD_KV] = "kv-full",
        [ODD_TTFT] = "ttft-high",
    };
    return names[kind];
}

static void odd_set(struct odd_history *h, enum odd_kind kind, bool holds, int64_t since_ns)
{
    if (!holds)
        h->since_at[kind] = 0;
    else if (h->since_at[kind] == 0)
        h->since_at[kind] = h->last.at - (h->last.at_ns - since_ns);
}

/* A window without samples ends the growth: nobody knows what there was. */
static void odd_end_window(struct odd_history *h)
{
    const struct odd_window w = h->window;
    double mean = w.n > 0 ? w.sum / w.n : NAN;
    bool grows = h->growing_ns > 0 && mean > h->growing_to;

    if (!grows) {
        h->growing_ns = isnan(mean) ? 0 : w.begin_ns;
        h->growing_from = mean;
    }
    h->growing_to = mean;
    h->window = (struct odd_window){0};
}

static void odd_forget_waiting(struct odd_history *h)
{
    h->window = (struct odd_window){0};
    h->growing_ns = 0;
    odd_set(h, ODD_WAITING, false, 0);
}

static bool odd_waiting_grows(const struct odd_history *h, int64_t end_ns)
{
    return h->growing_ns > 0 && end_ns - h->growing_ns >= ODD_WAITING_GROWS_NS &&
           h->growing_to - h->growing_from >= ODD_WAITING_GROWTH;
}

static void odd_see_waiting(struct odd_history *h, const struct odd_sample *s)
{
    int64_t end_ns = h->window.begin_ns + ODD_WAITING_WINDOW_NS;
    bool has_window = h->window.begin_ns > 0;

    if (isnan(s->waiting) || (has_window && s->at_ns - end_ns >= ODD_WAITING_WINDOW_NS))
        odd_forget_waiting(h);
    else if (has_window && s->at_ns >= end_ns) {
        odd_end_window(h);
        odd_set(h, ODD_WAITING, odd_waiting_grows(h, end_ns), h->growing_ns);
        h->window.begin_ns = end_ns;
    }
    if (isnan(s->waiting))
        return;
    if (h->window.begin_ns == 0)
        h->window.begin_ns = s->at_ns;
    h->window.sum += s->waiting;
    h->window.n++;
}

void odd_see(struct odd_history *h, const struct odd_sample *sample)
{
    h->last = *sample;
    odd_set(h, ODD_DOWN, sample->down, sample->at_ns);
    odd_set(h, ODD_UNPROFILABLE, sample->unprofilable && !sample->down, sample->at_ns);
    odd_set(h, ODD_KV, sample->kv_use > ODD_KV_USE, sample->at_ns);
    odd_see_waiting(h, sample);
    if (!isnan(sample->ttft_s)) {
        h->ttft_s = sample->ttft_s;
        h->ttft_at_ns = sample->at_ns;
        h->ttft_new = true;
    }
    if (sample->down)
        h->ttft_at_ns = 0;
}

static bool odd_has_ttft(const struct odd_history *h, int64_t now_ns)
{
    return h->ttft_at_ns > 0 && now_ns - h->ttft_at_ns <= ODD_TTFT_AGE_NS;
}

static int odd_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* NAN where too few are known. */
static double odd_role_median(struct odd_history *const *all, size_t n, enum role role, int64_t now_ns,
                              double *room)
{
    size_t known = 0;

    for (size_t i = 0; i < n; i++)
        if (all[i]->role == role && odd_has_ttft(all[i], now_ns))
            room[known++] = all[i]->ttft_s;
    if (known < ODD_TTFT_PEERS)
        return NAN;
    qsort(room, known, sizeof(*room), odd_order);
    return known % 2 ? room[known / 2] : (room[known / 2 - 1] + room[known / 2]) / 2;
}

void odd_compare(struct odd_history *const *all, size_t n, int64_t now_ns)
{
    _cleanup_(freep) double *room = xcalloc(MAX(n, 1u), sizeof(*room));
    double medians[_ROLE_MAX];

    for (int role = 0; role < _ROLE_MAX; role++)
        medians[role] = odd_role_median(all, n, (enum role)role, now_ns, room);
    for (size_t i = 0; i < n; i++) {
        struct odd_history *h = all[i];
        bool is_new = h->ttft_new, is_known = odd_has_ttft(h, now_ns) && !isnan(medians[h->role]);
        h->ttft_new = false;
        if (!is_known)
            h->ttft_above = 0;
        else if (is_new)
            h->ttft_above = h->ttft_s > ODD_TTFT_FACTOR * medians[h->role] ? h->ttft_above + 1 : 0;
        if (h->ttft_above > 0)
            h->ttft_median_s = medians[h->role];
        odd_set(h, ODD_TTFT, h->ttft_above >= ODD_TTFT_SAMPLES, h->last.at_ns);
    }
}

static char *odd_describe(const struct odd_history *h, enum odd_kind kind, const char *detail)
{
    switch (kind) {
    case ODD_DOWN:
        return xasprintf("does not answer%s%s", detail ? ": " : "", detail ? detail : "");
    case ODD_UNPROFILABLE:
        return xasprintf("cannot be profiled%s%s", detail ? ": " : "", detail ? detail : "");
    case ODD_WAITING:
        return xasprintf("waiting requests grow, from %.0f to %.0f", h->growing_from, h->growing_to);
    case ODD_KV:
        return xasprintf("the KV cache is %.0f %% full", h->last.kv_use * PERCENT);
    default:
        return xasprintf("time to first token is %.0f ms, the median of its role %.0f ms",
                         h->ttft_s * MS_PER_S, h->ttft_median_s * MS_PER_S);
    }
}

void odd_add_json(const struct odd_history *h, const char *url, const char *detail, const char *remedy,
                  json_t *list)
{
    for (int kind = 0; kind < _ODD_KIND_MAX; kind++) {
        if (h->since_at[kind] == 0)
            continue;
        bool has_detail = kind == ODD_DOWN || kind == ODD_UNPROFILABLE;
        _cleanup_(freep) char *what = odd_describe(h, (enum odd_kind)kind, detail);
        json_t *j = json_object();
        json_put_str(j, "worker", url);
        json_put_str(j, "kind", odd_kind_name((enum odd_kind)kind));
        json_put_str(j, "what", what);
        json_put_str(j, "remedy", has_detail ? remedy : NULL);
        json_put_int(j, "since_at", h->since_at[kind]);
        json_array_append_new(list, j);
    }
}
