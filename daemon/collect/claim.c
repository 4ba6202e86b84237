/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/claim.h"

#include "base/alloc.h"

static bool has_pid(const struct claimant *c, int64_t pid)
{
    for (size_t i = 0; i < c->n_pids; i++)
        if (c->pids[i] == pid || c->inner_pids[i] == pid)
            return true;
    return false;
}

static bool by_id(const struct claimant *c, const struct claim_evidence *e)
{
    /* SGLang may put a prefix before the id, see trace_name.profile_id. */
    return e->profile_id && c->profile_id && ends_with(e->profile_id, c->profile_id);
}

static bool by_open_file(const struct claimant *c, const struct claim_evidence *e)
{
    return c->had_it_open;
}

static bool by_pid(const struct claimant *c, const struct claim_evidence *e)
{
    return e->pid >= 0 && has_pid(c, e->pid);
}

static bool by_owner(const struct claimant *c, const struct claim_evidence *e)
{
    return c->uid_known && c->uid == e->owner;
}

static const struct {
    const char *how;
    bool (*matches)(const struct claimant *c, const struct claim_evidence *e);
} rules[] = {
    {"the id in its name", by_id},
    {"the process that wrote it", by_open_file},
    {"the process id in it", by_pid},
    {"its owner", by_owner},
};

static size_t count(const bool *set, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i < n; i++)
        found += set[i];
    return found;
}

/*
 * A worker's next session starts when the stop of the one before was answered, and so its traces written: a
 * file is of the latest session that had been started when it was written. Returns how many are left.
 */
static size_t keep_latest_session(const struct claimant *claimants, size_t n, int64_t written_at,
                                  bool *candidates)
{
    size_t latest = n;

    for (size_t i = 0; i < n; i++) {
        if (!candidates[i])
            continue;
        if (latest < n && !streq(claimants[i].worker, claimants[latest].worker))
            return count(candidates, n);
        bool has_begun = claimants[i].started_at <= written_at;
        if (latest == n || (has_begun && claimants[i].started_at > claimants[latest].started_at) ||
            (claimants[latest].started_at > written_at &&
             claimants[i].started_at < claimants[latest].started_at))
            latest = i;
    }
    if (latest == n || !claimants[latest].worker)
        return count(candidates, n);
    memset(candidates, 0, n * sizeof(*candidates));
    candidates[latest] = true;
    return 1;
}

/* Each rule narrows the candidates, unless none of them fits it: then it says nothing. */
int claim_decide(const struct claimant *claimants, size_t n, const struct claim_evidence *e, bool *candidates,
                 const char **ret_how)
{
    const char *how = "its place and time";
    size_t left = n, first = 0;

    for (size_t i = 0; i < n; i++)
        candidates[i] = true;
    for (size_t r = 0; r < ARRAY_SIZE(rules) && left > 1; r++) {
        _cleanup_(freep) bool *fits = xcalloc(n, sizeof(*fits));
        for (size_t i = 0; i < n; i++)
            fits[i] = candidates[i] && rules[r].matches(&claimants[i], e);
        size_t n_fits = count(fits, n);
        if (n_fits == 0)
            continue;
        memcpy(candidates, fits, n * sizeof(*fits));
        left = n_fits;
        how = rules[r].how;
    }
    if (left > 1 && e->written_at > 0)
        left = keep_latest_session(claimants, n, e->written_at, candidates);
    if (left != 1)
        return left == 0 ? CLAIM_NONE : CLAIM_AMBIGUOUS;
    *ret_how = how;
    while (!candidates[first])
        first++;
    return (int)first;
}
