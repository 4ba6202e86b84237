/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The meaning of the tables of nsys: which events the rows of each table become. nsys.c reads the rows by SQL.
 */
#pragma once

#include "trace/read/intake.h"

#define NSYS_PROCESSES_MAX    4096
#define NSYS_CONTEXTS_MAX     4096
#define NSYS_DEVICES_MAX      4096
#define NSYS_NAME_IDS_MAX     3
#define NSYS_OVERHEAD_PROCESS (-1)

/* A global thread id is machine, process and thread; a global process id has 0 for the thread. */
#define NSYS_ID_BITS 24
#define NSYS_ID_MASK ((INT64_C(1) << NSYS_ID_BITS) - 1)

/* Values of an event; each table has some of them. */
/* clang-format off */
#define NSYS_VALUES(V) \
    V(start) V(end) V(globalTid) V(globalPid) V(deviceId) V(contextId) V(streamId) V(correlationId) \
    V(eventClass) V(eventType) V(bytes) V(copyKind) V(srcKind) V(dstKind) V(memKind) V(syncType) \
    V(registersPerThread) V(staticSharedMemory) V(dynamicSharedMemory) V(gridX) V(gridY) V(gridZ) \
    V(blockX) V(blockY) V(blockZ) V(graphId) V(graphNodeId)
/* clang-format on */

enum nsys_value {
#define V(column) NSYS_##column,
    NSYS_VALUES(V)
#undef V
        _NSYS_VALUE_MAX,
};

struct nsys_row {
    int64_t values[_NSYS_VALUE_MAX]; /* COLUMN_NULL where missing */
    const char *name;                /* NULL where missing */
    size_t name_size;
};

/* A CUDA context belongs to one process and one GPU. */
struct nsys_context {
    int64_t process, context, gpu;
    int64_t rank; /* of its process among those that use the GPU */
};

/* The GPU of a device number of a process. */
struct nsys_device {
    int64_t pid, device, gpu;
};

struct nsys_events {
    struct intake *in;
    uint64_t number;                       /* of the next event, in order of reading */
    int64_t processes[NSYS_PROCESSES_MAX]; /* global ids, in order of appearance */
    size_t n_processes;
    struct nsys_context contexts[NSYS_CONTEXTS_MAX];
    size_t n_contexts;
    struct nsys_device devices[NSYS_DEVICES_MAX];
    size_t n_devices;
};

struct nsys_table {
    const char *table, *category;
    /* Columns with the name: a text, and ids of strings, in order of preference. */
    const char *name_text, *name_ids[NSYS_NAME_IDS_MAX];
    void (*take)(struct nsys_events *n, const struct nsys_table *t, struct nsys_row *r);
};

/* In the order of reading. */
extern const struct nsys_table nsys_tables[];
extern const size_t nsys_tables_count;
extern const char *const nsys_value_columns[_NSYS_VALUE_MAX];

/* The process's own id in a global one. */
int64_t nsys_pid(int64_t global);
/* A process whose threads are streams. */
bool nsys_is_gpu(const struct process_entry *p);
