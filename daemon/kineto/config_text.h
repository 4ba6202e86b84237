/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text that makes Kineto record: one KEY=VALUE a line. Pure.
 *
 * Kineto stops at a line that it cannot read and records by what it read until then, without a check. So the text is
 * built from values that are valid, or not at all. It has always an end (nothing can stop a recording later), a start,
 * an id for the attribution of the trace, and a file.
 *
 * Source: pytorch/kineto @114171dfba68 (2026-08-20), libkineto/src/Config.cpp and AbstractConfig.cpp.
 */
#pragma once

#include "base/problem.h"
#include <sys/types.h>

/* Below which directory Kineto writes on demand: of the variable, else the default, whatever $TMPDIR is (Config.cpp,
 * kDefaultOnDemandTraceDir). Older versions write anywhere. */
#define KINETO_TRACE_DIR_VARIABLE "KINETO_ONDEMAND_TRACE_DIR"
#define KINETO_TRACE_DIR_DEFAULT  "/tmp"
/* Milliseconds that a recording may take: Kineto reads an int32. */
#define KINETO_DURATION_MAX_MS INT64_C(2147483647)
#define KINETO_WARMUP_MAX_S    3600
#define KINETO_PATH_MAX        1024
#define KINETO_TRACE_ID_MAX    128
#define KINETO_BUFFER_MAX_MIB  1048576

struct kineto_recording {
    const char *trace_file; /* absolute, as the process names it; ends in ".pt.trace.json" or ".json" */
    const char *trace_root; /* the file must be below it; NULL: unknown */
    const char *trace_id;   /* letters, digits, '.', '_' and '-': "trace_id" in the trace */
    int64_t start_ms;       /* since the epoch */
    int64_t duration_ms;
    int64_t warmup_s;   /* 0 to KINETO_WARMUP_MAX_S */
    const char *types;  /* "cpu_op,kernel"; NULL: Kineto's default */
    int64_t buffer_mib; /* of GPU events; 0: Kineto's default */
    bool with_stack, with_shapes, with_memory, with_flops, with_modules;
};

/* NULL with the problem where a value would be misread. The caller frees it. */
char *kineto_config_text(const struct kineto_recording *r, struct problem *p);
/* The name under which Kineto writes trace_file: with "_PID" before the first ".pt.trace.json", else before the first
 * ".json". Until it is complete, it is called the same with ".tmp". The caller frees it. */
char *kineto_written_file(const char *trace_file, pid_t inner_pid);
