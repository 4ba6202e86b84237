/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const states[_STATE_MAX] = {
    [STATE_REQUESTED] = "requested", [STATE_STARTING] = "starting",     [STATE_RECORDING] = "recording",
    [STATE_STOPPING] = "stopping",   [STATE_COLLECTING] = "collecting", [STATE_COMPLETE] = "complete",
    [STATE_PARTIAL] = "partial",     [STATE_FAILED] = "failed",         [STATE_CANCELLED] = "cancelled",
};

static const char *const run_states[_RUN_STATE_MAX] = {
    [RUN_REQUESTED] = "requested", [RUN_WARMING] = "warming",     [RUN_LOADING] = "loading",
    [RUN_DRAINING] = "draining",   [RUN_COMPLETE] = "complete",   [RUN_PARTIAL] = "partial",
    [RUN_FAILED] = "failed",       [RUN_CANCELLED] = "cancelled",
};

static const char *const engines[ENGINE_EXTRA] = {
    [ENGINE_UNKNOWN] = "unknown", [ENGINE_VLLM] = "vllm",
    [ENGINE_SGLANG] = "sglang",   [ENGINE_RTP_LLM] = "rtp-llm",
    [ENGINE_DYNAMO] = "dynamo",   [ENGINE_TENSORRT_LLM] = "tensorrt-llm",
    [ENGINE_ATOM] = "atom",       [ENGINE_TOKENSPEED] = "tokenspeed",
    [ENGINE_PYTORCH] = "pytorch",
};

static const char *const roles[_ROLE_MAX] = {
    [ROLE_UNKNOWN] = "unknown", [ROLE_REGULAR] = "regular", [ROLE_PREFILL] = "prefill",
    [ROLE_DECODE] = "decode",   [ROLE_ENCODE] = "encode",
};

static const char *const healths[_HEALTH_MAX] = {
    [HEALTH_UNKNOWN] = "unknown",
    [HEALTH_HEALTHY] = "healthy",
    [HEALTH_UNHEALTHY] = "unhealthy",
};

static const char *const trace_states[_TRACE_STATE_MAX] = {
    [TRACE_COMPLETE] = "complete", [TRACE_TRUNCATED] = "truncated",   [TRACE_EMPTY] = "empty",
    [TRACE_CORRUPT] = "corrupt",   [TRACE_UNREADABLE] = "unreadable", [TRACE_DUPLICATE] = "duplicate",
    [TRACE_MISSING] = "missing",
};

static const char *const trace_kinds[_TRACE_KIND_MAX] = {
    [TRACE_KIND_TRACE] = "trace",
    [TRACE_KIND_FRONTEND] = "frontend",
    [TRACE_KIND_ATTACHMENT] = "attachment",
};

static const char *const rights[_RIGHT_MAX] = {
    [RIGHT_NONE] = "none",   [RIGHT_READ] = "read", [RIGHT_OPERATE] = "operate",
    [RIGHT_ADMIN] = "admin", [RIGHT_PEER] = "peer",
};

static int word_find(const char *const *words, int n, const char *word)
{
    for (int i = 0; word && i < n; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

#define DEFINE_NAMES(type, prefix, table, max)                                                               \
    const char *prefix##_name(enum type v)                                                                   \
    {                                                                                                        \
        return table[v];                                                                                     \
    }                                                                                                        \
    int prefix##_from_name(const char *word)                                                                 \
    {                                                                                                        \
        return word_find(table, max, word);                                                                  \
    }

DEFINE_NAMES(state, state, states, _STATE_MAX)
DEFINE_NAMES(run_state, run_state, run_states, _RUN_STATE_MAX)
DEFINE_NAMES(role, role, roles, _ROLE_MAX)
DEFINE_NAMES(health, health, healths, _HEALTH_MAX)
DEFINE_NAMES(trace_state, trace_state, trace_states, _TRACE_STATE_MAX)
DEFINE_NAMES(trace_kind, trace_kind, trace_kinds, _TRACE_KIND_MAX)
DEFINE_NAMES(right, right, rights, _RIGHT_MAX)

const char *engine_name(enum engine e)
{
    return e < ENGINE_EXTRA ? engines[e] : extra_engine_names[e - ENGINE_EXTRA];
}

int engine_from_name(const char *word)
{
    int core = word_find(engines, ENGINE_EXTRA, word);

    for (int i = 0; core < 0 && word && extra_engine_names[i]; i++)
        if (strcmp(extra_engine_names[i], word) == 0)
            return ENGINE_EXTRA + i;
    return core;
}

char parse_ref(const char *text, char own_kind, int64_t *ret_id)
{
    char kind = own_kind;
    if (*text && strchr("str", *text))
        kind = *text++;
    if (*text < '1' || *text > '9' || strspn(text, "0123456789") != strlen(text) || strlen(text) > 18)
        return 0;
    *ret_id = strtoll(text, NULL, 10);
    return kind;
}
