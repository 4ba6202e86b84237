/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects the format of a file by its first bytes after decompression, never by its name.
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

/* Examines the first bytes. Other JSON stays FORMAT_JSON; its keys decide later (ends_read()). */
enum trace_format format_of(const char *head, size_t size);
/* The two formats that hold trace events as JSON. */
bool format_is_trace_json(enum trace_format format);
/* "kineto", "nsys-sqlite", ... */
const char *format_name(enum trace_format format);
/* Returns -1 for an unknown word. */
int format_from_name(const char *word);

/*
 * Metadata from the two ends of a trace: rank, devices, clock base, writer, and whether its JSON is closed.
 *
 * A pure function over a bounded head and a bounded tail of the decompressed text, which overlap if the
 * text is small. Rank and clock base precede or follow the events, depending on the writer. Tolerant:
 * unreadable values stay unknown, and nothing is validated.
 */

/* A longer id is cut, and so equals none that profd gives (KINETO_TRACE_ID_MAX). */
#define REQUEST_TRACE_ID_SIZE 256

struct ends_input {
    const char *head, *tail;
    size_t head_size, tail_size;
    uint64_t total; /* bytes of the complete text */
};

struct trace_ends {
    enum trace_format format;
    bool closes;  /* the last bracket closes the first one; true for formats other than JSON */
    int64_t rank; /* -1 unknown, like the numbers below */
    int64_t world_size;
    int64_t pid; /* of the first host event, or of the process with the label of the host */
    int64_t devices;
    int64_t base_time_ns; /* time that ts is relative to; absent if ts is absolute */
    /* Empty if unknown. */
    char backend[64];
    char device_name[128]; /* of the first device */
    char trace_name[512];
    char engine_version[64];
    /* Id that a recording on demand was requested with (Kineto's REQUEST_TRACE_ID). */
    char request_trace_id[REQUEST_TRACE_ID_SIZE];
};

void ends_read(const struct ends_input *in, struct trace_ends *ret);
