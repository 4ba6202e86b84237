/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about a trace from the name of its file, by the patterns of the engines and of torch itself.
 *
 * A pure function over the name, with the directories above it if the caller has them: they distinguish a
 * capture from a trace. A name proves nothing, it only helps to attribute.
 */
#pragma once

#include "base/util.h"

enum trace_name_kind {
    TRACE_NAME_OTHER,      /* no known pattern */
    TRACE_NAME_RANK,       /* a trace of one rank or process */
    TRACE_NAME_FRONTEND,   /* of an engine's front end (async_llm): not a rank */
    TRACE_NAME_ATTACHMENT, /* belongs to the session, but is not the trace of a rank */
    TRACE_NAME_CAPTURE,    /* written while CUDA graphs were captured */
};

enum trace_stage {
    TRACE_STAGE_NONE,
    TRACE_STAGE_PREFILL, /* "EXTEND", "prefill" */
    TRACE_STAGE_DECODE,
};

/* The engine that uses the pattern; a pattern that several engines share is torch's. */
enum trace_name_writer {
    TRACE_WRITER_UNKNOWN,
    TRACE_WRITER_TORCH,
    TRACE_WRITER_VLLM,
    TRACE_WRITER_SGLANG,
    TRACE_WRITER_RTP_LLM,
    TRACE_WRITER_TENSORRT_LLM,
    TRACE_WRITER_ATOM,
    TRACE_WRITER_TOKENSPEED,
    TRACE_WRITER_SRTCTL, /* nsys, under the names that srtctl gives its reports */
    _TRACE_WRITER_MAX,
};

#define TRACE_NAME_TEXT_MAX 256

struct trace_name {
    enum trace_name_kind kind;
    enum trace_name_writer writer;
    enum trace_stage stage;
    bool unfinished;   /* ".tmp": its writer died or has not finished */
    bool intermediate; /* its writer compresses it under another name, and removes it (ATOM) */
    int64_t dp, pp, tp, dcp, ep, rank; /* -1 if not in the name, as are pid and time_ns */
    int64_t local_rank;
    int64_t count; /* of the traces that one recording or process wrote, RTP-LLM's */
    int64_t pid;
    int64_t time_ns; /* wall clock */
    /* Empty if not in the name. */
    char host[TRACE_NAME_TEXT_MAX];
    char prefix[TRACE_NAME_TEXT_MAX]; /* vLLM's profile_prefix */
    char profile_id
        [TRACE_NAME_TEXT_MAX]; /* SGLang's, including its prefix, which cannot be separated; RTP-LLM's */
};

void trace_name_parse(const char *path, struct trace_name *ret);
/* Whether it names a directory below that of a worker, in which one rank writes: "rank_0", "pp1_dp0_tp3"; where several
 * engines share one (ATOM with prefill and decode in one server), "prefill" and "decode" hold these. */
bool trace_name_is_rank_dir(const char *name);
bool trace_name_is_stage_dir(const char *name);
/* "", "prefill", "decode" */
const char *trace_stage_name(enum trace_stage stage);
