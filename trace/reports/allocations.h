/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations during the trace, from torch's [memory] events: each allocation with its end, and each device
 * with its maximum.
 */
#pragma once

#include "trace/reports/analysis.h"

/* Further ones are left out. */
#define MEMORY_DEVICES_MAX 64
#define MEMORY_LIVES       INT64_MAX /* when freed: not before the trace ends */

struct allocation {
    int64_t ts, freed;
    int64_t address, bytes;
    uint64_t slice;  /* the event */
    uint32_t device; /* position in devices */
};

struct memory_device {
    int64_t type, number; /* as torch numbers them: 0 is the host, 1 CUDA and HIP */
    uint64_t allocations, frees;
    uint64_t unknown_frees; /* of what was allocated before the trace */
    int64_t allocated;      /* sum of what was allocated while the trace ran */
    int64_t first, last;    /* allocated in all, before the first event and after the last */
    int64_t peak, peak_ts;  /* within the view; COLUMN_NULL where it holds no event */
    int64_t peak_reserved;
    int64_t peak_cached; /* reserved and not allocated, at most */
};

struct memory_use {
    struct allocation *items; /* by when they were made */
    size_t n;
    struct memory_device devices[MEMORY_DEVICES_MAX];
    size_t n_devices;
};

/* -ENOMEM. */
int memory_use_read(struct analysis *a, size_t rank, struct memory_use *ret);
void memory_use_done(struct memory_use *use);

/* Sums of sizes, which an untrusted trace defines, saturate at the largest number. */
static inline int64_t memory_sum(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

#define MEMORY_DEVICE_NAME_MAX 48
/* "cpu", "cuda:1" */
const char *memory_device_name(const struct memory_device *device, char buf[MEMORY_DEVICE_NAME_MAX]);

/*
 * Holders of memory: the operator and the Python frame, over all allocations of a device, with their memory
 * at its peak and the memory that they never freed.
 */
struct memory_holder {
    uint32_t device;
    int64_t op, frame;  /* texts; both COLUMN_NULL: allocated before the trace began */
    int64_t peak_bytes; /* at the device's peak */
    uint64_t peak_count;
    int64_t unfreed_bytes; /* when the trace ends */
    uint64_t unfreed_count;
    unsigned unfreed_in; /* in which quarters of the trace that was allocated, as bits */
};

struct memory_holders {
    struct memory_holder *items; /* in descending order of memory at the peak */
    size_t n;
};

/* -ENOMEM. */
int memory_holders_read(const struct columns *c, const struct memory_use *use, struct memory_holders *ret);
void memory_holders_done(struct memory_holders *holders);

/* Returns whether it allocated memory that was never freed in each of the first three quarters of the
 * trace. */
bool memory_holder_leaks(const struct memory_holder *holder);
