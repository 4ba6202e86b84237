/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kind of file this is, by its first bytes after decompression, never by its name.
 */
#pragma once

#include "base/util.h"

enum trace_format {
    FORMAT_EMPTY,           /* nothing, or only white space */
    FORMAT_KINETO,          /* torch.profiler's JSON */
    FORMAT_CHROME,          /* trace events of another writer */
    FORMAT_ROCPROF,         /* rocprofv3's JSON */
    FORMAT_MEMORY_TIMELINE, /* torch's memory timeline: an array of arrays */
    FORMAT_JSON,            /* other JSON */
    FORMAT_NSYS_SQLITE,
    FORMAT_SQLITE,
    FORMAT_PICKLE,
    FORMAT_CALLGRIND,
    FORMAT_HTML,
    FORMAT_TEXT,
    FORMAT_BINARY,
    _FORMAT_MAX,
};

/* Looks at the first bytes; JSON stays FORMAT_JSON here, its keys tell the rest (ends.h). */
enum trace_format format_of(const char *head, size_t size);
/* The two formats that hold trace events as JSON. */
bool format_is_trace_json(enum trace_format format);
/* "kineto", "nsys-sqlite", ... */
const char *format_name(enum trace_format format);
/* -1 for a word that is none. */
int format_from_name(const char *word);
