/* SPDX-License-Identifier: Apache-2.0 */
#include "base/problem.h"

#include "base/alloc.h"

static const struct {
    const char *code;
    int http_status;
} problem_kinds[_PROBLEM_KIND_MAX] = {
    [PROBLEM_NONE] = {"none", 200},
    [PROBLEM_INTERNAL] = {"internal", 500},
    [PROBLEM_BAD_REQUEST] = {"bad-request", 400},
    [PROBLEM_NO_TOKEN] = {"no-token", 401},
    [PROBLEM_DENIED] = {"denied", 403},
    [PROBLEM_NOT_FOUND] = {"not-found", 404},
    [PROBLEM_BUSY] = {"busy", 409},
    [PROBLEM_CONFLICT] = {"conflict", 409},
    [PROBLEM_GONE] = {"gone", 410},
    [PROBLEM_TOO_LARGE] = {"too-large", 413},
    [PROBLEM_UNSUPPORTED] = {"unsupported", 422},
    [PROBLEM_NO_WORKERS] = {"no-workers", 422},
    [PROBLEM_UNCOLLECTED] = {"uncollected", 422},
    [PROBLEM_TOO_MANY] = {"too-many", 429},
    [PROBLEM_UPSTREAM] = {"upstream", 502},
    [PROBLEM_UNREACHABLE] = {"unreachable", 503},
    [PROBLEM_STORAGE] = {"storage", 507},
};

int problem_set(struct problem *p, int err, enum problem_kind kind, const char *format, ...)
{
    if (!p || p->kind != PROBLEM_NONE)
        return err;
    va_list ap;
    va_start(ap, format);
    p->kind = kind;
    p->what = xvasprintf(format, ap);
    va_end(ap);
    return err;
}

void problem_remedy(struct problem *p, const char *format, ...)
{
    if (!p || p->remedy)
        return;
    va_list ap;
    va_start(ap, format);
    p->remedy = xvasprintf(format, ap);
    va_end(ap);
}

int problem_copy(struct problem *p, int err, enum problem_kind kind, const struct problem *from)
{
    if (!p || p->kind != PROBLEM_NONE)
        return err;
    problem_set(p, err, kind, "%s", from->what);
    if (from->remedy)
        problem_remedy(p, "%s", from->remedy);
    return err;
}

void problem_done(struct problem *p)
{
    free(p->what);
    free(p->remedy);
    *p = (struct problem){0};
}

const char *problem_code(enum problem_kind kind)
{
    return problem_kinds[kind].code;
}

int problem_http_status(enum problem_kind kind)
{
    return problem_kinds[kind].http_status;
}

enum problem_kind problem_kind_of(const char *code)
{
    for (int k = 0; k < _PROBLEM_KIND_MAX; k++)
        if (streq(problem_kinds[k].code, code))
            return k;
    return PROBLEM_INTERNAL;
}
