/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/collect/claim.h"

#define CLAIMANTS_MAX 64

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

/* Each rule narrows the candidates, unless none of them fits it: then it says nothing. */
int claim_decide(const struct claimant *claimants, size_t n, const struct claim_evidence *e,
                 uint64_t *ret_candidates, const char **ret_how)
{
    if (n == 0)
        return CLAIM_NONE;
    n = MIN(n, (size_t)CLAIMANTS_MAX);
    uint64_t left = n == CLAIMANTS_MAX ? UINT64_MAX : (UINT64_C(1) << n) - 1;
    const char *how = "its place and time";
    for (size_t r = 0; r < ARRAY_SIZE(rules) && (left & (left - 1)); r++) {
        uint64_t fits = 0;
        for (size_t i = 0; i < n; i++)
            if (left & UINT64_C(1) << i && rules[r].matches(&claimants[i], e))
                fits |= UINT64_C(1) << i;
        if (fits == 0)
            continue;
        left = fits;
        how = rules[r].how;
    }
    *ret_how = how;
    *ret_candidates = left;
    return left & (left - 1) ? CLAIM_AMBIGUOUS : __builtin_ctzll(left);
}
